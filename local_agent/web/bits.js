/** Mechanisms of one bit (common/local/mechanisms): of a value in [0, 1], at one level of privacy or several. */

import { MAX_EPSILON, MIN_EPSILON, GRID, chance, epsilonForm, truthOf, unfit } from "./mechanisms.js";
import { rint } from "./elementary.js";
import { ascending, list, oneOf, optional, real, refuse, whole } from "./values.js";
import { general } from "./words.js";

/** @typedef {import("./mechanisms.js").Kind} Kind */
/** @typedef {import("./mechanisms.js").Words} Words */

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

/** @type {{[name: string]: Kind}} */
export const kinds = {
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
  none: {
    simulated: true,
    fields: {},
    guarantee: () => [Infinity, 1],
    coins: () => [GRID],
    leaves: () => "One bit, 0 or 1, WITHOUT any randomness that protects it: the value itself, if it is 0 or 1.",
    randomize: ([truth], value, source) => bitOf(truth, value, source),
  },
  warner: {
    fields: { epsilon: epsilonForm },
    coins: (f) => [truthOf(f.epsilon, 2)],
    leaves: ([truth]) => bitInWords(truth),
    randomize: ([truth], value, source) => bitOf(truth, value, source),
  },
  "warner-levels": levels,
};
