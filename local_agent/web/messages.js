/**
 * Signed messages: one byte string for each JSON value (RFC 8785), JSON from strangers, and Ed25519 (RFC 8032) by
 * WebCrypto. A signature covers a domain tag, the kind of message and its bytes, so that no kind passes for another.
 *
 * @typedef {{kind: string, message: any, key: string, signature: string}} Signed
 * @typedef {{key: string, sign: (kind: string, message: object) => Promise<Signed>}} Identity key: the public half in
 *   hex, which is this party's name
 */

import { anyObject, demand, digestForm, fail, read, signatureForm, text } from "./values.js";

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export const utf8 = (text) => new TextEncoder().encode(text);
/** @param {Uint8Array} bytes */
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const base64 = (/** @type {Uint8Array} */ bytes) => btoa(String.fromCharCode(...bytes));

export function unhex(/** @type {unknown} */ text) {
  demand(typeof text === "string" && /^([0-9a-f]{2})*$/.test(text), "not bytes in hexadecimal digits");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function unbase64(/** @type {unknown} */ text) {
  const form = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
  demand(typeof text === "string" && form.test(text), "not base64");
  const letters = atob(text);
  demand(btoa(letters) === text, "not base64: bits behind the last byte");
  return Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
}

/** @param {...Uint8Array} parts */
export function concat(...parts) {
  const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  parts.reduce((at, part) => (joined.set(part, at), at + part.length), 0);
  return joined;
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
export const sha = async (bytes, bits = 256) => new Uint8Array(await crypto.subtle.digest(`SHA-${bits}`, bytes));
export const sha256hex = async (/** @type {Uint8Array<ArrayBuffer>} */ bytes) => hex(await sha(bytes));

export async function hmac(/** @type {Uint8Array<ArrayBuffer>} */ key, /** @type {Uint8Array<ArrayBuffer>} */ data) {
  const hmacKey = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", hmacKey, data));
}

/** Derive 32 bytes from a secret. @param {Uint8Array<ArrayBuffer>} secret @param {unknown[]} parts what they are for */
export const derive = (secret, parts) => hmac(secret, encode(parts));

// JSON: numbers are doubles ------------------------------------------------------------------------------------------

const DEEPEST = 32; // levels of nesting
const MOST = 1 << 21; // values of a document: the commas of its text, and four for each bracket

/** @param {any} value of null, booleans, finite numbers, strings, arrays, plain objects @returns {string} */
function canonical(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number" && Number.isFinite(value)) return String(value); // -0 as 0
  if (typeof value === "string" && value.isWellFormed()) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  demand(typeof value === "object", "not a finite JSON value");
  const keys = Object.keys(value).filter((key) => value[key] !== undefined).sort(); // by UTF-16 code units
  return `{${keys.map((key) => `${canonical(key)}:${canonical(value[key])}`).join(",")}}`;
}

export const encode = (/** @type {unknown} */ value) => utf8(canonical(value));
export const digest = (/** @type {unknown} */ value) => sha256hex(encode(value));

/** @type {(holds: boolean, why: string) => asserts holds} */
const acceptable = (holds, why) => demand(holds, `not acceptable JSON: ${why}`);

/** Read JSON; refused if it is inexact, ambiguous, too deep or too large. @param {Uint8Array} raw @returns {any} */
export function decode(raw) {
  let values = 0;
  for (const byte of raw) values += byte === 0x5b || byte === 0x7b ? 4 : byte === 0x2c ? 1 : 0; // [ { ,
  acceptable(values <= MOST, `more than ${MOST} values`);
  let source, value;
  try {
    source = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw);
    value = JSON.parse(source);
  } catch {
    acceptable(false, "it is no JSON in UTF-8, or begins with a byte order mark");
  }
  let named = 0; // keys that the text gives: an object holds one of those that are alike
  const plain = source.replace(/\\./g, ""); // a quotation mark then ends its string, however long that is
  for (const [token, colon] of plain.matchAll(/"[^"]*"(\s*:)?|-?\d[^\s,\]}]*/g)) {
    if (colon) named += 1;
    const exact = /^"|[.eE]/.test(token) || Math.abs(Number(token)) < 2 ** 53 || String(Number(token)) === token;
    acceptable(exact, "an integer is no double");
  }
  acceptable(named === keysOf(value, 1), "an object names a key twice");
  return value;
}

/** Count the keys in a value, none too deep. @param {any} value @param {number} depth @returns {number} */
function keysOf(value, depth) {
  acceptable(typeof value !== "number" || Number.isFinite(value), "a number is larger than every double");
  if (typeof value !== "object" || value === null) return 0;
  acceptable(depth <= DEEPEST, `nested more than ${DEEPEST} levels deep`);
  const inner = Object.values(value);
  return inner.reduce((sum, each) => sum + keysOf(each, depth + 1), Array.isArray(value) ? 0 : inner.length);
}

// Signatures ---------------------------------------------------------------------------------------------------------

const ED25519 = { name: "Ed25519" };

/**
 * Draw a pair of keys; where the browser cannot: Refusal `bad-input`, which says what it cannot, and what to do.
 * @param {{name: string}} algorithm @param {boolean} extractable @param {KeyUsage[]} uses @param {string} what
 * @returns {Promise<CryptoKeyPair>}
 */
export async function drawKeys(algorithm, extractable, uses, what) {
  try {
    return /** @type {any} */ (await crypto.subtle.generateKey(algorithm, extractable, uses));
  } catch {
    fail("bad-input", `this browser cannot ${what}, or a later one`);
  }
}

/** Create a signing key; `extractable`: for a store that keeps no keys. */
export const createKey = (extractable = false) =>
  drawKeys(ED25519, extractable, ["sign", "verify"], "sign with Ed25519: open the page by https or on localhost, in Firefox 129, Chrome 137, Safari 17"); // prettier-ignore

/** @param {any} json of an extractable private key @returns {Promise<CryptoKeyPair>} */
export async function keyOfJson(json) {
  const { kty, crv, x } = json;
  const privateKey = await crypto.subtle.importKey("jwk", json, ED25519, false, ["sign"]);
  return { privateKey, publicKey: await crypto.subtle.importKey("jwk", { kty, crv, x }, ED25519, true, ["verify"]) };
}

/** Return who signs with a key. @param {CryptoKeyPair} pair @returns {Promise<Identity>} */
export async function identityOf({ privateKey, publicKey }) {
  const key = hex(new Uint8Array(await crypto.subtle.exportKey("raw", publicKey)));
  const sign = async (/** @type {string} */ kind, /** @type {object} */ message) => {
    const signature = await crypto.subtle.sign(ED25519, privateKey, covered(kind, encode(message)));
    return { kind, message, key, signature: hex(new Uint8Array(signature)) };
  };
  return { key, sign };
}

/** @param {string} kind @param {Uint8Array} payload */
const covered = (kind, payload) => concat(utf8(`tandem/v1\0${kind}\0`), payload);

const SIGNED = { kind: text, message: anyObject, key: digestForm, signature: signatureForm };
/** Read the JSON form of a signed message; nothing is verified. @param {unknown} wire @returns {Signed} */
export function signedOf(wire) {
  const signed = read(SIGNED, wire, "Signed");
  demand([...signed.kind].length <= 64, "Signed: kind: longer than 64 characters");
  return signed;
}

/**
 * Return what was signed, in canonical JSON; Refusal `forged`, if it is of another kind or key, or does not verify.
 * @param {Signed} signed @param {string} kind @param {string} [key] the expected one
 */
export async function verify(signed, kind, key = signed.key) {
  if (signed.kind !== kind) fail("forged", `expected a signed '${kind}', found '${signed.kind}'`);
  if (signed.key !== key)
    fail("forged", `this '${kind}' is signed by another key than the one that this agent listens to alone: it is another referee, or one that has lost its key`); // prettier-ignore
  const payload = encode(signed.message);
  await verifyBytes(key, kind, payload, signed.signature);
  return payload;
}

/**
 * Return the fields of a signed message; Refusal `forged`, as of {@link verify}, or `bad-message`.
 * @param {import("./values.js").Fields} form @param {Signed} signed @param {string} kind @param {string} [key]
 */
export async function statementOf(form, signed, kind, key) {
  await verify(signed, kind, key);
  return read(form, signed.message, kind);
}

/** @param {string} key @param {string} kind @param {Uint8Array} payload @param {string} signature */
export async function verifyBytes(key, kind, payload, signature) {
  const publicKey = await crypto.subtle.importKey("raw", unhex(key), ED25519, true, ["verify"]).catch(() => null);
  if (publicKey && (await crypto.subtle.verify(ED25519, publicKey, unhex(signature), covered(kind, payload)))) return;
  fail("forged", `the signature of this '${kind}' does not verify under the key ${key.slice(0, 16)}...`);
}
