/**
 * Queries: bounded questions about one record, as data (common/local/queries). A query is parsed in full, or refused;
 * its value is in [0, 1], or an item below its domain, whatever the record is. A kind is a row of a table; `f` are a
 * query's fields, `x` the features of one record.
 *
 * @typedef {import("./hypotheses.js").Record} Record
 * @typedef {import("./hypotheses.js").Features} Features
 * @typedef {import("./words.js").Names} Names
 *
 * @typedef {object} Kind see Query for what these are
 * @property {import("./values.js").Fields} fields
 * @property {(f: any) => void} [check] refuses fields that do not fit together
 * @property {(f: any) => bigint} [domain]
 * @property {(f: any) => number} [needs] by default what the hypothesis needs
 * @property {(f: any) => number[]} [columns]
 * @property {(f: any, slot: number) => number} [part]
 * @property {(f: any, names: Names, slot: number) => string} asks
 * @property {(f: any, x: Features, label: number, slot: number) => number | bigint} value
 */

import { clip, exp, known, logistic, sum, weighted } from "./elementary.js";
import { GREATEST, MAX_CLASSES, classScores, featureSet, halfSpace, ownClass, pack } from "./hypotheses.js";
import { parseHypothesis, plainHypothesis, product, range, sorted, weight } from "./hypotheses.js";
import { boundForm, cellsForm, costWeights, costsForm, itemCount, itemOf, lossForm, lossOf } from "./losses.js";
import { parity, publicWord } from "./mechanisms.js";
import { flag, kindOf, list, object, optional, read, real, refuse, whole, word, write } from "./values.js";
import { general, grouped } from "./words.js";

const column = whole(0, (1 << 20) - 1);
const positive = real(0, Infinity, true);
const publicForm = word(0n, 2n ** 63n - 1n);
const hypothesis = parseHypothesis;
/** @type {import("./values.js").Fields} */
const scaled = { center: [weight, 0], spread: [optional(real(0, GREATEST, true)), null, "omitted"] };

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

// Queries about the whole number that some features are the bits of, the item. Features above 0 are ones.
/** @type {import("./values.js").Fields} */
const bitsFields = { first: [whole(0, 1 << 20), 0], bits: whole(1, 64) };
/** @type {import("./values.js").Fields} */
const frequencyFields = { public: [publicForm, 0n], ...bitsFields };
const ofBits = {
  /** @param {any} f */
  needs: (f) => f.first + f.bits,
  /** @param {any} f */
  columns: (f) => range(f.bits, f.first),
};
/** @param {any} f @param {Names} names @param {number} [length] */
const conditions = (f, names, length = f.bits) => names.conditions(range(length, f.first));
/** @param {any} f @param {number} slot */
const own = (f, slot) => slot;
/** @param {any} f @param {number} slot */
const lengthOf = ({ bits, prefixes }, slot) => (prefixes.length ? prefixes[slot % prefixes.length] : bits);

/** @type {Kind} */
const item = {
  ...ofBits,
  fields: { ...frequencyFields, prefixes: [list(whole(1, 64), 0, 64), []] },
  check: (f) => Math.max(...f.prefixes) > f.bits && refuse("ItemQuery", "a prefix is longer than an item"),
  domain: (f) => 1n << BigInt(f.prefixes.length ? Math.max(...f.prefixes) : f.bits),
  part: own,
  asks: (f, names, slot) => {
    const length = lengthOf(f, slot);
    const which = `as one of ${grouped(1n << BigInt(length))} combinations`;
    return `which of these are true of you, ${which}: ${conditions(f, names, length)}`;
  },
  value: (f, x, _, slot) => pack(x) >> BigInt(f.bits - lengthOf(f, slot)),
};

/** @type {Kind} */
const listed = {
  ...ofBits,
  fields: { ...frequencyFields, items: list(word(0n, 2n ** 64n - 1n), 1, 1 << 12) },
  check: (f) => new Set(f.items).size < f.items.length && refuse("ListedQuery", "an item is listed twice"),
  domain: (f) => BigInt(f.items.length + 1),
  part: own,
  asks: (f, names) => {
    const which = `which of ${grouped(f.items.length)} listed combinations is yours, or none of them`;
    return `${which}, of: ${conditions(f, names)}`;
  },
  value: (f, x) => BigInt([...f.items, pack(x)].indexOf(pack(x))),
};

/** @type {Kind} */
const threshold = {
  ...ofBits,
  fields: { ...bitsFields, below: word(1n, 2n ** 64n - 1n) },
  check: (f) => f.below >> BigInt(f.bits) && refuse("ThresholdQuery", "a threshold above every item"),
  asks: (f, names) =>
    `whether a binary number of ${f.bits} digits is below ${grouped(f.below)}: its digits are 1 where these are true ` +
    `of you, else 0: ${conditions(f, names)}. The value is 1 if so, else 0`,
  value: (f, x) => Number(pack(x) < f.below),
};

