/**
 * The page: what a person enters, reads, and agrees to. It holds no part of the agent.
 *
 * Nothing that was entered is stored. The invitation is, and then leaves the address; it never is in one that is sent.
 */

import { Agent } from "../agent.js";
import { createKey, decode } from "../messages.js";
import { dimension, recordOf } from "../record.js";
import { BrowserStore } from "../store.js";
import { Refusal, fail, isObject } from "../values.js";
import { namesOfTable } from "../words.js";

/**
 * @import { Schema } from "../record.js"
 * @import { State } from "../types/agent.d.ts"
 * @typedef {Node | string} Part
 */

const link = new URLSearchParams(location.hash.slice(1)); // of referee invite
addEventListener("hashchange", () => location.reload()); // another link was opened here

const byId = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
// Columns and values have any names: none may be found in what an object has by itself.
const bare = (/** @type {string} */ _, /** @type {any} */ value) => (isObject(value) ? Object.setPrototypeOf(value, null) : value);
const known = JSON.parse(byId("settings").textContent ?? "", bare);
const { texts, referee } = known;
const schema = /** @type {Schema} */ (known.schema);
const stage = element("section", {});
const OTHER = "\0"; // no text that is listed
const UNTRUE = ["bad-message", "configuration-mismatch"];
const JSON_FILE = { type: "file", accept: ".json,application/json" };
const ENGLISH = { lang: "en", dir: "ltr" }; // what the agent says, in whatever language the page is
const SLOWEST = 1; // seconds between two polls, at least

/** @type {Agent} */ let agent;
let asking = new AbortController(); // of what goes on between agent and referee: another one, once that is over
/** @type {Promise<unknown>} */ let running = Promise.resolve();
/** @type {Part[]} */ let closed = []; // what is said of a question that was closed while the person read, also above the next

/** @param {string} tag @param {Record<string, any>} properties @param {Part[]} children @returns {any} */
function element(tag, properties, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

/** @param {string} className @param {Part[]} parts */
const block = (className, ...parts) => element("div", { className }, ...parts);
const paragraph = (/** @type {string} */ text, className = "") => element("p", { className }, text);
/** @param {string} words @param {string} kind */
const notice = (words, kind) => block(`notice ${kind}`, paragraph(words));
/** What is wrong, as the agent says it, and what to do. @param {string} detail @param {string} remedy */
const bad = (detail, remedy) => block("notice bad", element("p", ENGLISH, detail), paragraph(remedy));
/** @param {string} words @param {() => unknown} onclick */
const button = (words, onclick, className = "") => element("button", { type: "button", className, onclick }, words);
/** @param {string} summary @param {Part[]} parts */
const details = (summary, ...parts) => element("details", {}, element("summary", {}, summary), ...parts);
const progress = (/** @type {string} */ ariaLabel) => element("progress", { ariaLabel });

const listed = (/** @type {Record<string, Part>} */ parts) =>
  element("dl", {}, ...Object.entries(parts).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

/** Put {names} into a text. @param {string} text @param {Record<string, any>} values */
const filled = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));

/** Show what comes next; its heading gets the focus, and is read out. @param {string} heading @param {Part[]} parts */
function show(heading, ...parts) {
  const title = element("h2", { tabIndex: -1 }, heading);
  const first = !stage.hasChildNodes();
  stage.replaceChildren(title, ...parts);
  byId("status").textContent = heading;
  if (!first) title.focus();
}

/** Say what is wrong, and what to do. @param {{problem?: string, detail?: string}} state */
function trouble({ problem = "", detail = "" }) {
  const name = UNTRUE.includes(problem) ? "forged" : problem;
  const usual = agent?.unacknowledged ? texts.stored : texts.nothing_sent;
  const remedy = filled(texts.problems[name] ?? usual, { now: new Date().toLocaleString() });
  return bad(detail, remedy);
}

const troubleOf = (/** @type {any} */ error) =>
  trouble(error instanceof Refusal ? error : { problem: "internal", detail: error?.message ?? String(error) });

const stop = (/** @type {unknown} */ error) => show(texts.stop, troubleOf(error), ...keeping());

// What a person enters -----------------------------------------------------------------------------------------------

