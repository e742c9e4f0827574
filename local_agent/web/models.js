/** Queries about one or two hypotheses (common/local/queries). */

import { clip, logistic } from "./elementary.js";
import { halfSpace, parseHypothesis as hypothesis } from "./hypotheses.js";
import { boundForm, cellsForm, costWeights, costsForm, itemCount, itemOf, lossForm, lossOf } from "./losses.js";
import { parity, publicWord } from "./mechanisms.js";
import { optional, real, refuse, word } from "./values.js";
import { general } from "./words.js";

/** @typedef {import("./queries.js").Kind} Kind */

const positive = real(0, Infinity, true);

/** @type {Kind} */
const loss = {
  fields: {
    hypothesis,
    loss: [lossForm, "zero-one"],
    bound: [boundForm, 1, "omitted"],
    costs: [optional(costsForm), null, "omitted"],
  },
  check: (f) => f.costs !== null && f.loss !== "zero-one" && refuse("LossQuery", "costs are of mistakes"),
  asks: ({ hypothesis, loss, bound, costs }, names) => {
    const bit = "the value is 1 if so, else 0";
    if (costs !== null) {
      const [miss, alarm] = costWeights(costs).map((part) => general(part));
      const sides = `${miss} if ${names.labelled(1)} or ${alarm} if ${names.labelled(-1)}`;
      return `whether ${hypothesis.rule(names)} is wrong about you: then the value is ${sides}, else 0`;
    }
    if (hypothesis.kind === "constant" && loss !== "logistic" && bound <= 1)
      return `whether ${names.labelled(-hypothesis.fields.label)}: ${bit}`;
    if (loss === "zero-one") return `whether ${hypothesis.rule(names)} is wrong about you: ${bit}`;
    const most = bound === 1 ? "" : `, of which ${general(bound)} and more count as 1`;
    return `how far ${hypothesis.rule(names)} is from right about you: a number from 0 to 1 (${loss} loss${most})`;
  },
  value: (f, features, label) => lossOf(f, { features, label }),
};

/** @type {Kind} */
const pair = {
  fields: { hypothesis, rival: hypothesis },
  needs: (f) => Math.max(f.hypothesis.minFeatures, f.rival.minFeatures),
  asks: (f, names) =>
    "which of two rules is wrong about you: the value is 1 if only the first is, 0 if only the second is, else 1/2. " +
    `The first is ${f.hypothesis.rule(names)}; the second is ${f.rival.rule(names)}`,
  value: (f, features, label) =>
    (1 + f.hypothesis.mistake({ features, label }) - f.rival.mistake({ features, label })) / 2,
};

/** @param {any} f @param {number} slot */
const weightOf = (f, slot) => slot % (f.hypothesis.minFeatures + 1);
/** @type {Kind} */
const gradient = {
  fields: { hypothesis: halfSpace, bound: positive },
  part: weightOf,
  asks: (f, names, slot) => {
    const place = weightOf(f, slot);
    const what = place === f.hypothesis.minFeatures ? "its threshold" : `its weight of ${names.among([place])}`;
    const change = `how ${f.hypothesis.rule(names)} should change ${what} to fit you better`;
    return `${change}: a number from 0 to 1, computed from all of these`;
  },
  value: (f, x, label, slot) => {
    const place = weightOf(f, slot);
    const slope = -label * logistic(-label * f.hypothesis.margin(x));
    const found = slope * (place === f.hypothesis.minFeatures ? -1 : x[place]);
    return (clip(found / f.bound, -1, 1) + 1) / 2;
  },
};

/** @param {any} f @param {number} slot */
const scoreRow = (f, slot) => BigInt.asUintN((itemCount(f.cells) - 1).toString(2).length, publicWord(f.public, slot));
/** @type {Kind} */
const score = {
  fields: { public: word(0n, 2n ** 63n - 1n), cells: cellsForm },
  needs: ({ cells }) => Math.max(cells.hypothesis.minFeatures, Math.max(-1, ...cells.groups) + 1),
  part: (f, slot) => Number(scoreRow(f, slot)),
  asks: ({ cells: { hypothesis, cuts, groups } }, names) => {
    const parts = [`in which of ${cuts.length + 1} ranges the score of ${hypothesis.rule(names)} is for you`];
    if (groups.length) parts.push(`which of these is true first (${names.conditions(groups)})`);
    const made = `one binary digit that is made of ${parts.join(", ")}, and ${hypothesis.target(names)}`;
    return `${made}: the value is 0 or 1`;
  },
  value: (f, features, label, slot) => parity(BigInt(itemOf(f.cells, { features, label })) & scoreRow(f, slot)),
};

/** @type {{[kind: string]: Kind}} */
export const kinds = { gradient, loss, pair, score };
