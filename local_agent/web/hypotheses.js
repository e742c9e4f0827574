/**
 * Hypotheses: classifiers of one record as data, of all kinds that every party accepts (common/local/hypotheses). A
 * kind is a row of a table; `x` are the features of one record.
 *
 * @import { Features, Record } from "./values.js"
 * @import { Names } from "./words.js"
 * @typedef {{fields: import("./values.js").Fields, nests?: boolean, make: (f: any) => Partial<Hypothesis>}} Kind
 *   `nests`: whether it is made of other hypotheses; it is then no part of a further one
 * @typedef {{hidden: number[][], thresholds: number[], output: number[], threshold: number}} Units
 */

import { clip, known, pack, range, sorted, sum } from "./elementary.js";
import { FOREIGN, ORDINARY } from "./questions.js";
import { GREATEST, Kinded, MAX_WEIGHTS, ascending, featureSet, isObject, list, maybe, oneOf, parse, place, positive, real, refuse, weight, whole, word } from "./values.js"; // prettier-ignore

const MAX_NODES = 1 << 18;
const LEAF = -1;
export const MAX_CLASSES = 64;
const weights = list(weight, 1, MAX_WEIGHTS);
const units = list(weight, 1, 1 << 10);
const nodes = list(whole(LEAF, MAX_NODES - 1), 1, MAX_NODES);
const parities = featureSet(0, 4096);
const single = Math.fround;

/** Features: group g is of those whose feature groups[g] is above 1/2, the first of several; the last has none. */
export const groupsForm = list(place, 0, 31);
export const groupCount = (/** @type {number[]} */ groups) => (groups.length ? groups.length + 1 : 1);
/** @param {Features} x @param {number[]} groups */
export const groupOf = (x, groups) => [...groups.map((feature) => x[feature] > 0.5), true].indexOf(true);

/** Return <w, x> in float32: eight sums at once, in this order, and every product rounded. */
export function product(/** @type {number[]} */ w, /** @type {Features} */ x) {
  const s = new Float32Array(8);
  const end = w.length - (w.length % 8);
  for (let j = 0; j < end; j++) s[j % 8] += single(single(w[j]) * x[j]);
  const even = single(single(s[0] + s[4]) + single(s[2] + s[6]));
  let sum = single(even + single(single(s[1] + s[5]) + single(s[3] + s[7])));
  for (let j = end; j < w.length; j++) sum = single(sum + single(single(w[j]) * x[j]));
  return sum;
}

const sign = (/** @type {Features} */ x, /** @type {number} */ feature) => (x[feature] > 0.5 ? 1 : -1);
/** @param {Features} x @param {number[]} features */
const odd = (x, features) => features.filter((feature) => x[feature] > 0.5).length % 2 === 1;
/** @param {Hypothesis[]} hypotheses @param {Features} x */
export const classScores = (hypotheses, x) => hypotheses.map((each) => each.score(x));

/** The one class that stands in the features, or -1. @param {{[name: string]: any}} fields @param {Features} x */
export function ownClass({ first, hypotheses }, x) {
  const classes = range(hypotheses.length).filter((number) => x[first + number] > 0.5);
  return classes.length === 1 ? classes[0] : -1;
}

/**
 * Return how deep each tree is. A child stands after its parent in the same tree, has one parent, and is not too deep.
 * @param {{[field: string]: number[]}} f
 */
function depthsOf({ roots, feature, threshold, left, right }) {
  const nodes = feature.length;
  const even = [threshold, left, right].every((each) => each.length === nodes);
  const fits = even && roots[0] === 0 && ascending(roots) && roots[roots.length - 1] < nodes;
  if (!fits) refuse("Trees", "roots or nodes do not fit");
  /** @type {number[]} */
  const depth = [];
  return roots.map((root, tree) => {
    const end = roots[tree + 1] ?? nodes;
    let deepest = (depth[root] = 0);
    for (let node = root; node < end; node++) {
      const leaf = feature[node] === LEAF;
      for (const child of [left[node], right[node]]) {
        const fits = leaf ? child === LEAF : node < child && child < end && !(child in depth) && depth[node] < 256;
        if (!fits || !(node in depth)) refuse("Trees", `node ${node} does not fit`);
        if (!leaf) depth[child] = depth[node] + 1;
      }
      deepest = Math.max(deepest, depth[node]);
    }
    return deepest;
  });
}

