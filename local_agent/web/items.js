/** Queries about the whole number that some features are the bits of, the item. Features above 0 are ones. */

import { pack, parity, publicWord, range } from "./elementary.js";
import { column, list, optional, refuse, whole, word } from "./values.js";
import { grouped } from "./words.js";

const publicForm = word(0n, 2n ** 63n - 1n);
/** @type {import("./values.js").Fields} */
const bitsFields = { first: [whole(0, 1 << 20), 0], bits: whole(1, 64) };
/** @type {import("./values.js").Fields} */
const frequencyFields = { public: [publicForm, 0n], ...bitsFields };
/** @param {{[name: string]: any}} fields */
const ofBits = ({ first, bits }) => ({ minFeatures: first + bits, columns: range(bits, first) });
const part = (/** @type {number} */ slot) => slot;

/** @type {import("./questions.js").QueryKinds} */
export const kinds = {
  // One bit of an item's Hadamard code: which one is public.
  code: {
    fields: {
      public: publicForm,
      first: column,
      bits: whole(1, 63),
      sign: [optional((value, where) => (value === "label" ? value : column(value, where))), null],
      present: [optional(column), null],
    },
    make: ({ public: seed, first, bits, sign, present }) => {
      const further = [sign, present].filter((each) => typeof each === "number");
      const row = (/** @type {number} */ slot) => BigInt.asUintN(bits, publicWord(seed, slot));
      return {
        minFeatures: Math.max(first + bits, ...further.map((each) => each + 1)),
        columns: [...range(bits, first), ...further],
        part,
        asks: (names, slot) => {
          const ones = range(bits).filter((place) => (row(slot) >> BigInt(bits - 1 - place)) & 1n);
          const chosen = [...ones.map((place) => first + place), ...(typeof sign === "number" ? [sign] : [])];
          const label = sign === "label" ? [names.labelled(1)] : [];
          const odd = `whether an odd number of these are true of you: ${names.conditions(chosen, ...label)}`;
          const what = chosen.length || label.length ? `${odd}. The value is 1 if so, else 0` : "nothing about you, the value is 0 for everybody"; // prettier-ignore
          return present === null ? what : `${what}, but 1/2 unless ${names.above(present)}`;
        },
        value: ({ features: x, label }, slot) => {
          const signed = sign === "label" ? label > 0 : sign !== null && x[bits] > 0;
          const value = parity(pack(x.subarray(0, bits)) & row(slot)) ^ Number(signed);
          return present === null || x[x.length - 1] > 0 ? value : 0.5;
        },
      };
    },
  },
  item: {
    fields: { ...frequencyFields, prefixes: [list(whole(1, 64), 0, 64), []] },
    make: (f) => {
      const { first, bits, prefixes } = f;
      const longest = prefixes.length ? Math.max(...prefixes) : bits;
      if (longest > bits) refuse("ItemQuery", "a prefix is longer than an item");
      const lengthOf = (/** @type {number} */ slot) => (prefixes.length ? prefixes[slot % prefixes.length] : bits);
      return {
        ...ofBits(f),
        domain: 1n << BigInt(longest),
        part,
        asks: (names, slot) => {
          const which = `as one of ${grouped(1n << BigInt(lengthOf(slot)))} combinations`;
          return `which of these are true of you, ${which}: ${names.conditions(range(lengthOf(slot), first))}`;
        },
        value: ({ features }, slot) => pack(features) >> BigInt(bits - lengthOf(slot)),
      };
    },
  },
  listed: {
    fields: { ...frequencyFields, items: list(word(0n, 2n ** 64n - 1n), 1, 1 << 12) },
    make: (f) => {
      const { first, bits, items } = f;
      if (new Set(items).size < items.length) refuse("ListedQuery", "an item is listed twice");
      return {
        ...ofBits(f),
        domain: BigInt(items.length + 1),
        part,
        asks: (names) => {
          const which = `which of ${grouped(items.length)} listed combinations is yours, or none of them`;
          return `${which}, of: ${names.conditions(range(bits, first))}`;
        },
        value: ({ features }) => BigInt([...items, pack(features)].indexOf(pack(features))),
      };
    },
  },
  threshold: {
    fields: { ...bitsFields, below: word(1n, 2n ** 64n - 1n) },
    make: (f) => {
      const { first, bits, below } = f;
      if (below >> BigInt(bits)) refuse("ThresholdQuery", "a threshold above every item");
      return {
        ...ofBits(f),
        asks: (names) =>
          `whether a binary number of ${bits} digits is below ${grouped(below)}: its digits are 1 where these are true ` +
          `of you, else 0: ${names.conditions(range(bits, first))}. The value is 1 if so, else 0`,
        value: ({ features }) => Number(pack(features) < below),
      };
    },
  },
};
