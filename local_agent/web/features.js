/** Queries about features themselves (common/local/queries). */

import { clip, range, sorted, sum } from "./elementary.js";
import { featureSet, flag, list, object, real, refuse, whole } from "./values.js";
import { general } from "./words.js";

/** @typedef {import("./queries.js").Kind} Kind */

const column = whole(0, (1 << 20) - 1);
const positive = real(0, Infinity, true);
/** @typedef {{weight: number, features: number[], label: boolean}} Term */
const factor = real(-1e6, 1e6);
const term = object({ weight: [factor, 1], features: [list(column, 0, 8), []], label: [flag, false] });
/** The features of an expression, ascending. @param {{terms: Term[]}} f */
const factors = (f) => sorted(f.terms.flatMap((term) => term.features));

/** @type {Kind} */
const expression = {
  fields: { offset: [factor, 0], terms: list(term, 1, 64) },
  check: ({ terms }) =>
    terms.some((/** @type {Term} */ term) => !term.features.length && !term.label) && refuse("Product", "a constant"),
  needs: (f) => (factors(f).at(-1) ?? -1) + 1,
  columns: (f) => factors(f),
  asks: (f, names) => {
    /** @type {Term[]} */
    const terms = f.terms;
    if (sum(terms.map((term) => term.features.length + Number(term.label))) > 6) {
      const label = terms.some((term) => term.label) ? [names.ofLabel] : [];
      const parts = [names.among(factors(f)), ...label].join(", and ");
      return `a number from 0 to 1, a sum of ${terms.length} products of ${parts}`;
    }
    const shown = terms.map(({ weight, features, label }) => {
      const times = Math.abs(weight) === 1 ? [] : [general(Math.abs(weight))];
      const last = label ? [`(+1 if ${names.labelled(1)}, else -1)`] : [];
      const parts = [...times, ...features.map((each) => names.factor(each)), ...last];
      return `${weight < 0 ? "-" : "+"} ${parts.join(" x ")}`;
    });
    const formula = [...(f.offset === 0 ? [] : [general(f.offset)]), ...shown].join(" ").replace(/^\+ /, "");
    return `a number from 0 to 1: ${formula}; less counts as 0, and more as 1`;
  },
  value: (f, x, label) => {
    const place = factors(f);
    return f.terms.reduce((/** @type {number} */ value, /** @type {Term} */ term) => {
      const found = term.features.reduce((found, each) => found * x[place.indexOf(each)], term.weight);
      return value + (term.label ? found * label : found);
    }, f.offset);
  },
};

/** @type {Kind} */
const coordinate = {
  fields: { first: column, count: [whole(1, 1 << 20), 1], more: [featureSet(0, 64), [], "omitted"] },
  check: (f) => f.more.length && f.count > 1 && refuse("CoordinateQuery", "either count or more"),
  needs: (f) => Math.max(f.first + f.count, (f.more.at(-1) ?? -1) + 1),
  columns: (f) => [...range(f.count, f.first), ...f.more],
  part: (f, slot) => slot % f.count,
  asks: (f, names, slot) => {
    const about = [f.first + (slot % f.count), ...f.more].map((each) => names.above(each));
    return `whether ${about.join(" or ")}: the value is 1 if so, else 0`;
  },
  value: (f, x, _, slot) => Number(f.more.length ? x.some((each) => each > 0) : x[slot % f.count] > 0),
};

/** @param {any} f @param {number} slot */
const momentOf = (f, slot) => slot % (2 * f.dimension + 2);
/** @type {Kind} */
const moment = {
  fields: { dimension: whole(1, 1 << 16), bound: positive, norm: positive },
  needs: (f) => f.dimension,
  part: momentOf,
  asks: (f, names, slot) => {
    const [d, moment] = [f.dimension, momentOf(f, slot)];
    if (moment === 2 * d) return `whether ${names.labelled(1)}: the value is 1 if so, else 0`;
    const one = names.among([moment % d]);
    const product = `the product of ${one} and ${names.ofLabel}`;
    const what = moment < d ? one : moment < 2 * d ? product : `the sum of the squares of ${names.among(range(d))}`;
    return `${what}, as a number from 0 to 1`;
  },
  value: ({ dimension: d, bound, norm }, x, label, slot) => {
    const moment = slot % (2 * d + 2);
    if (moment === 2 * d) return (label + 1) / 2;
    if (moment > 2 * d) return sum(Array.from(x.subarray(0, d), (each) => each * each)) / (norm * norm);
    return (clip(((moment < d ? 1 : label) * x[moment % d]) / bound, -1, 1) + 1) / 2;
  },
};

/** @type {{[kind: string]: Kind}} */
export const kinds = { coordinate, expression, moment };
