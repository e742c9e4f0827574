/**
 * Hypotheses: classifiers of one record as data, of all kinds that every party accepts (common/local/hypotheses). A
 * kind is a row of a table; `f` are a hypothesis's fields, `x` the features of one record.
 *
 * @typedef {import("./values.js").Features} Features
 * @typedef {import("./values.js").Record} Record
 * @typedef {import("./words.js").Names} Names
 *
 * @typedef {object} Kind `positive`, `margin` or both are given; see Hypothesis for what the others are
 * @property {import("./values.js").Fields} fields
 * @property {boolean} [nests] whether it is made of other hypotheses; it is then no part of a further one
 * @property {(f: any) => void} [check] refuses fields that do not fit together
 * @property {(f: any) => number[]} inputs
 * @property {(f: any) => number} [needs]
 * @property {(f: any, names: Names) => string} [rule]
 * @property {(f: any, names: Names) => string} [target]
 * @property {(f: any, x: Features) => boolean} [positive]
 * @property {(f: any, x: Features) => number} [margin]
 * @property {(f: any, x: Features) => number} [score]
 * @property {(f: any, x: Features) => number} [value]
 * @property {(f: any, x: Features) => number} [response]
 * @property {(f: any, x: Features) => number} [label]
 */

import { clip, known, pack, range, sorted } from "./elementary.js";
import { Refusal, isObject } from "./errors.js";
import { FOREIGN } from "./kinds.js";
import { GREATEST, MAX_WEIGHTS, ascending, featureSet, kindOf, list, oneOf, optional, place, read, real, refuse, weight, whole, word, write } from "./values.js"; // prettier-ignore

const MAX_NODES = 1 << 18;
const MAX_DEPTH = 256;
const MAX_UNITS = 1 << 10;
const LEAF = -1;
export const MAX_CLASSES = 64;
const weights = list(weight, 1, MAX_WEIGHTS);
const single = Math.fround;

/** Features: group g is of those whose feature groups[g] is above 1/2, the first of several; the last has none. */
export const groupsForm = list(place, 0, 31);
/** @param {number[]} groups */
export const groupCount = (groups) => (groups.length ? groups.length + 1 : 1);
/** @param {Features} x @param {number[]} groups */
export function groupOf(x, groups) {
  const found = groups.findIndex((feature) => x[feature] > 0.5);
  return found < 0 ? groups.length : found;
}

/**
 * Return <w, x> in float32: eight sums at once, in this order, and every product rounded.
 * @param {number[]} w
 * @param {Features} x
 */
export function product(w, x) {
  const s = new Float32Array(8);
  const end = w.length - (w.length % 8);
  for (let j = 0; j < end; j++) s[j % 8] += single(single(w[j]) * x[j]);
  const even = single(single(s[0] + s[4]) + single(s[2] + s[6]));
  let found = single(even + single(single(s[1] + s[5]) + single(s[3] + s[7])));
  for (let j = end; j < w.length; j++) found = single(found + single(single(w[j]) * x[j]));
  return found;
}

/** @param {Features} x @param {number} feature */
const sign = (x, feature) => (x[feature] > 0.5 ? 1 : -1);
/** @param {number[]} features @param {Features} x */
const odd = (features, x) => features.filter((feature) => x[feature] > 0.5).length % 2 === 1;

/** @type {Kind} */
const linear = {
  fields: { weights, threshold: weight },
  inputs: (f) => range(f.weights.length),
  margin: (f, x) => single(product(f.weights, x) - single(f.threshold)),
};

/** The prediction <w, x> + b of a feature, the response, clipped to [0, 1]. @type {Kind} */
const regressor = {
  fields: {
    weights,
    intercept: weight,
    response: whole(1, (1 << 17) - 1),
    center: [optional(real(0, 1)), null, "omitted"],
    spread: [optional(real(0, 1, true)), null, "omitted"],
  },
  check: (f) => f.response < f.weights.length && refuse("Regressor", "the response is among the features"),
  inputs: (f) => range(f.weights.length),
  needs: (f) => f.response + 1,
  target: (f, names) => names.among([f.response]),
  margin: (f, x) => single(predicted(f, x) - 0.5),
  value: (f, x) => predicted(f, x),
  response: (f, x) => clip(x[f.response], 0, 1),
  label: (f, x) => sign(x, f.response),
};
/** @param {any} f @param {Features} x */
const predicted = (f, x) => clip(known(product(f.weights, x) + f.intercept, 0.5), 0, 1);

