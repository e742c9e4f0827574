/**
 * Words of 64 random bits. Those of an answer are a function of a durable secret and of what is asked, so that the same
 * question gets the same noise: a key is derived by HMAC-SHA256, and stretched by ChaCha20 (RFC 8439, with a nonce of
 * zeros). Those of a question are public (SplitMix64, common/numerics/counter.py).
 */

import { encode } from "./messages.js";

export async function hmac(/** @type {Uint8Array<ArrayBuffer>} */ key, /** @type {Uint8Array<ArrayBuffer>} */ data) {
  const made = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", made, data));
}

/** Derive 32 bytes from a secret. @param {Uint8Array<ArrayBuffer>} secret @param {unknown[]} parts what they are for */
export const derive = (secret, parts) => hmac(secret, encode(parts));

export class Source {
  block = new Uint32Array(16);
  used = 16;

  constructor(/** @type {Uint8Array} 32 bytes */ key) {
    const words = Array.from({ length: 8 }, (_, at) => new DataView(key.buffer, key.byteOffset).getUint32(4 * at, true));
    this.state = Uint32Array.of(0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, ...words, 0, 0, 0, 0);
  }

  /** Return 64 uniform bits. */
  word() {
    if (this.used === 16) {
      this.block = chacha(this.state);
      this.used = 0;
      if (++this.state[12] === 0) throw new RangeError("a source ends after 256 GiB");
    }
    this.used += 2;
    return (BigInt(this.block[this.used - 1]) << 32n) | BigInt(this.block[this.used - 2]);
  }

  /** Return a uniform integer from 0 to n - 1, exactly: a word that would favour some is drawn again. */
  below(/** @type {bigint} */ n) {
    for (;;) {
      const word = this.word();
      if (word < (1n << 64n) - ((1n << 64n) % n)) return word % n;
    }
  }
}

const QUARTERS = ["048c", "159d", "26ae", "37bf", "05af", "16bc", "278d", "349e"];

/** Return a block of ChaCha20 (RFC 8439, section 2.3). @param {Uint32Array} state */
function chacha(state) {
  const x = Uint32Array.from(state);
  for (let round = 0; round < 10; round++)
    for (const quarter of QUARTERS) {
      const [a, b, c, d] = Array.from(quarter, (digit) => parseInt(digit, 16));
      for (const [to, from, other, bits] of [[a, b, d, 16], [c, d, b, 12], [a, b, d, 8], [c, d, b, 7]]) { // prettier-ignore
        x[to] += x[from];
        const mixed = x[other] ^ x[to];
        x[other] = (mixed << bits) | (mixed >>> (32 - bits));
      }
    }
  return x.map((word, at) => word + state[at]);
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
