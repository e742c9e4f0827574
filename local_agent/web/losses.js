/**
 * Public functions of one record: losses of a hypothesis, and cells of its score (common/local/losses.py).
 *
 * @typedef {import("./values.js").Record} Record
 * @typedef {import("./hypotheses.js").Hypothesis} Hypothesis
 */

import { clip, known, softplus } from "./elementary.js";
import { groupCount, groupOf, groupsForm, plainHypothesis } from "./hypotheses.js";
import { GREATEST, ascending, list, object, oneOf, read, real, refuse } from "./values.js";

export const lossForm = oneOf("zero-one", "hinge", "perceptron", "logistic", "squared");
export const boundForm = real(2 ** -20, 1e6);
const cost = real(1e-6, 1e6);
export const costsForm = object({ miss: cost, false_alarm: cost });

/** What a miss and a false alarm count, as parts of the heavier. @param {{miss: number, false_alarm: number}} costs */
export function costWeights({ miss, false_alarm }) {
  const heaviest = Math.max(miss, false_alarm);
  return [miss / heaviest, false_alarm / heaviest];
}

/**
 * Return min(L, B)/B of a record's loss L and its bound B, in [0, 1].
 * @param {{loss: string, hypothesis: Hypothesis, bound: number, costs: any}} query
 * @param {Record} record
 */
export function lossOf({ loss, hypothesis, bound, costs }, record) {
  const label = hypothesis.label(record);
  if (loss === "zero-one")
    return hypothesis.mistake(record) * (costs === null ? 1 : costWeights(costs)[label > 0 ? 0 : 1]);
  if (loss === "squared") {
    const apart = hypothesis.value(record.features) - hypothesis.response(record);
    return (apart * apart) / bound;
  }
  const margin = label * hypothesis.margin(record.features);
  const found = loss === "logistic" ? softplus(-margin) : loss === "hinge" ? 1 - margin : -margin;
  return clip(known(found / bound), 0, 1);
}

const cells = {
  hypothesis: plainHypothesis,
  cuts: list(real(-GREATEST, GREATEST), 1, 255),
  groups: /** @type {import("./values.js").Field} */ ([groupsForm, []]),
};

/** A public partition of records: bins of a model's score, in every group. @type {import("./values.js").Form} */
export const cellsForm = (wire, where) => {
  const found = read(cells, wire, where);
  const repeated = new Set(found.groups).size < found.groups.length;
  const fits = ascending(found.cuts) && !repeated && itemCount(found) <= 1 << 12;
  return fits ? found : refuse(where, "cuts ascend, groups differ, and there are at most 4096 items");
};

/** Number of cells with a label. @param {any} cells */
export const itemCount = ({ cuts, groups }) => 2 * (cuts.length + 1) * groupCount(groups);

/** @param {any} cells @param {Record} record */
export function itemOf({ hypothesis, cuts, groups }, record) {
  const score = known(hypothesis.score(record.features), -Infinity);
  const bin = cuts.filter((/** @type {number} */ cut) => cut < score).length;
  const cell = bin + (cuts.length + 1) * groupOf(record.features, groups);
  return 2 * cell + (hypothesis.label(record) > 0 ? 1 : 0);
}
