/**
 * An agent's own rules, fixed before any message arrives: nothing in a message can raise what they allow.
 *
 * @import { Signed } from "./messages.js"
 * @import { Mechanism, Query } from "./questions.js"
 * @import { Rules } from "./types/agent.d.ts"
 * @import { Names } from "./words.js"
 * @typedef {[number, number]} Cost epsilon and delta
 * @typedef {{assignment: any, slot: number, query: Query, mechanism: Mechanism, digest: string, fingerprint: string,
 *   names: Names, ownNames: boolean, purpose: string}} Question one that passed every check: safe to evaluate on the
 *   record; digest and fingerprint are those of the assignment; names are those of the run's scenario, ownNames says
 *   whether the record's were compared with them, and purpose is the run's title
 */

import { PROTOCOL } from "./client.js";
import { digest, sha256hex, unbase64, verify } from "./messages.js";
import { KINDS, ORDINARY, hypothesisKinds, load, parseMechanism, parseQuery } from "./questions.js";
import { anyObject, demand, digestForm, fail, flag, isObject, list, numberForm, object, read, runForm, text, whole } from "./values.js"; // prettier-ignore
import { namesIn, sameNames } from "./words.js";

const MOST_AGENTS = 2 ** 32;
const ZERO = "AAAAAA=="; // as an uint32 in base64
const PLACES = { first: whole(0, MOST_AGENTS), agents: whole(1, MOST_AGENTS), used: whole(0, MOST_AGENTS) };
const CONFIGURATION = /** @type {import("./values.js").Fields} */ ({
  version: whole(PROTOCOL, PROTOCOL),
  run: runForm,
  referee: digestForm,
  scenario: anyObject,
  order: list(object({ ...PLACES, sha256: digestForm, shared: [flag, false] }), 1),
  beacon: [list(digestForm, 0, 16), null],
});
const ASSIGNMENT = { run: runForm, digest: digestForm, question: numberForm, query: anyObject, people: text };
/** @type {Record<string, import("./values.js").Fields>} */
const FORMS = {
  assignment: { ...ASSIGNMENT, slots: text },
  "mass-assignment": { ...ASSIGNMENT, slot: whole(0, MOST_AGENTS - 1) },
};

/** @param {Signed} assignment */
export const kindOf = (assignment) => (Object.hasOwn(FORMS, assignment.kind) ? assignment.kind : "assignment");

const permit = (/** @type {boolean} */ holds, /** @type {string} */ detail) => holds || fail("policy", detail);

/**
 * Check a question in full: the record is not touched, and nothing is spent. Refusal `forged`, `version-skew`,
 * `configuration-mismatch`, `bad-message` or `policy`.
 * @param {Rules} rules @param {Signed} assignment @param {Signed} configuration
 * @param {number} dimension features of this agent's record (public)
 * @param {any} names what these features are, where the record says it; null: it does not
 * @param {Cost} left of the lifetime budget @param {(fingerprint: string) => unknown} known whether it was answered
 * @returns {Promise<Question>}
 */
export async function check(rules, assignment, configuration, dimension, names, left, known = () => false) {
  const { referee, epsilon, delta = 0, queries = KINDS, mechanisms, hypotheses = ORDINARY } = rules;
  const published = await sha256hex(await verify(configuration, "configuration", referee));
  const { version, run, scenario } = configuration.message;
  if (Number.isInteger(version) && version !== PROTOCOL)
    fail("version-skew", `the run speaks protocol ${version}, this agent ${PROTOCOL}: get the page anew`);
  read(CONFIGURATION, configuration.message, "Configuration");
  const kind = kindOf(assignment);
  const payload = await verify(assignment, kind, referee);
  const asked = assignment.message;
  for (const kind of hypothesisKinds(asked.query)) // before anything of it is parsed
    permit(hypotheses.includes(kind), `hypothesis kind '${kind}' is not accepted`);
  read(FORMS[kind], asked, "Assignment");
  await load(queries, mechanisms);
  const query = parseQuery(asked.query);
  if (asked.digest !== published || asked.run !== run)
    fail("configuration-mismatch", "the question names another configuration than this run published");
  permit(queries.includes(query.kind), `questions of kind '${query.kind}' are not accepted`);
  permit(query.minFeatures <= dimension, `the query needs ${query.minFeatures} features, the record has ${dimension}`);
  const stated = namesIn(scenario);
  const same = names === null || sameNames(names, stated);
  permit(same, "the run is about other columns than this record was made for: take the page of this run");
  const mechanism = parseMechanism(isObject(scenario.agents) ? scenario.agents.mechanism : undefined).affordable(left);
  mechanism.answerKind(query.domain);
  checkCost(rules, mechanism.guarantee, [epsilon, delta]);
  const real = mechanism.forRealPeople || !Number.isFinite(epsilon);
  permit(real, `mechanism '${mechanism.kind}' protects simulated people only`);
  const fingerprint = await digest(assignment);
  if (!known(fingerprint)) checkCost(rules, mechanism.guarantee, left);
  const purpose = typeof scenario.title === "string" ? scenario.title : "";
  const about = { names: stated, ownNames: names !== null, purpose, fingerprint };
  return { assignment: asked, slot: slotOf(asked), query, mechanism, digest: await sha256hex(payload), ...about };
}

/** Return the slot of the one person, number 0, whom an assignment to an individual names. @param {any} assignment */
function slotOf({ people, slots }) {
  const slot = unbase64(slots);
  const one = people === ZERO && slot.length === 4;
  demand(one, "an assignment to an individual agent names its one person, 0, and one slot");
  return new DataView(slot.buffer).getUint32(0, true);
}

/** Refuse an answer that costs more than is left. @param {Rules} rules @param {Cost} cost @param {Cost} left */
export function checkCost({ epsilon, delta = 0 }, cost, left) {
  const paid = cost[0] <= left[0] && (cost[1] <= left[1] || !Number.isFinite(epsilon));
  const budget = `(${left}) is left of the lifetime budget (${[epsilon, delta]})`;
  permit(paid, `an answer would cost (epsilon, delta) = (${cost}), and ${budget}`);
}

/** Return what is left of a budget, never rounded up: the sum is exact, in units of the smallest double. */
export function leftOf(/** @type {number} */ budget, /** @type {number[]} */ costs) {
  if (!Number.isFinite(budget)) return budget;
  if (!costs.every(Number.isFinite)) return 0;
  const left = costs.reduce((sum, cost) => sum - units(cost), units(budget));
  if (left <= 0n) return 0;
  const extra = BigInt(Math.max(0, left.toString(2).length - 53));
  const mantissa = left >> extra; // rounded down
  const bits = mantissa < 1n << 52n ? mantissa : ((extra + 1n) << 52n) | (mantissa & (2n ** 52n - 1n));
  return new Float64Array(BigUint64Array.of(bits).buffer)[0];
}

/** @param {number} value 0 or more, as a whole number of 2^-1074 */
function units(value) {
  const [word] = new BigUint64Array(Float64Array.of(value).buffer);
  const [exponent, mantissa] = [word >> 52n, word & (2n ** 52n - 1n)];
  return exponent === 0n ? mantissa : (mantissa | (1n << 52n)) << (exponent - 1n);
}
