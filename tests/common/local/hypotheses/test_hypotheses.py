"""What every registered hypothesis must do: travel as JSON, refuse what is not one, and label anything.

Made on its own examples, so a new one is tested by being registered; what the shipped ones predict is compared with
their definitions in ``test_hypotheses.py``.
"""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from common.core.errors import BadMessage, BadScenario
from common.local import losses
from common.local.hypotheses.composed import Relabelled, Task, column_classes
from common.local.hypotheses.hypothesis import HYPOTHESES, Linear, Regressor, parse_hypothesis
from common.local.hypotheses.rules import MAX_DEPTH, Trees
from common.local.losses import evaluate
from common.local.records import Records
from common.numerics.kernels import interpreted
from common.scenario.loading import load
from common.scenario.plan import plan
from tests.common.local.hypotheses.onnx_models import linear, wire
from tests.contracts import examples, with_a_number_that_is_none
from tests.support import tiny
from tests.tiers import for_each


def rows(hypothesis, n, dtype=np.float32, seed=1):
    shape, generator = (n, hypothesis.min_features + 2), np.random.default_rng(seed)
    return (generator.normal(size=shape) if dtype == np.float32 else generator.integers(0, 2, shape)).astype(dtype)


def awkward(hypothesis, dtype):
    """Single records: ordinary ones, some of both signs of zero, and some on which sums overflow."""
    several = rows(hypothesis, 30, dtype, seed=4)
    if dtype == np.float32:
        width = several.shape[1]
        huge = 3.4e38 * np.random.default_rng(5).choice([-1, 1], (8, width))
        several = np.concatenate([several, np.zeros((1, width)), np.full((1, width), -0.0), huge])
    return [Records(row[None].astype(dtype), np.array([sign], dtype=np.int8)) for row in several for sign in (-1, 1)]


@for_each("hypothesis", examples(HYPOTHESES))
class TestContract:
    def test_travels_as_json(self, hypothesis):
        wire = json.loads(json.dumps(hypothesis.wire()))
        again = parse_hypothesis(wire)
        assert again == hypothesis
        assert type(again) is HYPOTHESES[wire["kind"]] is type(hypothesis)

    def test_equality_is_by_content_also_after_use(self, hypothesis):
        used, fresh = (parse_hypothesis(hypothesis.wire()) for _ in range(2))
        used.predict(rows(used, 1))
        assert used == fresh
        assert hash(used) == hash(fresh)
        others = [example for _, kind in HYPOTHESES.items() for example in kind.example()]
        assert sum(used == other for other in others) == 1

    @for_each("dtype", [np.float32, np.uint8])
    def test_labels_each_record_as_if_it_were_alone(self, hypothesis, dtype):
        features = rows(hypothesis, 200, dtype)
        labels = hypothesis.predict(features)
        assert labels.dtype == np.int8
        assert set(labels) <= {-1, 1}
        assert labels.tolist() == [int(hypothesis.predict(row[None])[0]) for row in features]

    def test_ignores_features_beyond_its_own(self, hypothesis):
        features = rows(hypothesis, 200)
        own = np.ascontiguousarray(features[:, : hypothesis.min_features])
        np.testing.assert_array_equal(hypothesis.predict(features), hypothesis.predict(own))

    def test_blocks_leave_no_seam(self, hypothesis, monkeypatch):
        features = rows(hypothesis, 1000, seed=2)
        whole = hypothesis.predict(features)
        monkeypatch.setattr("common.local.hypotheses.hypothesis._CELLS", 35)
        np.testing.assert_array_equal(hypothesis.predict(features), whole)

    def test_labels_extreme_and_no_records(self, hypothesis):
        extreme = rows(hypothesis, 3)
        extreme[:] = np.array([[3.4e38], [-3.4e38], [0.0]], dtype=np.float32)
        assert set(hypothesis.predict(extreme)) <= {-1, 1}
        assert hypothesis.predict(extreme[:0]).shape == (0,)

    @for_each("dtype", [np.float32, np.uint8])
    @for_each("method", ["mistakes", "margins", "scores", "values", "responses", "labels"])
    def test_one_record_is_judged_alike_to_the_bit_without_a_compiler(self, hypothesis, dtype, method):
        for record in awkward(hypothesis, dtype):
            given = record if method in ("mistakes", "responses", "labels") else record.features
            compiled = getattr(hypothesis, method)(given)
            with interpreted():
                plain = getattr(hypothesis, method)(given)
            assert (plain.tobytes(), plain.dtype) == (compiled.tobytes(), compiled.dtype)

    def test_values_and_responses_lie_in_the_unit_interval(self, hypothesis):
        features = rows(hypothesis, 100)
        records = Records(features, np.where(features.sum(axis=1) > 0, 1, -1).astype(np.int8))
        for numbers in (hypothesis.values(features), hypothesis.responses(records)):
            assert numbers.shape == (100,)
            assert np.all((numbers >= 0.0) & (numbers <= 1.0))
        assert hypothesis.margins(features).dtype == np.float32
        assert hypothesis.scores(features).dtype == np.float64

    def test_counts_a_mistake_where_prediction_and_label_differ(self, hypothesis):
        features = rows(hypothesis, 100, seed=3)
        records = Records(features, np.where(features.sum(axis=1) > 0, 1, -1).astype(np.int8))
        mistakes = hypothesis.mistakes(records)
        assert mistakes.dtype == np.uint8
        np.testing.assert_array_equal(mistakes, hypothesis.predict(features) != hypothesis.labels(records))

    def test_refuses_unknown_fields_and_non_finite_numbers(self, hypothesis):
        for broken in ({**hypothesis.wire(), "code": "print()"}, *with_a_number_that_is_none(hypothesis.wire())):
            with pytest.raises(BadMessage):
                parse_hypothesis(broken)


