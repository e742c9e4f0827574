/**
 * One person's record from the fields that the person knows: to the bit, as `record_of` of common/data/tables.py makes it.
 *
 * The schema is the public one that `local-agent page` writes (local_agent/page.py, `public_schema`): `values` are texts
 * as they are listed, and `texts`, where they are others, the canonical ones that mean them. A feature of texts has one
 * 0/1 number for each list of them. Errors name columns, never what a field holds.
 *
 * @typedef {{kind: "number", column: string, low: number, high: number, fill: number, values?: undefined}} NumberFeature
 * @typedef {{kind: "category" | "missing", column: string, values: string[][], texts?: string[][]}} TextFeature
 * @typedef {{column: string, positive: string[], negative: string[], above: number | null, texts?: string[][]}} Label
 * @typedef {{features: (NumberFeature | TextFeature)[], label: Label, missing: string[], norm: number | null,
 *   where: Record<string, {values: string[], texts?: string[]}>, decimal: string, marks: string | null}} Schema
 */

import { known } from "./elementary.js";
import { fail } from "./values.js";

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const PARTS = /^([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,5}))?$/;
const MOMENT =
  /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d))?(?:\.(\d+))? ?(Z|UTC|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?$/;
const CLOCK = /^(\d\d:\d\d:\d\d)\.(\d+)$/;
// What Python's str.strip removes.
const SPACE = String.raw`[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]`;
// Spaces within a text are looked at once: without the look behind each of them would begin a search for the end.
const OUTSIDE = new RegExp(`^${SPACE}+|(?<!${SPACE})${SPACE}+$`, "g");
const [LEAST, MOST] = [-20, 40]; // numbers from 10^-21 to 10^40 are written without an exponent

/** @type {(detail: string) => never} */
const bad = (detail) => fail("bad-data", detail);

/** @param {string} text of a number, as {@link NUMBER} describes it */
function decimal(text) {
  const parts = PARTS.exec(text);
  if (parts === null) return text; // its exponent is absurd
  const [, sign, whole, fraction, exponent] = parts;
  const digits = (whole + fraction).replace(/^0+/, "");
  const point = digits.length - fraction.length + Number(exponent ?? 0); // 0.DIGITS times 10^point
  const significant = digits.replace(/0+$/, "");
  if (significant === "") return "0";
  const far = point < LEAST || point > MOST;
  const all = far ? significant : "0".repeat(Math.max(-point, 0)) + significant.padEnd(point, "0");
  const at = far ? 1 : Math.max(point, 0);
  const [before, after] = [all.slice(0, at) || "0", all.slice(at)];
  return `${sign.replace("+", "")}${before}${after && `.${after}`}${far ? `e${point - 1}` : ""}`;
}

const withFraction = (/** @type {string} */ time, /** @type {string} */ fraction) =>
  `${time}.${fraction}`.replace(/\.?0*$/, "");

/** @param {string} text @param {(string | undefined)[]} parts */
function moment(text, [year, month, day, hour, minute, second = "0", fraction = "", zone]) {
  const [y, mo, d, h, mi, s] = [year, month, day, hour, minute, second].map(Number);
  const at = new Date(0);
  at.setUTCFullYear(y, mo - 1, d);
  if (y < 1 || at.getUTCMonth() !== mo - 1 || at.getUTCDate() !== d || h > 23 || mi > 59 || s > 59) return text;
  at.setUTCHours(h, mi, s);
  if (zone && /\d/.test(zone)) {
    const [hours, minutes, seconds] = [1, 3, 5].map((from) => Number(zone.replaceAll(":", "").slice(from, from + 2)));
    const offset = 1000 * (3600 * hours + 60 * minutes + seconds);
    at.setTime(at.getTime() + (zone[0] === "-" ? offset : -offset));
    if (at.getUTCFullYear() < 1 || at.getUTCFullYear() > 9999) return text;
  }
  const utc = withFraction(at.toISOString().slice(0, 19), fraction);
  return zone === undefined ? utc.replace(/T00:00:00$/, "") : `${utc}Z`;
}

/** Return the canonical text of a field that is a text (common/data/spelling.py): one value has one text. */
function canonical(/** @type {string} */ text) {
  const bare = text.replace(OUTSIDE, "");
  if (/^(true|false)$/i.test(bare)) return bare.toLowerCase();
  if (NUMBER.test(bare)) return decimal(bare);
  const [moments, clock] = [MOMENT.exec(bare), CLOCK.exec(bare)];
  return moments ? moment(bare, moments.slice(1)) : clock ? withFraction(clock[1], clock[2]) : bare;
}

/** Return a number as others write it, with a decimal point alone. @param {string} text @param {Schema} schema */
function pointed(text, { decimal: point, marks }) {
  if (marks === null) return text;
  const grouped = marks && String.raw`\d{1,3}(?<mark>[${marks.replace(/[\\\]^-]/g, String.raw`\$&`)}])\d{3}(?:\k<mark>\d{3})*|`;
  const form = String.raw`^(?<sign>[+-]?)(?<whole>${grouped}\d*)(?:[${point}](?<fraction>\d*))?(?<exponent>(?:[eE][+-]?\d+)?)$`;
  const { sign, whole, fraction, exponent } = new RegExp(form).exec(text.replace(OUTSIDE, ""))?.groups ?? {};
  return whole || fraction ? `${sign}${whole.replace(/\D/g, "")}.${fraction ?? ""}${exponent}` : text;
}

function textOf(/** @type {string} */ column, /** @type {unknown} */ value, /** @type {Schema} */ schema) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value === "string") return canonical(pointed(value, schema));
  if (!["boolean", "bigint", "number"].includes(typeof value))
    bad(`field '${column}' must be a number, a text, a boolean or null`);
  return canonical(String(value).replace("Infinity", "inf"));
}

