/**
 * The page: what a person enters, reads, and agrees to. It holds no part of the agent.
 *
 * Nothing that was entered is stored. The invitation leaves the address at once, and never is in one that is sent.
 */

import { Agent } from "../agent.js";
import { utf8 } from "../bytes.js";
import { decode } from "../canonical.js";
import { Refusal } from "../errors.js";
import { createKey } from "../identity.js";
import { dimension, recordOf } from "../record.js";
import { BrowserStore } from "../store.js";
import { Names } from "../words.js";

/** @typedef {{column: string, read: () => unknown}} Field */
/** @typedef {import("../agent.js").State} State */

const link = new URLSearchParams(location.hash.slice(1)); // of referee invite
if (location.hash) history.replaceState(null, "", location.pathname + location.search);

const known = JSON.parse(/** @type {string} */ (byId("settings").textContent));
const { texts, schema, referee } = known;
const stage = element("section", {});
const OTHER = "\0"; // no text that is listed
const SLOWEST = 1; // seconds between two polls, at least

/** @type {Agent} */
let agent;

/** @param {string} id */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * @param {string} tag
 * @param {Record<string, any>} given properties, or attributes where the name has a hyphen
 * @param {(Node | string)[]} children
 * @returns {any}
 */
function element(tag, given, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given))
    if (name.includes("-") || name === "role") made.setAttribute(name, value);
    else Object.assign(made, { [name]: value });
  made.append(...children);
  return made;
}

/** @param {string} text @param {string} [className] */
const paragraph = (text, className = "") => element("p", { className }, text);

/** @param {string} words @param {string} kind @param {(Node | string)[]} more */
const notice = (words, kind, ...more) => element("div", { className: `notice ${kind}` }, paragraph(words), ...more);

/** @param {string} words @param {() => unknown} press @param {string} [className] */
const button = (words, press, className = "") => element("button", { type: "button", className, onclick: press }, words);

/** @param {Record<string, string | Node>} parts */
const listed = (parts) =>
  element("dl", {}, ...Object.entries(parts).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

/**
 * Put {names} into a text.
 * @param {string} text
 * @param {Record<string, string | number>} values
 */
const filled = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));

/**
 * Show what comes next in the place of what was there; its heading gets the focus, and is read out.
 * @param {string} heading
 * @param {(Node | string)[]} parts
 */
function show(heading, ...parts) {
  const title = element("h2", { tabIndex: -1 }, heading);
  const first = !stage.hasChildNodes();
  stage.replaceChildren(title, ...parts);
  byId("status").textContent = heading;
  if (!first) title.focus();
}

/** @param {unknown} error @returns {{problem: string, detail: string}} */
const described = (error) =>
  error instanceof Refusal ? error : { problem: "internal", detail: error instanceof Error ? error.message : String(error) };

/** @param {{problem?: string, detail?: string}} state */
function remedy({ problem = "" }) {
  return filled(texts.problems[problem] ?? texts.nothing_sent, { now: new Date().toLocaleString() });
}

/** @param {{problem?: string, detail?: string}} state */
function stop(state) {
  show(texts.stop, notice(state.detail ?? "", "bad", paragraph(remedy(state))), ...keeping());
}

/** @param {string} detail @returns {never} */
function cannot(detail) {
  throw new Refusal("page", detail);
}

// What a person enters -------------------------------------------------------------------------------------------------

/**
 * @param {string} column
 * @returns {{options: [string, string][], number: any, isLabel: boolean}} the texts that it may have, as listed and as shown
 */
function meaning(column) {
  const own = schema.features.filter((/** @type {any} */ each) => each.column === column);
  const isLabel = schema.label.column === column;
  const words = texts.columns[column]?.values ?? {};
  const groups = [
    ...(schema.where[column]?.values ?? []).map((/** @type {string} */ value) => [value]),
    ...(isLabel && schema.label.above === null ? [schema.label.positive, schema.label.negative] : []),
    ...own.filter((/** @type {any} */ each) => each.kind === "category").flatMap((/** @type {any} */ each) => each.values),
  ];
  /** @type {Map<string, string>} */
  const options = new Map();
  for (const group of groups)
    if (!options.has(group[0])) options.set(group[0], group.map((/** @type {string} */ text) => words[text] ?? text).join(" / "));
  return { options: [...options], number: own.find((/** @type {any} */ each) => each.kind === "number"), isLabel };
}