@for_each("wire", [None, [], "linear", {}, {"kind": "pickle"}, {"kind": ["linear"]}])
def test_what_is_no_hypothesis_is_refused(wire):
    with pytest.raises(BadMessage, match="no hypothesis has the kind"):
        parse_hypothesis(wire)


EXAMPLES = {kind: HYPOTHESES[kind].example()[0].wire() for kind in HYPOTHESES.shipped()}


def one_by_one(wire, row):
    """Predict for one row by the definition, in double precision."""
    match wire["kind"]:
        case "argmax":  # the classes are the two sides of the half-space of the other examples
            own = [column > 0.5 for column in row[3:]]
            predicted = one_by_one(EXAMPLES["linear"], row)
            return 1 if own == [predicted < 0, predicted > 0] else -1
        case "constant":
            return wire["label"]
        case "conjunction":
            return 1 if all(row[j] > 0.5 for j in wire["features"]) else -1
        case "linear" | "onnx" | "relabelled" | "recalibrated":  # all of one half-space
            weights, threshold = EXAMPLES["linear"]["weights"], EXAMPLES["linear"]["threshold"]
            moved = wire["intercepts"][0] / wire["slope"] if wire["kind"] == "recalibrated" else 0.0
            return 1 if sum(w * x for w, x in zip(weights, row, strict=False)) + moved > threshold else -1
        case "regressor":
            return 1 if sum(w * x for w, x in zip(wire["weights"], row, strict=False)) + wire["intercept"] > 0.5 else -1
        case "network":
            units = zip(wire["hidden"], wire["thresholds"], strict=True)
            sums = [sum(w * x for w, x in zip(weights, row, strict=False)) - low for weights, low in units]
            margin = sum(v * z / (1 + abs(z)) for v, z in zip(wire["output"], sums, strict=True))
            return 1 if margin > wire["threshold"] else -1
        case "parity":
            return 1 if sum(row[j] > 0.5 for j in wire["features"]) % 2 else -1
        case "flipped-parity":
            number = int("".join(str(int(x > 0.0)) for x in row[wire["first"] : wire["first"] + wire["bits"]]), 2)
            odd = sum(row[j] > 0.5 for j in wire["features"]) % 2 == 1
            return 1 if odd != (number >= wire["threshold"]) else -1
        case "stump":
            return wire["sign"] if row[wire["feature"]] > wire["threshold"] else -wire["sign"]
        case "trees":
            score = wire["base"]
            for node in wire["roots"]:
                while wire["feature"][node] >= 0:
                    below = row[wire["feature"][node]] <= wire["threshold"][node]
                    node = wire["left" if below else "right"][node]
                score += wire["threshold"][node]
            return 1 if score > 0 else -1


