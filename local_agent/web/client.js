/**
 * The referee over HTTP, as an agent sees it: by fetch, with a limit of time and of bytes, again while nobody answers.
 *
 * @typedef {import("./identity.js").Signed} Signed
 * @typedef {(address: string, init: RequestInit) => Promise<Response>} Fetch
 * @typedef {{status: number, headers: Headers, body: Uint8Array<ArrayBuffer>}} Reply
 */

import { concat, utf8 } from "./bytes.js";
import { decode, encode } from "./canonical.js";
import { Refusal, isObject } from "./errors.js";
import { signedOf } from "./identity.js";

export const PROTOCOL = 3; // the version that this agent speaks
const HEADER = "Tandem-Protocol";
const URN = "urn:tandem:problem:";
const PAUSES = [0.1, 0.2, 0.5, 1, 2]; // seconds between attempts; the last repeats
const ATTEMPT = 60; // seconds of one attempt
export const ANSWER = 16 << 20; // bytes of the longest answer: a question, with its hypothesis
const LONGEST_PAUSE = 600; // seconds that a referee may let an agent wait before its next poll

/** Wait so many seconds, or until the signal is given. @param {number} seconds @param {AbortSignal} [signal] */
export const pause = (seconds, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve(undefined)), { once: true });
  });

/** A signed message as it travels. @param {Signed} signed */
function raw({ kind, message, key, signature }) {
  const end = utf8(`,"key":"${key}","signature":"${signature}"}`);
  return concat(utf8(`{"kind":${JSON.stringify(kind)},"message":`), encode(message), end);
}

export class Client {
  /**
   * @param {string} address of the service: https, or http on this machine
   * @param {{patience?: number, fetch?: Fetch}} [how] seconds to keep trying while nobody answers; what carries requests
   */
  constructor(address, { patience = 10, fetch = (to, init) => globalThis.fetch(to, init) } = {}) {
    this.address = address.replace(/\/+$/, "");
    this.patience = patience;
    this.fetch = fetch;
    /** @type {AbortSignal | undefined} */
    this.signal = undefined;
    this.pause = 0; // seconds after which the next poll is wanted
  }

  /**
   * Send a request, again and again while the service does not answer, or says 503.
   * @param {string} method @param {string} path @param {Uint8Array<ArrayBuffer>} [body]
   * @param {Record<string, string>} [headers]
   */
  async request(method, path, body, headers = {}) {
    const end = Date.now() + 1000 * this.patience;
    for (let attempt = 0; ; attempt++) {
      const found = await this.attempt(path, { method, body, headers: { [HEADER]: `${PROTOCOL} tandem/web`, ...headers } });
      if (typeof found !== "string" && found.status !== 503) return this.checked(found);
      const wait = PAUSES[Math.min(attempt, PAUSES.length - 1)];
      if (this.signal?.aborted || Date.now() + 1000 * wait > end) {
        if (typeof found !== "string") return this.checked(found);
        throw new Refusal("peer-unavailable", `nobody answers at ${this.address} (${found}): it is asked again`);
      }
      await pause(wait, this.signal);
    }
  }

  /** @param {string} path @param {RequestInit} request @returns {Promise<Reply | string>} or why there is none */
  async attempt(path, request) {
    const limit = AbortSignal.timeout(1000 * ATTEMPT);
    const signal = this.signal ? AbortSignal.any([limit, this.signal]) : limit;
    try {
      const alone = /** @type {const} */ ({ redirect: "error", credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" });
      const { status, headers, body } = await this.fetch(this.address + path, { ...request, ...alone, signal });
      const parts = [];
      const reader = body?.getReader();
      for (let part = await reader?.read(), size = 0; part?.value; part = await reader?.read()) {
        parts.push(part.value);
        if ((size += part.value.length) > ANSWER) {
          await reader?.cancel();
          return "it answers more than any question is long";
        }
      }
      return { status, headers, body: concat(...parts) };
    } catch (error) {
      if (error instanceof Refusal) throw error;
      return error instanceof Error ? error.message : "it does not answer";
    }
  }

  /** @param {Reply} reply */
  checked(reply) {
    const stated = reply.headers.get(HEADER)?.slice(0, 60);
    if (stated !== undefined && stated.split(" ")[0] !== String(PROTOCOL))
      throw new Refusal("version-skew", `the service at ${this.address} speaks protocol ${stated}, this agent ${PROTOCOL}: get the page anew`); // prettier-ignore
    if (reply.status >= 200 && reply.status < 300) return reply;
    const problem = jsonOf(reply);
    if (!isObject(problem) || !String(problem.type).startsWith(URN))
      throw new Refusal("peer-misbehaved", `${this.address} answers ${reply.status} without a reason: is that the referee?`);
    throw new Refusal(String(problem.type).slice(URN.length), String(problem.detail ?? problem.title).slice(0, 2000));
  }

  /** @param {string} method @param {string} path @param {Signed} [signed] @param {Record<string, string>} [headers] @returns {Promise<any>} */
  async document(method, path, signed, headers) {
    const found = jsonOf(await this.request(method, path, signed && raw(signed), headers));
    if (!isObject(found)) throw new Refusal("peer-misbehaved", `${this.address} answers ${path} with no JSON object`);
    return found;
  }
}

/** @param {Pick<Reply, "body">} reply @returns {any} undefined of what is no acceptable JSON */
export function jsonOf(reply) {
  try {
    return decode(reply.body);
  } catch {
    return undefined;
  }
}

export class RefereeClient extends Client {
  /** @param {Signed} signed @param {string} token */
  async enrol(signed, token) {
    return signedOf(await this.document("POST", "/v1/enrolments", signed, { Authorization: `Bearer ${token}` }));
  }

  /** @param {Signed} signed @returns {Promise<Signed | null>} */
  async poll(signed) {
    const reply = await this.request("POST", "/v1/polls", raw(signed));
    if (reply.status !== 204) return signedOf(jsonOf(reply));
    const seconds = Number(reply.headers.get("retry-after") ?? 0);
    this.pause = seconds > 0 ? Math.min(seconds, LONGEST_PAUSE) : 0;
    return null;
  }

  /** @param {string} run */
  async configuration(run) {
    return signedOf(await this.document("GET", `/v1/runs/${run}/configuration`));
  }

  /** @param {Signed} signed */
  async decline(signed) {
    await this.request("POST", "/v1/declines", raw(signed));
  }

  /** @param {Signed} signed @returns {Promise<Signed>} the receipt */
  async report(signed) {
    return signedOf(await this.document("PUT", `/v1/reports/${signed.message.report_id}`, signed));
  }

  /** @param {Signed} signed a proof request */
  proof(signed) {
    return this.document("POST", "/v1/proofs", signed);
  }
}
