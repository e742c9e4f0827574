/**
 * What is refused, and the forms of JSON values: a form returns what a value means, or refuses it (`bad-message`).
 *
 * @typedef {Float32Array | Uint8Array} Features
 * @typedef {{features: Features, label: number}} Record one person: features, and a label of -1 or +1
 * @typedef {(value: any, where: string) => any} Form
 * @typedef {Form | [form: Form, usual: any, omitted?: "omitted"]} Field required; or with what it is where it is not
 *   given, and whether the JSON form leaves it out then
 * @typedef {{[name: string]: Field}} Fields
 * @typedef {{[kind: string]: {fields: Fields, make: (fields: any) => object}}} Kinds
 * @typedef {{noun: string, tag: string, names: string[], kinds: Kinds}} Registry kinds of one thing, which JSON names
 *   under a tag; names: of all kinds that there are; those that `kinds` lacks are not accepted here
 */

/** Why something is refused: `problem` is the type of the problem without its prefix (docs/wire.md lists them). */
export class Refusal extends Error {
  constructor(/** @type {string} */ problem, /** @type {string} */ detail) {
    super(detail);
    this.problem = problem;
    this.detail = detail;
  }
}

/** @param {string} problem @param {string} detail @returns {never} */
export function fail(problem, detail) {
  throw new Refusal(problem, detail);
}

/** @type {(holds: boolean, detail: string) => asserts holds} */
export function demand(holds, detail) {
  if (!holds) fail("bad-message", detail);
}

/** @type {(where: string, why: string) => never} */
export const refuse = (where, why) => fail("bad-message", `${where}: ${why}`);

/** @param {any} value @returns {value is {[name: string]: any}} */
export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
export const isDigest = (/** @type {unknown} */ text) => typeof text === "string" && /^[0-9a-f]{64}$/.test(text);
/** @param {number[]} numbers */
export const ascending = (numbers) => numbers.every((number, at) => at === 0 || numbers[at - 1] < number);
const isText = /** @param {any} value */ (value) => typeof value === "string";

/** @type {(holds: (value: any) => boolean, what: string) => Form} */
const form = (holds, what) => (value, where) => (holds(value) ? value : refuse(where, `not ${what}`));
export const text = form(isText, "a text");
export const flag = form((value) => typeof value === "boolean", "a truth value");
export const anyObject = form(isObject, "an object");
export const digestForm = form(isDigest, "a digest or a key");
export const signatureForm = form((value) => isText(value) && /^[0-9a-f]{128}$/.test(value), "a signature");
export const runForm = form((value) => isText(value) && /^[0-9a-zA-Z_-]{1,64}$/.test(value), "a run's name");
/** One of some texts or numbers. @param {...(string | number)} choices */
export const oneOf = (...choices) => form((value) => choices.includes(value), `one of ${choices}`);
/** A whole number that is a double. @param {number} low @param {number} high */
export const whole = (low, high) =>
  form((value) => Number.isInteger(value) && low <= value && value <= high, `a whole number from ${low} to ${high}`);
export const real = (low = -Infinity, high = Infinity) =>
  form((value) => Number.isFinite(value) && low <= value && value <= high, `a number from ${low} to ${high}`);
export const positive = (high = Infinity) =>
  form((value) => Number.isFinite(value) && 0 < value && value <= high, `a number above 0, up to ${high}`);
export const countForm = whole(0, 2 ** 53 - 1);
export const numberForm = whole(0, 2 ** 31 - 1); // of a question in its run
export const GREATEST = 1e30;
export const weight = real(-GREATEST, GREATEST);
export const MAX_WEIGHTS = 1 << 16;
export const place = whole(0, MAX_WEIGHTS - 1); // of a feature, in a hypothesis
export const column = whole(0, (1 << 20) - 1); // and in a query about features

const EXACT = 2n ** 53n; // whole numbers up to this one are numbers in JSON, larger ones texts
/** A whole number of up to 64 bits. @type {(low: bigint, high: bigint) => Form} */
export const word = (low, high) => (value, where) => {
  const long = isText(value) && /^[1-9][0-9]{15,19}$/.test(value) && BigInt(value) > EXACT;
  const integer = long || (Number.isInteger(value) && Math.abs(value) <= EXACT) ? BigInt(value) : -1n;
  return low <= integer && integer <= high ? integer : refuse(where, `not a whole number from ${low} to ${high}`);
};

