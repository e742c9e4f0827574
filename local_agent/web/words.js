/**
 * What a person reads: columns by their names, what an answer costs, and the question that they agree to. Every text is
 * the one that the terminal shows (common/local/naming.py, common/privacy/guarantee.py, local_agent/person/consent.py).
 */

import { exp, expBelow } from "./elementary.js";
import { flag, isObject, list, object, optional, read, real, refuse, text, write } from "./values.js";

const LISTED = 6; // columns, or conditions, that one sentence names
const LONGEST = 40; // characters that are shown of one name
const PURPOSE = 200; // characters that are shown of a run's title
const MAX_EPSILON = 700;
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu; // not seen, or changes how others are seen

export const SCALED = "scaled to a number from 0 to 1";

/** Return a stranger's text in one line; what is no visible character stands as its number. @param {string} text */
export const plain = (text) =>
  text.replace(HIDDEN, (character) => {
    const number = Number(character.codePointAt(0));
    const [letter, width] = number < 0x100 ? ["x", 2] : number < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${letter}${number.toString(16).padStart(width, "0")}`;
  });

/** Return a number with so many significant digits, half to even, as Python's `:.6g`. @param {number} x */
export function general(x, digits = 6) {
  if (!Number.isFinite(x)) return String(x).replace("Infinity", "inf").replace("NaN", "nan");
  if (x === 0) return Object.is(x, -0) ? "-0" : "0";
  const near = rounded(x, digits);
  if (1e-4 <= Math.abs(near) && Math.abs(near) < 10 ** digits) return String(near);
  return scientific(near, digits).replace(/\.?0+e/, "e");
}

/** Return the nearest number, or one further from 0, of so many digits. @param {number} x @param {number} digits */
function rounded(x, digits, upwards = false) {
  const [long, power] = x.toExponential(60).split("e"); // exact where a tie is possible
  const all = BigInt(long.replace(/\D/g, ""));
  const unit = 10n ** BigInt(61 - digits);
  const [whole, rest] = [all / unit, all % unit];
  const up = upwards ? rest > 0n : 2n * rest > unit || (2n * rest === unit && whole % 2n === 1n);
  return Math.sign(x) * Number(`${up ? whole + 1n : whole}e${Number(power) - digits + 1}`);
}

/** Return a privacy loss in six digits, rounded up but for what doubles add to a decimal. @param {number} x */
const stated = (x) => general(x < Infinity && rounded(x, 6) < x * (1 - 1e-9) ? rounded(x, 6, true) : x);

const scientific = (/** @type {number} */ x, /** @type {number} */ digits) =>
  x.toExponential(digits - 1).replace(/(?<=e[+-])(?=\d$)/, "0");

/** Return a whole number with a comma before each three digits. @param {number | bigint} number */
export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

/** A stranger's name in quotation marks that it cannot end itself. @param {string} name */
function quoted(name, most = LONGEST) {
  const characters = [...name];
  const shortened = characters.length <= most ? name : characters.slice(0, most).join("") + "...";
  return `"${shortened.replaceAll('"', "'")}"`;
}

function listed(/** @type {string[]} */ parts, word = "and") {
  const [most, more] = parts.length > LISTED ? [LISTED - 1, parts.length - LISTED + 1] : [parts.length - 1, 0];
  const last = more ? `${grouped(more)} others` : parts[most];
  return parts.length ? [parts.slice(0, most).join(", "), last].filter(Boolean).join(` ${word} `) : "nothing";
}

/** @param {string} column @param {string[]} values */
const is = (column, values) => `${quoted(column)} is ${listed(values.map((value) => quoted(value)), "or")}`;

const texts = list(text, 0, 1 << 12);
const column = object({ column: text, values: [texts, []], low: [real(), 0], high: [real(), 1] });

/** The names of a record's features, in order, and of its label; without any, features have their numbers. */
export class Names {
  static fields = /** @type {import("./values.js").Fields} */ ({
    features: [list(column, 0, 1 << 16), []],
    label: [text, ""],
    positive: [texts, []],
    negative: [texts, []],
    above: [optional(real()), null],
    shortened: [flag, false],
  });

  constructor(/** @type {any} */ wire) {
    this.fields = read(Names.fields, wire, "Names");
    this.ofLabel = this.fields.label ? quoted(this.fields.label) : "the label of your record";
  }

  get wire() {
    return write(Names.fields, this.fields);
  }

  column(/** @type {number} */ feature) {
    const field = this.fields.features[feature];
    return field ? quoted(field.column) : `number ${feature + 1} of your record`;
  }

  /** Return the columns that some features come from, each once. */
  among(/** @type {number[]} */ features) {
    if (this.fields.features.length || features.length < 2)
      return listed([...new Set(features.map((feature) => this.column(feature)))]);
    const numbers = features.map((feature) => String(feature + 1));
    const row = features.every((feature, at) => feature === features[0] + at);
    return `numbers ${row ? `${numbers[0]} to ${numbers.at(-1)}` : listed(numbers)} of your record`;
  }

  /** What it means that a feature is above a share of 1, in [0, 1). @param {number} feature */
  above(feature, share = 0) {
    const field = this.fields.features[feature];
    if (!field || (this.fields.shortened && share > 0)) return `${this.column(feature)} is above ${general(share)}`;
    if (field.values.length) return is(field.column, field.values);
    return `${quoted(field.column)} is above ${general(field.low + share * (field.high - field.low))}`;
  }

  /** Return what a feature is in a product. */
  factor(/** @type {number} */ feature) {
    const field = this.fields.features[feature];
    return field?.values.length ? `(1 if ${this.above(feature)}, else 0)` : this.column(feature);
  }

  /** @param {number[]} features @param {string[]} more */
  conditions = (features, ...more) => listed([...features.map((feature) => this.above(feature)), ...more]);

  /** Return what a label of -1 or +1 means, as a condition. */
  labelled(/** @type {number} */ label) {
    const { above, positive, negative } = this.fields;
    if (above !== null) return `${this.ofLabel} is ${label > 0 ? `above ${general(above)}` : `${general(above)} or less`}`;
    const values = label > 0 ? positive : negative;
    return values.length ? is(this.fields.label, values) : `${this.ofLabel} is ${label > 0 ? "+1" : "-1"}`;
  }
}

/** Return the names that the JSON form of a table gives; refused (`bad-message`) if it is none. @param {any} table */
export function namesOfTable(table) {
  if (!isObject(table) || !Array.isArray(table.features) || !isObject(table.label)) refuse("table", "no table");
  const { column, positive = [], negative = [], above = null } = table.label;
  const features = table.features.flatMap(/** @returns {any[]} */ (/** @type {any} */ feature) => {
    if (!isObject(feature)) refuse("table", "not a column");
    const { kind, column, values, low, high } = feature;
    if (kind === "missing") return [{ column, values: ["missing"] }];
    if (!("values" in feature)) return [{ column, low, high }];
    if (!Array.isArray(values)) refuse("table", "not a list of values");
    return values.map((value) => ({ column, values: typeof value === "string" ? [value] : value }));
  });
  return new Names({ features, label: column, positive, negative, above, shortened: (table.norm ?? null) !== null });
}

/** The names that a scenario gives its records; none where these are no rows of a table. @param {any} scenario */
export function namesIn(scenario) {
  try {
    return namesOfTable(scenario.target.table);
  } catch {
    return new Names({});
  }
}

/** Tell whether names, also in their JSON form, are the same. @param {any} one @param {Names} other */
export const sameNames = (one, other) => JSON.stringify(new Names(one.wire ?? one).wire) === JSON.stringify(other.wire);

/** Say what holds for an answer; all numbers are rounded up. @param {[number, number]} pair epsilon and delta */
function inWords([epsilon, delta]) {
  if (!Number.isFinite(epsilon)) return "no guarantee. Nothing is promised.";
  const [least, one] = expBelow(Math.min(epsilon, MAX_EPSILON));
  const factor = Number((100n * least + one - 1n) / one) / 100;
  const [whole, cents] = factor.toFixed(2).split(".");
  const times = factor < 1e6 ? `${grouped(BigInt(whole))}.${cents}` : scientific(rounded(factor, 2, true), 2);
  const end = delta ? `, apart from a probability of ${stated(delta)} (delta).` : "; there is no delta.";
  // How often a guess between two records is right, given an answer, is bounded by (1 + delta e^-eps)/(1 + e^-eps).
  const small = exp(-Math.min(epsilon, MAX_EPSILON));
  const guess = Math.min(1, Math.ceil(((1 + delta * small) / (1 + small)) * 1e4 * (1 + 1e-14)) / 1e4);
  return (
    `(${stated(epsilon)}, ${stated(delta)})-differential privacy. ` +
    `If one person's record were another, no outcome would be more than ${times} times as likely ` +
    `(e to the epsilon = ${stated(epsilon)})${end}` +
    " Somebody who held two records for equally likely to be yours, and sees the answer, guesses right with " +
    `probability ${general(guess, 4)} at most (without it: 0.5).`
  );
}

