/** Bytes as text and back, and SHA-256. */

import { demand } from "./errors.js";

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export const utf8 = (text) => new TextEncoder().encode(text);

/** @param {Uint8Array} bytes */
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {unknown} text */
export function unhex(text) {
  demand(typeof text === "string" && /^([0-9a-f]{2})*$/.test(text), "not bytes in hexadecimal digits");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** @param {Uint8Array} bytes */
export const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

/** @param {unknown} text */
export function unbase64(text) {
  const form = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
  demand(typeof text === "string" && form.test(text), "not base64");
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  demand(base64(bytes) === text, "not base64: bits behind the last byte");
  return bytes;
}

/** @param {...Uint8Array} parts */
export function concat(...parts) {
  const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** @param {Uint8Array<ArrayBuffer>} bytes */
export const sha256hex = async (bytes) => hex(await sha256(bytes));
