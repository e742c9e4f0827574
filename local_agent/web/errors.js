/** What is refused, and why: `problem` is the type of the problem without its prefix (docs/wire.md lists them). */
export class Refusal extends Error {
  /** @param {string} problem @param {string} detail */
  constructor(problem, detail) {
    super(detail);
    this.problem = problem;
    this.detail = detail;
  }
}

/** @type {(holds: boolean, detail: string) => asserts holds} */
export function demand(holds, detail) {
  if (!holds) throw new Refusal("bad-message", detail);
}

/** @param {any} value @returns {value is Record<string, any>} */
export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
/** @type {(size: number) => (text: unknown) => boolean} */
const isHex = (size) => (text) => typeof text === "string" && text.length === size && /^[0-9a-f]*$/.test(text);
export const isDigest = isHex(64);
export const isSignature = isHex(128);
/** @param {unknown} text */
export const isRun = (text) => typeof text === "string" && /^[0-9a-zA-Z_-]{1,64}$/.test(text);
/** @param {unknown} value */
export const isText = (value) => typeof value === "string";
/** @param {unknown} value */
export const isBoolean = (value) => typeof value === "boolean";
/** @type {(least: number, most: number) => (value: unknown) => boolean} */
export const whole = (least, most) => (value) => Number.isInteger(value) && least <= Number(value) && Number(value) <= most;
export const isNumber = whole(0, 2 ** 31 - 1); // of a question in its run
export const isCount = whole(0, 2 ** 53 - 1);
/** @type {(each: (value: unknown) => boolean, most?: number) => (value: unknown) => boolean} */
export const listOf = (each, most = Infinity) => (value) => Array.isArray(value) && value.length <= most && value.every(each);

/**
 * Refuse what is no object with exactly these fields, each of its kind; one whose name ends in "?" may be missing.
 * @type {(value: unknown, fields: Record<string, (value: any) => boolean>, what: string) => asserts value is any}
 */
export function demandFields(value, fields, what) {
  demand(isObject(value), `${what}: not an object`);
  for (const [name, good] of Object.entries(fields)) {
    const key = name.replace("?", "");
    demand(Object.hasOwn(value, key) ? good(value[key]) : key !== name, `${what}: ${key}: missing, or not what it has to be`);
  }
  for (const key of Object.keys(value)) demand(Object.hasOwn(fields, key) || Object.hasOwn(fields, `${key}?`), `${what}: ${key}: unknown key`);
}
