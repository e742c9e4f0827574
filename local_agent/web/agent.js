/**
 * One person, one record, own rules, and answers until the lifetime budget is spent.
 *
 * What an agent spends is stored, together with the randomized answer itself, before anything is sent: after a crash it
 * sends the same answer again or nothing, never a second sample. Its answers together are (sum epsilon_i, sum
 * delta_i)-differentially private in the record for any behaviour of all others: basic composition, which is a valid
 * filter for budgets that are chosen on the way (Rogers, Roth, Ullman and Vadhan 2016).
 *
 * @import { Identity, Signed } from "./messages.js"
 * @import { Question } from "./policy.js"
 * @import { Options, Person, State } from "./types/agent.d.ts"
 * @typedef {{epsilon: number, delta: number, question: string, report: Signed, body: string}} Answer what it cost, the
 *   fingerprint of the question, and what leaves; body: the packed answer, hex
 */

import { PASSING, RefereeClient, pause } from "./client.js";
import { concat, createKey, derive, digest as digestOf, hex, identityOf, keyOfJson, sha256hex, statementOf, unhex, verify } from "./messages.js"; // prettier-ignore
import { check, checkCost, kindOf, leftOf } from "./policy.js";
import { KINDS, Source } from "./questions.js";
import { checkReceipt, checkReport, leafOf, packOne } from "./receipts.js";
import { Refusal, countForm, digestForm, fail, isDigest, isObject, runForm } from "./values.js";
import { described } from "./words.js";

const ENROLLED = { participant: digestForm, first: countForm, agents: countForm };
const DOCUMENTS = /** @type {const} */ (["answers", "receipts", "log"]); // in the store, and in a file of the state
const SECONDS = 1 / 16; // that an answer takes at least
const SECONDS_A_CHARACTER = 1e-5; // of the question: to parse it, and to evaluate it

export class Agent {
  /** @type {Signed | undefined} */ configuration; // the newest: a referee that names run after run fills no memory
  me = /** @type {Identity} */ (/** @type {unknown} */ (undefined)); // until it is open
  enrolled = false;
  settled = 0; // answers that this process has sent for good: acknowledged, or refused
  secret = new Uint8Array(32);
  /** @type {Person | undefined} */ record;
  /** @type {Answer[]} */ answers = [];
  /** @type {Record<string, import("./receipts.js").Held>} by the report's signature */ receipts = {};
  /** @type {Record<string, unknown>[]} */ log = [];

  constructor(/** @type {Options} */ options) {
    this.options = options;
    this.client = new RefereeClient(options.address, options);
  }

  /** Open an agent on its store, which it holds alone until it is closed. */
  static async open(/** @type {Options} */ options) {
    const agent = new Agent(options);
    await options.store.open();
    try {
      await agent.load();
      if (options.record) agent.know(options.record);
      return agent;
    } catch (error) {
      agent.close();
      throw error;
    }
  }

  async load() {
    const { store, rules, relay, fetch } = this.options;
    if (relay) this.client.fetch = (await import("./relay.js")).through(relay, rules.referee, fetch);
    let key = await store.read("key");
    if (key === undefined) {
      const pair = await createKey(!store.keepsKeys);
      key = store.keepsKeys ? pair : await crypto.subtle.exportKey("jwk", pair.privateKey);
      await store.write("key", key);
    }
    this.me = await identityOf(store.keepsKeys ? key : await keyOfJson(key));
    const { referee, secret } = (await store.read("state")) ?? {};
    if (referee !== undefined && referee !== rules.referee)
      fail("forged", "this state belongs to another referee's key: take the page that made it, or erase it");
    this.secret = secret === undefined ? crypto.getRandomValues(new Uint8Array(32)) : unhex(secret);
    if (secret === undefined) await store.write("state", { referee: rules.referee, secret: hex(this.secret) });
    for (const name of DOCUMENTS) this[name] = (await store.read(name)) ?? this[name];
  }

