// One agent whose way to the referee has faults: it reads a JSON document, prints each state as a line, then its answers.
import { readFileSync } from "node:fs";
import { Agent } from "../../../local_agent/web/agent.js";
import { FolderStore } from "../../../local_agent/web/folder.js";

const { address, token, rules, record, names, dimension, folder, faults = {}, witness, consent = true, steps = Infinity } = JSON.parse(readFileSync(0, "utf8"));
const print = (value) => console.log(JSON.stringify(value));
let lost = faults.lose ?? 0; // requests that get no answer
const sent = [];
async function faulty(to, init) {
  const path = new URL(to).pathname;
  const what = `${init.method} ${path}`;
  sent.push(what);
  if (lost-- > 0) throw new TypeError("the network is away");
  if (faults.kill && what.startsWith(faults.kill)) process.kill(process.pid, "SIGKILL");
  const response = await fetch(to, init);
  if (faults.killAfter && what.startsWith(faults.killAfter)) process.kill(process.pid, "SIGKILL");
  const change = faults.tamper?.[what];
  if (!change || response.status !== 200) return response;
  const text = await response.text();
  return new Response(text.replace(change[0], change[1]), { status: 200, headers: response.headers });
}
const known = record && { features: Float32Array.from(record.features), label: record.label };
const options = { store: new FolderStore(folder), address, token, rules, witness, record: known, names, dimension, patience: 5, fetch: faulty };
try {
  const agent = await Agent.open({ ...options, consent: (_, words) => (print({ words }), consent) });
  for (let step = 0, state; step < steps && !["finished", "declined", "refused", "failed"].includes(state); step++) {
    const found = await agent.step();
    if (found.state !== state) print({ state: found.state, problem: found.problem, detail: found.detail });
    state = found.state;
    await new Promise((resolve) => setTimeout(resolve, 1000 * Math.min(found.pause ?? 0, 0.2)));
  }
  const checked = faults.check ? await agent.check() : [];
  print({ checked, answers: agent.answers, receipts: agent.receipts, left: agent.left, log: agent.log, sent });
  agent.close();
} catch (error) {
  print({ problem: error.problem, detail: error.detail ?? String(error.stack), sent });
}
