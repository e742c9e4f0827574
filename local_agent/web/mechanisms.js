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

import { clip, expBelow, rint } from "./elementary.js";
import { Refusal } from "./errors.js";
import { ascending, kindOf, list, oneOf, optional, read, real, refuse, whole, write } from "./values.js";
import { general } from "./words.js";

const MIN_EPSILON = 1e-6;
const MAX_EPSILON = 700;
const MAX_SYMBOLS = 1 << 16;
const GRID = 2n ** 53n;
const epsilonForm = real(MIN_EPSILON, MAX_EPSILON);
const GOLDEN = 0x9e3779b97f4a7c15n;

/** @param {bigint} word */
const mixed = (word) => {
  word = BigInt.asUintN(64, (word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n);
  word = BigInt.asUintN(64, (word ^ (word >> 27n)) * 0x94d049bb133111ebn);
  return word ^ (word >> 31n);
};

/** A word of a sequence of SplitMix64 (common/numerics/counter.py). @type {(begin: bigint, place: bigint) => bigint} */
const wordAt = (begin, place) => mixed(BigInt.asUintN(64, begin + (place + 1n) * GOLDEN));

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
const chance = (threshold) => Number(threshold) / Number(GRID);

/**
 * Tell a symbol out of `count` with the chance of the truth, else a uniform one of the others.
 * @type {(own: bigint, count: bigint, truth: bigint, source: Words) => number}
 */
function respond(own, count, truth, source) {
  const truthful = source.word() >> 11n < truth;
  const other = source.below(count - 1n);
  return Number(truthful ? own : other + (other >= own ? 1n : 0n));
}

/**
 * One bit: the randomly rounded value, told truthfully with a chance in multiples of 2^-53.
 * @type {(truth: bigint, value: number, source: Words) => number}
 */
function bitOf(truth, value, source) {
  const low = Number(GRID - truth);
  const ones = low + rint(value * (Number(truth) - low));
  return Number(source.word() >> 11n) < ones ? 1 : 0;
}

/** @param {bigint} truth */
function bitInWords(truth) {
  const [same, other] = [general(chance(truth)), general(1 - chance(truth))];
  return (
    `One bit. If the value is 1, the bit is 1 with probability ${same} and 0 with probability ${other}; ` +
    `if the value is 0, it is 0 with probability ${same} and 1 with probability ${other}.`
  );
}

/** The level of one agent; where it is open, the highest. @param {any} f @returns {number} */
const levelOf = (f) => f.level ?? f.epsilons.length - 1;
/** @param {any} f @returns {number} */
const epsilonOf = (f) => f.epsilons[levelOf(f)];
/** @type {Kind} */
const levels = {
  fields: { epsilons: list(real(), 2, 16), level: [optional(whole(0, Infinity)), null, "omitted"] },
  check: (f) => {
    const fits = f.epsilons[0] >= MIN_EPSILON && f.epsilons.at(-1) <= MAX_EPSILON && ascending(f.epsilons);
    if (!fits || levelOf(f) >= f.epsilons.length) refuse("WarnerLevels", "levels do not ascend, or this one is none");
  },
  guarantee: (f) => [epsilonOf(f), 0],
  affordable: (f, left) => {
    const paid = f.epsilons.slice(0, levelOf(f) + 1).filter((/** @type {number} */ each) => each <= left[0]);
    return { ...f, level: Math.max(0, paid.length - 1) };
  },
  answer: (f) => 2 * f.epsilons.length,
  coins: (f) => [truthOf(epsilonOf(f), 2)],
  leaves: ([truth], _, f) => {
    const own = `One level of privacy, epsilon ${general(epsilonOf(f))}, as your budget allows, and one bit.`;
    return `${own} ${bitInWords(truth)}`;
  },
  randomize: ([truth], value, source, _, __, f) => 2 * levelOf(f) + bitOf(truth, value, source),
};

const LIMIT = 2 ** 39; // to which what is released is cut
const ONE = 2n ** 128n; // stands for certainty
const FLAT = 2n ** 104n; // each number in the flat part has one chance in this many

/**
 * Return q, the smallest multiple of 2^-53 that is at least e^-epsilon; then chances in multiples of 2^-128: that Z is
 * not 0, and those of the binary digits of abs(Z) - 1, lowest first.
 * @param {{epsilon: number}} f
 */
function laplaceCoins({ epsilon }) {
  const [least, one] = expBelow(epsilon);
  const ratio = ceiling(GRID * one, least);
  const q = /** @type {Fraction} */ ([ratio, GRID]);
  const digits = [];
  /** @type {Fraction[]} */
  let [product, none, all] = Array(3).fill([1n, 1n]);
  while (all[0] * q[0] * FLAT > (q[1] - q[0]) * all[1]) {
    const odds = times(q, product);
    const digit = ceiling(ONE * odds[0], odds[0] + odds[1]);
    digits.push(digit);
    product = times(product, [digit, ONE - digit]);
    none = times(none, [ONE - digit, ONE]);
    all = times(all, [digit, ONE]);
  }
  const first = none[0] * (FLAT - 2n ** 40n) + none[1]; // of none[1] FLAT: the chance that abs(Z) - 1 is 0
  const above = q[0] * 2n * none[1] * FLAT;
  return [ratio, ceiling(ONE * above, above + first * q[1]), ...digits];
}

/** @typedef {[bigint, bigint]} Fraction */
/** @param {Fraction} one @param {Fraction} other @returns {Fraction} */
function times(one, other) {
  const [above, below] = [one[0] * other[0], one[1] * other[1]];
  let [divisor, rest] = [above, below];
  while (rest) [divisor, rest] = [rest, divisor % rest];
  return [above / divisor, below / divisor];
}
/** @param {bigint} above @param {bigint} below */
const ceiling = (above, below) => (above + below - 1n) / below;

/** The value, rounded to 0 or 1 at random, plus a geometric whole number Z of either sign. @type {Kind} */
const laplace = {
  fields: { epsilon: real(0.001, 30) },
  answer: () => "real",
  coins: laplaceCoins,
  leaves: ([ratio]) => {
    const q = chance(ratio);
    return (
      "A whole number: the value, rounded to 0 or 1 at random, plus a random whole number of either sign, which is 0 " +
      `with probability ${general((1 - q) / (1 + q))}; each step away from 0 is less likely by a factor of ` +
      `${general(q)}.`
    );
  },
  randomize: ([, ...coins], value, source) => {
    const rounded = chance(source.word() >> 11n) < value ? 1 : 0;
    const sign = 1 - 2 * Number(source.word() & 1n);
    const [other, ...digits] = coins.map((coin) => Number(((source.word() << 64n) | source.word()) < coin));
    const size = digits.reduce((number, digit, place) => number + digit * 2 ** place, 0);
    const flat = source.word() === 0n;
    const spread = Number(source.word() >> 24n);
    return clip(rounded + other * sign * (1 + (flat ? spread : size)), -LIMIT, LIMIT);
  },
};

/** The item, among k, with a chance, else another one. @type {Kind} */
const krr = {
  items: true,
  fields: { epsilon: epsilonForm },
  answer: (_, domain) => (2n <= domain && domain <= MAX_SYMBOLS ? Number(domain) : unfit("krr")),
  coins: (f, domain) => [truthOf(f.epsilon, Number(domain))],
  leaves: ([truth], domain) => {
    const other = general((1 - chance(truth)) / (Number(domain) - 1));
    const own = `your own item with probability ${general(chance(truth))}`;
    return `The number of one of ${domain} items: ${own}, each other one with probability ${other}.`;
  },
  randomize: ([truth], value, source, domain) => respond(value, domain, truth, source),
};

/** The g = about e^eps + 1 with the least variance of an item that few hold. @param {any} f */
function bucketsOf(f) {
  /** @param {number} buckets */
  const variance = (buckets) => {
    const q = 1 / buckets;
    const apart = chance(truthOf(f.epsilon, buckets)) - q;
    return (q * (1 - q)) / (apart * apart);
  };
  const [least, one] = expBelow(f.epsilon);
  const near = Number(least / one) + 1;
  return variance(near) <= variance(near + 1) ? near : near + 1;
}

/** The bucket of an item under a public hash, by k-ary response. @type {Kind} */
const olh = {
  items: true,
  fields: { epsilon: real(MIN_EPSILON, 11.09032437091533) }, // ln(MAX_SYMBOLS - 2)
  answer: bucketsOf,
  coins: (f) => [BigInt(bucketsOf(f)), truthOf(f.epsilon, bucketsOf(f))],
  randomize: ([buckets, truth], value, source, _, word) => {
    const hash = wordAt(word, 0n) * (value >> 32n) + wordAt(word, 1n) * (value & 0xffffffffn) + wordAt(word, 2n);
    return respond(((BigInt.asUintN(64, hash) >> 32n) * buckets) >> 32n, buckets, truth, source);
  },
};

/** @type {{[name: string]: Kind}} */
const kinds = {
  // Normal noise in doubles: nobody is answered for with it here.
  gaussian: {
    simulated: true,
    fields: {
      epsilon: real(0.001, MAX_EPSILON),
      delta: real(1e-300, 1 - 2 ** -53),
      calibration: [oneOf("paper", "analytic"), "paper"],
    },
    check: (f) => f.calibration === "paper" && f.epsilon > 1 && refuse("LocalGaussian", "proven for epsilon <= 1"),
    answer: () => "real",
    coins: () => [],
    randomize: () => unfit("gaussian"),
  },
  // One bit of an item's Hadamard code; which bit is public.
  hadamard: {
    items: true,
    fields: { epsilon: epsilonForm },
    coins: (f) => [truthOf(f.epsilon, 2)],
    randomize: ([truth], value, source, _, word) => parity(value & word) ^ Number(source.word() >> 11n >= truth),
  },
  krr,
  laplace,
  none: {
    simulated: true,
    fields: {},
    guarantee: () => [Infinity, 1],
    coins: () => [GRID],
    leaves: () => "One bit, 0 or 1, WITHOUT any randomness that protects it: the value itself, if it is 0 or 1.",
    randomize: ([truth], value, source) => bitOf(truth, value, source),
  },
  olh,
  warner: {
    fields: { epsilon: epsilonForm },
    coins: (f) => [truthOf(f.epsilon, 2)],
    leaves: ([truth]) => bitInWords(truth),
    randomize: ([truth], value, source) => bitOf(truth, value, source),
  },
  "warner-levels": levels,
};

/** @param {string} name @returns {never} */
function unfit(name) {
  throw new Refusal("policy", `mechanism '${name}' cannot randomize what is asked, or not for real people`);
}

/** How one agent answers: a randomized function of what a query says about its record. */
class Mechanism {
  /** @param {string} name @param {any} fields */
  constructor(name, fields) {
    this.name = name;
    this.fields = fields;
    this.of = kinds[name];
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
  const kind = kindOf(kinds, wire, "name", "mechanism");
  const fields = read(kind.fields, wire, "mechanism", "name");
  kind.check?.(fields);
  return new Mechanism(wire.name, fields);
}
