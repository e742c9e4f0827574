/**
 * A person's credential of an issuer, which vouches for the agent's key without seeing it: a Privacy Pass token of type
 * 2 (RFC 9578) by RSA blind signatures (RFC 9474, RSABSSA-SHA384-PSS-Deterministic). WebCrypto has no RSA without
 * padding, so the powers are BigInt's: with public exponents alone, and a blinding factor that is used once.
 *
 * @typedef {{tokens: string, grants: string}} IssuerKey the issuer's public keys, as known from elsewhere: one that it
 *   has for this person alone would tell who they are
 */

import { Client, bearer } from "./client.js";
import { base64, concat, hex, sha, sha256hex, unbase64, unhex, utf8 } from "./messages.js";
import { demand, fail } from "./values.js";

const SIZE = 256; // bytes of the modulus
const EXPONENT = 65537n;
const DIGEST = 48; // bytes of SHA-384, and of the salt
// A SubjectPublicKeyInfo of RSASSA-PSS with SHA-384, 2048 bits and the usual exponent (RFC 9578, section 6.5).
const BEFORE = "30820156304106092a864886f70d01010a3034a00f300d06096086480165030402020500a11c301a06092a864886f70d010108300d0609608648016503040202" + "0500a2030201300382010f003082010a0282010100"; // prettier-ignore
const AFTER = "0203010001";

const random = (/** @type {number} */ count) => crypto.getRandomValues(new Uint8Array(count));
const toNumber = (/** @type {Uint8Array} */ bytes) => BigInt(`0x0${hex(bytes)}`); // of none: 0
const toBytes = (/** @type {bigint} */ value) => unhex(value.toString(16).padStart(2 * SIZE, "0"));

function power(/** @type {bigint} */ base, /** @type {bigint} */ exponent, /** @type {bigint} */ modulus) {
  let power = 1n;
  for (; exponent > 0n; exponent >>= 1n, base = (base * base) % modulus)
    if (exponent & 1n) power = (power * base) % modulus;
  return power;
}

/** Return 1/value modulo n; 0, if there is none. @param {bigint} value @param {bigint} modulus */
function inverse(value, modulus) {
  let [old, now, left, right] = [1n, 0n, value, modulus];
  while (right) [old, now, left, right] = [now, old - (left / right) * now, right, left % right];
  return left === 1n ? (old + modulus) % modulus : 0n;
}

/** Return EMSA-PSS-ENCODE with SHA-384 (RFC 8017, section 9.1.1) for 2047 bits. */
async function pss(/** @type {Uint8Array<ArrayBuffer>} */ message, /** @type {Uint8Array} */ salt) {
  const digest = await sha(concat(new Uint8Array(8), await sha(message, 384), salt), 384);
  const masks = [0, 1, 2, 3, 4].map((number) => sha(concat(digest, Uint8Array.of(0, 0, 0, number)), 384));
  const mask = concat(...(await Promise.all(masks)));
  const bare = concat(new Uint8Array(SIZE - 2 * DIGEST - 2), Uint8Array.of(1), salt);
  const block = bare.map((byte, at) => byte ^ mask[at]);
  block[0] &= 0x7f;
  return concat(block, digest, Uint8Array.of(0xbc));
}

/** Return what an issuer signs for an agent's key. @param {string} agent @param {string} nonce @param {string} id */
async function tokenInput(agent, nonce, id) {
  const sized = /** @param {string} part */ (part) => concat(Uint8Array.of(0, part.length), utf8(part));
  const [issuer, origin] = [sized("tandem-issuer"), sized("tandem-enrolment")];
  const challenge = concat(Uint8Array.of(0, 2), issuer, Uint8Array.of(32), unhex(agent), origin);
  return concat(Uint8Array.of(0, 2), unhex(nonce), await sha(challenge), unhex(id));
}

/** Return how tokens name a key, and its number. @param {IssuerKey} key */
async function read(key) {
  const raw = unbase64(key.tokens);
  const text = hex(raw);
  const modulus = text.slice(BEFORE.length, -AFTER.length);
  const good = text === BEFORE + modulus + AFTER && modulus.length === 2 * SIZE && raw[BEFORE.length / 2] >= 0x80;
  demand(good, "an issuer's key of tokens is RSASSA-PSS with SHA-384, 2048 bits and the exponent 65537");
  return { id: await sha256hex(raw), modulus: BigInt(`0x${modulus}`) };
}

/**
 * Get a credential for an agent's key, and keep it in the agent's store. What is asked is stored before it leaves, so
 * that a reply that was lost is asked for again with the same request.
 * @param {import("./types/agent.d.ts").Store} store @param {string} agent its public key
 * @param {{address: string, code: string, key: IssuerKey}} issuer who gave the code to the person
 * @param {{fetch?: import("./client.js").Fetch}} [how]
 */
export async function obtain(store, agent, { address, code, key }, how) {
  let asked = await store.read("asked");
  if (await store.read("credential")) return asked && store.write("asked", null); // a crash may have left it
  const { id, modulus } = await read(key);
  const client = new Client(address, how);
  const { tokens, grants } = await client.document("GET", "/v1/issuer");
  if (tokens !== key.tokens || grants !== key.grants)
    fail("forged", "the issuer there has other keys than those that were given: ask it nothing, and find out why"); // prettier-ignore
  if (asked?.issuer !== id || asked?.agent !== agent) {
    const nonce = hex(random(32));
    const encoded = toNumber(await pss(await tokenInput(agent, nonce, id), random(DIGEST)));
    const unblinding = toNumber(random(SIZE + 16)) % modulus; // 1/r, nearly uniform
    const factor = inverse(unblinding, modulus);
    demand(factor !== 0n && inverse(encoded, modulus) !== 0n, "the issuer's modulus has a small factor");
    const blinded = hex(toBytes((encoded * power(factor, EXPONENT, modulus)) % modulus));
    asked = { issuer: id, agent, nonce, blinded, inverse: hex(toBytes(unblinding)) };
    await store.write("asked", asked);
  }
  const body = concat(Uint8Array.of(0, 2), unhex(id).subarray(-1), unhex(asked.blinded));
  const headers = { ...bearer(code), "Content-Type": "application/private-token-request" };
  const reply = await client.request("POST", "/v1/token-requests", body, headers);
  const signature = toBytes((toNumber(reply.body) * BigInt(`0x${asked.inverse}`)) % modulus);
  const n = base64(toBytes(modulus)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const [jwk, algorithm] = [{ kty: "RSA", n, e: "AQAB", alg: "PS384" }, { name: "RSA-PSS", hash: "SHA-384", saltLength: DIGEST }]; // prettier-ignore
  const verifying = await crypto.subtle.importKey("jwk", jwk, algorithm, false, ["verify"]);
  const message = await tokenInput(agent, asked.nonce, id);
  if (reply.body.length !== SIZE || !(await crypto.subtle.verify(algorithm, verifying, signature, message)))
    fail("forged", "the issuer's signature does not verify");
  await store.write("credential", { issuer: id, nonce: asked.nonce, signature: hex(signature) });
  await store.write("asked", null); // with what it was blinded by, an issuer could tell whose credential this is
}
