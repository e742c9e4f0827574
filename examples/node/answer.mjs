// One person's agent in Node: it asks its person, answers a running referee, and checks that the answer is counted.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Agent } from "../../local_agent/web/agent.js";
import { FolderStore } from "../../local_agent/web/folder.js";

const [address, referee, file, folder, epsilon = "1"] = process.argv.slice(2);
const { features, label, names } = JSON.parse(readFileSync(file, "utf8")); // what "local-agent record" has written
const terminal = createInterface({ input: process.stdin });
const lines = terminal[Symbol.asyncIterator]();
const agent = await Agent.open({
  store: new FolderStore(folder),
  address,
  token: process.env.TANDEM_INDIVIDUAL_TOKEN ?? "",
  rules: { referee, epsilon: Number(epsilon) }, // the referee's key, and the lifetime budget of all answers together
  record: { features: Float32Array.from(features), label },
  dimension: features.length,
  names,
  consent: async (question, words) => {
    for (const [title, text] of Object.entries(words)) console.log(`${title}: ${text}`);
    process.stdout.write("Answer? [y/N] ");
    return /^y/i.test((await lines.next()).value ?? ""); // none: the input has ended
  },
});
const last = await agent.run({ onState: ({ state, detail = "" }) => state === "waiting" || console.log(state, detail) });
for (const { status, why } of await agent.check()) console.log(status, `(${why})`);
agent.close();
terminal.close();
process.exitCode = last.state === "finished" ? 0 : 1;