@for_each("kind", sorted(EXAMPLES))
@for_each("dtype", [np.float32, np.uint8])
def test_shipped_ones_predict_by_their_definitions(kind, dtype):
    generator = np.random.default_rng(1)
    wide = generator.normal(size=(500, 5)) if dtype == np.float32 else generator.integers(0, 2, (500, 5))
    features = wide.astype(dtype)
    labels = parse_hypothesis(EXAMPLES[kind]).predict(features)
    assert labels.tolist() == [one_by_one(EXAMPLES[kind], row.tolist()) for row in features]


def trees(roots, feature, left, right, threshold=None):
    threshold = [0.0] * len(feature) if threshold is None else threshold
    return {"kind": "trees", "roots": roots, "feature": feature, "threshold": threshold, "left": left, "right": right}


def plane(*weights, threshold=0.0):
    return {"kind": "linear", "weights": list(weights), "threshold": threshold}


def argmax(first, *hypotheses):
    return {"kind": "argmax", "first": first, "hypotheses": list(hypotheses)}


def chain(depth):
    places = range(0, 2 * depth, 2)
    left, right = ([*(child for node in places for child in (node + step, -1)), -1] for step in (1, 2))
    return trees([0], [*[0, -1] * depth, -1], left, right)


THREE = argmax(2, plane(1.0, 0.0), plane(0.0, 1.0), plane(-1.0, -1.0))
RELABELLED = {"kind": "relabelled", "column": 1, "hypothesis": plane(1.0, threshold=0.25)}


@for_each(
    ("wire", "says"),
    [
        (trees([0], [0, -1, -1], [0, -1, -1], [2, -1, -1]), "not a later node"),
        (trees([0], [0, -1, -1], [1, -1, -1], [3, -1, -1]), "not a later node"),
        (trees([0], [0, -1, -1], [1, -1, -1], [1, -1, -1]), "two parents"),
        (trees([0], [-1, -1], [-1, -1], [-1, -1]), "no parent"),
        (trees([0], [-1, -1, -1], [1, -1, -1], [2, -1, -1]), "has children"),
        (trees([0, 1], [0, -1, -1], [1, -1, -1], [2, -1, -1]), "same tree"),
        (trees([1], [-1, -1], [-1, -1], [-1, -1]), "increasing from 0"),
        (trees([0, 0], [-1, -1], [-1, -1], [-1, -1]), "increasing from 0"),
        (trees([0, 2], [-1, -1], [-1, -1], [-1, -1]), "is not one of 2 nodes"),
        (trees([0], [-1], [-1], [-1], [0.0, 0.0]), "one entry a node"),
        (trees([0], [-1], [-1], [-1], [1e31]), "threshold"),
        ({"kind": "conjunction", "features": [3, 1]}, "strictly increasing"),
        ({"kind": "conjunction", "features": [1, 1]}, "strictly increasing"),
        ({"kind": "conjunction", "features": list(range(65))}, "at most 64"),
        ({"kind": "parity", "features": [3, 1]}, "strictly increasing"),
        ({"kind": "parity", "features": [65536]}, "less than 65536"),
        ({"kind": "parity", "features": list(range(4097))}, "at most 4096"),
        ({"kind": "stump", "feature": 65536, "threshold": 0.0, "sign": 1}, "less than 65536"),
        ({"kind": "stump", "feature": 0, "threshold": 0.0, "sign": 0}, "sign"),
        ({"kind": "linear", "weights": [0.0] * 65537, "threshold": 0.0}, "at most 65536"),
        ({"kind": "linear", "weights": [1e31], "threshold": 0.0}, "less than or equal"),
        ({"kind": "constant", "label": 0}, "label"),
        (chain(MAX_DEPTH + 1), "deeper than 256"),
        (argmax(2, plane(1.0), plane(1.0, 1.0, 1.0)), "features before them only, one needs 3"),
        *((argmax(2, *[plane(1.0)] * count), "hypotheses") for count in (0, 1, 65)),
        ({"kind": "relabelled", "column": 1, "hypothesis": plane(1.0, 1.0)}, "features before it only"),
        ({"kind": "regressor", "weights": [1.0, 2.0], "intercept": 0.0, "response": 1}, "among the 2 features"),
    ],
)
def test_out_of_bounds_is_refused_with_its_reason(wire, says):
    with pytest.raises(BadMessage, match=says):
        parse_hypothesis(wire)


