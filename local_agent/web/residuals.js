/** Queries how far a model's predictions are from right (common/local/queries/residuals.py). */

import { clip, exp, known, logistic, sum, weighted } from "./elementary.js";
import { MAX_CLASSES, classScores, ownClass, parseHypothesis, plainHypothesis, product } from "./hypotheses.js";
import { GREATEST, list, optional, real, refuse, weight, whole } from "./values.js";
import { general } from "./words.js";

/** @typedef {import("./queries.js").Kind} Kind */

/** @type {import("./values.js").Fields} */
const scaled = { center: [weight, 0], spread: [optional(real(0, GREATEST, true)), null, "omitted"] };
/** @param {number} score */
const finite = (score) => (Math.abs(score) === Infinity ? Math.sign(score) * GREATEST : known(score));
/** @type {Kind} */
const residual = {
  fields: {
    hypothesis: plainHypothesis,
    slope: weight,
    intercept: weight,
    ...scaled,
    direction: [optional(list(weight, 1, 1 << 20)), null, "omitted"],
  },
  needs: (f) => Math.max(f.hypothesis.minFeatures, f.direction?.length ?? 0),
  asks: (f, names) => {
    const of = f.direction === null ? "its score" : "a weighted sum of what your record has";
    const weighed = f.spread === null ? "" : `, times how far ${of} is from the middle`;
    const parts = `${f.hypothesis.rule(names)} gives is from ${f.hypothesis.target(names)}`;
    return `how far the probability that ${parts} for you${weighed}: a number from 0 to 1`;
  },
  value: (f, features, label) => {
    const score = finite(f.hypothesis.score(features));
    const apart = Number(f.hypothesis.label({ features, label }) > 0) - logistic(f.slope * score + f.intercept);
    const along = f.direction === null ? score : finite(product(f.direction, features));
    return 0.5 * (1 + apart * (f.spread === null ? 1 : clip((along - f.center) / f.spread, -1, 1)));
  },
};

/** @type {Kind} */
const responseResidual = {
  fields: { hypothesis: plainHypothesis, reach: [real(2 ** -20, 1), 1], ...scaled },
  asks: ({ hypothesis, reach, spread }, names) => {
    const weighed = spread === null ? "" : ", times how far its prediction is from the middle";
    const most = reach === 1 ? "" : `, of which ${general(reach)} and more count alike`;
    const far = `how far ${hypothesis.target(names)} is for you above or below the prediction of `;
    return `${far}${hypothesis.rule(names)}${most}${weighed}: a number from 0 to 1`;
  },
  value: (f, features, label) => {
    const value = f.hypothesis.value(features);
    const apart = clip((f.hypothesis.response({ features, label }) - value) / f.reach, -1, 1);
    return 0.5 * (1 + apart * (f.spread === null ? 1 : clip((value - f.center) / f.spread, -1, 1)));
  },
};

/** @type {Kind} */
const classResidual = {
  fields: { hypothesis: parseHypothesis, chosen: [list(whole(0, MAX_CLASSES - 1), 0, MAX_CLASSES), []], spread: scaled.spread },
  check: ({ hypothesis, chosen, spread }) => {
    if (hypothesis.kind !== "argmax") refuse("ClassResidualQuery", "its hypothesis is of kind argmax");
    const beyond = Math.max(...chosen) >= hypothesis.fields.hypotheses.length;
    const fits = !beyond && new Set(chosen).size === chosen.length && chosen.length > 0 === (spread === null);
    if (!fits) refuse("ClassResidualQuery", "give classes, each once, or a spread");
  },
  asks: ({ hypothesis, chosen, spread }, names) => {
    const of = hypothesis.rule(names);
    if (spread !== null) return `how far ${of} is surer of your own class than it expects to be: a number from 0 to 1`;
    const classes = chosen.map((/** @type {number} */ each) => each + 1).join(", ");
    return (
      `how far the probability that ${of} gives to the classes ${classes} of these together is from whether yours is ` +
      "one of them: a number from 0 to 1"
    );
  },
  value: ({ hypothesis, chosen, spread }, x) => {
    const held = ownClass(hypothesis.fields, x);
    if (held < 0) return 0.5;
    const scores = classScores(hypothesis.fields, x).map((score) => clip(known(score, -GREATEST), -GREATEST, GREATEST));
    const near = scores.map((score) => Math.max(score - Math.max(...scores), -GREATEST));
    const powers = near.map((each) => exp(Math.max(each, -80)));
    const chances = powers.map((power) => power / sum(powers));
    const middle = weighted(chances, near);
    /** @param {number} each @param {number} number */
    const moved = (each, number) =>
      spread === null ? Number(chosen.includes(number)) : clip((each - middle) / spread, -0.5, 0.5);
    const all = near.map(moved);
    return 0.5 * (1 + (all[held] - weighted(chances, all)));
  },
};

/** @type {{[kind: string]: Kind}} */
export const kinds = { "class-residual": classResidual, residual, "response-residual": responseResidual };