function numberOf(/** @type {string} */ column, /** @type {string} */ text, /** @type {Schema} */ schema) {
  if (schema.missing.includes(text)) return NaN;
  if (!NUMBER.test(text) || !Number.isFinite(Number(text))) bad(`field '${column}' must be a finite number`);
  return Number(text);
}

/** Return a sum as NumPy adds (pairwise sum, loops_utils.h.src). @param {number[]} terms @returns {number} */
function pairwise(terms) {
  if (terms.length > 128) {
    const half = terms.length >> 1;
    const first = half - (half % 8);
    return pairwise(terms.slice(0, first)) + pairwise(terms.slice(first));
  }
  const end = terms.length - (terms.length % 8);
  const lanes = terms.slice(0, 8);
  for (let at = 8; at < end; at++) lanes[at % 8] += terms[at];
  const [a, b, c, d, e, f, g, h] = lanes;
  const begun = end ? a + b + (c + d) + (e + f + (g + h)) : 0;
  return terms.slice(end).reduce((sum, term) => sum + term, begun);
}

/** @param {Schema} schema */
export const columnsOf = ({ features, label, where }) =>
  [...new Set([...[...features, label].map((each) => each.column), ...Object.keys(where)])].sort();

/** @param {Schema} schema */
export const dimension = ({ features }) => features.reduce((sum, { values }) => sum + (values?.length ?? 1), 0);

/**
 * Return the record of one person; Refusal `bad-data`, if a field is missing altogether, a number is none, the label is
 * neither, or the person is none of those that `where` keeps.
 * @param {Record<string, unknown>} fields by column: numbers, texts, booleans; null where a value is not known
 * @param {Schema} schema
 */
export function recordOf(fields, schema) {
  const columns = columnsOf(schema);
  const absent = columns.find((column) => !Object.hasOwn(fields, column));
  if (absent !== undefined) bad(`the record has no field '${absent}'; it needs ${columns.join(", ")}`);
  const texts = Object.fromEntries(columns.map((column) => [column, textOf(column, fields[column], schema)]));
  for (const [column, { values, texts: kept = values }] of Object.entries(schema.where))
    if (!kept.includes(texts[column]))
      bad(`field '${column}': the scenario asks people only with one of ${values.join(", ")}`);
  let numbers = schema.features.flatMap((feature) => {
    const text = texts[feature.column];
    if (feature.values) return (feature.texts ?? feature.values).map((means) => Number(means.includes(text)));
    const { column, low, high, fill } = feature;
    const share = (numberOf(column, text, schema) - low) / (high - low);
    return [share < 0 ? 0 : Math.min(known(share, (fill - low) / (high - low)), 1)];
  });
  if (schema.norm !== null) {
    const length = Math.sqrt(pairwise(numbers.map((number) => number * number)));
    const shortening = Math.min(1, (schema.norm * (1 - 2 ** -23)) / Math.max(length, schema.norm / 2));
    numbers = numbers.map((number) => number * shortening);
  }
  return { features: Float32Array.from(numbers), label: labelOf(texts[schema.label.column], schema) };
}

function labelOf(/** @type {string} */ text, /** @type {Schema} */ schema) {
  const { column, positive, negative, above, texts = [positive, negative] } = schema.label;
  const number = above === null ? 0 : numberOf(column, text, schema);
  if (Number.isNaN(number)) bad(`field '${column}': the label is missing`);
  if (above !== null) return number > above ? 1 : -1;
  const place = texts.findIndex((means) => means.includes(text));
  if (place < 0) bad(`field '${column}': the label must be one of ${[...positive, ...negative].join(", ")}`);
  return 1 - 2 * place;
}