  /** Take the person's record, which stays in memory; Refusal `bad-data`: it is none. */
  know(/** @type {Person} */ record) {
    const most = record.features instanceof Uint8Array ? 1 : Number.MAX_VALUE;
    const good = Math.abs(record.label) === 1 && record.features.every((value) => Math.abs(value) <= most);
    if (!good) fail("bad-data", "a record has finite numbers, and the label 1 or -1");
    this.record = record;
  }

  close = () => this.options.store.close();

  /** What is left of the lifetime budget, (epsilon, delta), never rounded up. @returns {[number, number]} */
  get left() {
    const { epsilon, delta = 0 } = this.options.rules;
    const paid = this.answers;
    return [leftOf(epsilon, paid.map((each) => each.epsilon)), leftOf(delta, paid.map((each) => each.delta))];
  }

  /** The newest answer, until the referee has acknowledged it to this process, or refused it for good. */
  get unacknowledged() {
    return this.answers[this.settled] && this.answers[this.answers.length - 1];
  }

  /** The receipt of the newest answer; undefined: it has not arrived, or was not taken. */
  get receipt() {
    return this.receipts[this.answers.at(-1)?.report.signature ?? ""]?.receipt;
  }

  get finished() {
    return this.left[0] <= 0 && !this.unacknowledged;
  }

  get dimension() {
    return this.record?.features.length ?? this.options.dimension;
  }

  /** Send what was not acknowledged, enrol, or take up the question that is there. @returns {Promise<State>} */
  async step() {
    try {
      if (this.finished) return { state: "finished" };
      if (this.unacknowledged) return await this.handIn(this.unacknowledged);
      if (!this.enrolled) await this.enrol();
      const assignment = await this.poll().catch(async (error) => {
        if (error?.problem !== "not-found") throw error;
        await this.enrol(); // the referee was put back to before it enrolled
        return this.poll();
      });
      return assignment ? await this.takeUp(assignment) : { state: "waiting", pause: this.client.pause };
    } catch (error) {
      const { problem, detail } = await this.refused(error);
      return { state: PASSING.includes(problem) ? "away" : "failed", problem, detail };
    }
  }

  async enrol() {
    const { rules, token, store, issuer, fetch } = this.options;
    const { queries = KINDS } = rules;
    const [epsilon, delta] = Number.isFinite(rules.epsilon) ? this.left : [null, null];
    const policy = { refuses: KINDS.filter((kind) => !queries.includes(kind)), epsilon, delta, features: this.dimension };
    if (issuer) await (await import("./credential.js")).obtain(store, this.me.key, issuer, { fetch });
    const again = this.answers.length > 0 && this.left[0] > 0 ? true : undefined;
    const message = { agents: 1, credential: await store.read("credential"), policy, again };
    const reply = await this.client.enrol(await this.me.sign("enrolment", message), token);
    await statementOf(ENROLLED, reply, "enrolled", rules.referee);
    this.enrolled = true;
  }

  poll = async () => this.client.poll(await this.me.sign("poll", { participant: this.me.key }));

  /** @param {Signed} assignment @returns {Promise<State>} */
  async takeUp(assignment) {
    const { rules, names = null } = this.options;
    await verify(assignment, kindOf(assignment), rules.referee); // before anything of it is used
    const run = runForm(assignment.message.run, "run");
    let { configuration } = this;
    if (!configuration || (await digestOf(configuration.message)) !== assignment.message.digest)
      configuration = await this.client.configuration(run);
    await verify(configuration, "configuration", rules.referee); // what was changed on its way is not kept
    this.configuration = configuration;
    let answer;
    try {
      const question = await check(rules, assignment, configuration, this.dimension, names, this.left, this.known);
      await this.askForConsent(question);
      const again = await this.poll();
      if (!again || (await digestOf(again.message)) !== question.digest)
        return { state: "closed", detail: "the question was closed meanwhile: nothing was answered, nothing is spent" };
      answer = await this.answer(question);
    } catch (error) {
      if (error instanceof Refusal && PASSING.includes(error.problem)) throw error;
      const { problem, detail } = await this.refused(error);
      const { message, message: { digest, question } } = assignment; // prettier-ignore
      const declined = { run, digest, question, assignment: await digestOf(message), reason: problem };
      await this.client.decline(await this.me.sign("decline", declined)).catch((error) => this.refused(error));
      return { state: problem === "consent-withheld" ? "declined" : "refused", problem, detail };
    }
    return this.handIn(answer);
  }

