/**
 * The referee over HTTP, as an agent sees it: by fetch, with a limit of time and of bytes, again while nobody answers.
 *
 * @typedef {import("./messages.js").Signed} Signed
 * @typedef {(address: string, init: RequestInit) => Promise<Response>} Fetch
 * @typedef {{status: number, headers: Headers, body: Uint8Array<ArrayBuffer>}} Reply
 * @typedef {Record<string, string>} Texts
 */

import { concat, decode, signedOf, utf8 } from "./messages.js";
import { Refusal, fail, isObject } from "./values.js";
import { plain } from "./words.js";

export const PROTOCOL = 3; // the version that this agent speaks
const HEADER = "Tandem-Protocol";
const URN = "urn:tandem:problem:";
const AWAY = [408, 502, 503, 504]; // statuses of a service that has read nothing, or of a proxy before one that is away
export const PASSING = ["peer-unavailable", "peer-misbehaved", "busy", "cannot-write"]; // after which it is tried again
const PAUSES = [0.1, 0.2, 0.5, 1, 2]; // seconds between attempts; the last repeats
const ATTEMPT = 60; // seconds of one attempt
export const ANSWER = 16 << 20; // bytes of the longest answer: a question, with its hypothesis
const LONGEST_PAUSE = 600; // seconds that a referee may let an agent wait before its next poll
const ALONE = /** @type {const} */ ({ redirect: "error", credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" });

// Call back after so many seconds, or at the signal; what is returned lets go of both: a signal may live for long.
/** @param {number} seconds @param {AbortSignal | undefined} signal @param {() => void} call */
function after(seconds, signal, call) {
  const timer = setTimeout(call, 1000 * seconds);
  signal?.addEventListener("abort", call);
  return () => (clearTimeout(timer), signal?.removeEventListener("abort", call));
}

/** Wait so many seconds, or until the signal is given. @param {number} seconds @param {AbortSignal} [signal] */
export const pause = (seconds, signal) =>
  new Promise((resolve) => {
    const free = after(seconds, signal, () => resolve(free()));
  });

/** The header that shows an invitation or a code; Refusal `unauthorized`: none can hold it, and no error may quote it. */
export const bearer = (/** @type {string} */ token) =>
  /^[ -~]*$/.test(token)
    ? { Authorization: `Bearer ${token}` }
    : fail("unauthorized", "an invitation has plain letters and digits: enter it as it was given");

/** What an answer holds, which must not be too much. @param {Response} response */
export async function contentOf({ body }) {
  const parts = [];
  const reader = body?.getReader();
  for (let part = await reader?.read(), size = 0; part?.value; part = await reader?.read()) {
    parts.push(part.value);
    if ((size += part.value.length) <= ANSWER) continue;
    await reader?.cancel();
    throw new Error("it answers too much");
  }
  return concat(...parts);
}

/** A signed message as it travels: a referee is fastest with its fields in this order. @param {Signed} signed */
const raw = ({ kind, message, key, signature }) => utf8(JSON.stringify({ kind, message, key, signature }));

export class Client {
  /** @type {AbortSignal | undefined} */ signal;
  pause = 0; // seconds after which the next poll is wanted

  /**
   * @param {string} address of the service: https, or http on this machine
   * @param {{patience?: number, fetch?: Fetch}} [how] seconds to keep trying while nobody answers; what carries requests
   */
  constructor(address, { patience = 10, fetch = (to, init) => globalThis.fetch(to, init) } = {}) {
    this.address = address.replace(/\/+$/, "");
    this.patience = patience;
    this.fetch = fetch;
  }

  /**
   * Send a request, again and again while the service does not answer, or says 503.
   * @param {string} method @param {string} path @param {Uint8Array<ArrayBuffer>} [body] @param {Texts} [more] headers
   */
  async request(method, path, body, more) {
    const end = Date.now() + 1000 * this.patience;
    const headers = { [HEADER]: `${PROTOCOL} tandem/web`, ...more };
    for (let attempt = 0; ; attempt++) {
      const response = await this.attempt(path, { method, body, headers, ...ALONE });
      const wait = PAUSES[Math.min(attempt, PAUSES.length - 1)];
      const over = this.signal?.aborted || Date.now() + 1000 * wait > end;
      if (typeof response !== "string" && (over || !AWAY.includes(response.status))) return this.checked(response);
      if (over) fail("peer-unavailable", `nobody answers at ${this.address} (${response})`);
      await pause(wait, this.signal);
    }
  }

  /** @param {string} path @param {RequestInit} request @returns {Promise<Reply | string>} or why there is none */
  async attempt(path, request) {
    const limit = new AbortController(); // AbortSignal.any is not in Safari 17.0
    const free = after(ATTEMPT, this.signal, () => limit.abort());
    if (this.signal?.aborted) limit.abort();
    try {
      const response = await this.fetch(this.address + path, { ...request, signal: limit.signal });
      const { status, headers } = response;
      return { status, headers, body: await contentOf(response) };
    } catch (error) {
      if (error instanceof Refusal) throw error;
      return error instanceof Error ? error.message : "it does not answer";
    } finally {
      free();
    }
  }

  checked(/** @type {Reply} */ reply) {
    const stated = reply.headers.get(HEADER)?.slice(0, 60);
    if (stated !== undefined && !stated.startsWith(`${PROTOCOL} tandem/`))
      fail("version-skew", `${this.address} speaks protocol ${plain(stated)}, this agent ${PROTOCOL}: get the page anew`);
    if (reply.status >= 200 && reply.status < 300) return reply;
    const { type, title, detail = title } = jsonOf(reply) ?? {};
    if (!String(type).startsWith(URN))
      fail("peer-misbehaved", `${this.address} answers ${reply.status} without a reason: is that the referee?`);
    const later = reply.status >= 500 || reply.status === 408; // a fault of the service, and not of this device
    const problem = String(type).slice(URN.length);
    fail(later ? "busy" : PASSING.includes(problem) ? "refused" : problem, plain(String(detail).slice(0, 2000)));
  }

  /** @type {(method: string, path: string, signed?: Signed, headers?: Texts) => Promise<any>} */
  document = async (method, path, signed, headers) => {
    const object = jsonOf(await this.request(method, path, signed && raw(signed), headers));
    return isObject(object) ? object : fail("peer-misbehaved", `${this.address} answers ${path} with no JSON object`);
  };

  /** A document that is signed. @param {Parameters<Client["document"]>} asked @returns {Promise<Signed>} */
  signed = async (...asked) => this.signedBy(await this.document(...asked));

  signedBy(/** @type {unknown} */ value) {
    try {
      return signedOf(value);
    } catch {
      fail("peer-misbehaved", `${this.address} answers with no signed message: is that the referee?`);
    }
  }
}

/** @param {Pick<Reply, "body">} reply @returns {any} undefined of what is no acceptable JSON */
export function jsonOf({ body }) {
  try {
    return decode(body);
  } catch {
    return undefined;
  }
}

export class RefereeClient extends Client {
  /** @param {Signed} signed @param {string} token */
  enrol = (signed, token) => this.signed("POST", "/v1/enrolments", signed, bearer(token));
  configuration = (/** @type {string} */ run) => this.signed("GET", `/v1/runs/${run}/configuration`);
  decline = (/** @type {Signed} */ signed) => this.request("POST", "/v1/declines", raw(signed));
  /** Hand in a report, and return the receipt. @param {Signed} signed */
  report = (signed) => this.signed("PUT", `/v1/reports/${signed.message.report_id}`, signed);
  proof = (/** @type {Signed} */ request) => this.document("POST", "/v1/proofs", request);

  /** @param {Signed} signed @returns {Promise<Signed | null>} */
  async poll(signed) {
    const reply = await this.request("POST", "/v1/polls", raw(signed));
    if (reply.status !== 204) return this.signedBy(jsonOf(reply));
    this.pause = Math.min(Math.max(Number(reply.headers.get("retry-after")), 0), LONGEST_PAUSE) || 0;
    return null;
  }
}
