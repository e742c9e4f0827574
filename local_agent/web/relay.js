/**
 * Requests through a relay (RFC 9458): the referee does not learn from where they come, and the relay not what they say.
 * HPKE (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM by WebCrypto; binary HTTP (RFC 9292), known-length form.
 */

import { concat, hex, unhex, utf8 } from "./bytes.js";
import { decode } from "./canonical.js";
import { Refusal, demand } from "./errors.js";
import { signedOf, verify } from "./identity.js";

const REQUEST_BYTES = 4096; // to which all encapsulated requests are padded
const X25519 = { name: "X25519" };
const SUITE = Uint8Array.of(0, 0x20, 0, 1, 0, 1);
const HPKE = concat(utf8("HPKE"), SUITE);
const KEM = concat(utf8("KEM"), SUITE.subarray(0, 2));
const NONE = new Uint8Array();

/** @param {Uint8Array<ArrayBuffer>} key @param {Uint8Array<ArrayBuffer>} data */
async function hmac(key, data) {
  const made = await crypto.subtle.importKey("raw", key.length ? key : new Uint8Array(32), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]); // prettier-ignore
  return new Uint8Array(await crypto.subtle.sign("HMAC", made, data));
}
/** HKDF-Expand for at most 32 bytes. @param {Uint8Array<ArrayBuffer>} key @param {Uint8Array} info @param {number} size */
const expand = async (key, info, size) => (await hmac(key, concat(info, Uint8Array.of(1)))).slice(0, size);
/** @param {Uint8Array} suite @param {Uint8Array<ArrayBuffer>} salt @param {string} label @param {Uint8Array} material */
const extract = (suite, salt, label, material) => hmac(salt, concat(utf8("HPKE-v1"), suite, utf8(label), material));
/** @param {Uint8Array} suite @param {Uint8Array<ArrayBuffer>} key @param {string} label @param {Uint8Array} info @param {number} size */
const labelled = (suite, key, label, info, size) => expand(key, concat(Uint8Array.of(0, size), utf8("HPKE-v1"), suite, utf8(label), info), size); // prettier-ignore

/** @param {Uint8Array<ArrayBuffer>} key @param {"encrypt" | "decrypt"} use */
const aes = (key, use) => crypto.subtle.importKey("raw", key, "AES-GCM", false, [use]);

/** @param {number} value */
function integer(value) {
  if (value < 1 << 6) return Uint8Array.of(value);
  return value < 1 << 14 ? Uint8Array.of(0x40 | (value >> 8), value) : Uint8Array.of(0x80 | (value >> 24), value >> 16, value >> 8, value); // prettier-ignore
}
/** @param {string | Uint8Array} part */
function sized(part) {
  const bytes = typeof part === "string" ? utf8(part) : part;
  return concat(integer(bytes.length), bytes);
}

class Reader {
  /** @param {Uint8Array<ArrayBuffer>} raw */
  constructor(raw) {
    this.raw = raw;
    this.at = 0;
  }
  /** @param {number} count */
  take(count) {
    demand(this.at + count <= this.raw.length, "a binary message ends too early");
    this.at += count;
    return this.raw.slice(this.at - count, this.at);
  }
  integer() {
    const [first] = this.take(1);
    return this.take((1 << (first >> 6)) - 1).reduce((value, byte) => value * 256 + byte, first & 0x3f);
  }
  part() {
    return this.at < this.raw.length ? this.take(this.integer()) : NONE;
  }
}

/**
 * Return a fetch that carries all requests through one relay; nothing else is dialled.
 * @param {string} relay address of the relay
 * @param {string} referee the pinned public key, which has to sign the keys that requests are sealed to
 * @param {import("./client.js").Fetch} [fetch]
 * @returns {import("./client.js").Fetch}
 */
export function through(relay, referee, fetch = (to, init) => globalThis.fetch(to, init)) {
  const place = relay.replace(/\/+$/, "");
  /** @type {{header: Uint8Array<ArrayBuffer>, key: Uint8Array<ArrayBuffer>} | undefined} */
  let gateway;
  return async (address, init) => {
    const outer = { signal: init.signal, redirect: init.redirect, credentials: init.credentials, cache: init.cache, referrerPolicy: init.referrerPolicy }; // prettier-ignore
    gateway ??= await gatewayOf(await fetch(`${place}/v1/oblivious-keys`, outer), referee);
    const inner = new URL(address);
    const fields = Object.entries(/** @type {Record<string, string>} */ (init.headers)).map(([name, value]) => concat(sized(name.toLowerCase()), sized(value))); // prettier-ignore
    const control = [init.method ?? "GET", "https", "referee", inner.pathname].map(sized);
    const body = /** @type {Uint8Array} */ (init.body ?? NONE);
    const plain = concat(integer(0), ...control, sized(concat(...fields)), sized(body), integer(0));
    const { key, header } = gateway;
    const overhead = header.length + 32 + 16;
    demand(plain.length + overhead <= REQUEST_BYTES, "what passes a relay is too long");
    const exchange = await seal(key, header, concat(plain, new Uint8Array(REQUEST_BYTES - overhead - plain.length)));
    const reply = await fetch(`${place}/v1/relay`, { ...outer, method: "POST", body: exchange.sent, headers: { "Content-Type": "message/ohttp-req" } }); // prettier-ignore
    if (reply.status !== 200) throw new Error(`the relay answers ${reply.status}`);
    return opened(new Uint8Array(await reply.arrayBuffer()), exchange);
  };
}

