/**
 * Questions: queries, which are bounded questions about one record (common/local/queries), and mechanisms, which
 * randomize what a query says (common/local/mechanisms). A kind is a row of a table in another module, which is loaded
 * before the first question that may be of its kinds; a page has those alone that its rules accept (local_agent/page.py
 * reads the tables).
 *
 * @import { Record } from "./values.js"
 * @import { Names } from "./words.js"
 * @typedef {"bit" | "real" | number} AnswerKind a bit, a double, or one of so many symbols
 * @typedef {{word: () => bigint, below: (n: bigint) => bigint}} Words uniform 64-bit words, and numbers below n
 * @typedef {import("./values.js").Registry & {modules: {[module: string]: string[]}}} Registry
 * @typedef {{[kind: string]: {fields: import("./values.js").Fields, make: (f: any) => Partial<Query>}}} QueryKinds
 * @typedef {{[name: string]: {fields: import("./values.js").Fields, make: (f: any) => Partial<Mechanism>}}} MechanismKinds
 */

import { clip, expBelow, known, publicWord } from "./elementary.js";
import { Kinded, fail, isObject, parse, real } from "./values.js";

/** @param {string} noun @param {string} tag @param {{[module: string]: string[]}} modules @returns {Registry} */
const registry = (noun, tag, modules) => ({ noun, tag, modules, names: Object.values(modules).flat().sort(), kinds: {} });

const QUERIES = registry("query", "kind", {
  features: ["coordinate", "expression", "moment"],
  items: ["code", "item", "listed", "threshold"],
  losses: ["loss", "pair"],
  residuals: ["class-residual", "gradient", "response-residual"],
  scores: ["residual", "score"],
});
const MECHANISMS = registry("mechanism", "name", {
  bits: ["warner", "warner-levels"],
  laplace: ["gaussian", "laplace", "none"],
  oracles: ["hadamard", "krr", "olh"],
});
export const KINDS = QUERIES.names;

/** The kinds of hypotheses that every agent accepts. */
export const ORDINARY = "argmax conjunction constant flipped-parity linear network parity recalibrated regressor relabelled stump trees".split(" "); // prettier-ignore
export const FOREIGN = "onnx"; // a kind that only a foreign library reads

/** Load what defines some kinds of queries and mechanisms. */
export async function load(queries = KINDS, mechanisms = MECHANISMS.names) {
  for (const { modules, kinds } of [QUERIES, MECHANISMS])
    for (const [module, names] of Object.entries(modules))
      if (!(names[0] in kinds) && [...queries, ...mechanisms].some((kind) => names.includes(kind)))
        Object.assign(kinds, (await import(`./${module}.js`)).kinds);
}

/** Return the kinds of hypotheses in a query, but none within a hypothesis. @param {any} wire @returns {string[]} */
export const hypothesisKinds = (wire) =>
  (isObject(wire) || Array.isArray(wire) ? Object.values(wire) : []).flatMap((value) =>
    isObject(value) && [...ORDINARY, FOREIGN].includes(value.kind) ? [value.kind] : hypothesisKinds(value),
  );

/** A map from one record, and the agent's public slot, to a value in [0, 1] or an item below its domain. */
export class Query extends Kinded {
  /** @type {bigint | null} number of items, of a query that says an item */
  domain = null;
  /** @type {number} smallest number of features that a record must have */
  minFeatures = this.fields.hypothesis?.minFeatures;
  /** @type {number[] | null} the features that it reads; null: as many as it needs, from the first on */
  columns = null;
  /** @type {(slot: number) => number} which part of the query a slot is asked: alike where the same is asked */
  part = () => 0;
  /** @type {(names: Names, slot: number) => string} what is asked, in plain words: a clause */
  asks = () => "";
  /** @type {(record: Record, slot: number) => number | bigint} of its columns alone */ value = () => 0;

  /** The slot's public word, for the mechanisms that need one. */
  public = (/** @type {number} */ slot) => publicWord(this.fields.public ?? 0n, slot);

  /** Return what it says of a person; what cannot be computed is 0. @param {Record} record @param {number} slot */
  evaluate({ features, label }, slot) {
    const read = this.columns?.map((column) => features[column]) ?? features;
    const own = features instanceof Uint8Array ? Uint8Array.from(read) : Float32Array.from(read);
    try {
      const value = this.value({ features: own, label }, slot);
      if (this.domain === null) return clip(known(Number(value)), 0, 1);
      return BigInt(value) < this.domain ? BigInt(value) : this.domain - 1n;
    } catch {
      return this.domain === null ? 0 : 0n;
    }
  }
}

