/** Frequency oracles: mechanisms of items (common/local/mechanisms/frequency.py). */

import { expBelow } from "./elementary.js";
import { GRID, MAX_SYMBOLS, MIN_EPSILON, chance, epsilonForm, parity, truthOf, unfit, wordAt } from "./mechanisms.js";
import { real } from "./values.js";
import { general } from "./words.js";

/** @typedef {import("./mechanisms.js").Kind} Kind */
/** @typedef {import("./mechanisms.js").Words} Words */

/**
 * Tell a symbol out of `count` with the chance of the truth, else a uniform one of the others.
 * @type {(own: bigint, count: bigint, truth: bigint, source: Words) => number}
 */
function respond(own, count, truth, source) {
  const truthful = source.word() >> 11n < truth;
  const other = source.below(count - 1n);
  return Number(truthful ? own : other + (other >= own ? 1n : 0n));
}

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
export const kinds = {
  // One bit of an item's Hadamard code; which bit is public.
  hadamard: {
    items: true,
    fields: { epsilon: epsilonForm },
    coins: (f) => [truthOf(f.epsilon, 2)],
    randomize: ([truth], value, source, _, word) => parity(value & word) ^ Number(source.word() >> 11n >= truth),
  },
  krr,
  olh,
};
