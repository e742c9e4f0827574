/**
 * What a referee has signed and cannot deny: that it has a report, and that the report is in the transcript of its run.
 * The transcript is a Merkle tree (RFC 9162), and so are the reports on a question.
 *
 * @import { Signed } from "./messages.js"
 * @import { Witness } from "./witness.js"
 * @typedef {{receipt: Signed, report: Signed, leaf: string, sent: number}} Held a receipt, its report, what stands for
 *   the report under its question's root (hex), and when it was sent by this device's clock (seconds since 1970)
 * @typedef {{kept: any, questions: number[]}} Seen the newest checkpoint of a run that was shown, and the questions
 *   on which a report was proven
 * @typedef {import("./types/agent.d.ts").Finding & {shown?: Seen}} Finding
 */

import { concat, digest as digestOf, hex, sha, sha256hex, signedOf, statementOf, unhex, verifyBytes } from "./messages.js"; // prettier-ignore
import { Refusal, anyObject, countForm, digestForm, fail, isDigest, list, maybe, numberForm, object, read, runForm, signatureForm, text, whole } from "./values.js"; // prettier-ignore

export const WITHIN = 86_400; // seconds after which a referee must have shown a report that it has acknowledged
const time = whole(0, 253_402_300_799);
const path = list(text, 0, 64);
const atLeastOne = whole(1, 2 ** 53 - 1);
const kept = object({ checkpoint: signedOf, witnessed: [list(signedOf), []] });
/** @satisfies {Record<string, import("./values.js").Fields>} */
const FORMS = {
  receipt: { run: runForm, question: numberForm, report: signatureForm, time },
  checkpoint: { run: runForm, configuration: digestForm, entries: atLeastOne, hash: digestForm, root: digestForm, time, closed: maybe(countForm) }, // prettier-ignore
  witnessed: { checkpoint: digestForm, position: countForm, previous: digestForm, time },
  proof: { entry: anyObject, index: countForm, reports: atLeastOne, body: unhex, path, kept, entry_path: path, consistency: maybe(path) }, // prettier-ignore
  entry: { index: countForm, previous: digestForm, kind: text, body: anyObject, hash: digestForm, signature: signatureForm },
};

/** @type {(detail: string) => never} */
export const forged = (detail) => fail("forged", detail);

/** Check a receipt of a report. @param {Signed} signed @param {Signed} report @param {string} referee */
export async function checkReceipt(signed, report, referee) {
  const { run, question, report: signature } = await statementOf(FORMS.receipt, signed, "receipt", referee);
  if (run !== report.message.run || question !== report.message.question || signature !== report.signature)
    forged("the referee's receipt is for another report: it is not known to be stored");
}

/** Return the packed answer of one agent: that it answered, and what. */
export function packOne(/** @type {number} */ answer, /** @type {import("./questions.js").AnswerKind} */ kind) {
  if (kind === "bit") return Uint8Array.of(0x80, answer ? 0x80 : 0);
  if (kind !== "real") return Uint8Array.of(0x80, answer & 0xff, ...(kind > 256 ? [answer >> 8] : []));
  const number = new DataView(new ArrayBuffer(8));
  number.setFloat64(0, answer, true);
  return Uint8Array.of(0x80, ...new Uint8Array(number.buffer));
}

/** @param {Signed} report @param {Uint8Array} body the packed answer */
export const leafOf = (report, body) => sha256hex(concat(unhex(report.signature), body));

/** @param {Uint8Array} left @param {Uint8Array} right */
const above = (left, right) => sha(concat(Uint8Array.of(1), left, right));

/**
 * Return the root to which a path leads from the leaf with a number among so many; null if it leads nowhere.
 * @param {Uint8Array} leaf @param {number} index @param {number} count @param {string[]} path beside the way, from below
 */
export async function rootOf(leaf, index, count, path) {
  if (index < 0 || index >= count || !path.every(isDigest)) return null;
  let node = await sha(concat(Uint8Array.of(0), leaf));
  let used = 0;
  for (; count > 1; index = Math.floor(index / 2), count = Math.ceil(count / 2)) {
    if ((index % 2 ? index - 1 : index + 1) >= count) continue; // the last of an odd number goes up as it is
    if (used === path.length) return null;
    const beside = unhex(path[used++]);
    node = index % 2 ? await above(beside, node) : await above(node, beside);
  }
  return used === path.length ? hex(node) : null;
}

/**
 * Tell whether a path shows that `count` leaves of a newer root begin with `first` ones of an older root (RFC 9162,
 * section 2.1.4.2).
 * @param {string} older @param {number} first @param {string} newer @param {number} count @param {string[]} path
 */
export async function goesOn(older, first, newer, count, path) {
  if (first < 1 || first > count) return false;
  if (first === count) return older === newer && path.length === 0;
  let [at, last] = [first - 1, count - 1];
  const up = () => ([at, last] = [Math.floor(at / 2), Math.floor(last / 2)]);
  while (at % 2) up();
  const nodes = at === 0 ? [older, ...path] : path; // the first leaves are a whole tree where their number is 2^k
  if (nodes.length === 0 || !nodes.every(isDigest)) return false;
  let old = unhex(nodes[0]);
  let now = old;
  for (const beside of nodes.slice(1).map(unhex)) {
    if (last === 0) return false;
    if (at % 2 || at === last) {
      [old, now] = [await above(beside, old), await above(beside, now)];
      while (at % 2 === 0 && at) up();
    } else now = await above(now, beside);
    up();
  }
  return last === 0 && hex(old) === older && hex(now) === newer;
}