/** @type {Kind} */
const network = {
  fields: {
    hidden: list(list(weight, 0, Infinity), 1, MAX_UNITS),
    thresholds: list(weight, 1, MAX_UNITS),
    output: list(weight, 1, MAX_UNITS),
    threshold: weight,
  },
  check: ({ hidden, thresholds, output }) => {
    const [units, width] = [hidden.length, hidden[0].length];
    const even = hidden.every((/** @type {number[]} */ row) => row.length === width);
    const fits = even && thresholds.length === units && output.length === units;
    if (!fits || width < 1 || width * units > MAX_WEIGHTS) refuse("Network", "the units do not fit together");
  },
  inputs: (f) => range(f.hidden[0].length),
  margin: (f, x) => {
    const activations = Float32Array.from(f.hidden, (/** @type {number[]} */ row, j) => {
      const z = single(product(row, x) - single(f.thresholds[j]));
      return z / single(1 + Math.abs(z));
    });
    return single(product(f.output, activations) - single(f.threshold));
  },
};

/** Sums of leaves: a child stands after its parent in the same tree, has one parent, is not too deep. @type {Kind} */
const trees = {
  fields: {
    roots: list(whole(0, MAX_NODES - 1), 1, MAX_NODES),
    feature: list(whole(LEAF, MAX_WEIGHTS - 1), 1, MAX_NODES),
    threshold: list(weight, 1, MAX_NODES),
    left: list(whole(LEAF, MAX_NODES - 1), 1, MAX_NODES),
    right: list(whole(LEAF, MAX_NODES - 1), 1, MAX_NODES),
    base: [weight, 0],
  },
  check: ({ roots, feature, threshold, left, right }) => {
    const nodes = feature.length;
    const even = [threshold, left, right].every((each) => each.length === nodes);
    const fits = even && roots[0] === 0 && ascending(roots) && roots.at(-1) < nodes;
    if (!fits) refuse("Trees", "roots or nodes do not fit");
    const depth = depths(left, right, roots);
    for (const [tree, root] of roots.entries())
      for (let node = root, end = roots[tree + 1] ?? nodes; node < end; node++) {
        const children = [left[node], right[node]];
        const leaf = feature[node] === LEAF && children.every((child) => child === LEAF);
        const inner = depth[node] < MAX_DEPTH && children.every((child) => node < child && child < end);
        const good = node in depth && (leaf || (feature[node] !== LEAF && inner));
        if (!good) refuse("Trees", `node ${node} does not fit`);
      }
    const parents = [...left, ...right].filter((child) => child !== LEAF);
    if (new Set(parents).size < parents.length) refuse("Trees", "a node has two parents");
  },
  inputs: (f) => sorted(f.feature.filter((/** @type {number} */ feature) => feature !== LEAF)),
  positive: (f, x) => sumOfLeaves(f, x) > 0,
  score: (f, x) => sumOfLeaves(f, x),
};

/**
 * Return how deep each node lies, of those that have a parent or are roots.
 * @type {(left: number[], right: number[], roots: number[]) => number[]}
 */
function depths(left, right, roots) {
  /** @type {number[]} */
  const depth = [];
  for (const root of roots) depth[root] = 0;
  for (let node = 0; node < left.length; node++)
    for (const child of [left[node], right[node]]) if (child > node && node in depth) depth[child] = depth[node] + 1;
  return depth;
}

/**
 * Every walk takes as many steps as its tree is deep, at a leaf on the spot: the time says nothing about the way.
 * @param {any} f
 * @param {Features} x
 */
function sumOfLeaves(f, x) {
  const { roots, feature, threshold, left, right } = f;
  const depth = depths(left, right, roots);
  return roots.reduce((/** @type {number} */ score, /** @type {number} */ root, /** @type {number} */ tree) => {
    let node = root;
    const deepest = depth.slice(root, roots[tree + 1]).reduce((most, each) => Math.max(most, each), 0);
    for (let step = 0; step < deepest; step++) {
      const next = x[Math.max(feature[node], 0)] <= threshold[node] ? left[node] : right[node];
      node = next === LEAF ? node : next;
    }
    return score + threshold[node];
  }, f.base);
}

