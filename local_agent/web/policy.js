/**
 * An agent's own rules, fixed before any message arrives: nothing in a message can raise what they allow.
 *
 * @typedef {import("./identity.js").Signed} Signed
 * @typedef {[number, number]} Cost epsilon and delta
 *
 * @typedef {object} Rules
 * @property {string} referee the pinned public key
 * @property {number} epsilon lifetime budget, of all answers together; Infinity for simulated people
 * @property {number} [delta]
 * @property {string[]} [queries] kinds of queries that are accepted: by default all that come with Tandem
 * @property {string[]} [mechanisms] that are accepted: by default all
 * @property {string[]} [hypotheses] kinds of hypotheses that are accepted: by default all that are plain data
 *
 * @typedef {object} Question one that passed every check: safe to evaluate on the record
 * @property {any} assignment
 * @property {any} query
 * @property {any} mechanism
 * @property {string} digest of the assignment as it was signed
 * @property {string} fingerprint of the signed message
 * @property {any} names what the run's scenario calls the columns
 * @property {boolean} ownNames whether they were compared with those that the record was made for
 * @property {string} purpose the run's title
 */

import { sha256hex, unbase64 } from "./bytes.js";
import { PROTOCOL } from "./client.js";
import { Refusal, demand, demandFields, isBoolean, isDigest, isNumber, isObject, isRun, isText, listOf, whole } from "./errors.js"; // prettier-ignore
import { fingerprint, verify } from "./identity.js";
import { KINDS, ORDINARY, hypothesisKinds, load } from "./kinds.js";
import { parseMechanism } from "./mechanisms.js";
import { parseQuery } from "./queries.js";
import { namesIn, sameNames } from "./words.js";

const MOST_AGENTS = 2 ** 32;
const PLACES = { first: whole(0, MOST_AGENTS), agents: whole(1, MOST_AGENTS), used: whole(0, MOST_AGENTS) };
const ORDER = { ...PLACES, sha256: isDigest, "shared?": isBoolean };
const CONFIGURATION = {
  version: whole(PROTOCOL, PROTOCOL),
  run: isRun,
  referee: isDigest,
  scenario: isObject,
  order: listOf(isObject),
  "beacon?": listOf(isDigest, 16),
};
const ASSIGNMENT = { run: isRun, digest: isDigest, question: isNumber, query: isObject, people: isText };
/** @type {Record<string, any>} */
const FORMS = {
  assignment: { ...ASSIGNMENT, slots: isText },
  "mass-assignment": { ...ASSIGNMENT, slot: whole(0, MOST_AGENTS - 1) },
};

/** @param {Signed} assignment */
export const kindOf = (assignment) => (Object.hasOwn(FORMS, assignment.kind) ? assignment.kind : "assignment");

/** @param {string} detail */
const refused = (detail) => new Refusal("policy", detail);

/**
 * Check a question in full, before the record is touched; Refusal `forged`, `version-skew`, `configuration-mismatch`,
 * `bad-message` or `policy`.
 * @param {Rules} rules
 * @param {Signed} assignment
 * @param {Signed} configuration
 * @param {number} dimension features of this agent's record (public)
 * @param {any} names what these features are, where the record says it; null: it does not
 * @param {Cost} left of the lifetime budget
 * @returns {Promise<Question>}
 */
export async function check(rules, assignment, configuration, dimension, names, left) {
  const published = await sha256hex(await verify(configuration, "configuration", rules.referee));
  const { version, run, scenario, order } = configuration.message;
  if (Number.isInteger(version) && version !== PROTOCOL)
    throw new Refusal("version-skew", `the run speaks protocol ${version}, this agent ${PROTOCOL}: get the page anew`);
  demandFields(configuration.message, CONFIGURATION, "Configuration");
  demand(order.length > 0, "Configuration: order: empty");
  for (const part of order) demandFields(part, ORDER, "Configuration: order");
  const kind = kindOf(assignment);
  const payload = await verify(assignment, kind, rules.referee);
  const asked = assignment.message;
  for (const found of [...hypothesisKinds(asked.query)].sort()) // before anything of it is parsed
    if (!(rules.hypotheses ?? ORDINARY).includes(found)) throw refused(`hypothesis kind '${found}' is not accepted`);
  demandFields(asked, FORMS[kind], "Assignment");
  await load(rules.queries, rules.mechanisms);
  const query = parseQuery(asked.query);
  if (asked.digest !== published || asked.run !== run)
    throw new Refusal("configuration-mismatch", "the question names another configuration than this run published");
  if (!(rules.queries ?? KINDS).includes(query.kind)) throw refused(`questions of kind '${query.kind}' are not accepted`);
  if (query.minFeatures > dimension) throw refused(`the query needs ${query.minFeatures} features, the record has ${dimension}`);
  const stated = namesIn(scenario);
  if (names !== null && !sameNames(names, stated))
    throw refused("the run is about other columns than this record was made for: take the page of this run");
  const mechanism = parseMechanism(isObject(scenario.agents) ? scenario.agents.mechanism : undefined).affordable(left);
  mechanism.answerKind(query.domain);
  checkCost(rules, mechanism.guarantee, [rules.epsilon, rules.delta ?? 0]);
  if (Number.isFinite(rules.epsilon) && !mechanism.forRealPeople)
    throw refused(`mechanism '${mechanism.name}' protects simulated people only`);
  return {
    ...{ assignment: asked, query, mechanism, names: stated, ownNames: names !== null },
    digest: await sha256hex(payload),
    fingerprint: await fingerprint(assignment, payload),
    purpose: isText(scenario.title) ? scenario.title : "",
  };
}

/** Refuse an answer that costs more than is left. @param {Rules} rules @param {Cost} cost @param {Cost} left */
export function checkCost({ epsilon, delta = 0 }, cost, left) {
  if (cost[0] > left[0] || (cost[1] > left[1] && Number.isFinite(epsilon)))
    throw refused(`an answer would cost (epsilon, delta) = (${cost}), and (${left}) is left of the lifetime budget (${[epsilon, delta]})`); // prettier-ignore
}

/** Return the slot of the one person, number 0, whom an assignment to an individual names. @param {any} assignment */
export function slotOf(assignment) {
  demand("slots" in assignment, "an assignment to very many people is none for an individual agent");
  const [people, slots] = [assignment.people, assignment.slots].map(unbase64);
  const one = people.length === 4 && slots.length === 4 && people.every((byte) => byte === 0);
  demand(one, "an assignment to an individual agent names its one person, 0, and one slot");
  return new DataView(slots.buffer).getUint32(0, true);
}

/**
 * Return what is left of a budget, never rounded up: the sum is exact, in units of the smallest double.
 * @param {number} budget @param {number[]} costs
 */
export function leftOf(budget, costs) {
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