/** Columns of the sign, where it is a feature, and of the presence. @param {any} f */
const further = (f) => [f.sign, f.present].filter((each) => typeof each === "number");
/** One bit of an item's Hadamard code: which one is public. @type {Kind} */
const code = {
  fields: {
    public: publicForm,
    first: column,
    bits: whole(1, 63),
    sign: [optional((value, where) => (value === "label" ? value : column(value, where))), null],
    present: [optional(column), null],
  },
  needs: (f) => Math.max(f.first + f.bits, ...further(f).map((each) => each + 1)),
  columns: (f) => [...range(f.bits, f.first), ...further(f)],
  part: own,
  asks: (f, names, slot) => {
    const row = rowOf(f, f.bits, slot);
    const ones = range(f.bits).filter((place) => (row >> BigInt(f.bits - 1 - place)) & 1n);
    const chosen = ones.map((place) => f.first + place);
    if (typeof f.sign === "number") chosen.push(f.sign);
    const label = f.sign === "label" ? [names.labelled(1)] : [];
    const odd = `whether an odd number of these are true of you: ${names.conditions(chosen, ...label)}`;
    const asked = `${odd}. The value is 1 if so, else 0`;
    const none = "nothing about you, the value is 0 for everybody";
    const what = chosen.length || label.length ? asked : none;
    return f.present === null ? what : `${what}, but 1/2 unless ${names.above(f.present)}`;
  },
  value: (f, x, label, slot) => {
    const signed = f.sign === "label" ? label > 0 : f.sign !== null && x[f.bits] > 0;
    const value = parity(pack(x.subarray(0, f.bits)) & rowOf(f, f.bits, slot)) ^ Number(signed);
    return f.present === null || x[x.length - 1] > 0 ? value : 0.5;
  },
};
/** A slot's row of a code. @param {any} f @param {number} bits @param {number} slot */
const rowOf = (f, bits, slot) => BigInt.asUintN(bits, publicWord(f.public, slot));

/** @param {any} f @param {number} slot */
const scoreRow = (f, slot) => rowOf(f, (itemCount(f.cells) - 1).toString(2).length, slot);
/** @type {Kind} */
const score = {
  fields: { public: publicForm, cells: cellsForm },
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
  fields: { hypothesis, chosen: [list(whole(0, MAX_CLASSES - 1), 0, MAX_CLASSES), []], spread: scaled.spread },
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
const kinds = {
  "class-residual": classResidual,
  code,
  coordinate,
  expression,
  gradient,
  item,
  listed,
  loss,
  moment,
  pair,
  residual,
  "response-residual": responseResidual,
  score,
  threshold,
};
export const KINDS = Object.keys(kinds);

/** A map from one record, and the agent's public slot, to a value in [0, 1] or an item. */
class Query {
  /** @param {string} kind @param {any} fields */
  constructor(kind, fields) {
    this.kind = kind;
    this.fields = fields;
    this.of = kinds[kind];
  }

  get wire() {
    return { kind: this.kind, ...write(this.of.fields, this.fields) };
  }

  /** Number of items, of a query that says an item; null of one that says a value. */
  get domain() {
    return this.of.domain ? this.of.domain(this.fields) : null;
  }

  /** Smallest number of features that a record must have. @returns {number} */
  get minFeatures() {
    return this.of.needs ? this.of.needs(this.fields) : this.fields.hypothesis.minFeatures;
  }

  /** The features that it reads; null: as many as it needs, from the first on. */
  get columns() {
    const found = this.of.columns ? this.of.columns(this.fields) : [];
    return found.length ? found : null;
  }

  /** Which part of the query a slot is asked: alike where the same is asked. @param {number} slot */
  part(slot) {
    return this.of.part ? this.of.part(this.fields, slot) : 0;
  }

  /** The slot's public word, for the mechanisms that need one. @param {number} slot */
  public(slot) {
    return publicWord(this.fields.public ?? 0n, slot);
  }

  /** What is asked, in plain words: a clause. @param {Names} names @param {number} slot */
  asks(names, slot) {
    return this.of.asks(this.fields, names, slot);
  }

  /**
   * Return the bounded value of a record, of which the features are those of `columns`; what cannot be computed is 0.
   * @param {Record} record
   * @param {number} slot
   * @returns {number | bigint}
   */
  evaluate({ features, label }, slot) {
    const most = this.domain;
    try {
      const value = this.of.value(this.fields, features, label, slot);
      if (most === null) return clip(known(Number(value)), 0, 1);
      return BigInt(value) < most ? BigInt(value) : most - 1n;
    } catch {
      return most === null ? 0 : 0n;
    }
  }
}

/** @param {any} wire @returns {Query} or a Refusal: `bad-message`, `policy` */
export function parseQuery(wire) {
  const kind = kindOf(kinds, wire, "kind", "query");
  const fields = read(kind.fields, wire, "query", "kind");
  kind.check?.(fields);
  return new Query(wire.kind, fields);
}

/**
 * Return the bounded value that a query says about a person.
 * @param {Query} query
 * @param {Record} record with all its features
 * @param {number} slot
 */
export function valueOf(query, record, slot) {
  const read = query.columns?.map((column) => record.features[column]) ?? record.features;
  const features = record.features instanceof Uint8Array ? Uint8Array.from(read) : Float32Array.from(read);
  return query.evaluate({ features, label: record.label }, slot);
}