@for_each("inner", [THREE, RELABELLED, wire(linear([1.0], 0.25)), {"kind": "pickle"}, {"kind": [1]}, {}, None])
def test_what_a_party_accepts_by_choice_only_does_not_come_in_through_another(inner):
    for outer in (argmax(9, plane(1.0), inner), {"kind": "relabelled", "column": 9, "hypothesis": inner}):
        with pytest.raises(BadMessage, match="cannot be part of another"):
            parse_hypothesis(outer)


def test_a_tree_may_be_as_deep_as_that():
    parse_hypothesis(chain(MAX_DEPTH))


def test_a_record_goes_as_deep_as_the_tree_whichever_way_it_takes() -> None:
    """One split at the top, and a long arm behind it: an earlier loop ended at the leaf, hundreds of steps sooner."""
    arm = 50
    feature = [0, -1, *[0, -1] * arm, -1]
    left = [1, -1, *[node for k in range(arm) for node in (3 + 2 * k, -1)], -1]
    right = [2, -1, *[node for k in range(arm) for node in (4 + 2 * k, -1)], -1]
    threshold = [0.5, -1.0, *[x for k in range(arm) for x in (0.5 + k, float(k))], 99.0]
    tree = Trees(roots=(0,), feature=tuple(feature), threshold=tuple(threshold), left=tuple(left), right=tuple(right))
    _roots, depths, features, _, lefts, rights = tree._arrays
    assert depths.tolist() == [arm + 1]
    leaves = np.flatnonzero(np.array(feature) == -1)
    assert lefts[leaves].tolist() == rights[leaves].tolist() == leaves.tolist()
    assert features.min() == 0
    scores = tree.scores(np.array([[0.0], [1.0], [2.5], [1000.0]]))
    assert scores.tolist() == [-1.0, 1.0, 2.0, 99.0]


@given(st.data())
def test_any_accepted_forest_ends_every_walk(data):
    nodes = data.draw(st.integers(1, 7))
    numbers = st.lists(st.integers(-1, nodes), min_size=nodes, max_size=nodes)
    wire = trees([0], *(data.draw(numbers) for _ in range(3)))
    try:
        accepted: Any = parse_hypothesis(wire)
    except BadMessage:
        return
    below = [child for side in (accepted.left, accepted.right) for child in side if child >= 0]
    assert sorted(below) == list(range(1, nodes))


THREE_CLASSES: Any = parse_hypothesis(THREE)


def test_it_predicts_the_class_with_the_greatest_score_and_the_lowest_of_several():
    points = np.array([[2.0, 1.0], [1.0, 2.0], [-1.0, -2.0], [1.0, 1.0], [0.0, 0.0]], dtype=np.float32)
    rows = np.column_stack([points, np.zeros((5, 3), dtype=np.float32)])
    assert THREE_CLASSES.classes(rows).tolist() == [0, 1, 2, 0, 0]

    def stump(low: float, high: float) -> dict[str, Any]:  # by sums, not by signs
        return trees([0], [0, -1, -1], [1, -1, -1], [2, -1, -1], [0.5, low, high])

    chosen: Any = parse_hypothesis(argmax(1, stump(0.1, 3.0), stump(2.0, 1.0)))
    assert chosen.classes(np.array([[0.0, 0, 0], [1.0, 0, 0]], dtype=np.float32)).tolist() == [1, 0]
    # A score that is no number is below all others.
    overflowing: Any = parse_hypothesis(argmax(2, plane(1e30, -1e30), plane(0.0, threshold=1e30)))
    assert overflowing.classes(np.array([[3e38, 3e38, 0, 0]], dtype=np.float32)).tolist() == [1]