/**
 * @param {string} column
 * @param {number} at
 * @returns {Field & {node: Node}}
 */
function fieldOf(column, at) {
  const { options, number, isLabel } = meaning(column);
  const { label = column, note = "" } = texts.columns[column] ?? {};
  const id = `field-${at}`;
  const given = { id, required: isLabel, "aria-describedby": `${id}-note` };
  /** @type {any} */
  let input;
  let words, read;
  if (options.length > 0 && !number) {
    const more = isLabel || schema.where[column] ? [] : [[texts.unknown, null], [texts.other, OTHER]]; // prettier-ignore
    const values = [...options.map(([value, shown]) => [shown, value]), ...more];
    const choices = values.map(([shown], index) => element("option", { value: String(index) }, /** @type {string} */ (shown)));
    input = element("select", { ...given, required: true }, element("option", { value: "" }, texts.choose), ...choices);
    words = "";
    read = () => values[input.value][1];
  } else {
    input = element("input", { ...given, type: options.length > 0 ? "text" : "number", step: "any", autocomplete: "off" });
    words = number ? filled(texts.number, number) : filled(texts.number_label, { above: schema.label.above });
    read = () => (input.value === "" ? null : input.type === "number" ? input.valueAsNumber : input.value);
  }
  const quiet = element("span", { className: "quiet", id: `${id}-note` }, [note, words].filter(Boolean).join(" "));
  return { column, read, node: element("div", { className: "field" }, element("label", { htmlFor: id }, label), quiet, input) };
}

/**
 * @param {string} id
 * @param {string} label
 * @param {string} note
 * @param {Record<string, any>} given
 */
function asked(id, label, note, given) {
  const input = element("input", { id, autocomplete: "off", "aria-describedby": `${id}-note`, ...given });
  const quiet = element("span", { className: "quiet", id: `${id}-note` }, note);
  return { input, node: element("div", { className: "field" }, element("label", { htmlFor: id }, label), quiet, input) };
}

/** Ask for the record, and go on once it is one. */
async function ask() {
  const { label, where, features } = schema;
  const columns = [...features.map((/** @type {any} */ each) => each.column), label.column, ...Object.keys(where)];
  const fields = [...new Set(columns)].map(fieldOf);
  const entered = element("fieldset", {}, element("legend", { className: "unseen" }, texts.about_you), ...fields.map((each) => each.node));
  const file = asked("file", texts.file, texts.file_note, { type: "file", accept: ".json,application/json" });
  file.input.onchange = () => (entered.disabled = file.input.files.length > 0);
  const token = asked("invitation", texts.invitation, texts.invitation_note, { type: "password", required: true });
  const budget = asked("budget", texts.budget, texts.budget_note, { type: "number", step: "any", min: "0.000001", required: true });
  budget.input.value = agent.options.rules.epsilon;
  const { issuer } = agent.options;
  const code = asked("code", texts.code, texts.code_note, { type: "password", required: true });
  const wrong = element("div", { role: "alert" });

  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const [chosen] = file.input.files;
      const found = chosen
        ? decode(new Uint8Array(await chosen.arrayBuffer()))
        : Object.fromEntries(fields.map(({ column, read }) => [column, read()]));
      agent.know(recordOf(found, schema));
      agent.options.rules.epsilon = budget.input.valueAsNumber;
      agent.options.token ||= token.input.value.trim();
      if (issuer) issuer.code ||= code.input.value.trim();
      const { token: invitation, rules, store } = agent.options;
      await store.write("page", { token: invitation, epsilon: rules.epsilon, code: issuer?.code });
    } catch (error) {
      const { problem, detail } = described(error);
      wrong.replaceChildren(notice(detail, "bad", paragraph(remedy({ problem }))));
      return;
    }
    await goOn();
  };
  const more = element("details", {}, element("summary", {}, texts.file), file.node);
  const parts = [entered, more, budget.node, ...(agent.options.token ? [] : [token.node]), ...(issuer && !issuer.code ? [code.node] : []), wrong];
  const form = element("form", { onsubmit: submit }, ...parts, element("div", { className: "buttons" }, element("button", { className: "main" }, texts.go_on)));
  show(texts.about_you, form, ...keeping());
}

