/** Read questions for answers, one a line: mechanism, value, domain, public word, count. Print how often each answer comes. */

import { createInterface } from "node:readline";

const web = new URL("../../local_agent/web/", import.meta.url);
const { load, parseMechanism, Source } = await import(new URL("questions.js", web).href);
const { derive } = await import(new URL("messages.js", web).href);
await load();

const AT_ONCE = 10; // answers from one source

/** Sources with one fault each, which a test of the law has to see. */
const TWINS = {
  "one word in 50 is 0": (source) => ({
    word: () => (source.word() % 50n === 0n ? 0n : source.word()),
    below: (n) => source.below(n),
  }),
  "numbers below n are bytes modulo n": (source) => ({
    word: () => source.word(),
    below: (n) => (source.word() % 256n) % n,
  }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { mechanism: wire, value, item, domain, word, count, twin } = JSON.parse(line);
  const mechanism = parseMechanism(wire);
  const secret = crypto.getRandomValues(new Uint8Array(32));
  let source;
  const coins = mechanism.thresholds(BigInt(domain ?? 0)); // made once for all answers
  mechanism.thresholds = () => coins;
  const found = {};
  for (let answers = 0; answers < count; answers++) {
    if (answers % AT_ONCE === 0) {
      const own = await Source.of(await derive(secret, ["law", answers]));
      source = twin ? TWINS[twin](own) : own;
    }
    const told = item === undefined ? value : BigInt(item);
    const answer = mechanism.randomize(told, domain === undefined ? null : BigInt(domain), BigInt(word), source);
    found[answer] = (found[answer] ?? 0) + 1;
  }
  console.log(JSON.stringify(found));
}
