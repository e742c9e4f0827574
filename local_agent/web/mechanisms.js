/**
 * Local mechanisms: randomize one bounded value, or one item (common/local/mechanisms). All chances are whole multiples
 * of 2^-53 or 2^-128, and coins are flipped with whole numbers: no engine's arithmetic changes them. A mechanism is a
 * row of a table; `f` are its fields.
 *
 * @typedef {"bit" | "real" | number} AnswerKind a bit, a double, or one of so many symbols
 * @typedef {{word: () => bigint, below: (n: bigint) => bigint}} Words uniform 64-bit words, and numbers below n
 *
 * @typedef {object} Kind see Mechanism for what these are
 * @property {import("./values.js").Fields} fields
 * @property {boolean} [items] whether it randomizes an item, not a value in [0, 1]
 * @property {boolean} [simulated] whether its answers protect simulated people only
 * @property {(f: any) => void} [check] refuses fields that do not fit together
 * @property {(f: any) => [number, number]} [guarantee]
 * @property {(f: any, left: [number, number]) => any} [affordable] the fields that it has then
 * @property {(f: any, domain: bigint) => AnswerKind} [answer] by default a bit
 * @property {(f: any, domain: bigint) => bigint[]} coins the whole numbers with which words are compared
 * @property {(coins: bigint[], domain: bigint, f: any) => string} [leaves]
 * @property {(coins: bigint[], value: any, source: Words, domain: bigint, word: bigint, f: any) => number} randomize
 */

import { expBelow } from "./elementary.js";
import { Refusal } from "./errors.js";
import { MECHANISMS, kindIn } from "./kinds.js";
import { read, real, write } from "./values.js";

export const MIN_EPSILON = 1e-6;
export const MAX_EPSILON = 700;
export const MAX_SYMBOLS = 1 << 16;
export const GRID = 2n ** 53n;
export const epsilonForm = real(MIN_EPSILON, MAX_EPSILON);
const GOLDEN = 0x9e3779b97f4a7c15n;

/** @param {bigint} word */
const mixed = (word) => {
  word = BigInt.asUintN(64, (word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n);
  word = BigInt.asUintN(64, (word ^ (word >> 27n)) * 0x94d049bb133111ebn);
  return word ^ (word >> 31n);
};

/** A word of a sequence of SplitMix64 (common/numerics/counter.py). @type {(begin: bigint, place: bigint) => bigint} */
export const wordAt = (begin, place) => mixed(BigInt.asUintN(64, begin + (place + 1n) * GOLDEN));

/** Return a slot's public word, from a question's public randomness. @param {bigint} seed @param {number} slot */
export const publicWord = (seed, slot) =>
  wordAt(mixed(mixed(mixed(seed)) ^ mixed(BigInt.asUintN(64, BigInt(slot) * GOLDEN + 1n))), 0n);

/** Return 1 for an odd number of ones, else 0. @param {bigint} word */
export function parity(word) {
  for (const half of [32n, 16n, 8n, 4n, 2n, 1n]) word ^= word >> half;
  return Number(word & 1n);
}

/**
 * Return the largest t with t/2^53 <= e^eps/(e^eps + k - 1): the chance of the truth about k symbols.
 * @param {number} epsilon
 * @param {number} symbols
 */
export function truthOf(epsilon, symbols) {
  const [least, one] = expBelow(epsilon);
  return (least * GRID) / (least + BigInt(symbols - 1) * one);
}

/** @param {bigint} threshold a multiple of 2^-53 */
export const chance = (threshold) => Number(threshold) / Number(GRID);

/** @param {string} name @returns {never} */
export function unfit(name) {
  throw new Refusal("policy", `mechanism '${name}' cannot randomize what is asked, or not for real people`);
}

/** How one agent answers: a randomized function of what a query says about its record. */
class Mechanism {
  /** @param {string} name @param {any} fields */
  constructor(name, fields) {
    this.name = name;
    this.fields = fields;
    this.of = MECHANISMS.kinds[name];
  }

  get wire() {
    return { name: this.name, ...write(this.of.fields, this.fields) };
  }

  get forRealPeople() {
    return !this.of.simulated;
  }

  /** Epsilon and delta of one answer. @returns {[number, number]} */
  get guarantee() {
    return this.of.guarantee ? this.of.guarantee(this.fields) : [this.fields.epsilon, this.fields.delta ?? 0];
  }

  /** The mechanism as an agent uses it that has so much left; it may still cost more. @param {[number, number]} left */
  affordable(left) {
    return this.of.affordable ? new Mechanism(this.name, this.of.affordable(this.fields, left)) : this;
  }

  /**
   * What an answer is, to a query with a value in [0, 1] (null) or with items; refused (`policy`) if it can be none.
   * @param {bigint | null} domain
   * @returns {AnswerKind}
   */
  answerKind(domain) {
    if ((domain !== null) !== (this.of.items ?? false)) unfit(this.name);
    const kind = this.of.answer ? this.of.answer(this.fields, domain ?? 0n) : "bit";
    return kind === 2 ? "bit" : kind;
  }

  /** What may leave a device, in plain words. @param {bigint | null} domain */
  leaves(domain) {
    const kind = this.answerKind(domain);
    if (this.of.leaves) return this.of.leaves(this.coins(domain), domain ?? 0n, this.fields);
    const one = `One randomized ${kind === "bit" ? kind : "number"}`;
    const what = typeof kind === "number" ? `One of ${kind} randomized symbols` : one;
    return `${what}, drawn by the mechanism '${this.name}'.`;
  }

  /** The whole numbers with which words are compared. @param {bigint | null} domain @returns {bigint[]} */
  coins(domain) {
    if (!this.made || this.asked !== domain) this.made = this.of.coins(this.fields, domain ?? 0n);
    this.asked = domain;
    return this.made;
  }

  /**
   * Return the answer about a value, or an item of a domain, drawn with words of a source.
   * @param {number | bigint} value
   * @param {bigint | null} domain
   * @param {bigint} publicWord
   * @param {Words} source
   */
  randomize(value, domain, publicWord, source) {
    return this.of.randomize(this.coins(domain), value, source, domain ?? 0n, publicWord, this.fields);
  }
}

/** @param {any} wire @returns {Mechanism} or a Refusal: `bad-message` */
export function parseMechanism(wire) {
  const kind = kindIn(MECHANISMS, wire, "name");
  const fields = read(kind.fields, wire, "mechanism", "name");
  kind.check?.(fields);
  return new Mechanism(wire.name, fields);
}