/** @type {(id: string, given: object, label?: string, note?: string, tag?: string, ...options: Node[]) => any} */
function asked(id, properties, label = texts[id], note = texts[`${id}_note`], tag = "input", ...options) {
  const input = element(tag, { id, autocomplete: "off", ...properties }, ...options);
  input.setAttribute("aria-describedby", `${id}-note`);
  const quiet = element("span", { className: "quiet", id: `${id}-note` }, note);
  return { input, node: block("field", element("label", { htmlFor: id }, label), quiet, input) };
}

function fieldOf(/** @type {string} */ column, /** @type {number} */ at) {
  const { label: target, where } = schema;
  const own = schema.features.filter((each) => each.column === column);
  const number = own.find((each) => each.kind === "number");
  const isLabel = target.column === column;
  const { label = column, note = "", values: words } = texts.columns[column] ?? {};
  // Lists of texts that mean the same.
  const filters = (where[column]?.values ?? []).map((value) => [value]);
  const labels = isLabel && target.above === null ? [target.positive, target.negative] : [];
  const groups = [...filters, ...labels, ...own.flatMap((each) => (each.kind === "category" ? each.values : []))];
  const options = groups.filter((group, at) => groups.findIndex((other) => other[0] === group[0]) === at);
  const id = `field-${at}`;
  if (number || !options.length) {
    const type = options.length ? "text" : "number";
    const hint = number ? filled(texts.number, number) : filled(texts.number_label, target);
    const { input, node } = asked(id, { type, step: "any", required: isLabel }, label, `${note} ${hint}`.trim());
    return { column, node, read: () => (input.value === "" ? null : type === "number" ? input.valueAsNumber : input.value) };
  }
  const listed = options.map((group) => [group.map((text) => words?.[text] ?? text).join(" / "), group[0]]);
  const choices = isLabel || where[column] ? listed : [...listed, [texts.unknown, null], [texts.other, OTHER]];
  const nodes = choices.map(([text], index) => element("option", { value: String(index) }, text));
  const none = element("option", { value: "" }, texts.choose);
  const { input, node } = asked(id, { required: true }, label, note, "select", none, ...nodes);
  return { column, node, read: () => choices[input.value][1] };
}

/** Ask for the record, and go on once it is one. */
async function ask() {
  const { token, issuer, rules } = agent.options;
  const columns = new Set([...schema.features, schema.label].map(({ column }) => column).concat(Object.keys(schema.where)));
  const fields = [...columns].map(fieldOf);
  const about = element("legend", { className: "unseen" }, texts.about_you);
  const entered = element("fieldset", {}, about, ...fields.map(({ node }) => node));
  const file = asked("file", JSON_FILE);
  file.input.onchange = () => (entered.disabled = file.input.files.length > 0);
  const secret = { type: "password", required: true };
  const invitation = asked("invitation", secret);
  const code = issuer && asked("code", secret);
  const bounds = { type: "number", step: "any", min: "0.000001", required: true };
  const budget = asked("budget", { ...bounds, value: rules.epsilon });
  const wrong = element("div", { role: "alert" });

  const onsubmit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const own = () => Object.fromEntries(fields.map(({ column, read }) => [column, read()]));
      agent.know(recordOf((await chosen(file)) ?? own(), schema));
      rules.epsilon = budget.input.valueAsNumber;
      await remember(invitation.input.value.trim(), code?.input.value.trim());
    } catch (error) {
      return wrong.replaceChildren(troubleOf(error));
    }
    await goOn();
  };
  const missing = [...(token ? [] : [invitation.node]), ...(code && !issuer?.code ? [code.node] : [])];
  const next = block("buttons", element("button", { className: "main" }, texts.go_on));
  const form = element("form", { onsubmit }, entered, details(texts.file, file.node), budget.node, ...missing, wrong, next);
  show(texts.about_you, form, ...keeping());
}

/** The JSON value in a file that was chosen; Refusal `bad-data`: it holds none. @param {{input: any}} file */
async function chosen({ input: { files } }) {
  const content = files.length > 0 && new Uint8Array(await files[0].arrayBuffer());
  try {
    return content ? (decode(content) ?? {}) : undefined;
  } catch (/** @type {any} */ error) {
    fail("bad-data", error.message);
  }
}

