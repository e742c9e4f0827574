/**
 * Requests through a relay (RFC 9458): the referee does not learn from where they come, and the relay not what they say.
 * HPKE (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM by WebCrypto; binary HTTP (RFC 9292), known-length form.
 */

import { contentOf } from "./client.js";
import { concat, decode, drawKeys, hex, hmac, signedOf, unhex, utf8, verify } from "./messages.js";
import { Refusal, demand, fail } from "./values.js";

const AWAY = [408, 429, 502, 503, 504]; // what a relay answers while it, or what is behind it, is away
const REQUEST_BYTES = 4096; // to which all encapsulated requests are padded
const X25519 = { name: "X25519" };
const SUITE = Uint8Array.of(0, 0x20, 0, 1, 0, 1);
const HPKE = concat(utf8("HPKE"), SUITE);
const KEM = concat(utf8("KEM"), SUITE.subarray(0, 2));
const NONE = new Uint8Array();
const ZEROS = new Uint8Array(32); // as a key of HMAC, none

/** @typedef {Uint8Array<ArrayBuffer>} Bytes */

const NEEDS = "encrypt with X25519, as a relay needs: take Firefox 132, Chrome 137, Safari 17";

/** HKDF-Expand for at most 32 bytes. @param {Bytes} key @param {Bytes} info @param {number} size */
const expand = async (key, info, size) => (await hmac(key, concat(info, Uint8Array.of(1)))).slice(0, size);
/** @param {Bytes} suite @param {string} label @param {Bytes} material */
const named = (suite, label, material) => concat(utf8("HPKE-v1"), suite, utf8(label), material);
/** @param {Bytes} suite @param {Bytes} salt @param {string} label @param {Bytes} material */
const extract = (suite, salt, label, material) => hmac(salt, named(suite, label, material));
/** @param {Bytes} suite @param {Bytes} key @param {string} label @param {Bytes} info @param {number} size */
const labelled = (suite, key, label, info, size) =>
  expand(key, concat(Uint8Array.of(0, size), named(suite, label, info)), size);

/** @param {Bytes} key @param {"encrypt" | "decrypt"} use @param {Bytes} iv @param {Bytes} data */
async function aes(key, use, iv, data) {
  const cipherKey = await crypto.subtle.importKey("raw", key, "AES-GCM", false, [use]);
  return new Uint8Array(await crypto.subtle[use]({ name: "AES-GCM", iv }, cipherKey, data));
}

/** An integer of QUIC (RFC 9000, section 16), of at most two bytes: no request is longer. @param {number} value */
const integer = (value) => (value < 1 << 6 ? Uint8Array.of(value) : Uint8Array.of(0x40 | (value >> 8), value));
const sized = (/** @type {Uint8Array} */ part) => concat(integer(part.length), part);

class Reader {
  constructor(/** @type {Bytes} */ left) {
    this.left = left;
  }

  take(/** @type {number} */ count) {
    demand(count <= this.left.length, "a binary message ends too early");
    const taken = this.left.slice(0, count);
    this.left = this.left.subarray(count);
    return taken;
  }

  integer() {
    const [first] = this.take(1);
    return this.take((1 << (first >> 6)) - 1).reduce((value, byte) => value * 256 + byte, first & 0x3f);
  }

  part = () => (this.left.length ? this.take(this.integer()) : NONE);
}

/**
 * Return a fetch that carries all requests through one relay; nothing else is dialled.
 * @param {string} relay address of the relay
 * @param {string} referee the pinned public key, which has to sign the keys that requests are sealed to
 * @param {import("./client.js").Fetch} [fetch] @returns {import("./client.js").Fetch}
 */
export function through(relay, referee, fetch = (to, init) => globalThis.fetch(to, init)) {
  const place = relay.replace(/\/+$/, "");
  /** @type {{header: Bytes, key: Bytes} | undefined} */
  let gateway;
  return async (address, { method = "GET", body, headers, ...outer }) => {
    gateway ??= await gatewayOf(await fetch(`${place}/v1/oblivious-keys`, outer), referee);
    const { key, header } = gateway;
    const named = Object.entries(/** @type {Record<string, string>} */ (headers));
    const fields = named.flatMap(([name, value]) => [name.toLowerCase(), value].map(utf8).map(sized));
    const control = [method, "https", "referee", new URL(address).pathname].map(utf8).map(sized);
    const content = sized(/** @type {Uint8Array} */ (body ?? NONE));
    const plain = concat(integer(0), ...control, sized(concat(...fields)), content, integer(0));
    const rest = REQUEST_BYTES - header.length - 32 - 16 - plain.length;
    demand(rest >= 0, "what passes a relay is too long");
    const exchange = await seal(key, header, concat(plain, new Uint8Array(rest)));
    const sent = { ...outer, method: "POST", body: exchange.sent, headers: { "Content-Type": "message/ohttp-req" } };
    return opened(await relayed(await fetch(`${place}/v1/relay`, sent)), exchange);
  };
}

