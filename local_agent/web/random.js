/**
 * Words of 64 random bits. Those of an answer are a function of a durable secret and of what is asked, so that the same
 * question gets the same noise: a key is derived by HMAC-SHA256, and stretched by AES-256 in counter mode. Those of a
 * question are public (SplitMix64, common/numerics/counter.py).
 */

import { encode } from "./messages.js";

export async function hmac(/** @type {Uint8Array<ArrayBuffer>} */ key, /** @type {Uint8Array<ArrayBuffer>} */ data) {
  const made = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", made, data));
}

/** Derive 32 bytes from a secret. @param {Uint8Array<ArrayBuffer>} secret @param {unknown[]} parts what they are for */
export const derive = (secret, parts) => hmac(secret, encode(parts));

/** Words for one answer, which needs less than a hundred of them: more are drawn again with a chance of 2^-48. */
export class Source {
  used = 0;

  constructor(/** @type {BigUint64Array} */ words) {
    this.words = words;
  }

  static async of(/** @type {Uint8Array<ArrayBuffer>} */ key) {
    const made = await crypto.subtle.importKey("raw", key, "AES-CTR", false, ["encrypt"]);
    const how = { name: "AES-CTR", counter: new Uint8Array(16), length: 64 };
    return new Source(new BigUint64Array(await crypto.subtle.encrypt(how, made, new Uint8Array(8 << 10))));
  }

  /** Return 64 uniform bits. */
  word = () => this.words[this.used++];

  /** Return a uniform integer from 0 to n - 1, exactly: a word that would favour some is drawn again. */
  below(/** @type {bigint} */ n) {
    for (;;) {
      const word = this.word();
      if (word < (1n << 64n) - ((1n << 64n) % n)) return word % n;
    }
  }
}

const GOLDEN = 0x9e3779b97f4a7c15n;

function mixed(/** @type {bigint} */ word) {
  word = BigInt.asUintN(64, (word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n);
  word = BigInt.asUintN(64, (word ^ (word >> 27n)) * 0x94d049bb133111ebn);
  return word ^ (word >> 31n);
}

/** Return a word of a public sequence. @param {bigint} begin @param {bigint} place */
export const wordAt = (begin, place) => mixed(BigInt.asUintN(64, begin + (place + 1n) * GOLDEN));

/** Return a slot's public word, from a question's public randomness. @param {bigint} seed @param {number} slot */
export const publicWord = (seed, slot) =>
  wordAt(mixed(mixed(mixed(seed)) ^ mixed(BigInt.asUintN(64, BigInt(slot) * GOLDEN + 1n))), 0n);

/** Return 1 for an odd number of ones, else 0. @param {bigint} word */
export function parity(word) {
  for (const half of [32n, 16n, 8n, 4n, 2n, 1n]) word ^= word >> half;
  return Number(word & 1n);
}