  known = (/** @type {string} */ fingerprint) => this.answers.find((answer) => answer.question === fingerprint);

  async askForConsent(/** @type {Question} */ question) {
    const { address, rules, consent } = this.options;
    const { run, question: number } = question.assignment;
    const [epsilon, delta] = question.mechanism.guarantee;
    const words = described(question, address, rules, this.left[0]);
    await this.note("asked", { run, question: number, referee: address, ...words, epsilon, delta, lifetime_left: this.left[0] });
    const agreed = await consent(question, words);
    await this.note(agreed ? "agreed" : "declined", { run, question: number });
    if (!agreed) fail("consent-withheld", "declined: nothing was answered and nothing is spent");
  }

  /** Answer; the same question again gets the same report. @param {Question} question @returns {Promise<Answer>} */
  async answer(question) {
    const { query, mechanism, slot, assignment: asked, fingerprint } = question;
    const known = this.known(fingerprint);
    if (known) return known;
    return timed(SECONDS + SECONDS_A_CHARACTER * JSON.stringify(asked.query).length, async () => {
      const { record, secret } = this;
      if (!record) fail("bad-data", "there is no record yet");
      checkCost(this.options.rules, mechanism.guarantee, this.left);
      // A function of the question: copies of the state give the same answer, not independent ones.
      const bytes = new Uint8Array(record.features.buffer, record.features.byteOffset, record.features.byteLength);
      const person = await sha256hex(concat(bytes, Uint8Array.of(record.label)));
      const what = await digestOf([query.wire, mechanism.wire]);
      const source = await Source.of(await derive(secret, ["answer", what, query.part(slot), person]));
      const answer = mechanism.randomize(query.evaluate(record, slot), query.domain, query.public(slot), source);
      const id = hex(await derive(secret, ["report", fingerprint])).slice(0, 32);
      const { run, digest, question: number } = asked;
      const message = { answer, assignment: question.digest, digest, question: number, report_id: id, run };
      const [epsilon, delta] = mechanism.guarantee;
      const body = hex(packOne(answer, mechanism.answerKind(query.domain)));
      const spent = { epsilon, delta, question: fingerprint, report: await this.me.sign("report", message), body };
      await this.options.store.write("answers", [...this.answers, spent]);
      this.answers.push(spent);
      return spent;
    });
  }

  /** Send a stored answer, and keep the receipt. @param {Answer} answer @returns {Promise<State>} */
  async handIn(answer) {
    const { report, body, epsilon } = answer;
    const { run, question } = report.message;
    let receipt;
    try {
      receipt = await this.client.report(report);
      await checkReceipt(receipt, report, this.options.rules.referee);
    } catch (error) {
      if (error instanceof Refusal && ![...PASSING, "relay-untrusted"].includes(error.problem)) this.settle();
      throw error;
    }
    const sent = this.receipts[report.signature]?.sent ?? Date.now() / 1000;
    this.receipts[report.signature] = { receipt, report, leaf: await leafOf(report, unhex(body)), sent };
    await this.options.store.write("receipts", this.receipts);
    this.settle();
    await this.note("answered", { run, question, sent: report.message.answer, epsilon, lifetime_left: this.left[0] });
    return { state: "answered", answer };
  }

  settle() {
    this.settled = this.answers.length;
    this.enrolled = false; // it enrols again for later runs
  }