/** @param {Response} reply of the relay itself */
function relayed(reply) {
  if (AWAY.includes(reply.status)) throw new Error(`the relay answers ${reply.status}`);
  if (reply.status !== 200) fail("relay-untrusted", `the relay answers ${reply.status}, and carries nothing to the referee`);
  return contentOf(reply);
}

/** Return the first key of the pinned referee's that we can use. @param {Response} reply @param {string} referee */
export async function gatewayOf(reply, referee) {
  const content = await relayed(reply);
  try {
    const signed = signedOf(decode(content));
    await verify(signed, "oblivious-keys", referee);
    const list = new Reader(unhex(signed.message.keys));
    while (list.left.length) {
      const [high, low] = list.take(2);
      const one = list.take(256 * high + low);
      const suites = hex(one.slice(37)).match(/.{8}/g) ?? [];
      if (one[1] === 0 && one[2] === 0x20 && suites.some((suite) => suite === "00010001"))
        return { header: concat(one.slice(0, 1), SUITE), key: one.slice(3, 35) };
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
  fail("relay-untrusted", "the relay hands out keys that are not those of the pinned referee: nothing was sent through it"); // prettier-ignore
}

/**
 * Encapsulate a binary request (RFC 9180, section 5.1.1; RFC 9458, section 4.3).
 * @param {Bytes} key @param {Bytes} header @param {Bytes} plain
 * @param {CryptoKeyPair} [own] what is drawn, but for vectors
 */
export async function seal(key, header, plain, own) {
  const pair = own ?? (await drawKeys(X25519, false, ["deriveBits"], NEEDS));
  const enc = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const recipient = await crypto.subtle.importKey("raw", key, X25519, false, []);
  const dh = new Uint8Array(await crypto.subtle.deriveBits({ ...X25519, public: recipient }, pair.privateKey, 256));
  const shared = await labelled(KEM, await extract(KEM, ZEROS, "eae_prk", dh), "shared_secret", concat(enc, key), 32);
  const info = concat(utf8("message/bhttp request\0"), header);
  const hashes = [await extract(HPKE, ZEROS, "psk_id_hash", NONE), await extract(HPKE, ZEROS, "info_hash", info)];
  const context = concat(Uint8Array.of(0), ...hashes);
  const secret = await extract(HPKE, shared, "secret", NONE);
  const nonce = await labelled(HPKE, secret, "base_nonce", context, 12);
  const sealed = await aes(await labelled(HPKE, secret, "key", context, 16), "encrypt", nonce, plain);
  const exporter = await labelled(HPKE, secret, "exp", context, 32);
  return {
    enc,
    sent: concat(header, enc, sealed),
    secret: await labelled(HPKE, exporter, "sec", utf8("message/bhttp response"), 16),
  };
}

/**
 * Open an encapsulated response (RFC 9458, section 4.4), which is the answer to this request, or none.
 * @param {Bytes} sealed @param {{enc: Bytes, secret: Bytes}} exchange
 */
export async function opened(sealed, { enc, secret }) {
  try {
    const pseudo = await hmac(concat(enc, sealed.slice(0, 16)), secret);
    const [key, nonce] = [await expand(pseudo, utf8("key"), 16), await expand(pseudo, utf8("nonce"), 12)];
    const reader = new Reader(await aes(key, "decrypt", nonce, sealed.slice(16)));
    demand(reader.integer() === 1, "a response has framing 1");
    let status = reader.integer();
    for (; status < 200; status = reader.integer()) reader.part();
    const fields = new Reader(reader.part());
    const headers = new Headers();
    while (fields.left.length) headers.append(text(fields.part()), text(fields.part()));
    const body = reader.part();
    return new Response([204, 205, 304].includes(status) ? null : body, { status, headers });
  } catch {
    fail("relay-untrusted", "the relay handed back what is not the referee's answer to this request");
  }
}

const text = (/** @type {Uint8Array} */ bytes) => new TextDecoder().decode(bytes);
