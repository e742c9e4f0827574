"use strict";
// Verifies a transcript's chain and the referee's signatures in the browser (common/log/entries.py says what they are).
// An entry's line is canonical JSON (RFC 8785) with sorted keys, so what its link covers are parts of the line as they stand.

const PROTOCOL = 3;
const LINE = /^\{"body":(\{.*\}),"hash":"([0-9a-f]{64})","index":(\d+),"kind":("[^"\\]*"),"previous":"([0-9a-f]{64})","signature":"([0-9a-f]{128})"\}$/su;
const DOMAIN = "tandem/v1\u0000transcript-entry\u0000";

const bytes = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

async function refereeKey(body) {
  const key = JSON.parse(body).referee;
  try {
    return await crypto.subtle.importKey("raw", bytes(key), { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    return null; // a browser without Ed25519
  }
}

async function signed(key, signature, hash) {
  const head = new TextEncoder().encode(DOMAIN), whole = new Uint8Array(head.length + 32);
  whole.set(head);
  whole.set(bytes(hash), head.length);
  return crypto.subtle.verify({ name: "Ed25519" }, key, bytes(signature), whole);
}

/** Return what is wrong with a transcript ("" if nothing), how many entries it has, and whether signatures were checked. */
async function verifyChain(text, onProgress) {
  const lines = text.split("\n");
  if (lines.pop() !== "") return { wrong: `line ${lines.length + 1} has no end: the transcript was cut`, entries: lines.length };
  if (!lines.length) return { wrong: "the transcript is empty", entries: 0 };
  const encoder = new TextEncoder();
  const sha256 = async (text) => hex(await crypto.subtle.digest("SHA-256", encoder.encode(text)));
  let previous = "0".repeat(64), key = null;
  for (const [number, line] of lines.entries()) {
    const found = LINE.exec(line), where = `line ${number + 1}`;
    if (!found) return { wrong: `${where} is no entry in canonical form`, entries: number };
    const [, body, hash, index, kind, before, signature] = found;
    const speaks = number === 0 ? JSON.parse(body).configuration?.version : PROTOCOL;
    if (typeof speaks === "number" && speaks !== PROTOCOL) {
      return { wrong: `the run speaks protocol ${speaks}, this page ${PROTOCOL}: open it with the version of Tandem that made it`, entries: 0 };
    }
    if (Number(index) !== number || before !== previous) return { wrong: `${where} does not follow the line before it`, entries: number };
    const link = await sha256(`[${index},${kind},${body}]`);
    if ((await sha256(`["${before}","${link}"]`)) !== hash) {
      return { wrong: `${where} was changed: its hash does not match its content`, entries: number };
    }
    if (number === 0) key = await refereeKey(body);
    if (key && !(await signed(key, signature, hash))) return { wrong: `${where}: the referee did not sign this`, entries: number };
    previous = hash;
    if (number % 50 === 49) onProgress(number + 1, lines.length);
  }
  return { wrong: "", entries: lines.length, signatures: key !== null };
}

for (const button of document.querySelectorAll("[data-verify]")) {
  const place = document.querySelector("[data-verified]");
  button.hidden = !(window.crypto && crypto.subtle);
  button.addEventListener("click", async () => {
    button.disabled = true;
    place.textContent = "Verifying ...";
    place.className = "verified";
    try {
      const answer = await fetch(button.dataset.verify);
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      const raw = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await answer.arrayBuffer());
      const found = await verifyChain(raw, (done, all) => { place.textContent = `Verifying: ${done} of ${all} entries`; });
      place.className = found.wrong ? "verified bad" : "verified good";
      place.textContent = found.wrong ? `Not verified: ${found.wrong}.`
        : `This browser verified ${found.entries} entries: each holds the hash of the one before it` +
          (found.signatures ? ", and the referee signed each." : ". It knows no Ed25519, so that it did not check the signatures.");
    } catch (error) {
      place.className = "verified bad";
      place.textContent = `Not verified: ${error.message}.`;
    }
    button.disabled = false;
  });
}