// What the agent does --------------------------------------------------------------------------------------------------

/** @param {import("../policy.js").Question} _question @param {Record<string, string>} words @returns {Promise<boolean>} */
function agreed(_question, words) {
  return new Promise((resolve) => {
    /** @param {boolean} yes */
    const decide = (yes) => {
      show(yes ? texts.computing : texts.declined, element("progress", { "aria-label": texts.computing }));
      resolve(yes);
    };
    const buttons = [button(texts.answer, () => decide(true), "main"), button(texts.not, () => decide(false))];
    show(texts.asked, listed(words), element("div", { className: "buttons pair" }, ...buttons));
  });
}

/** Wait for a question, and let the agent answer it. */
async function goOn() {
  const keeps = paragraph(texts.forgets, "quiet"); // until the browser says that it keeps it: Firefox asks the person
  const kept = (/** @type {boolean} */ yes) => yes && (keeps.textContent = texts.remembers);
  navigator.storage.persist().then(kept, () => {});
  const ended = new AbortController();
  const trouble = element("div", { role: "status" });
  const wait = () => {
    const heading = agent.unacknowledged ? texts.sending : texts.waiting;
    const words = agent.unacknowledged ? [] : [paragraph(texts.waiting_words)];
    show(heading, element("progress", { "aria-label": heading }), ...words, trouble, keeps, ...keeping());
  };
  /** @type {State} */
  let last = { state: "waiting" };
  /** @param {State} state */
  const onState = (state) => {
    last = state;
    const { problem, detail = "" } = state;
    if (state.state === "waiting") state.pause = Math.max(state.pause ?? 0, SLOWEST);
    if (state.state === "answered" || problem === "cannot-write") return ended.abort();
    if (!trouble.isConnected) wait(); // the person has decided, and there is no answer
    trouble.replaceChildren(...(detail ? [notice(detail, "bad", paragraph(remedy(state)))] : []));
  };
  wait();
  try {
    await agent.run({ signal: ended.signal, onState });
    if (last.problem === "unauthorized") await agent.options.store.write("page", null); // it is entered again
    after(last);
  } catch (error) {
    stop(described(error));
  }
}

/** @param {State} state the last one */
function after(state) {
  const late = state.state === "failed" && agent.answers.length > 0 && !agent.unacknowledged && !receipt();
  if (state.state === "declined") show(texts.declined, notice(texts.declined_words, ""), ...further(), ...keeping());
  else if (state.state === "refused")
    show(texts.refused, notice(state.detail ?? "", "bad", paragraph(remedy(state))), ...further(), ...keeping());
  else if (late || state.state === "answered" || state.state === "finished") answered(state);
  else stop(state);
}

const further = () => (agent.left[0] > 0 ? [element("div", { className: "buttons" }, button(texts.next, ask))] : []);

/** The receipt of the newest answer; undefined: it has not arrived, or was not taken. */
const receipt = () => {
  const { run, question } = agent.answers[agent.answers.length - 1].report.message;
  return agent.receipts[`${run}-${question}`]?.receipt;
};

/** Show what left this device, what it cost, and the receipt or why there is none. @param {{detail?: string}} state */
function answered({ detail = "" } = {}) {
  const { epsilon, report } = agent.answers[agent.answers.length - 1];
  const { run, question, answer } = report.message;
  const signed = receipt();
  const checked = element("div", { role: "status" });
  show(
    signed ? texts.answered : texts.not_taken,
    ...(signed ? [] : [notice(detail, "bad", paragraph(texts.not_taken_words))]),
    listed({
      [texts.left_device]: filled(texts.left_device_words, { answer }),
      [texts.cost]: filled(texts.cost_words, { epsilon, left: agent.left[0], budget: agent.options.rules.epsilon }),
      ...(signed && {
        [texts.receipt]: element("span", {}, filled(texts.receipt_words, { referee: referee.url, run, question }), " ", element("code", {}, signed.signature)),
      }),
    }),
    checked,
    element("div", { className: "buttons" }, button(texts.check, () => check(checked), "main"), ...(agent.left[0] > 0 ? [button(texts.next, ask)] : [])),
    ...(agent.left[0] > 0 ? [] : [paragraph(texts.finished, "quiet")]),
    ...keeping(),
  );
}

