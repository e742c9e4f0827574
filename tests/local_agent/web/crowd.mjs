// Many individual agents in one process: it reads one JSON document from standard input, and prints what became of them.
import { readFileSync } from "node:fs";
import { Agent } from "../../../local_agent/web/agent.js";
import { FolderStore, MemoryStore } from "../../../local_agent/web/folder.js";

const { address, token, rules, records, folder } = JSON.parse(readFileSync(0, "utf8"));
const own = (rule) => ({ ...rule, epsilon: rule.epsilon ?? Infinity }); // of simulated people without a limit
const agents = [];
for (const [number, { features, bytes, label }] of records.entries()) {
  const record = { features: bytes ? Uint8Array.from(features) : Float32Array.from(features), label };
  const store = folder ? new FolderStore(`${folder}/agent-${number}`) : new MemoryStore();
  const options = { store, address, rules: own(rules[number % rules.length]), token, consent: () => true, dimension: features.length };
  const agent = await Agent.open({ ...options, record });
  await agent.enrol(); // one after the other: number i is person i
  agents.push(agent);
}
console.log("enrolled");
const over = new AbortController();
const ended = new Promise((resolve) => process.on("SIGTERM", () => (over.abort(), resolve())));
const states = await Promise.all(agents.map((agent) => agent.run({ signal: over.signal })));
const alive = setInterval(() => {}, 1000); // until the run is over: then its transcript is whole
await ended;
clearInterval(alive);
const counted = await Promise.all(agents.map((agent) => agent.check()));
const words = agents.flatMap((agent) => agent.log.filter((entry) => entry.event === "asked").map((entry) => entry["What is asked"]));
console.log(JSON.stringify({
  answered: agents.reduce((sum, agent) => sum + agent.answers.length, 0),
  included: counted.flat().filter((finding) => finding.status === "included").length,
  problems: states.filter((state) => !["waiting", "finished", "answered"].includes(state.state)),
  asked: [...new Set(words)].slice(0, 5),
}));
for (const agent of agents) agent.close();
