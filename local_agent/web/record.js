/**
 * One person's record from the fields that the person knows: to the bit, as `record_of` of common/data/tables.py makes it.
 *
 * The schema is the public one that `local-agent page` writes (local_agent/page.py): `values` are texts as they are
 * listed, and `texts` the canonical ones that mean them. A feature of texts has one 0/1 number for each list of them.
 * Errors name columns, never what a field holds.
 *
 * @typedef {{kind: "number", column: string, low: number, high: number, fill: number}} NumberFeature
 * @typedef {{kind: "category" | "missing", column: string, values: string[][], texts: string[][]}} CategoryFeature
 * @typedef {{
 *   features: (NumberFeature | CategoryFeature)[],
 *   label: {column: string, positive: string[], negative: string[], above: number | null, texts: [string[], string[]]},
 *   where: Record<string, {values: string[], texts: string[]}>,
 *   missing: string[],
 *   norm: number | null,
 *   decimal: string,
 *   marks: string | null,
 * }} Schema
 * @typedef {{features: Float32Array<ArrayBuffer>, label: -1 | 1}} PersonRecord
 */

import { Refusal } from "./errors.js";

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const PARTS = /^([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,5}))?$/;
const MOMENT =
  /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d))?(?:\.(\d+))? ?(Z|UTC|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?$/;
const CLOCK = /^(\d\d:\d\d:\d\d)\.(\d+)$/;
const SPACES = /^[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;
const [LEAST, MOST] = [-20, 40]; // numbers from 10^-21 to 10^40 are written without an exponent

/**
 * @param {string} detail
 * @returns {never}
 */
function bad(detail) {
  throw new Refusal("bad-data", detail);
}

/** @param {string} text */
function stripped(text) {
  const begun = text.replace(SPACES, "");
  const turned = [...begun].reverse().join("").replace(SPACES, "");
  return [...turned].reverse().join("");
}

/** @param {string} text of a number, as {@link NUMBER} describes it */
function decimal(text) {
  const parts = PARTS.exec(text);
  if (parts === null) return text; // its exponent is absurd
  const [, sign, whole, fraction, exponent] = parts;
  const digits = whole + fraction;
  let significant = digits.replace(/^0+/, "");
  const point = whole.length - (digits.length - significant.length) + Number(exponent ?? 0); // 0.DIGITS times 10^point
  significant = significant.replace(/0+$/, "");
  if (significant === "") return "0";
  const minus = sign === "-" ? "-" : "";
  if (point < LEAST || point > MOST)
    return `${minus}${significant[0]}${significant.length > 1 ? `.${significant.slice(1)}` : ""}e${point - 1}`;
  if (point <= 0) return `${minus}0.${"0".repeat(-point)}${significant}`;
  if (point >= significant.length) return minus + significant.padEnd(point, "0");
  return `${minus}${significant.slice(0, point)}.${significant.slice(point)}`;
}

/** @param {string} time @param {string} fraction */
function withFraction(time, fraction) {
  const rest = fraction.replace(/0+$/, "");
  return rest ? `${time}.${rest}` : time;
}

/**
 * @param {string} text
 * @param {(string | undefined)[]} parts
 */
function moment(text, [year, month, day, hour, minute, second, fraction, zone]) {
  const [y, mo, d, h, mi, s] = [year, month, day, hour, minute, second ?? 0].map(Number);
  const at = new Date(0);
  at.setUTCFullYear(y, mo - 1, d);
  if (y < 1 || at.getUTCMonth() !== mo - 1 || at.getUTCDate() !== d || h > 23 || mi > 59 || s > 59) return text;
  at.setUTCHours(h, mi, s);
  if (zone !== undefined && zone !== "Z" && zone !== "UTC") {
    const [hours, minutes, seconds] = [1, 3, 5].map((from) => Number(zone.replaceAll(":", "").slice(from, from + 2)));
    const offset = 1000 * (3600 * hours + 60 * minutes + seconds);
    at.setTime(at.getTime() + (zone[0] === "-" ? offset : -offset));
    if (at.getUTCFullYear() < 1 || at.getUTCFullYear() > 9999) return text;
  }
  const found = withFraction(at.toISOString().slice(0, 19), fraction ?? "");
  return zone === undefined ? found.replace(/T00:00:00$/, "") : `${found}Z`;
}

/**
 * Return the canonical text of a field that is a text (common/data/spelling.py): one value has one text.
 * @param {string} text
 */
export function canonical(text) {
  const bare = stripped(text);
  if (/^[-+.0-9]/.test(bare)) {
    if (NUMBER.test(bare)) return decimal(bare);
    const found = MOMENT.exec(bare);
    if (found) return moment(bare, found.slice(1));
    const clock = CLOCK.exec(bare);
    return clock ? withFraction(clock[1], clock[2]) : bare;
  }
  return /^(true|false)$/i.test(bare) ? bare.toLowerCase() : bare;
}

/**
 * Return a text with a decimal point and without thousands, if it writes a number as the schema says; else as it is.
 * @param {string} text
 * @param {Schema} schema
 */
function pointed(text, { decimal: point, marks }) {
  if (marks === null) return text;
  const grouped = marks && String.raw`\d{1,3}(?<mark>[${marks.replace(/[\\\]^-]/g, String.raw`\$&`)}])\d{3}(?:\k<mark>\d{3})*|`;
  const form = String.raw`^(?<sign>[+-]?)(?<whole>${grouped}\d*)(?:[${point}](?<fraction>\d*))?(?<exponent>(?:[eE][+-]?\d+)?)$`;
  const { sign, whole, fraction, exponent } = new RegExp(form).exec(stripped(text))?.groups ?? {};
  return whole || fraction ? `${sign}${whole.replace(/\D/g, "")}.${fraction ?? ""}${exponent}` : text;
}

/**
 * @param {string} column
 * @param {unknown} value
 * @param {Schema} schema
 */
function textOf(column, value, schema) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value === "string") return canonical(pointed(value, schema));
  if (typeof value === "boolean") return String(value);
  if (typeof value === "bigint") return canonical(String(value));
  if (typeof value === "number") return canonical(String(value).replace("Infinity", "inf"));
  return bad(`field '${column}' must be a number, a text, a boolean or null`);
}