/** @param {any} wire @returns {Query} or a Refusal: `bad-message`, `policy` */
export const parseQuery = (wire) => parse(Query, QUERIES, wire);

// Mechanisms: chances are multiples of 2^-53 or 2^-128, and coins are flipped with whole numbers: no engine's arithmetic
// changes them -------------------------------------------------------------------------------------------------------

export const [MIN_EPSILON, MAX_EPSILON] = [1e-6, 700];
export const GRID = 2n ** 53n;
export const epsilonForm = real(MIN_EPSILON, MAX_EPSILON);

/** Return the largest t with t/2^53 <= e^eps/(e^eps + k - 1): the chance of the truth about k symbols. */
export function truthOf(/** @type {number} */ epsilon, symbols = 2) {
  const [least, one] = expBelow(epsilon);
  return (least * GRID) / (least + BigInt(symbols - 1) * one);
}

/** @param {bigint} threshold a multiple of 2^-53 */
export const chance = (threshold) => Number(threshold) / Number(GRID);

/** @type {(name: string) => never} */
export const unfit = (name) =>
  fail("policy", `mechanism '${name}' cannot randomize what is asked, or not for real people`);

/**
 * Words of 64 random bits for one answer, by AES-256 in counter mode. The key is a function of a durable secret and of
 * what is asked, so that the same question gets the same noise. An answer needs less than a hundred of them.
 */
export class Source {
  used = 0;

  constructor(/** @type {BigUint64Array} */ words) {
    this.words = words;
  }

  static async of(/** @type {Uint8Array<ArrayBuffer>} */ key) {
    const cipherKey = await crypto.subtle.importKey("raw", key, "AES-CTR", false, ["encrypt"]);
    const how = { name: "AES-CTR", counter: new Uint8Array(16), length: 64 };
    return new Source(new BigUint64Array(await crypto.subtle.encrypt(how, cipherKey, new Uint8Array(8 << 10))));
  }

  /** Return 64 uniform bits. */
  word = () => this.words[this.used++];

  /** Return a uniform integer from 0 to n - 1, exactly: a word that would favour some is drawn again. */
  below(/** @type {bigint} */ n) {
    for (;;) {
      const word = this.word();
      if (word < (1n << 64n) - ((1n << 64n) % n)) return word % n;
    }
  }
}

/** How one agent answers: a randomized function of what a query says about its record. */
export class Mechanism extends Kinded {
  items = false; // whether it randomizes an item, not a value in [0, 1]
  forRealPeople = true;
  /** @type {[number, number]} epsilon and delta of one answer */
  guarantee = [this.fields.epsilon, this.fields.delta ?? 0];
  /** @type {(left: [number, number]) => Mechanism} as an agent uses it that has so much left */
  affordable = () => this;
  /** @type {(domain: bigint) => AnswerKind} */ answer = () => "bit";
  /** @type {(domain: bigint) => bigint[]} the whole numbers with which words are compared */ thresholds = () => [truthOf(this.guarantee[0])];
  /** @type {(coins: bigint[], kind: AnswerKind, domain: bigint) => string} */
  words = (_, kind) => {
    const symbol = kind === "bit" ? "One randomized bit" : `One of ${kind} randomized symbols`;
    return `${kind === "real" ? "One randomized number" : symbol}, drawn by the mechanism '${this.kind}'.`;
  };
  /** @type {(coins: bigint[], value: any, source: Words, domain: bigint, word: bigint) => number} */
  draw = () => unfit(this.kind);

  /** What an answer is, to a query of items, or with a value (null); refused (`policy`) if it can be none. */
  answerKind(/** @type {bigint | null} */ domain) {
    if ((domain !== null) !== this.items) unfit(this.kind);
    const kind = this.answer(domain ?? 0n);
    return kind === 2 ? "bit" : kind;
  }

  /** What may leave a device, in plain words. @param {bigint | null} domain */
  leaves(domain) {
    const kind = this.answerKind(domain);
    return this.words(this.thresholds(domain ?? 0n), kind, domain ?? 0n);
  }

  /** @param {number | bigint} value @param {bigint | null} domain @param {bigint} publicWord @param {Words} source */
  randomize(value, domain, publicWord, source) {
    return this.draw(this.thresholds(domain ?? 0n), value, source, domain ?? 0n, publicWord);
  }
}

/** @param {any} wire @returns {Mechanism} or a Refusal: `bad-message`, `policy` */
export const parseMechanism = (wire) => parse(Mechanism, MECHANISMS, wire);
