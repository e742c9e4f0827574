/** Queries about features themselves (common/local/queries). */

import { clip, range, sorted, sum } from "./elementary.js";
import { column, featureSet, flag, list, object, positive, real, refuse, whole } from "./values.js";
import { general } from "./words.js";

/** @typedef {{weight: number, features: number[], label: boolean}} Term */

const factor = real(-1e6, 1e6);
const term = object({ weight: [factor, 1], features: [list(column, 0, 8), []], label: [flag, false] });

/** @param {number} offset @param {Term[]} terms @param {import("./words.js").Names} names */
function formula(offset, terms, names) {
  const texts = terms.map(({ weight, features, label }) => {
    const times = Math.abs(weight) === 1 ? [] : [general(Math.abs(weight))];
    const last = label ? [`(+1 if ${names.labelled(1)}, else -1)`] : [];
    return `${weight < 0 ? "-" : "+"} ${[...times, ...features.map((each) => names.factor(each)), ...last].join(" x ")}`;
  });
  return [...(offset === 0 ? [] : [general(offset)]), ...texts].join(" ").replace(/^\+ /, "");
}

/** @type {import("./questions.js").QueryKinds} */
export const kinds = {
  coordinate: {
    fields: { first: column, count: [whole(1, 1 << 20), 1], more: [featureSet(0, 64), [], "omitted"] },
    make: ({ first, count, more }) => {
      if (more.length && count > 1) refuse("CoordinateQuery", "either count or more");
      return {
        minFeatures: Math.max(first + count, (more.at(-1) ?? -1) + 1),
        columns: [...range(count, first), ...more],
        part: (slot) => slot % count,
        asks: (names, slot) => {
          const about = [first + (slot % count), ...more].map((each) => names.above(each));
          return `whether ${about.join(" or ")}: the value is 1 if so, else 0`;
        },
        value: ({ features: x }, slot) => Number(more.length ? x.some((each) => each > 0) : x[slot % count] > 0),
      };
    },
  },
  expression: {
    fields: { offset: [factor, 0], terms: list(term, 1, 64) },
    make: (/** @type {{offset: number, terms: Term[]}} */ { offset, terms }) => {
      if (terms.some((term) => !term.features.length && !term.label)) refuse("Product", "a constant");
      const columns = sorted(terms.flatMap((term) => term.features));
      return {
        minFeatures: (columns.at(-1) ?? -1) + 1,
        columns: columns.length ? columns : null,
        asks: (names) => {
          if (sum(terms.map((term) => term.features.length + Number(term.label))) <= 6)
            return `a number from 0 to 1: ${formula(offset, terms, names)}; less counts as 0, and more as 1`;
          const label = terms.some((term) => term.label) ? [names.ofLabel] : [];
          const parts = [names.among(columns), ...label].join(", and ");
          return `a number from 0 to 1, a sum of ${terms.length} products of ${parts}`;
        },
        value: ({ features: x, label }) =>
          terms.reduce((value, term) => {
            const product = term.features.reduce((product, each) => product * x[columns.indexOf(each)], term.weight);
            return value + (term.label ? product * label : product);
          }, offset),
      };
    },
  },
  moment: {
    fields: { dimension: whole(1, 1 << 16), bound: positive(), norm: positive() },
    make: ({ dimension: d, bound, norm }) => {
      const part = (/** @type {number} */ slot) => slot % (2 * d + 2);
      return {
        minFeatures: d,
        part,
        asks: (names, slot) => {
          const moment = part(slot);
          if (moment === 2 * d) return `whether ${names.labelled(1)}: the value is 1 if so, else 0`;
          const one = names.among([moment % d]);
          const product = `the product of ${one} and ${names.ofLabel}`;
          const squares = `the sum of the squares of ${names.among(range(d))}`;
          const what = moment < d ? one : moment < 2 * d ? product : squares;
          return `${what}, as a number from 0 to 1`;
        },
        value: ({ features: x, label }, slot) => {
          const moment = part(slot);
          if (moment === 2 * d) return (label + 1) / 2;
          if (moment > 2 * d) return sum(Array.from(x.subarray(0, d), (each) => each * each)) / (norm * norm);
          return (clip(((moment < d ? 1 : label) * x[moment % d]) / bound, -1, 1) + 1) / 2;
        },
      };
    },
  },
};
