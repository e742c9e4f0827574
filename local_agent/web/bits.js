/** Mechanisms of one bit (common/local/mechanisms): of a value in [0, 1], at one level of privacy or several. */

import { rint } from "./elementary.js";
import { GRID, MAX_EPSILON, MIN_EPSILON, chance, epsilonForm, parseMechanism } from "./questions.js";
import { ascending, list, maybe, real, refuse, whole } from "./values.js";
import { general } from "./words.js";

/**
 * One bit: the randomly rounded value, told truthfully with a chance in multiples of 2^-53.
 * @type {(coins: bigint[], value: number, source: import("./questions.js").Words) => number}
 */
function draw([truth], value, source) {
  const low = Number(GRID - truth);
  return Number(Number(source.word() >> 11n) < low + rint(value * (Number(truth) - low)));
}

/** @param {bigint[]} coins */
function words([truth]) {
  const [same, other] = [general(chance(truth)), general(1 - chance(truth))];
  return (
    `One bit. If the value is 1, the bit is 1 with probability ${same} and 0 with probability ${other}; ` +
    `if the value is 0, it is 0 with probability ${same} and 1 with probability ${other}.`
  );
}

/** @type {import("./questions.js").MechanismKinds} */
export const kinds = {
  warner: { fields: { epsilon: epsilonForm }, make: () => ({ words, draw }) },
  "warner-levels": {
    fields: { epsilons: list(real(), 2, 16), level: maybe(whole(0, Infinity)) },
    make: (/** @type {{epsilons: number[], level: number | null}} */ { epsilons, level }) => {
      const own = level ?? epsilons.length - 1; // where it is open, the highest
      const fits = epsilons[0] >= MIN_EPSILON && epsilons[epsilons.length - 1] <= MAX_EPSILON && ascending(epsilons);
      if (!fits || own >= epsilons.length) refuse("WarnerLevels", "levels do not ascend, or this one is none");
      return {
        guarantee: [epsilons[own], 0],
        affordable: ([left]) => {
          const paid = epsilons.slice(0, own + 1).filter((each) => each <= left);
          return parseMechanism({ name: "warner-levels", epsilons, level: Math.max(0, paid.length - 1) });
        },
        answer: () => 2 * epsilons.length,
        words: (coins) =>
          `One level of privacy, epsilon ${general(epsilons[own])}, as your budget allows, and one bit. ${words(coins)}`,
        draw: (coins, value, source) => 2 * own + draw(coins, value, source),
      };
    },
  },
};
