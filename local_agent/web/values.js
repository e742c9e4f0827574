/**
 * Reading values of JSON: every field of a message has a form, which returns the value or refuses it (`bad-message`).
 *
 * @typedef {Float32Array | Uint8Array} Features
 * @typedef {{features: Features, label: number}} Record one person: features, and a label of -1 or +1
 * @typedef {(value: any, where: string) => any} Form
 * @typedef {Form | [form: Form, usual: any, omitted?: "omitted"]} Field required; or with what it is if it is not
 *   given, and whether the JSON form leaves it out then
 * @typedef {{[name: string]: Field}} Fields
 */

import { Refusal, isObject } from "./errors.js";

const EXACT = 2n ** 53n; // whole numbers up to this one are numbers in JSON, larger ones texts

/** @param {string} where @param {string} why @returns {never} */
export function refuse(where, why) {
  throw new Refusal("bad-message", `${where}: ${why}`);
}

/** @param {number[]} numbers */
export const ascending = (numbers) => numbers.every((number, at) => at === 0 || numbers[at - 1] < number);

/** A whole number of up to 64 bits. @type {(low: bigint, high: bigint) => Form} */
export const word = (low, high) => (value, where) => {
  const told = typeof value === "string" && /^[1-9][0-9]{15,19}$/.test(value) && BigInt(value) > EXACT;
  const found = told || (Number.isInteger(value) && Math.abs(value) <= EXACT) ? BigInt(value) : -1n;
  return low <= found && found <= high ? found : refuse(where, `not a whole number from ${low} to ${high}`);
};

/** A whole number that is a double. @type {(low: number, high: number) => Form} */
export const whole = (low, high) => (value, where) => {
  const fits = Number.isInteger(value) && low <= value && value <= high;
  return fits ? value : refuse(where, `not a whole number from ${low} to ${high}`);
};

/** A number; with `above` the lowest is not allowed. @type {(low?: number, high?: number, above?: boolean) => Form} */
export const real = (low = -Infinity, high = Infinity, above = false) => (value, where) => {
  const fits = Number.isFinite(value) && (above ? low < value : low <= value) && value <= high;
  return fits ? value : refuse(where, `not a number from ${low} to ${high}`);
};

/** @type {Form} */
export const text = (value, where) => (typeof value === "string" ? value : refuse(where, "not a text"));

/** @type {Form} */
export const flag = (value, where) => (typeof value === "boolean" ? value : refuse(where, "not a truth value"));

/** One of some texts or numbers. @type {(...choices: (string | number)[]) => Form} */
export const oneOf = (...choices) => (value, where) =>
  choices.includes(value) ? value : refuse(where, `none of ${choices}`);

/** A list of so many values of a form. @type {(form: Form, least: number, most: number) => Form} */
export const list = (form, least, most) => (value, where) =>
  Array.isArray(value) && least <= value.length && value.length <= most
    ? value.map((each, place) => form(each, `${where}.${place}`))
    : refuse(where, `not a list of ${least} to ${most}`);

export const GREATEST = 1e30;
export const weight = real(-GREATEST, GREATEST);
export const MAX_WEIGHTS = 1 << 16;
export const place = whole(0, MAX_WEIGHTS - 1);

/** Feature numbers, strictly increasing. @type {(least: number, most: number) => Form} */
export const featureSet = (least, most) => (value, where) => {
  const found = list(place, least, most)(value, where);
  return ascending(found) ? found : refuse(where, "features must be strictly increasing");
};

/** A value or null. @type {(form: Form) => Form} */
export const optional = (form) => (value, where) => (value === null ? null : form(value, where));

/** A value with these fields and no others. @type {(fields: Fields) => Form} */
export const object = (fields) => (value, where) => read(fields, value, where);

/**
 * Read the fields of a value from its JSON form: none is unknown, and all that are required are given.
 * @param {Fields} fields
 * @param {any} wire
 * @param {string} where what it is, for the refusal
 * @param {string} [tag] the key that names its type, which was read before
 * @returns {any}
 */
export function read(fields, wire, where, tag) {
  if (!isObject(wire)) refuse(where, "not an object");
  for (const key of Object.keys(wire))
    if (key !== tag && !Object.hasOwn(fields, key)) refuse(`${where}.${key}`, "unknown key");
  /** @type {{[name: string]: any}} */
  const found = {};
  for (const [name, field] of Object.entries(fields)) {
    const [form, ...usual] = Array.isArray(field) ? field : [field];
    if (Object.hasOwn(wire, name)) found[name] = form(wire[name], `${where}.${name}`);
    else if (usual.length) found[name] = usual[0];
    else refuse(`${where}.${name}`, "must be given");
  }
  return found;
}

/**
 * Return the JSON form of a value that was read, the same for all forms that mean it.
 * @param {Fields} fields
 * @param {{[name: string]: any}} value
 * @returns {{[name: string]: any}}
 */
export function write(fields, value) {
  const kept = Object.entries(fields).filter(
    ([name, field]) => !(Array.isArray(field) && field[2] && JSON.stringify(value[name]) === JSON.stringify(field[1])),
  );
  return Object.fromEntries(kept.map(([name]) => [name, plain(value[name])]));
}

/** @param {any} value @returns {any} */
function plain(value) {
  if (typeof value === "bigint") return value <= EXACT ? Number(value) : String(value);
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  if ("wire" in value) return value.wire;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each)]));
}

/**
 * Return which class of a registry a value names.
 * @template T
 * @param {{[name: string]: T}} kinds
 * @param {any} wire
 * @param {string} tag
 * @param {string} noun
 * @returns {T}
 */
export function kindOf(kinds, wire, tag, noun) {
  const name = isObject(wire) && Object.hasOwn(wire, tag) ? wire[tag] : undefined;
  if (typeof name !== "string" || !Object.hasOwn(kinds, name)) refuse(noun, `no ${noun} has this ${tag}`);
  return kinds[name];
}