/** @type {{[kind: string]: Kind}} */
export const kinds = {
  // The class with the greatest score; a record's own class stands in its features.
  argmax: {
    nests: true,
    fields: { first: place, hypotheses: list(plainHypothesis, 2, MAX_CLASSES) },
    make: (/** @type {{first: number, hypotheses: Hypothesis[]}} */ { first, hypotheses }) => {
      if (hypotheses.some((each) => each.minFeatures > first)) refuse("Argmax", "a hypothesis looks at the classes");
      const nodes = hypotheses.map((each) => (each.kind === "trees" ? each.fields.feature.length : 0));
      if (sum(nodes) > MAX_NODES) refuse("Argmax", `all trees together have more than ${MAX_NODES} nodes`);
      return {
        inputs: sorted(hypotheses.flatMap((each) => each.inputs)),
        needs: first + hypotheses.length,
        target: (names) => `which one of these is true (${names.conditions(range(hypotheses.length, first))})`,
        positive: (x) => {
          const scores = classScores(hypotheses, x).map((score) => known(score, -Infinity));
          return scores.indexOf(Math.max(...scores)) === ownClass({ first, hypotheses }, x);
        },
        label: () => 1,
      };
    },
  },
  conjunction: {
    fields: { features: featureSet(1, 64) },
    make: ({ features }) => ({
      inputs: features,
      positive: (x) => features.every((/** @type {number} */ feature) => x[feature] > 0.5),
    }),
  },
  constant: {
    fields: { label: oneOf(-1, 1) },
    make: ({ label }) => ({
      rule: (names) => `the rule that ${names.labelled(label)} for everybody`,
      positive: () => label > 0,
    }),
  },
  "flipped-parity": {
    fields: { features: parities, first: place, bits: whole(1, 64), threshold: word(0n, 2n ** 64n - 1n) },
    make: ({ features, first, bits, threshold }) => ({
      inputs: sorted([...features, ...range(bits, first)]),
      positive: (x) => odd(x, features) !== pack(x.subarray(first, first + bits)) >= threshold,
    }),
  },
  linear: {
    fields: { weights, threshold: weight },
    make: ({ weights, threshold }) => ({
      inputs: range(weights.length),
      margin: (x) => single(product(weights, x) - single(threshold)),
    }),
  },
  network: {
    fields: { hidden: list(list(weight), 1, 1 << 10), thresholds: units, output: units, threshold: weight },
    make: (/** @type {Units} */ { hidden, thresholds, output, threshold }) => {
      const [count, width] = [hidden.length, hidden[0].length];
      const even = [thresholds, output].every((each) => each.length === count);
      const fits = even && hidden.every((row) => row.length === width);
      if (!fits || width < 1 || width * count > MAX_WEIGHTS) refuse("Network", "the units do not fit together");
      return {
        inputs: range(width),
        margin: (x) => {
          const activations = Float32Array.from(hidden, (row, j) => {
            const z = single(product(row, x) - single(thresholds[j]));
            return z / single(1 + Math.abs(z));
          });
          return single(product(output, activations) - single(threshold));
        },
      };
    },
  },
  parity: {
    fields: { features: parities },
    make: ({ features }) => ({ inputs: features, positive: (x) => odd(x, features) }),
  },
  // A score on another scale, with an intercept for each group.
  recalibrated: {
    nests: true,
    fields: {
      hypothesis: plainHypothesis,
      slope: positive(1e6),
      intercepts: list(weight, 1),
      groups: [groupsForm, []],
    },
    make: ({ hypothesis, slope, intercepts, groups }) => {
      if (intercepts.length !== groupCount(groups)) refuse("Recalibrated", "each group has an intercept");
      return {
        inputs: sorted([...hypothesis.inputs, ...groups]),
        needs: Math.max(hypothesis.minFeatures, Math.max(-1, ...groups) + 1),
        margin: (x) => single(clip(slope * hypothesis.score(x) + intercepts[groupOf(x, groups)], -GREATEST, GREATEST)),
      };
    },
  },
  // The prediction <w, x> + b of a feature, the response, clipped to [0, 1].
  regressor: {
    fields: {
      weights,
      intercept: weight,
      response: whole(1, (1 << 17) - 1),
      center: maybe(real(0, 1)),
      spread: maybe(positive(1)),
    },
    make: ({ weights, intercept, response }) => {
      if (response < weights.length) refuse("Regressor", "the response is among the features");
      const value = (/** @type {Features} */ x) => clip(known(product(weights, x) + intercept, 0.5), 0, 1);
      return {
        inputs: range(weights.length),
        needs: response + 1,
        target: (names) => names.among([response]),
        margin: (x) => single(value(x) - 0.5),
        value,
        response: ({ features }) => clip(features[response], 0, 1),
        label: ({ features }) => sign(features, response),
      };
    },
  },
  // Held against the label that stands in a column of the features.
  relabelled: {
    nests: true,
    fields: { column: place, hypothesis: plainHypothesis },
    make: ({ column, hypothesis }) => {
      if (hypothesis.minFeatures > column) refuse("Relabelled", "it looks at the label");
      return {
        inputs: hypothesis.inputs,
        needs: column + 1,
        target: (names) => `whether ${names.above(column, 0.5)}`,
        label: ({ features }) => sign(features, column),
        margin: (x) => hypothesis.margin(x),
      };
    },
  },
  stump: {
    fields: { feature: place, threshold: weight, sign: oneOf(-1, 1) },
    make: ({ feature, threshold, sign }) => ({ inputs: [feature], positive: (x) => x[feature] > threshold === sign > 0 }),
  },
  trees: {
    fields: {
      roots: list(whole(0, MAX_NODES - 1), 1, MAX_NODES),
      feature: list(whole(LEAF, MAX_WEIGHTS - 1), 1, MAX_NODES),
      threshold: list(weight, 1, MAX_NODES),
      left: nodes,
      right: nodes,
      base: [weight, 0],
    },
    make: (f) => {
      const depths = depthsOf(f);
      const { roots, feature, threshold, left, right, base } = f;
      // Every walk takes as many steps as its tree is deep, at a leaf on the spot: the time says nothing about the way.
      const score = (/** @type {Features} */ x) =>
        depths.reduce((sum, depth, tree) => {
          let node = roots[tree];
          for (let step = 0; step < depth; step++) {
            const next = x[Math.max(feature[node], 0)] <= threshold[node] ? left[node] : right[node];
            node = next === LEAF ? node : next;
          }
          return sum + threshold[node];
        }, base);
      const inputs = sorted(feature.filter((/** @type {number} */ each) => each !== LEAF));
      return { inputs, positive: (x) => score(x) > 0, score };
    },
  },
};

