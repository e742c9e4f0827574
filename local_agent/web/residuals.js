/** Queries how a model should change, and how far its classes or responses are from right (common/local/queries). */

import { clip, exp, known, logistic, sum } from "./elementary.js";
import { MAX_CLASSES, classScores, halfSpace, ownClass, parseHypothesis, plainHypothesis } from "./hypotheses.js";
import { GREATEST, list, maybe, positive, real, refuse, weight, whole } from "./values.js";
import { SCALED, general } from "./words.js";

const spread = maybe(positive(GREATEST));
/** @param {number[]} chances @param {number[]} numbers */
const mean = (chances, numbers) => sum(chances.map((chance, at) => chance * numbers[at]));

/** @type {import("./questions.js").QueryKinds} */
export const kinds = {
  "class-residual": {
    fields: { hypothesis: parseHypothesis, chosen: [list(whole(0, MAX_CLASSES - 1), 0, MAX_CLASSES), []] },
    make: ({ hypothesis, chosen }) => {
      if (hypothesis.kind !== "argmax") refuse("ClassResidualQuery", "its hypothesis is of kind argmax");
      const { hypotheses } = hypothesis.fields;
      const beyond = Math.max(...chosen, chosen.length) >= hypotheses.length;
      if (beyond || new Set(chosen).size < chosen.length) refuse("ClassResidualQuery", "give some classes, each once");
      return {
        asks: (names) => {
          const of = hypothesis.rule(names);
          if (!chosen.length) return `how much surer ${of} is of your own class than it expects to be, ${SCALED}`;
          const classes = chosen.map((/** @type {number} */ each) => each + 1).join(", ");
          const probability = `the probability that ${of} gives to the classes ${classes} of these together`;
          return `the difference between ${probability} and whether yours is one of them, ${SCALED}`;
        },
        value: ({ features: x }) => {
          const own = ownClass(hypothesis.fields, x);
          if (own < 0) return 0.5;
          const scores = classScores(hypotheses, x).map((score) => clip(known(score, -GREATEST), -GREATEST, GREATEST));
          const near = scores.map((score) => Math.max(score - Math.max(...scores), -GREATEST));
          const powers = near.map((each) => exp(Math.max(each, -80)));
          const chances = powers.map((power) => power / sum(powers));
          const moved = chosen.length ? near.map((_, number) => Number(chosen.includes(number))) : near;
          const middle = mean(chances, moved);
          const apart = moved.map((each) => each - middle);
          return 0.5 * (1 + apart[own] / (Math.max(...apart.map(Math.abs)) || 1));
        },
      };
    },
  },
  gradient: {
    fields: { hypothesis: halfSpace, bound: positive() },
    make: ({ hypothesis, bound }) => {
      const last = hypothesis.minFeatures;
      const part = (/** @type {number} */ slot) => slot % (last + 1);
      return {
        part,
        asks: (names, slot) => {
          const what = part(slot) === last ? "its threshold" : `its weight of ${names.among([part(slot)])}`;
          const change = `how ${hypothesis.rule(names)} should change ${what} to fit you better`;
          return `${change}: a number from 0 to 1, computed from all of these`;
        },
        value: ({ features: x, label }, slot) => {
          const slope = -label * logistic(-label * hypothesis.margin(x));
          return (clip((slope * (part(slot) === last ? -1 : x[part(slot)])) / bound, -1, 1) + 1) / 2;
        },
      };
    },
  },
  "response-residual": {
    fields: { hypothesis: plainHypothesis, reach: [real(2 ** -20, 1), 1], center: [weight, 0], spread },
    make: ({ hypothesis, reach, center, spread }) => {
      return {
        asks: (names) => {
          const weighed = spread === null ? "" : ", times how far its prediction is from the middle";
          const most = reach === 1 ? "" : `, of which ${general(reach)} and more count alike`;
          const far = `how far ${hypothesis.target(names)} is for you above or below the prediction of `;
          return `${far}${hypothesis.rule(names)}${most}${weighed}: a number from 0 to 1`;
        },
        value: (record) => {
          const value = hypothesis.value(record.features);
          const apart = clip((hypothesis.response(record) - value) / reach, -1, 1);
          const along = spread === null ? 1 : clip((value - center) / spread, -1, 1);
          return 0.5 * (1 + apart * along);
        },
      };
    },
  },
};
