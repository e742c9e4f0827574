/**
 * Who says what: Ed25519 (RFC 8032) by WebCrypto. A signature covers a domain tag, the kind of message and its canonical
 * JSON, so that no kind passes for another.
 *
 * @typedef {{kind: string, message: any, key: string, signature: string}} Signed
 */

import { concat, hex, sha256hex, unhex, utf8 } from "./bytes.js";
import { encode } from "./canonical.js";
import { Refusal, demandFields, isDigest, isObject, isSignature, isText } from "./errors.js";

const ED25519 = { name: "Ed25519" };
const SECURE = "this page has to be opened by https, or on localhost: only there does a browser sign messages";
const OLD = "this browser cannot sign with Ed25519: take Firefox 129, Chrome 137, Safari 17, or a later one";

/** Create a signing key; `extractable`: for a store that keeps no keys. @returns {Promise<CryptoKeyPair>} */
export async function createKey(extractable = false) {
  try {
    const made = await crypto.subtle.generateKey(ED25519, extractable, ["sign", "verify"]);
    return /** @type {CryptoKeyPair} */ (made);
  } catch {
    throw new Refusal("bad-input", globalThis.isSecureContext === false ? SECURE : OLD);
  }
}

/** @param {CryptoKey} secret that {@link createKey} made, extractable */
export const keyAsJson = (secret) => crypto.subtle.exportKey("jwk", secret);

/** @param {any} json @returns {Promise<CryptoKeyPair>} */
export async function keyOfJson(json) {
  const { kty, crv, x } = json;
  const privateKey = await crypto.subtle.importKey("jwk", json, ED25519, false, ["sign"]);
  return { privateKey, publicKey: await crypto.subtle.importKey("jwk", { kty, crv, x }, ED25519, true, ["verify"]) };
}

export class Identity {
  /** @param {CryptoKey} secret @param {string} key the public half in hex, which is this party's name */
  constructor(secret, key) {
    this.secret = secret;
    this.key = key;
  }

  /** @param {CryptoKeyPair} pair */
  static async of(pair) {
    return new Identity(pair.privateKey, hex(new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey))));
  }

  /** @param {string} kind @param {object} message @returns {Promise<Signed>} */
  async sign(kind, message) {
    const signature = await crypto.subtle.sign(ED25519, this.secret, covered(kind, encode(message)));
    return { kind, message, key: this.key, signature: hex(new Uint8Array(signature)) };
  }
}

/** @param {string} kind @param {Uint8Array} payload */
const covered = (kind, payload) => concat(utf8(`tandem/v1\0${kind}\0`), payload);

/** Read the JSON form of a signed message; nothing is verified. @param {unknown} wire @returns {Signed} */
export function signedOf(wire) {
  const isKind = /** @param {unknown} kind */ (kind) => isText(kind) && [...String(kind)].length <= 64;
  const fields = { kind: isKind, message: isObject, key: isDigest, signature: isSignature };
  demandFields(wire, fields, "Signed");
  return wire;
}

/**
 * Return what was signed, in canonical JSON; Refusal `forged`, if it is of another kind or key, or does not verify.
 * @param {Signed} signed @param {string} kind @param {string} [key] the expected one
 */
export async function verify(signed, kind, key = signed.key) {
  if (signed.kind !== kind) throw new Refusal("forged", `expected a signed '${kind}', found '${signed.kind}'`);
  if (signed.key !== key)
    throw new Refusal("forged", `this '${kind}' is signed by another key than the one that this agent listens to alone: it is another referee, or one that has lost its key`); // prettier-ignore
  const payload = encode(signed.message);
  await verifyBytes(key, kind, payload, signed.signature);
  return payload;
}

/** @param {string} key @param {string} kind @param {Uint8Array} payload @param {string} signature */
export async function verifyBytes(key, kind, payload, signature) {
  const publicKey = await crypto.subtle.importKey("raw", unhex(key), ED25519, true, ["verify"]).catch(() => null);
  if (publicKey && (await crypto.subtle.verify(ED25519, publicKey, unhex(signature), covered(kind, payload)))) return;
  throw new Refusal("forged", `the signature of this '${kind}' does not verify under the key ${key.slice(0, 16)}...`);
}

/** Return the SHA-256 of a signed message, given what was signed. @param {Signed} signed @param {Uint8Array} payload */
export const fingerprint = ({ kind, key, signature }, payload) =>
  sha256hex(concat(utf8(`{"key":"${key}","kind":${JSON.stringify(kind)},"message":`), payload, utf8(`,"signature":"${signature}"}`))); // prettier-ignore