/** A classifier h: features -> {-1, +1}. It is total: for any features it predicts one of both. */
export class Hypothesis extends Kinded {
  /** @type {number[]} numbers of the features that a prediction looks at, ascending */
  inputs = [];
  /** @type {number | undefined} where its inputs do not say on how many features it is defined */
  needs;
  /** @type {(names: Names) => string} what it predicts from what, for a person who is asked about it */
  rule = (names) => `a rule that predicts ${this.target(names)} from ${names.among(this.inputs)}`;
  /** @type {(names: Names) => string} */ target = (names) => names.ofLabel;
  /** @type {(x: Features) => boolean} this one, or the margin, is given */
  positive = (x) => this.margin(x) > 0;
  /** @type {(x: Features) => number} how far it is on the positive side, in float32 */
  margin = (x) => (this.positive(x) ? 1 : -1);
  /** @type {(x: Features) => number} what to compare with other hypotheses' scores */
  score = (x) => this.margin(x);
  /** @type {(x: Features) => number} the prediction as a number in [0, 1] */
  value = (x) => clip(known((1 + this.margin(x)) / 2, 0.5), 0, 1);
  /** @type {(record: Record) => number} the number in [0, 1] that the value is held against */
  response = (record) => (1 + this.label(record)) / 2;
  /** @type {(record: Record) => number} the label that it is held against */
  label = (record) => record.label;

  /** Smallest number of features on which it is defined. */
  get minFeatures() {
    return this.needs ?? (this.inputs.at(-1) ?? -1) + 1;
  }

  mistake = (/** @type {Record} */ record) => Number(this.positive(record.features) !== this.label(record) > 0);
}

const HYPOTHESES = { noun: "hypothesis", tag: "kind", names: [...ORDINARY, FOREIGN], kinds };
/** @param {any} wire @param {string} [where] @returns {Hypothesis} or a Refusal: `bad-message`, `policy` */
export const parseHypothesis = (wire, where) => parse(Hypothesis, HYPOTHESES, wire, where);

/** A hypothesis that can be part of another. @param {any} wire @param {string} where @returns {Hypothesis} */
export function plainHypothesis(wire, where) {
  const fits = isObject(wire) && Object.hasOwn(kinds, wire.kind) && !kinds[wire.kind].nests;
  return fits ? parseHypothesis(wire, where) : refuse(where, "no hypothesis of a kind that can be part of another");
}

/** A half-space, which need not say its kind. @param {any} wire @param {string} where @returns {Hypothesis} */
export function halfSpace(wire, where) {
  const hypothesis = parseHypothesis(isObject(wire) ? { kind: "linear", ...wire } : wire, where);
  return hypothesis.kind === "linear" ? hypothesis : refuse(where, "no half-space");
}
