/** Queries about losses of hypotheses (common/local/queries, common/local/losses.py). */

import { softplus } from "./elementary.js";
import { parseHypothesis as hypothesis } from "./hypotheses.js";
import { maybe, object, oneOf, real, refuse } from "./values.js";
import { general } from "./words.js";

const cost = real(1e-6, 1e6);

/** @type {import("./questions.js").QueryKinds} */
export const kinds = {
  loss: {
    fields: {
      hypothesis,
      loss: [oneOf("zero-one", "hinge", "perceptron", "logistic", "squared"), "zero-one"],
      bound: [real(2 ** -20, 1e6), 1, "omitted"],
      costs: maybe(object({ miss: cost, false_alarm: cost })),
    },
    make: ({ hypothesis, loss, bound, costs }) => {
      if (costs !== null && loss !== "zero-one") refuse("LossQuery", "costs are of mistakes");
      const heaviest = costs && Math.max(costs.miss, costs.false_alarm);
      const [miss, alarm] = costs ? [costs.miss / heaviest, costs.false_alarm / heaviest] : [1, 1];
      return {
        asks: (names) => {
          const bit = "the value is 1 if so, else 0";
          if (costs !== null) {
            const sides = `${general(miss)} if ${names.labelled(1)} or ${general(alarm)} if ${names.labelled(-1)}`;
            return `whether ${hypothesis.rule(names)} is wrong about you: then the value is ${sides}, else 0`;
          }
          if (hypothesis.kind === "constant" && loss !== "logistic" && bound <= 1)
            return `whether ${names.labelled(-hypothesis.fields.label)}: ${bit}`;
          if (loss === "zero-one") return `whether ${hypothesis.rule(names)} is wrong about you: ${bit}`;
          const most = bound === 1 ? "" : `, of which ${general(bound)} and more count as 1`;
          return `how far ${hypothesis.rule(names)} is from right about you: a number from 0 to 1 (${loss} loss${most})`;
        },
        // min(L, B)/B of a record's loss L and its bound B
        value: (record) => {
          const label = hypothesis.label(record);
          if (loss === "zero-one") return hypothesis.mistake(record) * (label > 0 ? miss : alarm);
          const apart = hypothesis.value(record.features) - hypothesis.response(record);
          if (loss === "squared") return (apart * apart) / bound;
          const margin = label * hypothesis.margin(record.features);
          return (loss === "logistic" ? softplus(-margin) : loss === "hinge" ? 1 - margin : -margin) / bound;
        },
      };
    },
  },
  pair: {
    fields: { hypothesis, rival: hypothesis },
    make: ({ hypothesis, rival }) => ({
      minFeatures: Math.max(hypothesis.minFeatures, rival.minFeatures),
      asks: (names) =>
        "which of two rules is wrong about you: the value is 1 if only the first is, 0 if only the second is, else 1/2. " +
        `The first is ${hypothesis.rule(names)}; the second is ${rival.rule(names)}`,
      value: (record) => (1 + hypothesis.mistake(record) - rival.mistake(record)) / 2,
    }),
  },
};
