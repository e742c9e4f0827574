/** Read one question, and a person who is asked it so many times; print what each of so many agents answers. */

import { text } from "node:stream/consumers";

const web = new URL("../../local_agent/web/", import.meta.url);
const { Agent } = await import(new URL("agent.js", web).href);
const { MemoryStore } = await import(new URL("folder.js", web).href);
const { check } = await import(new URL("policy.js", web).href);
const { parseMechanism } = await import(new URL("questions.js", web).href);

const TOGETHER = 500; // agents: each waits a little before it answers
const { assignment, configuration, rules, record, runs, times, twin } = JSON.parse(await text(process.stdin));
const person = { features: Float32Array.from(record.slice(0, -1)), label: record.at(-1) };
const own = { address: "http://127.0.0.1", token: "", rules, consent: () => true, dimension: record.length - 1 };
const first = new MemoryStore();
const key = await Agent.open({ ...own, store: first }).then(() => first.read("key")); // of all: no answer depends on it

async function answers() {
  const store = new MemoryStore();
  await store.write("key", key);
  const given = [];
  for (let time = 0; time < times; time++) {
    const agent = await Agent.open({ ...own, store, record: person });
    const question = await check(rules, assignment, configuration, own.dimension, null, agent.left);
    if (twin === "the truth as often as at twice the epsilon") {
      const { wire } = question.mechanism;
      const told = parseMechanism({ ...wire, epsilon: 2 * wire.epsilon });
      question.mechanism.randomize = (...given) => told.randomize(...given);
    }
    given.push((await agent.answer(question)).report.message.answer);
    agent.close();
    await store.write("answers", []); // it loses power before they are stored
    if (twin === "another secret at every start") await store.write("state", { referee: rules.referee });
  }
  return given;
}

const found = [];
while (found.length < runs)
  found.push(...(await Promise.all(Array.from({ length: Math.min(TOGETHER, runs - found.length) }, answers))));
console.log(JSON.stringify(found));
