/** Read cases of benchmarks/web_agent/messages.py, one a line, and print those of which the modules make another thing. */

import { createInterface } from "node:readline";

const web = new URL("../../local_agent/web/", import.meta.url);
const { decode, digest, encode, signedOf, unbase64 } = await import(new URL("messages.js", web).href);
const { Refusal } = await import(new URL("values.js", web).href);
const { check } = await import(new URL("policy.js", web).href);

const unlimited = (value) => value ?? Infinity;

async function made(one) {
  if ("bytes" in one) return { canonical: new TextDecoder("utf-8", { ignoreBOM: true }).decode(encode(decode(unbase64(one.bytes)))) };
  const rules = { ...one.rules, epsilon: unlimited(one.rules.epsilon) };
  const left = one.left.map(unlimited);
  const [asked, agreed] = [one.assignment, one.configuration].map(signedOf);
  const question = await check(rules, asked, agreed, one.dimension, one.names, left);
  return {
    slot: question.slot,
    digest: question.digest,
    fingerprint: question.fingerprint,
    question: await digest([question.query.wire, question.mechanism.wire]),
    part: question.query.part(question.slot),
    mechanism: question.mechanism.wire,
    cost: question.mechanism.guarantee.map((each) => (Number.isFinite(each) ? each : null)),
    kind: question.mechanism.answerKind(question.query.domain),
  };
}

async function outcome(one) {
  try {
    return await made(one);
  } catch (error) {
    return error instanceof Refusal ? { problem: error.problem } : { raised: String(error.stack) };
  }
}

const text = (value) => (value === undefined ? "nothing" : new TextDecoder().decode(encode(value)));

let different = 0;
let count = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const one = JSON.parse(line);
  const found = await outcome(one);
  count++;
  if (text(found) === text(one.expected)) continue;
  different++;
  console.log(JSON.stringify({ found, expected: one.expected, case: { ...one, expected: undefined } }));
}
console.log(JSON.stringify({ cases: count, different }));