/** Held against the label that stands in a column of the features. @type {Kind} */
const relabelled = {
  nests: true,
  fields: { column: place, hypothesis: plainHypothesis },
  check: (f) => f.hypothesis.minFeatures > f.column && refuse("Relabelled", "it looks at the label"),
  inputs: (f) => f.hypothesis.inputs,
  needs: (f) => f.column + 1,
  target: (f, names) => `whether ${names.above(f.column, 0.5)}`,
  label: (f, x) => sign(x, f.column),
  margin: (f, x) => f.hypothesis.margin(x),
};

/** The class with the greatest score; a record's own class stands in its features. @type {Kind} */
const argmax = {
  nests: true,
  fields: { first: place, hypotheses: list(plainHypothesis, 2, MAX_CLASSES) },
  check: (f) => {
    let nodes = 0;
    for (const each of f.hypotheses) {
      if (each.minFeatures > f.first) refuse("Argmax", "a hypothesis looks at the classes");
      if (each.kind === "trees") nodes += each.fields.feature.length;
    }
    if (nodes > MAX_NODES) refuse("Argmax", `all trees together have more than ${MAX_NODES} nodes`);
  },
  inputs: (f) => sorted(f.hypotheses.flatMap((/** @type {Hypothesis} */ each) => each.inputs)),
  needs: (f) => f.first + f.hypotheses.length,
  target: (f, names) => `which one of these is true (${names.conditions(range(f.hypotheses.length, f.first))})`,
  positive: (f, x) => {
    let [greatest, found] = [-Infinity, 0];
    for (const [number, score] of classScores(f, x).entries())
      if (score > greatest) [greatest, found] = [score, number];
    return found === ownClass(f, x);
  },
  label: () => 1,
};
/** @param {any} f @param {Features} x @returns {number[]} */
export const classScores = (f, x) => f.hypotheses.map((/** @type {Hypothesis} */ each) => each.score(x));

/** The class that stands in the features; -1: several are above 1/2, or none. @param {any} f @param {Features} x */
export function ownClass(f, x) {
  const held = range(f.hypotheses.length).filter((number) => x[f.first + number] > 0.5);
  return held.length === 1 ? held[0] : -1;
}

/** A score on another scale, with an intercept for each group. @type {Kind} */
const recalibrated = {
  nests: true,
  fields: {
    hypothesis: plainHypothesis,
    slope: real(0, 1e6, true),
    intercepts: list(weight, 1, Infinity),
    groups: [groupsForm, []],
  },
  check: (f) => f.intercepts.length !== groupCount(f.groups) && refuse("Recalibrated", "each group has an intercept"),
  inputs: (f) => sorted([...f.hypothesis.inputs, ...f.groups]),
  needs: (f) => Math.max(f.hypothesis.minFeatures, Math.max(-1, ...f.groups) + 1),
  margin: (f, x) =>
    single(clip(f.slope * f.hypothesis.score(x) + f.intercepts[groupOf(x, f.groups)], -GREATEST, GREATEST)),
};

/** @type {{[kind: string]: Kind}} */
export const kinds = {
  argmax,
  conjunction: {
    fields: { features: featureSet(1, 64) },
    inputs: (f) => f.features,
    positive: (f, x) => f.features.every((/** @type {number} */ feature) => x[feature] > 0.5),
  },
  constant: {
    fields: { label: oneOf(-1, 1) },
    inputs: () => [],
    rule: (f, names) => `the rule that ${names.labelled(f.label)} for everybody`,
    positive: (f) => f.label > 0,
  },
  "flipped-parity": {
    fields: { features: featureSet(0, 4096), first: place, bits: whole(1, 64), threshold: word(0n, 2n ** 64n - 1n) },
    inputs: (f) => sorted([...f.features, ...range(f.bits, f.first)]),
    positive: (f, x) => odd(f.features, x) !== pack(x.subarray(f.first, f.first + f.bits)) >= f.threshold,
  },
  linear,
  network,
  parity: {
    fields: { features: featureSet(0, 4096) },
    inputs: (f) => f.features,
    positive: (f, x) => odd(f.features, x),
  },
  recalibrated,
  regressor,
  relabelled,
  stump: {
    fields: { feature: place, threshold: weight, sign: oneOf(-1, 1) },
    inputs: (f) => [f.feature],
    positive: (f, x) => x[f.feature] > f.threshold === f.sign > 0,
  },
  trees,
};

