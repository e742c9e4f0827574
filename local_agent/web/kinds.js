/**
 * Which module defines which kinds. A module is loaded before the first question that may be of its kinds; a page has
 * those alone that its rules accept (local_agent/page.py reads this table).
 */

import { Refusal, isObject } from "./errors.js";
import { kindOf } from "./values.js";

/** @typedef {{noun: string, modules: {[module: string]: string[]}, kinds: {[kind: string]: any}}} Registry */

/** @type {Registry} */
export const QUERIES = {
  noun: "query",
  modules: {
    features: ["coordinate", "expression", "moment"],
    items: ["code", "item", "listed", "threshold"],
    models: ["gradient", "loss", "pair", "score"],
    residuals: ["class-residual", "residual", "response-residual"],
  },
  kinds: {},
};

/** @type {Registry} */
export const MECHANISMS = {
  noun: "mechanism",
  modules: { bits: ["gaussian", "none", "warner", "warner-levels"], laplace: ["laplace"], oracles: ["hadamard", "krr", "olh"] },
  kinds: {},
};

/** @param {Registry} registry */
const namesOf = ({ modules }) => Object.values(modules).flat().sort();
export const KINDS = namesOf(QUERIES);

const ORDINARY_KINDS = "argmax conjunction constant flipped-parity linear network parity recalibrated regressor relabelled stump trees"; // prettier-ignore
export const ORDINARY = ORDINARY_KINDS.split(" "); // the kinds of hypotheses that every agent accepts
export const FOREIGN = "onnx"; // a kind that only a foreign library reads

/** Load what defines some kinds of queries and mechanisms. @param {string[]} [queries] @param {string[]} [mechanisms] */
export async function load(queries = KINDS, mechanisms = namesOf(MECHANISMS)) {
  for (const [registry, wanted] of /** @type {[Registry, string[]][]} */ ([[QUERIES, queries], [MECHANISMS, mechanisms]])) // prettier-ignore
    for (const [module, kinds] of Object.entries(registry.modules))
      if (!(kinds[0] in registry.kinds) && kinds.some((kind) => wanted.includes(kind)))
        Object.assign(registry.kinds, (await import(`./${module}.js`)).kinds);
}

/**
 * Return the kind that a value names; Refusal `policy` of one that was not loaded, `bad-message` of one that is none.
 * @param {Registry} registry @param {any} wire @param {string} tag
 */
export function kindIn(registry, wire, tag) {
  const name = isObject(wire) ? wire[tag] : undefined;
  if (namesOf(registry).includes(name) && !(name in registry.kinds))
    throw new Refusal("policy", `a ${registry.noun} of kind '${name}' is not accepted: take the page of this run`);
  return kindOf(registry.kinds, wire, tag, registry.noun);
}

/**
 * Return the kinds of all hypotheses in a query's JSON form, under any name, but none within a hypothesis.
 * @param {any} wire
 * @returns {Set<string>}
 */
export function hypothesisKinds(wire) {
  /** @type {string[]} */
  const found = (isObject(wire) ? Object.values(wire) : []).flatMap((value) => {
    const kind = isObject(value) ? value.kind : null;
    return ORDINARY.includes(kind) || kind === FOREIGN ? [kind] : [...hypothesisKinds(value)];
  });
  return new Set(found);
}
