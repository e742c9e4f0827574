/** Queries about the whole number that some features are the bits of, the item. Features above 0 are ones. */

import { pack, range } from "./elementary.js";
import { parity, publicWord } from "./mechanisms.js";
import { list, optional, refuse, whole, word } from "./values.js";
import { grouped } from "./words.js";

/** @typedef {import("./queries.js").Kind} Kind */
/** @typedef {import("./words.js").Names} Names */

const column = whole(0, (1 << 20) - 1);
const publicForm = word(0n, 2n ** 63n - 1n);
/** @type {import("./values.js").Fields} */
const bitsFields = { first: [whole(0, 1 << 20), 0], bits: whole(1, 64) };
/** @type {import("./values.js").Fields} */
const frequencyFields = { public: [publicForm, 0n], ...bitsFields };
const ofBits = {
  /** @param {any} f */
  needs: (f) => f.first + f.bits,
  /** @param {any} f */
  columns: (f) => range(f.bits, f.first),
};
/** @param {any} f @param {Names} names @param {number} [length] */
const conditions = (f, names, length = f.bits) => names.conditions(range(length, f.first));
/** @param {any} f @param {number} slot */
const own = (f, slot) => slot;
/** @param {any} f @param {number} slot */
const lengthOf = ({ bits, prefixes }, slot) => (prefixes.length ? prefixes[slot % prefixes.length] : bits);

/** @type {Kind} */
const item = {
  ...ofBits,
  fields: { ...frequencyFields, prefixes: [list(whole(1, 64), 0, 64), []] },
  check: (f) => Math.max(...f.prefixes) > f.bits && refuse("ItemQuery", "a prefix is longer than an item"),
  domain: (f) => 1n << BigInt(f.prefixes.length ? Math.max(...f.prefixes) : f.bits),
  part: own,
  asks: (f, names, slot) => {
    const length = lengthOf(f, slot);
    const which = `as one of ${grouped(1n << BigInt(length))} combinations`;
    return `which of these are true of you, ${which}: ${conditions(f, names, length)}`;
  },
  value: (f, x, _, slot) => pack(x) >> BigInt(f.bits - lengthOf(f, slot)),
};

/** @type {Kind} */
const listed = {
  ...ofBits,
  fields: { ...frequencyFields, items: list(word(0n, 2n ** 64n - 1n), 1, 1 << 12) },
  check: (f) => new Set(f.items).size < f.items.length && refuse("ListedQuery", "an item is listed twice"),
  domain: (f) => BigInt(f.items.length + 1),
  part: own,
  asks: (f, names) => {
    const which = `which of ${grouped(f.items.length)} listed combinations is yours, or none of them`;
    return `${which}, of: ${conditions(f, names)}`;
  },
  value: (f, x) => BigInt([...f.items, pack(x)].indexOf(pack(x))),
};

/** @type {Kind} */
const threshold = {
  ...ofBits,
  fields: { ...bitsFields, below: word(1n, 2n ** 64n - 1n) },
  check: (f) => f.below >> BigInt(f.bits) && refuse("ThresholdQuery", "a threshold above every item"),
  asks: (f, names) =>
    `whether a binary number of ${f.bits} digits is below ${grouped(f.below)}: its digits are 1 where these are true ` +
    `of you, else 0: ${conditions(f, names)}. The value is 1 if so, else 0`,
  value: (f, x) => Number(pack(x) < f.below),
};

/** Columns of the sign, where it is a feature, and of the presence. @param {any} f */
const further = (f) => [f.sign, f.present].filter((each) => typeof each === "number");
/** One bit of an item's Hadamard code: which one is public. @type {Kind} */
const code = {
  fields: {
    public: publicForm,
    first: column,
    bits: whole(1, 63),
    sign: [optional((value, where) => (value === "label" ? value : column(value, where))), null],
    present: [optional(column), null],
  },
  needs: (f) => Math.max(f.first + f.bits, ...further(f).map((each) => each + 1)),
  columns: (f) => [...range(f.bits, f.first), ...further(f)],
  part: own,
  asks: (f, names, slot) => {
    const row = rowOf(f, f.bits, slot);
    const ones = range(f.bits).filter((place) => (row >> BigInt(f.bits - 1 - place)) & 1n);
    const chosen = ones.map((place) => f.first + place);
    if (typeof f.sign === "number") chosen.push(f.sign);
    const label = f.sign === "label" ? [names.labelled(1)] : [];
    const odd = `whether an odd number of these are true of you: ${names.conditions(chosen, ...label)}`;
    const asked = `${odd}. The value is 1 if so, else 0`;
    const none = "nothing about you, the value is 0 for everybody";
    const what = chosen.length || label.length ? asked : none;
    return f.present === null ? what : `${what}, but 1/2 unless ${names.above(f.present)}`;
  },
  value: (f, x, label, slot) => {
    const signed = f.sign === "label" ? label > 0 : f.sign !== null && x[f.bits] > 0;
    const value = parity(pack(x.subarray(0, f.bits)) & rowOf(f, f.bits, slot)) ^ Number(signed);
    return f.present === null || x[x.length - 1] > 0 ? value : 0.5;
  },
};
/** A slot's row of a code. @param {any} f @param {number} bits @param {number} slot */
const rowOf = (f, bits, slot) => BigInt.asUintN(bits, publicWord(f.public, slot));

/** @type {{[kind: string]: Kind}} */
export const kinds = { code, item, listed, threshold };