  /**
   * Poll and answer until all is finished, the person or the rules declined, or the signal is given.
   * @param {{signal?: AbortSignal, onState?: (state: State) => void}} [how] @returns {Promise<State>} the last one
   */
  async run({ signal, onState = () => {} } = {}) {
    try {
      for (;;) {
        this.client.signal = signal;
        const state = await this.step();
        onState(state);
        if (signal?.aborted) return { state: "waiting" };
        if (["finished", "declined", "refused", "failed"].includes(state.state)) return state;
        if (state.state !== "answered") await pause(Math.max(0.02, state.pause ?? 0.5), signal);
        await visible(signal);
      }
    } finally {
      this.client.signal = undefined;
    }
  }

  /** Ask the referee about each receipt: is the report counted as it was sent? */
  async check() {
    const { witness: place, relay, store, rules } = this.options;
    if (place && relay) fail("bad-input", "a witness would be asked past the relay: give one of the two");
    const witness = place ? new (await import("./witness.js")).Witness(place, this.options) : undefined;
    const findings = [];
    for (const held of Object.values(this.receipts)) {
      const name = `seen-${held.report.message.run}`;
      const finding = await checkReport(held, this.client, this.me, rules.referee, await store.read(name), witness);
      const other = finding.status === "another history" ? "-other" : ""; // both are kept
      if (finding.shown) await store.write(name + other, finding.shown);
      findings.push(finding);
    }
    return findings;
  }

  /** Append to the log: never the record, or a value of it but the answer that left. */
  async note(/** @type {string} */ event, /** @type {object} */ facts) {
    this.log.push({ time: `${new Date().toISOString().slice(0, 19)}+00:00`, event, ...facts });
    await this.options.store.write("log", this.log);
  }

  /** Note a refusal, but not the same again and again, and return it; other errors are thrown. */
  async refused(/** @type {unknown} */ error) {
    if (!(error instanceof Refusal)) throw error;
    const { problem, detail } = error;
    const storing = problem !== "cannot-write" && problem !== "consent-withheld";
    if (storing && this.log.at(-1)?.detail !== detail) await this.note("refused", { reason: problem, detail });
    return error;
  }

  /** All but the signing key, which stays: what was spent, receipts, the log, and the secret of the noise. */
  export() {
    const { answers, receipts, log } = this;
    return { referee: this.options.rules.referee, agent: this.me.key, secret: hex(this.secret), answers, receipts, log };
  }

  /** Take what another store has exported: the same noise for the same questions, and what was spent stays spent. */
  async import(/** @type {any} */ from) {
    const { rules, store } = this.options;
    const whole = [from?.answers, from?.log].every(Array.isArray) && isObject(from.receipts);
    if (from?.referee !== rules.referee || !isDigest(from.secret) || !whole)
      fail("bad-data", "this file is no state of an agent of this page");
    if (this.answers.length > 0) fail("bad-data", "this browser has answered already: its own state stays");
    for (const name of DOCUMENTS) await store.write(name, from[name]);
    await store.write("state", { referee: from.referee, secret: from.secret });
    await this.load();
  }

  /** Delete everything: key, secret, answers, receipts, log. What was sent stays sent. */
  async erase() {
    await this.options.store.erase();
    [this.answers, this.receipts, this.log] = [[], {}, []];
    this.close();
  }
}

/** Wait while the page is hidden. @param {AbortSignal} [signal] */
async function visible(signal) {
  const page = globalThis.document;
  while (page?.hidden && !signal?.aborted)
    await new Promise((resolve) => {
      page.addEventListener("visibilitychange", resolve, { once: true });
      signal?.addEventListener("abort", resolve, { once: true });
    });
}

/**
 * Let work end unit, 2 unit, 4 unit, ... seconds after it was begun: its time tells no more of the record.
 * @template T @param {number} unit @param {() => Promise<T>} work
 */
async function timed(unit, work) {
  const began = performance.now();
  try {
    return await work();
  } finally {
    const took = (performance.now() - began) / 1000;
    await pause(unit * 2 ** Math.max(0, Math.ceil(Math.log2(took / unit))) - took);
  }
}