/** Store what was entered, where it was not known, and the budget. @param {string} [token] @param {string} [code] */
async function remember(token = "", code = "") {
  const { issuer, rules, store } = agent.options;
  agent.options.token ||= token;
  if (issuer) issuer.code ||= code;
  await store.write("page", { token: agent.options.token, epsilon: rules.epsilon, code: issuer?.code });
}

// What the agent does ------------------------------------------------------------------------------------------------

/** @type {(question: import("../policy.js").Question, words: Record<string, string>) => Promise<boolean>} */
const agreed = (_question, words) =>
  new Promise((resolve) => {
    const decide = (/** @type {boolean} */ yes) => {
      show(yes ? texts.computing : texts.declined, progress(texts.computing));
      resolve(yes);
    };
    const buttons = [button(texts.answer, () => decide(true), "main"), button(texts.not, () => decide(false))];
    show(texts.asked, ...closed, Object.assign(listed(words), ENGLISH), block("buttons pair", ...buttons));
  });

/** Wait for a question, and let the agent answer it. */
async function goOn() {
  const keeps = paragraph(texts.forgets, "quiet"); // until the browser says that it keeps it: Firefox asks the person
  const showStorage = (/** @type {boolean} */ yes) => yes && (keeps.textContent = texts.remembers);
  navigator.storage.persist().then(showStorage, () => {});
  const own = (asking = new AbortController());
  const wrong = element("div", { role: "status" });
  const wait = () => {
    const heading = agent.unacknowledged ? texts.sending : texts.waiting;
    const words = agent.unacknowledged ? [] : [paragraph(texts.waiting_words)];
    show(heading, progress(heading), ...words, wrong, keeps, ...keeping());
  };
  /** @type {State} */
  let last = { state: "waiting" };
  closed = [];
  const onState = (/** @type {State} */ state) => {
    last = state;
    if (state.state !== "waiting") closed = state.state === "closed" ? [trouble(state)] : [];
    if (own.signal.aborted) return;
    if (state.state === "waiting") state.pause = Math.max(state.pause ?? 0, SLOWEST);
    if (state.state === "answered" || state.problem === "cannot-write") return own.abort();
    if (!wrong.isConnected) wait(); // the person has decided, and there is no answer
    if (state.detail || !closed.length) wrong.replaceChildren(...(state.detail ? [trouble(state)] : []));
  };
  wait();
  try {
    await (running = agent.run({ signal: own.signal, onState }));
    if (asking !== own) return;
    if (last.problem === "unauthorized") await agent.options.store.write("page", null); // it is entered again
    after(last);
  } catch (error) {
    if (asking === own) stop(error);
  }
}

/** Ask and send nothing more; what is under way has ended when this has. */
async function halt() {
  asking.abort();
  asking = new AbortController();
  await running.catch(() => {});
}

/** @param {State} state the last one */
function after(state) {
  const late = state.state === "failed" && agent.answers.length > 0 && !agent.unacknowledged && !agent.receipt;
  if (late || state.state === "answered" || state.state === "finished") answered(state);
  else if (state.state === "declined") ended(texts.declined, notice(texts.declined_words, ""));
  else if (state.state === "refused") ended(texts.refused, trouble(state));
  else show(texts.stop, trouble(state), ...keeping());
}

/** @param {string} heading @param {Part} said */
const ended = (heading, said) => show(heading, said, block("buttons", ...further()), ...keeping());

const further = () => (agent.left[0] > 0 ? [button(texts.next, ask)] : []);

/** Show what left this device, what it cost, and the receipt or why there is none. @param {{detail?: string}} state */
function answered({ detail = "" } = {}) {
  const { epsilon, report } = agent.answers[agent.answers.length - 1];
  const { run, question, answer } = report.message;
  const signed = agent.receipt;
  const checked = element("div", { role: "status" });
  const left = agent.left[0];
  const parts = {
    [texts.left_device]: filled(texts.left_device_words, { answer }),
    [texts.cost]: filled(texts.cost_words, { epsilon, left, budget: agent.options.rules.epsilon }),
  };
  if (signed) {
    const words = filled(texts.receipt_words, { referee: referee.url, run, question });
    parts[texts.receipt] = element("span", {}, words, " ", element("code", {}, signed.signature));
  }
  show(
    signed ? texts.answered : texts.not_taken,
    ...(signed ? [] : [bad(detail, texts.not_taken_words)]),
    listed(parts),
    checked,
    block("buttons", ...(signed ? [button(texts.check, () => check(checked), "main")] : []), ...further()),
    ...(left > 0 ? [] : [paragraph(texts.finished, "quiet")]),
    ...keeping(),
  );
}

