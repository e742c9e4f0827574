"""People of a table are real unless a scenario says otherwise, and a state belongs to the table it was made for."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from common.core.durable import claim_people
from common.core.errors import BadInput, BadScenario
from common.crypto.identity import Identity
from common.log.entries import Extension, Head
from common.scenario import loading
from common.scenario.resolved import parse_resolved
from common.wire.messages import Terms
from curator.service.startup import open_curator
from deploy.truth import can_judge
from local_agent.hosted.setup import open_population
from referee.runs.results import promises
from tests.support import tiny

CSV = "x,y\n" + "".join(f"{n % 7},{'yes' if n % 3 else 'no'}\n" for n in range(60))
TABLE = {
    "files": ["people.csv"],
    "label": {"column": "y", "positive": ["yes"], "negative": ["no"]},
    "features": [{"kind": "number", "column": "x", "low": 0, "high": 7}],
}
TREE = {
    "name": "own",
    "title": "own",
    "alpha": 0.1,
    "divergence": {"chi_squared": 2},
    "source": {"table": TABLE},
    "target": {"table": {**TABLE, "files": ["others.csv"]}},
    "curator": {
        "n": 60,
        "epsilon": 90.0,
        "delta": 0.01,
        "kappa": 0.5,
        "eta": 0.1,
        "rounds": 1,
        "learner": {"name": "sgd", "steps": 5, "noise": 4.0, "diameter": 1.0},
    },
    "agents": {"count": 60, "mechanism": {"name": "warner", "epsilon": 1.0}},
}


def own(folder, **changes):
    for name in ("people.csv", "others.csv"):
        (folder / name).write_text(CSV)
    return parse_resolved({**TREE, "data": str(folder), **changes})


def test_people_of_a_table_are_real_by_default(tmp_path):
    assert own(tmp_path).people == "real"
    assert own(tmp_path, people="simulated").people == "simulated"
    assert tiny().people == "simulated"


def test_real_people_are_never_without_a_guarantee(tmp_path):
    bare = {**TREE["curator"], "epsilon": None, "delta": None}
    with pytest.raises(BadScenario, match="people are real"):
        open_curator(own(tmp_path, curator=bare), tmp_path / "state", None, None)


def test_a_state_directory_refuses_another_table(tmp_path):
    chosen = own(tmp_path)
    open_curator(chosen, tmp_path / "state", None, None).close()
    open_curator(chosen, tmp_path / "state", None, None).close()
    (tmp_path / "people.csv").write_text(CSV.replace("1,yes", "2,yes", 1))
    with pytest.raises(BadInput, match="the table has changed"):
        open_curator(chosen, tmp_path / "state", None, None)


def test_simulated_people_leave_no_fingerprint(tmp_path):
    claim_people(tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_the_shipped_table_scenarios_say_what_they_are():
    for name in ("adult", "adult-biased"):
        assert loading.load(name).people == "real"


def test_real_people_are_looked_at_for_the_truth_only_in_an_experiment(tmp_path):
    assert not can_judge(own(tmp_path))
    assert can_judge(own(tmp_path, experiment=True))
    with pytest.raises(BadScenario, match="experiment: true"):
        own(tmp_path, baselines=["optimum"])
    assert own(tmp_path, baselines=["optimum"], experiment=True).baselines == ("optimum",)


@pytest.mark.parametrize("mechanism", [{"name": "none"}, {"name": "gaussian", "epsilon": 1.0, "delta": 1e-5}])
def test_real_people_are_not_asked_with_a_mechanism_that_does_not_protect_them(tmp_path, mechanism):
    with pytest.raises(BadScenario, match="cannot be asked"):
        own(tmp_path, agents={"count": 60, "mechanism": mechanism})


@pytest.mark.parametrize("side", ["target", "public"])
def test_nobody_real_is_on_two_sides(tmp_path, side):
    with pytest.raises(BadScenario, match=f"source and {side} read the same file, and a row could be in both"):
        own(tmp_path, **{side: {"table": TABLE}})
    apart = {**TREE, "source": {"table": {**TABLE, "where": {"x": ["1"]}}}}
    assert parse_resolved({**apart, side: {"table": {**TABLE, "where": {"x": ["2"]}}}}).people == "real"
    assert parse_resolved({**TREE, "people": "simulated", side: {"table": TABLE}}).people == "simulated"


def test_a_file_named_twice_is_refused(tmp_path):
    with pytest.raises(BadScenario, match="a file is named twice"):
        own(tmp_path, source={"table": {**TABLE, "files": ["people.csv", "people.csv.gz"]}})


def test_the_order_of_real_people_is_a_secret_of_the_state_directory(tmp_path):
    """Another directory, another order of the same people; after a restart, the same."""
    chosen, orders = own(tmp_path), []
    for state in ("one", "two", "one"):
        with closing(open_curator(chosen, tmp_path / state, None, None)) as curator:
            orders.append(b"".join(block.features.tobytes() for block in curator._sample.blocks(10)))
    assert orders[0] == orders[2] != orders[1]
    assert sorted(np.frombuffer(orders[0], np.float32)) == sorted(np.frombuffer(orders[1], np.float32))


def test_so_many_real_people_are_hosted_as_the_scenario_says_and_in_a_secret_order(tmp_path):
    """How many of the table's people fit is data, which enrolling all of them would publish."""
    chosen, orders = own(tmp_path, agents={**TREE["agents"], "count": 50}), []
    referee = Identity.load_or_create(tmp_path / "referee.key").public
    for state in ("one", "two", "one"):
        with closing(open_population(chosen, tmp_path / state, None, referee, None)) as hosted:
            assert len(hosted) == 50
            orders.append(hosted._population.records(np.arange(50)).features.tobytes())
    assert orders[0] == orders[2] != orders[1]