/** A list of so many values of a form. @type {(form: Form, least?: number, most?: number) => Form} */
export const list = (form, least = 0, most = Infinity) => (value, where) =>
  Array.isArray(value) && least <= value.length && value.length <= most
    ? value.map((each, place) => form(each, `${where}.${place}`))
    : refuse(where, `not a list of ${least} to ${most}`);

/** Feature numbers, strictly increasing. @type {(least: number, most: number) => Form} */
export const featureSet = (least, most) => (value, where) => {
  const features = list(place, least, most)(value, where);
  return ascending(features) ? features : refuse(where, "features must be strictly increasing");
};

/** A value or null. @type {(form: Form) => Form} */
export const optional = (form) => (value, where) => (value === null ? null : form(value, where));
/** A value, or null, which its JSON form leaves out. @type {(form: Form) => Field} */
export const maybe = (form) => [optional(form), null, "omitted"];
/** A value with these fields and no others. @type {(fields: Fields) => Form} */
export const object = (fields) => (value, where) => read(fields, value, where);

/** Read fields: none is unknown, and all that are required are given. @param {Fields} fields @returns {any} */
export function read(fields, /** @type {any} */ wire, /** @type {string} */ where) {
  if (!isObject(wire)) refuse(where, "not an object");
  for (const key of Object.keys(wire)) if (!Object.hasOwn(fields, key)) refuse(`${where}.${key}`, "unknown key");
  /** @type {{[name: string]: any}} */
  const values = {};
  for (const [name, field] of Object.entries(fields)) {
    const [form, ...usual] = Array.isArray(field) ? field : [field];
    if (Object.hasOwn(wire, name)) values[name] = form(wire[name], `${where}.${name}`);
    else if (usual.length) values[name] = usual[0];
    else refuse(`${where}.${name}`, "must be given");
  }
  return values;
}

/** Return the JSON form of fields, the same for all forms that mean them. @param {Fields} fields @param {any} value */
export function write(fields, value) {
  const stated = Object.entries(fields).filter(
    ([name, field]) => !(Array.isArray(field) && field[2] && JSON.stringify(value[name]) === JSON.stringify(field[1])),
  );
  return Object.fromEntries(stated.map(([name]) => [name, plain(value[name])]));
}

/** @param {any} value @returns {any} */
function plain(value) {
  if (typeof value === "bigint") return value <= EXACT ? Number(value) : String(value);
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  return value.wire ?? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each)]));
}

/** What a kind makes of its fields: its row gives what is not as usual, of the properties and methods of a class. */
export class Kinded {
  constructor(/** @type {Registry} */ registry, /** @type {string} */ kind, /** @type {any} */ fields) {
    this.registry = registry;
    this.kind = kind;
    this.fields = fields;
  }

  get wire() {
    return { [this.registry.tag]: this.kind, ...write(this.registry.kinds[this.kind].fields, this.fields) };
  }
}

/**
 * Read one of a registry's kinds; Refusal `policy` of one that is not accepted here, `bad-message` of what is none.
 * @template {Kinded} T @param {new (registry: Registry, kind: string, fields: any) => T} Made
 * @param {Registry} registry @param {any} wire @param {string} [where]
 */
export function parse(Made, registry, wire, where = registry.noun) {
  const { noun, tag, names, kinds } = registry;
  const kind = isObject(wire) && Object.hasOwn(wire, tag) ? wire[tag] : undefined;
  if (!names.includes(kind)) refuse(noun, `no ${noun} has this ${tag}`);
  if (!Object.hasOwn(kinds, kind)) fail("policy", `${noun} kind '${kind}' is not accepted: take the page of this run`);
  const { [tag]: _, ...rest } = wire;
  const fields = read(kinds[kind].fields, rest, where);
  return Object.assign(new Made(registry, kind, fields), kinds[kind].make(fields));
}