async function check(/** @type {HTMLElement} */ place) {
  try {
    const lines = (await agent.check()).map(({ status, why }) =>
      status === "included" ? notice(`${texts.counted} (${why})`, "good") : notice(`${texts.uncounted} ${status}: ${why}`, "bad"),
    );
    place.replaceChildren(...lines);
  } catch (/** @type {any} */ error) {
    place.replaceChildren(notice(`${texts.uncounted} ${error.message}`, "bad"));
  }
}

// What this device keeps ---------------------------------------------------------------------------------------------

/** The log, the state as a file, and the end of it; nothing where there is no agent. */
function keeping() {
  if (!agent) return [];
  const log = element("ol", { className: "log", ...ENGLISH });
  const opened = details(texts.log, log);
  opened.ontoggle = () =>
    log.replaceChildren(...agent.log.map(({ time, event, ...facts }) => element("li", {}, `${time} ${event}. ${inWords(facts)}`)));
  const file = asked("state", JSON_FILE, texts.load, "");
  file.input.onchange = async () => {
    try {
      await halt();
      await agent.import(await chosen(file));
      await begin();
    } catch (error) {
      stop(error);
    }
  };
  const hasLog = agent.log.length > 0;
  const parts = [...(hasLog ? [opened] : []), block("buttons", ...(hasLog ? [button(texts.save, save)] : []), button(texts.erase, erase))];
  if (agent.answers.length === 0) parts.push(file.node);
  return [element("section", {}, element("h3", {}, texts.device), ...parts)];
}

/** @param {Record<string, unknown>} facts */
const inWords = (facts) => Object.entries(facts).map(([name, value]) => `${name.replaceAll("_", " ")}: ${value}`).join("; ");

async function save() {
  const href = URL.createObjectURL(new Blob([JSON.stringify(await agent.export())], { type: "application/json" }));
  element("a", { href, download: "my-answers.json" }).click();
  URL.revokeObjectURL(href);
}

async function erase() {
  if (!confirm(texts.erase_sure)) return;
  await halt();
  try {
    await agent.erase();
  } catch (error) {
    stop(error);
    return;
  }
  stage.replaceChildren();
  show(texts.erased);
}

/** Show what there is: an answer that was given, or the form. */
async function begin() {
  if (agent.answers.length === 0) return ask();
  if (!agent.receipt) return goOn(); // the same answer again
  agent.settle();
  answered();
}

async function start() {
  byId("loading").replaceWith(paragraph(texts.intro), who(), stage);
  try {
    if (!isSecureContext) fail("page", texts.insecure);
    if (window.top !== window) fail("page", texts.framed);
    if ((link.get("key") ?? referee.key) !== referee.key) fail("page", texts.other_referee);
    await createKey();
    const store = new BrowserStore(`tandem ${referee.key}`);
    const rules = { ...known.policy, referee: referee.key };
    const { relay, witness } = known;
    const issuer = known.issuer && { ...known.issuer, code: link.get("code") ?? "" };
    const parties = { address: referee.url, relay, witness, issuer, token: link.get("invitation") ?? "" };
    const own = { store, rules, consent: agreed, names: namesOfTable(schema), dimension: dimension(schema) };
    agent = await Agent.open({ ...own, ...parties });
    const before = await store.read("page");
    rules.epsilon = before?.epsilon ?? rules.epsilon;
    await remember(before?.token, before?.code);
    history.replaceState(null, "", location.pathname + location.search); // and forgets how often it was loaded again
    await begin();
  } catch (error) {
    stop(error);
  }
}

/** Who is trusted, and whom the page talks to. */
function who() {
  const { relay, issuer, witness } = known;
  const others = [relay && texts.who_relay, issuer && texts.who_issuer, witness && texts.who_witness];
  const words = [texts.who_words, ...others].filter(Boolean);
  const values = { referee: referee.url, key: referee.key, relay, issuer: issuer?.address, witness };
  return details(texts.who, ...words.map((each) => paragraph(filled(each, values))));
}

start();