/** Return the first key of the pinned referee's that we can use. @param {Response} reply @param {string} referee */
export async function gatewayOf(reply, referee) {
  if (reply.status !== 200) throw new Error(`the relay answers ${reply.status}`);
  try {
    const signed = signedOf(decode(new Uint8Array(await reply.arrayBuffer())));
    await verify(signed, "oblivious-keys", referee);
    const list = new Reader(unhex(signed.message.keys));
    while (list.at < list.raw.length) {
      const [high, low] = list.take(2);
      const one = list.take(256 * high + low);
      const suites = hex(one.slice(37)).match(/.{8}/g) ?? [];
      if (one[1] === 0 && one[2] === 0x20 && suites.some((suite) => suite === "00010001"))
        return { header: concat(one.slice(0, 1), SUITE), key: one.slice(3, 35) };
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
  throw new Refusal("relay-untrusted", "the relay hands out keys that are not those of the pinned referee: nothing was sent through it"); // prettier-ignore
}

/**
 * Encapsulate a binary request (RFC 9180, section 5.1.1; RFC 9458, section 4.3).
 * @param {Uint8Array<ArrayBuffer>} key @param {Uint8Array<ArrayBuffer>} header @param {Uint8Array<ArrayBuffer>} plain
 * @param {CryptoKeyPair} [own] what is drawn, but for vectors
 */
export async function seal(key, header, plain, own) {
  const pair = own ?? /** @type {CryptoKeyPair} */ (await crypto.subtle.generateKey(X25519, false, ["deriveBits"]));
  const enc = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const recipient = await crypto.subtle.importKey("raw", key, X25519, false, []);
  const dh = new Uint8Array(await crypto.subtle.deriveBits({ ...X25519, public: recipient }, pair.privateKey, 256));
  const shared = await labelled(KEM, await extract(KEM, NONE, "eae_prk", dh), "shared_secret", concat(enc, key), 32);
  const info = concat(utf8("message/bhttp request\0"), header);
  const hashes = [await extract(HPKE, NONE, "psk_id_hash", NONE), await extract(HPKE, NONE, "info_hash", info)];
  const context = concat(Uint8Array.of(0), ...hashes);
  const secret = await extract(HPKE, shared, "secret", NONE);
  const algorithm = { name: "AES-GCM", iv: await labelled(HPKE, secret, "base_nonce", context, 12) };
  const sealing = await aes(await labelled(HPKE, secret, "key", context, 16), "encrypt");
  const exporter = await labelled(HPKE, secret, "exp", context, 32);
  return {
    enc,
    sent: concat(header, enc, new Uint8Array(await crypto.subtle.encrypt(algorithm, sealing, plain))),
    secret: await labelled(HPKE, exporter, "sec", utf8("message/bhttp response"), 16),
  };
}

/**
 * Open an encapsulated response (RFC 9458, section 4.4), which is the answer to this request, or none.
 * @param {Uint8Array<ArrayBuffer>} sealed @param {{enc: Uint8Array<ArrayBuffer>, secret: Uint8Array<ArrayBuffer>}} exchange
 */
export async function opened(sealed, { enc, secret }) {
  try {
    const pseudo = await hmac(concat(enc, sealed.slice(0, 16)), secret);
    const key = await aes(await expand(pseudo, utf8("key"), 16), "decrypt");
    const algorithm = { name: "AES-GCM", iv: await expand(pseudo, utf8("nonce"), 12) };
    const reader = new Reader(new Uint8Array(await crypto.subtle.decrypt(algorithm, key, sealed.slice(16))));
    demand(reader.integer() === 1, "a response has framing 1");
    let status = reader.integer();
    for (; status < 200; status = reader.integer()) reader.part();
    const fields = new Reader(reader.part());
    const headers = new Headers();
    while (fields.at < fields.raw.length) headers.append(text(fields.part()), text(fields.part()));
    const body = reader.part();
    return new Response([204, 205, 304].includes(status) ? null : body, { status, headers });
  } catch {
    throw new Refusal("relay-untrusted", "the relay handed back what is not the referee's answer to this request");
  }
}

/** @param {Uint8Array} bytes */
const text = (bytes) => new TextDecoder().decode(bytes);
