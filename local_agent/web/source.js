/**
 * Randomness of an answer: a function of a durable secret and of what is asked, so that the same question gets the same
 * noise. A key is derived by HMAC-SHA256, and stretched by ChaCha20 (RFC 8439, with a nonce of zeros).
 */

import { encode } from "./canonical.js";

/** Derive 32 bytes from a secret. @param {Uint8Array<ArrayBuffer>} secret @param {unknown[]} parts what they are for */
export async function derive(secret, parts) {
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, encode(parts)));
}

export class Source {
  /** @param {Uint8Array} key 32 bytes */
  constructor(key) {
    const words = Uint32Array.from({ length: 8 }, (_, at) => new DataView(key.buffer, key.byteOffset).getUint32(4 * at, true));
    this.state = Uint32Array.of(0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, ...words, 0, 0, 0, 0);
    this.block = new Uint32Array(16);
    this.used = 16;
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

  /** Return a uniform integer from 0 to n - 1, exactly: a word that would favour some is drawn again. @param {bigint} n */
  below(n) {
    const fair = (1n << 64n) - ((1n << 64n) % n);
    for (;;) {
      const word = this.word();
      if (word < fair) return word % n;
    }
  }
}

const QUARTERS = ["048c", "159d", "26ae", "37bf", "05af", "16bc", "278d", "349e"];

/** Return a block of ChaCha20 (RFC 8439, section 2.3). @param {Uint32Array} state */
function chacha(state) {
  const x = Uint32Array.from(state);
  /** @type {(to: number, from: number, other: number, bits: number) => void} */
  const step = (to, from, other, bits) => {
    x[to] += x[from];
    const mixed = x[other] ^ x[to];
    x[other] = (mixed << bits) | (mixed >>> (32 - bits));
  };
  for (let round = 0; round < 10; round++)
    for (const quarter of QUARTERS) {
      const [a, b, c, d] = Array.from(quarter, (digit) => parseInt(digit, 16));
      step(a, b, d, 16);
      step(c, d, b, 12);
      step(a, b, d, 8);
      step(c, d, b, 7);
    }
  return x.map((word, at) => word + state[at]);
}