/** A classifier h: features -> {-1, +1}. It is total: for any features it predicts one of both. */
export class Hypothesis {
  /** @param {string} kind @param {any} fields */
  constructor(kind, fields) {
    this.kind = kind;
    this.fields = fields;
    this.of = kinds[kind];
  }

  get wire() {
    return { kind: this.kind, ...write(this.of.fields, this.fields) };
  }

  /** Numbers of the features that a prediction looks at, ascending. */
  get inputs() {
    return this.of.inputs(this.fields);
  }

  /** Smallest number of features on which it is defined. */
  get minFeatures() {
    return this.of.needs ? this.of.needs(this.fields) : (this.inputs.at(-1) ?? -1) + 1;
  }

  /** What it predicts from what, for a person who is asked about it. @param {Names} names */
  rule(names) {
    const usual = () => `a rule that predicts ${this.target(names)} from ${names.among(this.inputs)}`;
    return this.of.rule ? this.of.rule(this.fields, names) : usual();
  }

  /** @param {Names} names */
  target(names) {
    return this.of.target ? this.of.target(this.fields, names) : names.ofLabel;
  }

  /** @param {Features} x @returns {number} -1 or +1 */
  predict(x) {
    return (this.of.positive ? this.of.positive(this.fields, x) : this.margin(x) > 0) ? 1 : -1;
  }

  /** How far it is on the positive side, in float32. @param {Features} x @returns {number} */
  margin(x) {
    return this.of.margin ? this.of.margin(this.fields, x) : this.predict(x);
  }

  /** What to compare with other hypotheses' scores. @param {Features} x */
  score(x) {
    return this.of.score ? this.of.score(this.fields, x) : this.margin(x);
  }

  /** The prediction as a number in [0, 1]. @param {Features} x */
  value(x) {
    return this.of.value ? this.of.value(this.fields, x) : clip(known((1 + this.margin(x)) / 2, 0.5), 0, 1);
  }

  /** The number in [0, 1] that the value is held against. @param {Record} record */
  response(record) {
    return this.of.response ? this.of.response(this.fields, record.features) : (1 + this.label(record)) / 2;
  }

  /** The label that it is held against. @param {Record} record */
  label(record) {
    return this.of.label ? this.of.label(this.fields, record.features) : record.label;
  }

  /** @param {Record} record */
  mistake(record) {
    return this.predict(record.features) === this.label(record) ? 0 : 1;
  }
}

/** @param {any} wire @param {string} [where] @returns {Hypothesis} or a Refusal: `bad-message`, `policy` */
export function parseHypothesis(wire, where = "hypothesis") {
  if (isObject(wire) && wire.kind === FOREIGN)
    throw new Refusal("policy", `hypothesis kind '${FOREIGN}' is not accepted`);
  const kind = kindOf(kinds, wire, "kind", "hypothesis");
  const fields = read(kind.fields, wire, where, "kind");
  kind.check?.(fields);
  return new Hypothesis(wire.kind, fields);
}

/** A hypothesis that can be part of another. @param {any} wire @param {string} where @returns {Hypothesis} */
export function plainHypothesis(wire, where) {
  const fits = isObject(wire) && Object.hasOwn(kinds, wire.kind) && !kinds[wire.kind].nests;
  return fits ? parseHypothesis(wire, where) : refuse(where, "no hypothesis of a kind that can be part of another");
}

/** A half-space, which need not say its kind. @param {any} wire @param {string} where @returns {Hypothesis} */
export function halfSpace(wire, where) {
  const found = parseHypothesis(isObject(wire) ? { kind: "linear", ...wire } : wire, where);
  return found.kind === "linear" ? found : refuse(where, "no half-space");
}