/** @param {HTMLElement} place */
async function check(place) {
  try {
    for (const { status, why } of await agent.check()) {
      const counted = status === "included";
      const words = counted ? `${texts.counted} (${why})` : `${texts.uncounted} ${status}: ${why}`;
      place.replaceChildren(notice(words, counted ? "good" : "bad"));
    }
  } catch (error) {
    const { problem, detail } = described(error);
    place.replaceChildren(notice(detail, "bad", paragraph(remedy({ problem }))));
  }
}

// What this device keeps -----------------------------------------------------------------------------------------------

/** The log, the state as a file, and the end of it; nothing where there is no agent. */
function keeping() {
  if (!agent) return [];
  const log = element("ol", { className: "log" });
  const opened = element("details", {}, element("summary", {}, texts.log), log);
  opened.ontoggle = () =>
    log.replaceChildren(...agent.log.map(({ time, event, ...facts }) => element("li", {}, inWords(time, event, facts))));
  const file = asked("state", texts.load, "", { type: "file", accept: ".json,application/json" });
  file.input.onchange = async () => {
    try {
      await agent.import(decode(new Uint8Array(await file.input.files[0].arrayBuffer())));
      await begin();
    } catch (error) {
      stop(described(error));
    }
  };
  const buttons = element("div", { className: "buttons" }, button(texts.save, save), button(texts.erase, erase));
  const parts = agent.log.length > 0 ? [opened, buttons] : [];
  return [element("section", {}, element("h3", {}, texts.device), ...parts, ...(agent.answers.length > 0 ? [] : [file.node]))];
}

/** @param {unknown} time @param {unknown} event @param {Record<string, unknown>} facts */
const inWords = (time, event, facts) =>
  `${time} ${event}. ${Object.entries(facts).map(([name, value]) => `${name.replaceAll("_", " ")}: ${value}`).join("; ")}`;

async function save() {
  const href = URL.createObjectURL(new Blob([JSON.stringify(await agent.export())], { type: "application/json" }));
  element("a", { href, download: "my-answers.json" }).click();
  URL.revokeObjectURL(href);
}

async function erase() {
  if (!confirm(texts.erase_sure)) return;
  await agent.erase();
  stage.replaceChildren();
  show(texts.erased);
}

/** Show what there is: an answer that was given, or the form. */
async function begin() {
  if (agent.answers.length === 0) return ask();
  if (!receipt()) return goOn(); // the same answer again
  agent.settle();
  answered();
}

async function start() {
  byId("loading").replaceWith(paragraph(texts.intro), who(), stage);
  try {
    if (!isSecureContext) cannot(texts.insecure);
    if (window.top !== window) cannot(texts.framed);
    if ((link.get("key") ?? referee.key) !== referee.key) cannot(texts.other_referee);
    await createKey();
    const store = new BrowserStore(`tandem ${referee.key}`);
    const rules = { ...known.policy, referee: referee.key };
    const own = { store, rules, consent: agreed, names: new Names(known.names), dimension: dimension(schema) };
    const issuer = known.issuer && { ...known.issuer, code: link.get("code") ?? "" };
    agent = await Agent.open({ ...own, issuer, address: referee.url, relay: known.relay ?? undefined, token: link.get("invitation") ?? "" });
    const before = await store.read("page");
    agent.options.token ||= before?.token ?? "";
    if (issuer) issuer.code ||= before?.code ?? "";
    rules.epsilon = before?.epsilon ?? rules.epsilon;
    await begin();
  } catch (error) {
    stop(described(error));
  }
}

/** Who is trusted, and whom the page talks to. */
function who() {
  const { relay, issuer } = known;
  const others = [relay && filled(texts.who_relay, { relay }), issuer && filled(texts.who_issuer, { issuer: issuer.address })];
  const words = [texts.who_words, ...others.filter(Boolean)].map((each) => paragraph(filled(each, { referee: referee.url, key: referee.key })));
  return element("details", {}, element("summary", {}, texts.who), ...words);
}

start();
