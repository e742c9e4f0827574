/** One byte string for each JSON value (RFC 8785), and JSON from strangers. Numbers are doubles. */

import { sha256hex, utf8 } from "./bytes.js";
import { demand } from "./errors.js";

const DEEPEST = 32; // levels of nesting
const MOST = 1 << 21; // values of a document: the commas of its text, and four for each bracket

/** @param {unknown} value of null, booleans, finite numbers, strings, arrays, plain objects @returns {string} */
function text(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number" && Number.isFinite(value)) return String(value); // -0 as 0
  if (typeof value === "string" && value.isWellFormed()) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(text).join(",")}]`;
  demand(typeof value === "object", "not a finite JSON value");
  const pairs = Object.entries(/** @type {object} */ (value)).filter(([, each]) => each !== undefined);
  pairs.sort(([one], [other]) => (one < other ? -1 : 1)); // by UTF-16 code units
  return `{${pairs.map(([key, each]) => `${text(key)}:${text(each)}`).join(",")}}`;
}

/** @param {unknown} value */
export const encode = (value) => utf8(text(value));

/** @param {unknown} value */
export const digest = (value) => sha256hex(encode(value));

/**
 * Read JSON; Refusal `bad-message` of a number that is no double, a key given twice, too deep, or too large.
 * @param {Uint8Array} raw @returns {any}
 */
export function decode(raw) {
  let values = 0;
  for (const byte of raw) values += byte === 0x5b || byte === 0x7b ? 4 : byte === 0x2c ? 1 : 0; // [ { ,
  demand(values <= MOST, `not acceptable JSON: more than ${MOST} values`);
  let source, value;
  try {
    source = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw);
    value = JSON.parse(source);
  } catch {
    demand(false, "not acceptable JSON");
  }
  let named = 0; // keys that the text gives: an object holds one of those that are alike
  for (const [token, colon] of source.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[^\s,\]}]*/g)) {
    if (colon) named += 1;
    const digits = token.startsWith('"') ? "" : token;
    const exact = /[.eE]/.test(digits) || Math.abs(Number(digits)) < 2 ** 53 || String(Number(digits)) === digits;
    demand(exact, "not acceptable JSON: an integer is no double");
  }
  demand(named === keysOf(value, 1), "not acceptable JSON: an object names a key twice");
  return value;
}

/** Count the keys in a value, and refuse what is too deep or not finite. @param {any} value @param {number} depth @returns {number} */
function keysOf(value, depth) {
  demand(typeof value !== "number" || Number.isFinite(value), "not acceptable JSON: a number is larger than every double");
  if (typeof value !== "object" || value === null) return 0;
  demand(depth <= DEEPEST, `not acceptable JSON: nested more than ${DEEPEST} levels deep`);
  const inner = Object.values(value);
  return inner.reduce((sum, each) => sum + keysOf(each, depth + 1), Array.isArray(value) ? 0 : inner.length);
}
