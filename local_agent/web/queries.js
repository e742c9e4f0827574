/**
 * Queries: bounded questions about one record, as data (common/local/queries). A query is parsed in full, or refused;
 * its value is in [0, 1], or an item below its domain, whatever the record is. A kind is a row of a table; `f` are a
 * query's fields, `x` the features of one record.
 *
 * @typedef {import("./values.js").Record} Record
 * @typedef {import("./values.js").Features} Features
 * @typedef {import("./words.js").Names} Names
 *
 * @typedef {object} Kind see Query for what these are
 * @property {import("./values.js").Fields} fields
 * @property {(f: any) => void} [check] refuses fields that do not fit together
 * @property {(f: any) => bigint} [domain]
 * @property {(f: any) => number} [needs] by default what the hypothesis needs
 * @property {(f: any) => number[]} [columns]
 * @property {(f: any, slot: number) => number} [part]
 * @property {(f: any, names: Names, slot: number) => string} asks
 * @property {(f: any, x: Features, label: number, slot: number) => number | bigint} value
 */

import { clip, known } from "./elementary.js";
import { QUERIES, kindIn } from "./kinds.js";
import { publicWord } from "./mechanisms.js";
import { read, write } from "./values.js";

/** A map from one record, and the agent's public slot, to a value in [0, 1] or an item. */
class Query {
  /** @param {string} kind @param {any} fields */
  constructor(kind, fields) {
    this.kind = kind;
    this.fields = fields;
    this.of = QUERIES.kinds[kind];
  }

  get wire() {
    return { kind: this.kind, ...write(this.of.fields, this.fields) };
  }

  /** Number of items, of a query that says an item; null of one that says a value. */
  get domain() {
    return this.of.domain ? this.of.domain(this.fields) : null;
  }

  /** Smallest number of features that a record must have. @returns {number} */
  get minFeatures() {
    return this.of.needs ? this.of.needs(this.fields) : this.fields.hypothesis.minFeatures;
  }

  /** The features that it reads; null: as many as it needs, from the first on. */
  get columns() {
    const found = this.of.columns ? this.of.columns(this.fields) : [];
    return found.length ? found : null;
  }

  /** Which part of the query a slot is asked: alike where the same is asked. @param {number} slot */
  part(slot) {
    return this.of.part ? this.of.part(this.fields, slot) : 0;
  }

  /** The slot's public word, for the mechanisms that need one. @param {number} slot */
  public(slot) {
    return publicWord(this.fields.public ?? 0n, slot);
  }

  /** What is asked, in plain words: a clause. @param {Names} names @param {number} slot */
  asks(names, slot) {
    return this.of.asks(this.fields, names, slot);
  }

  /**
   * Return the bounded value of a record, of which the features are those of `columns`; what cannot be computed is 0.
   * @param {Record} record
   * @param {number} slot
   * @returns {number | bigint}
   */
  evaluate({ features, label }, slot) {
    const most = this.domain;
    try {
      const value = this.of.value(this.fields, features, label, slot);
      if (most === null) return clip(known(Number(value)), 0, 1);
      return BigInt(value) < most ? BigInt(value) : most - 1n;
    } catch {
      return most === null ? 0 : 0n;
    }
  }
}

/** @param {any} wire @returns {Query} or a Refusal: `bad-message`, `policy` */
export function parseQuery(wire) {
  const kind = kindIn(QUERIES, wire, "kind");
  const fields = read(kind.fields, wire, "query", "kind");
  kind.check?.(fields);
  return new Query(wire.kind, fields);
}

/**
 * Return the bounded value that a query says about a person.
 * @param {Query} query
 * @param {Record} record with all its features
 * @param {number} slot
 */
export function valueOf(query, record, slot) {
  const read = query.columns?.map((/** @type {number} */ column) => record.features[column]) ?? record.features;
  const features = record.features instanceof Uint8Array ? Uint8Array.from(read) : Float32Array.from(read);
  return query.evaluate({ features, label: record.label }, slot);
}
