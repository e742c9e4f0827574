/** Queries about a model's score: its cells, and how far the probability that it gives is from right (common/local). */

import { known, logistic, parity, publicWord } from "./elementary.js";
import { groupCount, groupOf, groupsForm, plainHypothesis, product } from "./hypotheses.js";
import { GREATEST, ascending, list, maybe, object, refuse, weight, word } from "./values.js";
import { SCALED, general } from "./words.js";

/** @typedef {{hypothesis: import("./hypotheses.js").Hypothesis, cuts: number[], groups: number[]}} Cells */
const fields = object({ hypothesis: plainHypothesis, cuts: list(weight, 1, 255), groups: [groupsForm, []] });

/** A public partition of records: bins of a model's score, in every group. @type {import("./values.js").Form} */
const cellsForm = (wire, where) => {
  const bins = fields(wire, where);
  const repeated = new Set(bins.groups).size < bins.groups.length;
  const fits = ascending(bins.cuts) && !repeated && itemCount(bins) <= 1 << 12;
  return fits ? bins : refuse(where, "cuts ascend, groups differ, and there are at most 4096 items");
};

/** Number of cells with a label. @param {Pick<Cells, "cuts" | "groups">} cells */
const itemCount = ({ cuts, groups }) => 2 * (cuts.length + 1) * groupCount(groups);

/** @param {number} score */
const finite = (score) => (Math.abs(score) === Infinity ? Math.sign(score) * GREATEST : known(score));

/** @type {import("./questions.js").QueryKinds} */
export const kinds = {
  residual: {
    fields: {
      hypothesis: plainHypothesis,
      slope: weight,
      intercept: weight,
      center: maybe(weight),
      direction: maybe(list(weight, 1, 1 << 20)),
    },
    make: ({ hypothesis, slope, intercept, center, direction }) => {
      if (direction !== null && center === null) refuse("ResidualQuery", "a direction needs a center");
      return {
        minFeatures: Math.max(hypothesis.minFeatures, direction?.length ?? 0),
        asks: (names) => {
          const of = direction === null ? "its score" : "a weighted sum of what your record has";
          const turned = center === null ? "" : `, with the opposite sign unless ${of} is above ${general(center)}`;
          const between = `${hypothesis.target(names)} and the probability that it gives${turned}`;
          return `by how much ${hypothesis.rule(names)} errs about you: the difference between ${between}, ${SCALED}`;
        },
        value: (record) => {
          const score = finite(hypothesis.score(record.features));
          const chance = logistic(slope * score + intercept);
          const apart = (Number(hypothesis.label(record) > 0) - chance) / Math.max(chance, 1 - chance);
          const along = direction === null ? score : finite(product(direction, record.features));
          return 0.5 * (1 + (center === null || along > center ? apart : -apart));
        },
      };
    },
  },
  score: {
    fields: { public: word(0n, 2n ** 63n - 1n), cells: cellsForm },
    make: (/** @type {{public: bigint, cells: Cells}} */ { public: seed, cells }) => {
      const { hypothesis, cuts, groups } = cells;
      const digits = (itemCount(cells) - 1).toString(2).length;
      const row = (/** @type {number} */ slot) => BigInt.asUintN(digits, publicWord(seed, slot));
      return {
        minFeatures: Math.max(hypothesis.minFeatures, Math.max(-1, ...groups) + 1),
        part: (slot) => Number(row(slot)),
        asks: (names) => {
          const parts = [`in which of ${cuts.length + 1} ranges your score by ${hypothesis.rule(names)} is`];
          if (groups.length) parts.push(`which of these is true first (${names.conditions(groups)})`);
          return `one digit, 0 or 1, computed from the following: ${parts.join(", ")}, and ${hypothesis.target(names)}`;
        },
        value: (record, slot) => {
          const score = known(hypothesis.score(record.features), -Infinity);
          const cell = cuts.filter((cut) => cut < score).length + (cuts.length + 1) * groupOf(record.features, groups);
          return parity(BigInt(2 * cell + Number(hypothesis.label(record) > 0)) & row(slot));
        },
      };
    },
  },
};
