/** Frequency oracles: mechanisms of items (common/local/mechanisms/frequency.py). */

import { expBelow, parity, wordAt } from "./elementary.js";
import { MIN_EPSILON, chance, epsilonForm, truthOf, unfit } from "./questions.js";
import { real } from "./values.js";
import { general } from "./words.js";

/**
 * Tell a symbol out of `count` with the chance of the truth, else a uniform one of the others.
 * @type {(own: bigint, count: bigint, truth: bigint, source: import("./questions.js").Words) => number}
 */
function respond(own, count, truth, source) {
  const truthful = source.word() >> 11n < truth;
  const other = source.below(count - 1n);
  return Number(truthful ? own : other + (other >= own ? 1n : 0n));
}

/** Return the g = about e^eps + 1 with the least variance of an item that few hold. @param {number} epsilon */
function bucketsOf(epsilon) {
  const variance = (/** @type {number} */ buckets) => {
    const q = 1 / buckets;
    const apart = chance(truthOf(epsilon, buckets)) - q;
    return (q * (1 - q)) / (apart * apart);
  };
  const [least, one] = expBelow(epsilon);
  const near = Number(least / one) + 1;
  return variance(near) <= variance(near + 1) ? near : near + 1;
}

/** @type {import("./questions.js").MechanismKinds} */
export const kinds = {
  // One bit of an item's Hadamard code; which bit is public.
  hadamard: {
    fields: { epsilon: epsilonForm },
    make: () => ({
      items: true,
      draw: ([truth], value, source, _, word) => parity(value & word) ^ Number(source.word() >> 11n >= truth),
    }),
  },
  // The item, among k, with a chance, else another one.
  krr: {
    fields: { epsilon: epsilonForm },
    make: ({ epsilon }) => ({
      items: true,
      answer: (domain) => (2n <= domain && domain <= 1n << 16n ? Number(domain) : unfit("krr")),
      thresholds: (domain) => [truthOf(epsilon, Number(domain))],
      words: ([truth], _, domain) => {
        const other = general((1 - chance(truth)) / (Number(domain) - 1));
        const own = `your own item with probability ${general(chance(truth))}`;
        return `The number of one of ${domain} items: ${own}, each other one with probability ${other}.`;
      },
      draw: ([truth], value, source, domain) => respond(value, domain, truth, source),
    }),
  },
  // The bucket of an item under a public hash, by k-ary response.
  olh: {
    fields: { epsilon: real(MIN_EPSILON, 11.09032437091533) }, // ln(2^16 - 2)
    make: ({ epsilon }) => ({
      items: true,
      answer: () => bucketsOf(epsilon),
      thresholds: () => [BigInt(bucketsOf(epsilon)), truthOf(epsilon, bucketsOf(epsilon))],
      draw: ([buckets, truth], value, source, _, word) => {
        const hash = wordAt(word, 0n) * (value >> 32n) + wordAt(word, 1n) * (value & 0xffffffffn) + wordAt(word, 2n);
        return respond(((BigInt.asUintN(64, hash) >> 32n) * buckets) >> 32n, buckets, truth, source);
      },
    }),
  },
};
