/** Read cases of benchmarks/web_agent/cases.py, one a line, and print those of which the modules make another thing. */

import { createInterface } from "node:readline";

const web = new URL("../../local_agent/web/", import.meta.url);
const { hypothesisKinds, load, ORDINARY, parseMechanism, parseQuery } = await import(new URL("questions.js", web).href);
const { publicWord } = await import(new URL("elementary.js", web).href);
const { described, Names, namesIn } = await import(new URL("words.js", web).href);
const { Refusal } = await import(new URL("values.js", web).href);
const { encode } = await import(new URL("messages.js", web).href);
await load();

/** Words that both agents draw from. */
class GivenWords {
  constructor(seed, first) {
    Object.assign(this, { seed, first, drawn: 0 });
  }

  word() {
    const place = this.drawn++;
    return place < this.first.length ? BigInt(this.first[place]) : publicWord(this.seed, place);
  }

  below(n) {
    const fair = (1n << 64n) - ((1n << 64n) % n);
    for (;;) {
      const word = this.word();
      if (word < fair) return word % n;
    }
  }
}

function made(one) {
  if ("table" in one) return { names: namesIn({ target: { table: one.table } }).wire };
  for (const kind of hypothesisKinds(one.query)) if (!ORDINARY.includes(kind)) return { problem: "policy" };
  const query = parseQuery(one.query);
  if (query.minFeatures > one.features.length) return { problem: "policy" };
  const mechanism = parseMechanism(one.mechanism).affordable(one.left);
  const kind = mechanism.answerKind(query.domain);
  const features = one.bits ? Uint8Array.from(one.features) : Float32Array.from(one.features);
  const value = query.evaluate({ features, label: one.label }, one.slot);
  const assignment = { run: "run-1", question: one.slot % 7 };
  const names = new Names(one.names);
  const question = { assignment, slot: one.slot, query, mechanism, names, ownNames: one.own_names, purpose: one.purpose };
  const policy = { epsilon: one.lifetime, referee: "ab".repeat(32) };
  const found = {
    query: query.wire,
    mechanism: mechanism.wire,
    min_features: query.minFeatures,
    columns: query.columns,
    domain: query.domain === null ? null : String(query.domain),
    part: query.part(one.slot),
    value: typeof value === "bigint" ? String(value) : value,
    answer_kind: kind,
    for_real_people: mechanism.forRealPeople,
    thresholds: mechanism.thresholds(query.domain ?? 0n).map(String),
    words: described(question, "https://referee.example", policy, one.left[0]),
  };
  const source = new GivenWords(BigInt(one.seed), one.first);
  try {
    found.answer = mechanism.randomize(value, query.domain, query.public(one.slot), source);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    found.answer = error.problem;
  }
  return { ...found, drawn: source.drawn };
}

function outcome(one) {
  try {
    return made(one);
  } catch (error) {
    return error instanceof Refusal ? { problem: error.problem } : { raised: String(error.stack) };
  }
}

const text = (value) => (value === undefined ? "nothing" : new TextDecoder().decode(encode(value)));

let different = 0;
let count = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const one = JSON.parse(line);
  const found = outcome(one);
  count++;
  for (const key of new Set([...Object.keys(one.expected), ...Object.keys(found)])) {
    if (text(found[key]) === text(one.expected[key])) continue;
    different++;
    console.log(JSON.stringify({ key, found: found[key], expected: one.expected[key], case: { ...one, expected: undefined } }));
    break;
  }
}
console.log(JSON.stringify({ cases: count, different }));