/** @param {string} column @param {string} text @param {Schema} schema */
function numberOf(column, text, schema) {
  if (schema.missing.includes(text)) return NaN;
  const number = NUMBER.test(text) ? Number(text) : NaN;
  return Number.isFinite(number) ? number : bad(`field '${column}' must be a finite number`);
}

/**
 * Return (x - low)/(high - low), clipped to [0, 1]; that of `fill` for no x.
 * @param {number} number
 * @param {NumberFeature} feature
 */
function scaled(number, { low, high, fill }) {
  const span = high - low;
  return Number.isNaN(number) ? (fill - low) / span : Math.min(Math.max((number - low) / span, 0), 1);
}

/**
 * Return a sum in the order in which NumPy adds (numpy/_core/src/umath/loops_utils.h.src, pairwise sum).
 * @param {number[]} terms
 * @returns {number}
 */
function pairwise(terms) {
  if (terms.length < 8) return terms.reduce((sum, term) => sum + term, 0);
  if (terms.length > 128) {
    const half = terms.length >> 1;
    const first = half - (half % 8);
    return pairwise(terms.slice(0, first)) + pairwise(terms.slice(first));
  }
  const [a, b, c, d, e, f, g, h] = Array.from({ length: 8 }, (_, lane) => {
    let sum = terms[lane];
    for (let at = lane + 8; at + 8 - lane <= terms.length; at += 8) sum += terms[at];
    return sum;
  });
  const rest = terms.slice(terms.length - (terms.length % 8));
  return rest.reduce((sum, term) => sum + term, a + b + (c + d) + (e + f + (g + h)));
}

/** @param {Schema} schema */
export const wanted = ({ features, label, where }) =>
  [...new Set([...[...features, label].map((each) => each.column), ...Object.keys(where)])].sort();

/** @param {Schema} schema */
export const dimension = ({ features }) =>
  features.reduce((sum, feature) => sum + (feature.kind === "number" ? 1 : feature.texts.length), 0);

/**
 * Return the record of one person; Refusal `bad-data`, if a field is missing altogether, a number is none, the label is
 * neither, or the person is none of those that `where` keeps.
 * @param {Record<string, unknown>} fields by column: numbers, texts, booleans; null where a value is not known
 * @param {Schema} schema
 * @returns {PersonRecord}
 */
export function recordOf(fields, schema) {
  const columns = wanted(schema);
  const absent = columns.find((column) => !Object.hasOwn(fields, column));
  if (absent !== undefined) bad(`the record has no field '${absent}'; it needs ${columns.join(", ")}`);
  const texts = Object.fromEntries(columns.map((column) => [column, textOf(column, fields[column], schema)]));
  for (const [column, kept] of Object.entries(schema.where))
    if (!kept.texts.includes(texts[column]))
      bad(`field '${column}': the scenario asks people only with one of ${kept.values.join(", ")}`);
  let numbers = schema.features.flatMap((feature) => {
    const text = texts[feature.column];
    if (feature.kind === "number") return [scaled(numberOf(feature.column, text, schema), feature)];
    return feature.texts.map((means) => (means.includes(text) ? 1 : 0));
  });
  if (schema.norm !== null) {
    const length = Math.sqrt(pairwise(numbers.map((number) => number * number)));
    const shortening = Math.min(1, (schema.norm * (1 - 2 ** -23)) / Math.max(length, schema.norm / 2));
    numbers = numbers.map((number) => number * shortening);
  }
  return { features: Float32Array.from(numbers), label: labelOf(texts, schema) };
}

/**
 * @param {Record<string, string>} texts
 * @param {Schema} schema
 * @returns {-1 | 1}
 */
function labelOf(texts, schema) {
  const { column, positive, negative, above, texts: means } = schema.label;
  const text = texts[column];
  if (above !== null) {
    const number = numberOf(column, text, schema);
    if (Number.isNaN(number)) bad(`field '${column}': the label is missing`);
    return number > above ? 1 : -1;
  }
  if (means[0].includes(text)) return 1;
  return means[1].includes(text) ? -1 : bad(`field '${column}': the label must be one of ${[...positive, ...negative].join(", ")}`);
}
