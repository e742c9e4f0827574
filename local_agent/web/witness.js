/** A witness, as who checks a report sees it: it has signed the checkpoints of runs that it has seen. */

import { ANSWER, Client, jsonOf } from "./client.js";
import { checkpointOf, forged } from "./receipts.js";
import { fail } from "./values.js";

const PAGE = 100; // checkpoints that are asked for together

/** A witness; what it keeps of a run is read in pages. */
export class Witness extends Client {
  key = async () => String((await this.document("GET", "/v1/witness")).key);

  /** @param {string} referee @param {string} run @returns {Promise<any[]>} stored checkpoints, oldest first */
  async checkpoints(referee, run) {
    /** @type {any[]} */
    const checkpoints = [];
    for (let size = 0; ; ) {
      const { body } = await this.request("GET", `/v1/runs/${referee}/${run}?after=${checkpoints.length}&most=${PAGE}`);
      const page = jsonOf({ body });
      size += body.length;
      if (!Array.isArray(page) || page.length > PAGE || size > 2 * ANSWER)
        fail("peer-misbehaved", `the witness at ${this.address} answers with no list of checkpoints`);
      checkpoints.push(...page);
      if (page.length < PAGE) return checkpoints;
    }
  }

  /**
   * Return the newest checkpoint of a report's run that it keeps; undefined: it has seen none.
   * @param {import("./receipts.js").Held} held @param {string} referee
   */
  async newest({ report }, referee) {
    const { run, digest } = report.message;
    const [key, checkpoints] = [await this.key(), await this.checkpoints(referee, run)];
    const entries = /** @param {any} stored */ (stored) => stored?.checkpoint?.message?.entries ?? -1;
    const newest = checkpoints.reduce((most, stored) => (entries(stored) > entries(most) ? stored : most), undefined);
    if (newest === undefined) return undefined;
    const statement = await checkpointOf(newest, referee);
    if (!statement.witnesses.includes(key)) forged("the witness shows what it has not signed: ask another one");
    if (statement.run !== run || statement.configuration !== digest)
      forged("the witness shows a checkpoint of another run: ask another one");
    return newest;
  }
}