VOTERS = {
    "name": "model-agnostic", "chunks": 2, "queries": 4, "protects": "labels",
    "teacher": {"classifier": "DecisionTreeClassifier"}, "student": {"classifier": "DecisionTreeClassifier"},
    "aggregation": {"name": "gnmax", "noise": 50.0},
}  # fmt: skip


def test_features_of_real_people_go_unprotected_only_if_the_scenario_says_so(tmp_path):
    def labelled(**changes):
        return own(tmp_path, protocol="model-agnostic", curator={**TREE["curator"], "learner": {**VOTERS, **changes}})

    with pytest.raises(BadScenario, match=r"leaves the features .* unprotected.* public_features: true"):
        labelled()
    promised = labelled(public_features=True).curator.guarantee
    assert (promised.protects, promised.neighbours) == ("labels", "one label")
    assert labelled(protects="records").curator.guarantee.protects == "records"


def test_labels_that_alone_are_protected_do_not_decide_who_is_in_the_sample(tmp_path):
    curator = {**TREE["curator"], "learner": {**VOTERS, "public_features": True}}
    for rule in (
        {"where": {"y": ["yes"]}},
        {"selection": {"keep": "volunteers", "seed": 1, "unless": [{"column": "y", "values": ["no"], "factor": 0.5}]}},
    ):
        with pytest.raises(BadScenario, match="column 'y' decides who is in the sample, and is the label"):
            own(tmp_path, protocol="model-agnostic", curator=curator, source={"table": {**TABLE, **rule}})


def test_where_both_sides_read_one_file_a_row_has_what_both_promise_together(tmp_path):
    sides = {
        "source": {"table": {**TABLE, "where": {"x": ["1"]}}},
        "target": {"table": {**TABLE, "where": {"x": ["2"]}}},
    }
    ledger = Extension(head=Head(chain="0" * 64, entries=1, hash="0" * 64), since=0, links=("0" * 64,))
    terms = Terms(run="r", digest="0" * 64, n=60, guarantee=own(tmp_path).curator.guarantee, ledger=ledger)
    assert promises(own(tmp_path), terms).keys() == {"curator", "agent"}
    row = promises(own(tmp_path, **sides), terms)["together"]
    assert row.pair == pytest.approx((91.0, 0.01))