@for_each("loss", ["zero-one", "hinge", "perceptron", "squared"])
def test_the_loss_is_whether_the_class_is_another(loss):
    classes = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.5, 0.0, 0.0]]  # the right one, another, two, none
    features = np.column_stack([[[2.0, 1.0]] * 4, classes]).astype(np.float32)
    held = Records(features, -np.ones(4, dtype=np.int8))
    assert evaluate(loss, THREE_CLASSES, held).tolist() == [0, 1, 1, 1]
    assert THREE_CLASSES.labels(held).tolist() == [1] * 4
    assert column_classes(features, 2, 3).tolist() == [0, 1, -1, -1]


@pytest.mark.slow
def test_all_trees_together_have_no_more_nodes_than_one_hypothesis():
    count = 150_000
    leaves = [-1] * count
    many = trees(list(range(count)), leaves, leaves, leaves, [1.0] * count)
    parse_hypothesis(argmax(2, many, plane(1.0)))
    with pytest.raises(BadMessage, match="at most 262144 nodes, found 300000"):
        parse_hypothesis(argmax(2, many, many))


def assert_gaps_have_the_signs_of_margins(weights, threshold, features):
    hypothesis = Linear(weights=tuple(np.asarray(weights, dtype=float).tolist()), threshold=threshold)
    margins = hypothesis.margins(features)
    for gaps in (hypothesis.gaps(features, np.arange(len(features))), hypothesis.gaps(features, np.arange(5))):
        np.testing.assert_array_equal(gaps > 0, margins[: len(gaps)] > 0)
    labels = np.where(np.arange(len(features)) % 3, 1, -1).astype(np.int8)
    np.testing.assert_array_equal(hypothesis.mistakes(Records(features, labels)), (margins > 0) != (labels > 0))
    return margins


@for_each("width", [1, 7, 8, 30, 501])
@for_each("dtype", [np.float32, np.uint8])
def test_gaps_have_the_signs_of_margins_and_rows_are_alike_to_the_bit_without_a_compiler(width, dtype):
    random = np.random.default_rng(1)
    features = random.normal(size=(3000, width)) if dtype == np.float32 else random.integers(0, 2, (3000, width))
    weights = random.normal(size=width)
    assert_gaps_have_the_signs_of_margins(weights, 0.1, features.astype(dtype))
    records = Records(features[:20].astype(dtype), random.choice([-1, 1], 20).astype(np.int8))
    hypothesis = Linear(weights=tuple(weights), threshold=0.1)
    compiled = hypothesis.margins(records.features).tobytes(), hypothesis.mistakes(records).tobytes()
    with interpreted():
        assert (hypothesis.margins(records.features).tobytes(), hypothesis.mistakes(records).tobytes()) == compiled


@for_each("width", [9, 100, 500])
def test_near_the_boundary_the_order_of_additions_decides_nothing(width):
    random = np.random.default_rng(3)
    features = random.normal(size=(4000, width)).astype(np.float32)
    weights = random.normal(size=width).astype(np.float32)
    # All margins are as small as rounding errors: another order of additions has other signs for many.
    features[:, -1] = -(features[:, :-1].astype(float) @ weights[:-1]) / weights[-1]
    margins = assert_gaps_have_the_signs_of_margins(weights, 0.0, features)
    backwards = assert_gaps_have_the_signs_of_margins(weights[::-1], 0.0, np.ascontiguousarray(features[:, ::-1]))
    assert 100 < np.count_nonzero((backwards > 0) != (margins > 0)) < 3900


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_margin_of_exactly_zero_is_negative_and_sums_beyond_single_precision_are_compared_as_margins_are():
    random = np.random.default_rng(4)
    whole = random.integers(-2, 3, size=(2000, 40)).astype(np.float32)
    margins = assert_gaps_have_the_signs_of_margins(np.tile([1.0, -1.0, 2.0, -2.0], 10), 3.0, whole)
    assert np.count_nonzero(margins == 0.0) > 20
    huge = (random.normal(size=(500, 16)) * 10.0 ** random.uniform(-40, 38, size=(500, 16))).astype(np.float32)
    for weight, threshold in ((1e30, 1e30), (1e-30, 0.0)):
        assert_gaps_have_the_signs_of_margins(np.full(16, weight), threshold, huge)