/** Return what a stored checkpoint says, and who has signed that they have seen it; Refusal `forged`, `bad-message`. */
export async function checkpointOf(/** @type {any} */ stored, /** @type {string} */ referee) {
  const { checkpoint, witnessed } = kept(stored, "kept");
  const statement = await statementOf(FORMS.checkpoint, checkpoint, "checkpoint", referee);
  const digest = await digestOf(checkpoint.message);
  for (const signed of witnessed) {
    const view = await statementOf(FORMS.witnessed, signed, "witnessed");
    if (view.checkpoint !== digest) forged("a witness has signed another checkpoint");
  }
  return { ...statement, digest, witnesses: witnessed.map((/** @type {Signed} */ { key }) => key) };
}

/** Check that a proof leads from the report as it was sent to the referee's checkpoint; return that. */
export async function checkProof(/** @type {Held} */ held, /** @type {any} */ proof, /** @type {string} */ referee) {
  const entry = read(FORMS.entry, proof.entry, "entry");
  if (entry.hash !== (await digestOf([entry.previous, await digestOf([entry.index, entry.kind, entry.body])])))
    forged(`entry ${entry.index} of the transcript is not what its hash says`);
  await verifyBytes(referee, "transcript-entry", unhex(entry.hash), entry.signature);
  const { run, question, digest } = held.report.message;
  if (entry.kind !== "answers" || entry.body.question !== question)
    forged("the referee proves something about another question");
  if ((await leafOf(held.report, proof.body)) !== held.leaf)
    forged("the referee has another answer beside this agent's signature");
  if ((await rootOf(unhex(held.leaf), proof.index, proof.reports, proof.path)) !== entry.body.root)
    forged("the referee's path does not lead from this report to the root of the question");
  const checkpoint = await checkpointOf(proof.kept, referee);
  if (checkpoint.run !== run || checkpoint.configuration !== digest) forged("the checkpoint is one of another run");
  if ((await rootOf(unhex(entry.hash), entry.index, checkpoint.entries, proof.entry_path)) !== checkpoint.root)
    forged("the referee's path does not lead from the question's entry to the checkpoint");
  return checkpoint;
}

/**
 * Return why a checkpoint does not go on from an older one; nothing if it does.
 * @param {any} older @param {any} newer @param {string[] | null} path that shows it @param {string} who
 */
async function breaks(older, newer, path, who) {
  const good = await goesOn(older.root, older.entries, newer.root, newer.entries, path ?? []);
  return good ? "" : `it does not begin with the ${older.entries} entries that ${who}`;
}

/**
 * Ask the referee to prove that a report is in the transcript of its run, which has to go on from what was shown before,
 * and from what a witness has seen. Refusal `forged`: the receipt itself is none, or the witness shows what it has not
 * signed; others: referee or witness do not answer.
 * @param {Held} held @param {Pick<import("./client.js").RefereeClient, "proof">} client
 * @param {import("./messages.js").Identity} identity @param {string} referee @param {Seen} [seen]
 * @param {Witness} [witness] @returns {Promise<Finding>}
 */
export async function checkReport(held, client, identity, referee, seen, witness) {
  await checkReceipt(held.receipt, held.report, referee);
  const { run, question } = held.report.message;
  const before = seen?.kept.checkpoint.message.run === run ? seen : undefined; // run and Run may be one file
  const newest = await witness?.newest(held, referee);
  const late = Math.abs(Date.now() / 1000 - held.sent) > WITHIN;
  /** @param {Finding["status"]} status @param {string} why @param {Seen} [shown] @param {string[]} [witnesses] */
  const finding = (status, why, shown, witnesses = []) => ({ run, question, status, why, shown, witnesses });
  if (held.report.key !== identity.key) // of a state that came as a file: a referee shows it to that key alone
    return finding("not shown yet", "another device has signed this report: check it where it was answered");
  const older = await Promise.all([before?.kept, newest].filter(Boolean).map((kept) => checkpointOf(kept, referee)));
  if (older[0]?.digest === older[1]?.digest) older.pop(); // the same one, or none
  const proofs = [];
  try {
    for (const since of older.length ? older.map(({ entries }) => entries) : [undefined]) {
      const request = { participant: identity.key, run, question, since };
      const proof = await client.proof(await identity.sign("proof-request", request));
      proofs.push(read(FORMS.proof, proof, "proof")); // what is none shows nothing
    }
  } catch (error) {
    if (!(error instanceof Refusal) || !["pattern", "not-found"].includes(error.problem)) throw error;
    const { detail } = error;
    if (before?.questions.includes(question))
      return finding("another history", `the referee has proven this report before, and answers now: ${detail}`);
    if ((newest?.checkpoint.message.closed ?? 0) > question)
      return finding("left out", `a witness has seen this question closed; ${detail}`);
    return finding(!late && detail.includes("ask again") ? "not shown yet" : "left out", detail);
  }
  const newer = [];
  try {
    for (const proof of proofs) newer.push(await checkProof(held, proof, referee));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return finding("left out", error.detail);
  }
  const [first, last] = [proofs[0], proofs[proofs.length - 1]];
  const [{ witnesses: by }] = newer;
  const shown = { kept: first.kept, questions: [...new Set([...(before?.questions ?? []), question])] };
  const other = before && (await breaks(older[0], newer[0], first.consistency, "were shown before"));
  if (other) return finding("another history", other, shown, by);
  const now = newer[newer.length - 1];
  const unlike = newest && (await breaks(older[older.length - 1], now, last.consistency, "the witness has seen"));
  if (unlike) return finding("left out", unlike, shown, by);
  const place = `entry ${last.entry.index} of the transcript`;
  if (!witness || (newest?.checkpoint.message.entries > last.entry.index && newer[0].root === now.root))
    return finding("included", place, shown, by);
  return finding(late ? "left out" : "not witnessed", `${place}, which the witness has not seen`, shown, by);
}