/**
 * Return a question in plain words, for the person whom it is about: titles and texts.
 * @param {import("./policy.js").Question} question @param {string} address the referee's
 * @param {import("./types/agent.d.ts").Rules} policy @param {number} left of the lifetime epsilon
 * @returns {{[title: string]: string}}
 */
export function described(question, address, policy, left) {
  const { assignment: asked, slot, mechanism, query, names, purpose } = question;
  const [epsilon, whole] = [mechanism.guarantee[0], policy.epsilon];
  const after = Number.isFinite(epsilon) ? Math.max(0, left - epsilon) : 0;
  const spent = left < whole ? stated(whole - left) : "nothing";
  const named = names.fields.features.length
    ? "The columns are named as the referee names them: see that your record was made for this scenario."
    : "The scenario of the run names no columns.";
  const origin = question.ownNames ? "These are the columns that your record was made for." : named;
  const parts = {
    "Who asks":
      `the referee at ${address}, in run '${asked.run}', question ${asked.question}; its key is ${policy.referee}, ` +
      "and this agent listens to no other",
    Purpose: `${quoted(purpose, PURPOSE)}, in the words of the referee`,
    "What is asked": `${query.asks(names, slot)}. ${origin}`,
    "What could leave": `${mechanism.leaves(query.domain)} Nothing else about your record leaves.`,
    "What it costs": inWords(mechanism.guarantee),
    "Lifetime budget":
      `epsilon ${general(whole)}; ${spent} of it is spent so far. This answer spends ${stated(epsilon)}; ` +
      `${general(after)} would be left for further answers. All answers together are protected by the sum of what ` +
      "they cost.",
    "Please note":
      "the referee learns whether you agree. Decide by what is asked and what it costs, not by what your record " +
      "would answer.",
  };
  return Object.fromEntries(Object.entries(parts).map(([title, text]) => [title, plain(text)]));
}
