/** The mechanism of Laplace on whole numbers, and those for simulated people (common/local/mechanisms). */

import { clip, expBelow, rint } from "./elementary.js";
import { GRID, MAX_EPSILON, chance } from "./questions.js";
import { oneOf, real, refuse } from "./values.js";
import { general } from "./words.js";

/** @typedef {[above: bigint, below: bigint]} Fraction */

const LIMIT = 2 ** 39; // to which what is released is cut
const ONE = 2n ** 128n; // stands for certainty
const FLAT = 2n ** 104n; // each number in the flat part has one chance in this many

/**
 * Return q, the smallest multiple of 2^-53 that is at least e^-epsilon; then chances in multiples of 2^-128: that Z is
 * not 0, and those of the binary digits of abs(Z) - 1, lowest first. @param {number} epsilon
 */
function thresholdsOf(epsilon) {
  const [least, one] = expBelow(epsilon);
  const ratio = ceiling(GRID * one, least);
  const digits = [];
  /** @type {Fraction[]} */
  let [product, none, all] = Array(3).fill([1n, 1n]);
  while (all[0] * ratio * FLAT > (GRID - ratio) * all[1]) {
    const odds = times([ratio, GRID], product);
    const digit = ceiling(ONE * odds[0], odds[0] + odds[1]);
    digits.push(digit);
    product = times(product, [digit, ONE - digit]);
    none = times(none, [ONE - digit, ONE]);
    all = times(all, [digit, ONE]);
  }
  const first = none[0] * (FLAT - 2n ** 40n) + none[1]; // of none[1] FLAT: the chance that abs(Z) - 1 is 0
  const above = ratio * 2n * none[1] * FLAT;
  return [ratio, ceiling(ONE * above, above + first * GRID), ...digits];
}

/** @param {Fraction} one @param {Fraction} other @returns {Fraction} */
const times = (one, other) => [one[0] * other[0], one[1] * other[1]];
const ceiling = (/** @type {bigint} */ above, /** @type {bigint} */ below) => (above + below - 1n) / below;

/** @type {import("./questions.js").MechanismKinds} */
export const kinds = {
  // Normal noise in doubles: nobody is answered for with it here.
  gaussian: {
    fields: {
      epsilon: real(0.001, MAX_EPSILON),
      delta: real(1e-300, 1 - 2 ** -53),
      calibration: [oneOf("paper", "analytic"), "paper"],
    },
    make: ({ epsilon, calibration }) => {
      if (calibration === "paper" && epsilon > 1) refuse("LocalGaussian", "proven for epsilon <= 1");
      return { forRealPeople: false, answer: () => "real", thresholds: () => [] };
    },
  },
  // The value, rounded to 0 or 1 at random, plus a geometric whole number Z of either sign.
  laplace: {
    fields: { epsilon: real(0.001, 30) },
    make: ({ epsilon }) => ({
      answer: () => "real",
      thresholds: () => thresholdsOf(epsilon),
      words: ([ratio]) => {
        const [q, none] = [chance(ratio), general((1 - chance(ratio)) / (1 + chance(ratio)))];
        const noise = `a random whole number of either sign, which is 0 with probability ${none}`;
        return (
          `A whole number: the value, rounded to 0 or 1 at random, plus ${noise}; ` +
          `each step away from 0 is less likely by a factor of ${general(q)}.`
        );
      },
      draw: ([, ...coins], value, source) => {
        const rounded = Number(chance(source.word() >> 11n) < value);
        const sign = 1 - 2 * Number(source.word() & 1n);
        const [other, ...digits] = coins.map((coin) => Number(((source.word() << 64n) | source.word()) < coin));
        const size = digits.reduce((number, digit, place) => number + digit * 2 ** place, 0);
        const flat = source.word() === 0n;
        const spread = Number(source.word() >> 24n);
        return clip(rounded + other * sign * (1 + (flat ? spread : size)), -LIMIT, LIMIT);
      },
    }),
  },
  none: {
    fields: {},
    make: () => ({
      forRealPeople: false,
      guarantee: [Infinity, 1],
      thresholds: () => [GRID],
      words: () => "One bit, 0 or 1, WITHOUT any randomness that protects it: the value itself, if it is 0 or 1.",
      draw: (_, value, source) => Number(Number(source.word() >> 11n) < rint(value * Number(GRID))),
    }),
  },
};