RECORDS = Records(
    np.array([[0.0, 9.0, 0.5], [1.0, 9.0, 0.5], [2.0, 9.0, 1.0], [-9.0, 9.0, 0.25]], dtype=np.float32),
    np.array([1, -1, 1, -1], dtype=np.int8),
)
LINE = Regressor(weights=(0.5,), intercept=0.25, response=2)


def test_the_squared_loss_is_that_of_the_clipped_prediction():
    assert LINE.values(RECORDS.features).tolist() == [0.25, 0.75, 1.0, 0.0]
    assert losses.evaluate("squared", LINE, RECORDS).tolist() == [0.0625, 0.0625, 0.0, 0.0625]
    assert losses.HypothesisLoss(LINE, "squared").count(RECORDS).tolist() == [64, 64, 0, 64]
    mad = Regressor(weights=(1e30, -1e30), intercept=0.0, response=2)  # a prediction without a value is one half
    wild = Records(np.full((1, 3), 3e38, dtype=np.float32), np.array([1], dtype=np.int8))
    assert losses.evaluate("squared", mad, wild).tolist() == [0.25]
    # As a classifier it says on which side of one half the response is.
    assert LINE.labels(RECORDS).tolist() == [-1, -1, 1, -1]
    assert LINE.predict(RECORDS.features).tolist() == [-1, 1, 1, -1]
    assert LINE.mistakes(RECORDS).tolist() == [0, 1, 0, 0]


RELABELLED_THREE = Records(np.array([[1, 2, 0], [3, 4, 1]], dtype=np.float32), np.array([1, -1], dtype=np.int8))


def test_a_view_has_the_first_features_and_one_label():
    for task, features, labels, needed in (
        (Task(features=2), [[1, 2], [3, 4]], [1, -1], 2),
        (Task(features=1, label=2), [[1], [3]], [-1, 1], 3),
    ):
        seen = task.of(RELABELLED_THREE)
        assert (seen.features.tolist(), seen.labels.tolist(), task.min_features) == (features, labels, needed)
        assert seen.features.flags.c_contiguous


def test_losses_on_views_are_losses_on_records():
    task, hypothesis = Task(features=1, label=2), Linear(weights=(1.0,), threshold=4.0)
    np.testing.assert_array_equal(
        hypothesis.mistakes(task.of(RELABELLED_THREE)), task.about(hypothesis).mistakes(RELABELLED_THREE)
    )
    assert task.about(hypothesis) == Relabelled(column=2, hypothesis=hypothesis)
    assert Task(features=2).about(hypothesis) is hypothesis


def test_a_label_among_the_features_is_refused():
    with pytest.raises(ValidationError, match="a model would see it"):
        Task(features=3, label=2)
    with pytest.raises(BadMessage, match="features before it only"):
        Task(features=1, label=2).about(Linear(weights=(1.0, 1.0, 1.0), threshold=0.0))


@for_each(
    ("overrides", "words"),
    [
        (["tasks=[{features: 8}]"], "tasks are for protocol hand-over"),
        (["protocol=hand-over", "tasks=[{features: 8}]"], "baselines are for one label"),
        (["protocol=hand-over", "tasks=[{features: 8, label: 8}]", "baselines=[]"], "tasks need 9 features"),
    ],
)
def test_a_scenario_whose_tasks_do_not_fit_is_refused(overrides, words):
    with pytest.raises(BadScenario, match=words):
        tiny(*overrides)


@pytest.mark.slow
def test_each_further_task_costs_one_more_round():
    one = plan(load("hand-over", ["tasks=[{features: 8}]"])).rounds.value
    assert plan(load("hand-over")).rounds.value == one + 1
