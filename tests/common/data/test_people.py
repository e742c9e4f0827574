"""The people of the shipped scenarios: what is assumed of S and T is true, and the Adult files are read right."""

from contextlib import closing
from typing import Any

import numpy as np
import pytest
import yaml

from common.core.errors import BadInput, BadScenario
from common.crypto.identity import Identity
from common.data.loading import load as load_table
from common.data.population import locate
from common.log.entries import Extension, Head
from common.net.messages import Terms
from common.protocols.base import demands_of
from common.scenario.loading import load, shipped
from common.scenario.scenario import parse, parse_resolved, policy_digest, public_sample
from curator.startup import open_curator
from deploy.baselines import can_judge
from local_agent.hosted.population import open_population
from referee.runs.results import promises
from tests.support import SHELF, tiny
from tests.tiers import for_each

REWEIGHED = [name for name in shipped() if demands_of(load(name).protocol).reweighs]
"""Scenarios that rest on a divergence of S and T."""


@for_each("name", REWEIGHED)
def test_source_and_target_differ_in_who_they_are_at_most_and_by_no_more_than_is_assumed(name):
    scenario = load(name)
    source, target, assumed = scenario.source, scenario.target, scenario.divergence
    known = (1.0, 1.0)
    if scenario.problem is not None:
        assert source == target
    elif source.distribution is not None:
        people: Any = source.distribution
        assert people == target.distribution.model_copy(update={"side": "source"})
        known = (people.chi_squared(), people.supremum())
    else:
        who = {"where": target.table.where, "selection": target.table.selection}
        assert source.table.model_copy(update=who) == target.table
        if source.table.selection is not None:
            known = (source.table.selection.chi_squared, source.table.selection.supremum)
    assert assumed.chi_squared >= known[0] * (1 - 1e-12)
    assert assumed.supremum is None or assumed.supremum >= known[1] * (1 - 1e-12)


@pytest.mark.slow
@pytest.mark.skipif(not (SHELF / "adult" / "adult.data.xz").is_file(), reason="the Adult files are not here")
def test_people_of_the_adult_files_are_all_there_and_volunteers_are_biased(monkeypatch):
    monkeypatch.setenv("TANDEM_DATA", str(SHELF))

    def read(name):
        scenario = load(name)
        return [load_table(locate(scenario.data), side.table) for side in (scenario.source, scenario.target)]

    # 21790 + 10860 men and 10771 + 5421 women, rows with '?' included, with their known share of high incomes.
    men, women = read("adult")
    assert [(len(some), np.sum(some.labels == 1)) for some in (men, women)] == [(32650, 9918), (16192, 1769)]
    assert men.dimension == women.dimension == 61
    scenario, (volunteers, population) = load("adult-biased"), read("adult-biased")
    assert len(volunteers) >= scenario.curator.n
    assert len(population) >= scenario.agents.count
    share = 11687 / 48842
    error = np.sqrt(share * (1 - share) / len(population))
    assert abs(np.mean(population.labels == 1) - share) < 6 * error
    assert np.mean(volunteers.labels == 1) < 0.1


LINE = {"name": "drifting-line", "side": "target", "d": 3}
PLAIN = {
    "name": "with-public",
    "title": "t",
    "protocol": "learn-and-test",
    "alpha": 0.1,
    "divergence": {"chi_squared": 1.0},
    "source": {"distribution": LINE},
    "target": {"distribution": LINE},
    "public": {"distribution": {**LINE, "side": "source"}, "count": 50},
    "curator": {
        "n": 100, "kappa": None, "eta": 1.0, "rounds": 1,
        "learner": {"name": "scikit", "classifier": "GaussianNB", "draws": 50},
    },
    "agents": {"count": 100, "mechanism": {"name": "warner", "epsilon": 1.0}},
}  # fmt: skip


def test_the_same_seed_gives_everybody_the_same_public_sample():
    one, same, other = (public_sample(parse(PLAIN), seed) for seed in (1, 1, 2))
    assert len(one) == 50
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert set(one.labels.tolist()) == {-1, 1}
    unlabelled = public_sample(parse({**PLAIN, "public": {**PLAIN["public"], "labelled": False}}), 1)
    assert set(unlabelled.labels.tolist()) == {1}
    np.testing.assert_array_equal(unlabelled.features, one.features)


@for_each(
    ("public", "reason"),
    [
        ({"distribution": {**LINE, "d": 4}, "count": 50}, "public people have 5 features, the curator's 4"),
        ({"distribution": LINE}, "how many public people"),
        ({"count": 50}, "either a distribution or a table"),
        ({"distribution": LINE, "count": 0}, "count"),
    ],
)
def test_a_public_sample_that_does_not_fit_is_refused(public, reason):
    with pytest.raises(BadScenario, match=reason):
        parse({**PLAIN, "public": public})


def test_the_curator_agrees_to_the_public_sample_too(tmp_path):
    chosen = parse_resolved(PLAIN)
    assert policy_digest(chosen) != policy_digest(parse({**PLAIN, "public": {**PLAIN["public"], "count": 51}}))
    open_curator(chosen, tmp_path, 1, None).close()
    (tmp_path / "public-people").write_text("others")
    with pytest.raises(BadInput, match="has changed"):
        open_curator(chosen, tmp_path, 1, None)


def test_with_data_the_real_people_of_a_file_are_laid_over_the_simulated(tmp_path):
    columns = [{"kind": "number", "column": c, "low": 0, "high": 1} for c in "abcd"]
    table = {"label": {"column": "y", "positive": ["1"], "negative": ["0"]}, "features": columns}
    real = {side: {"table": {"files": [f"{side}.csv"], **table}} for side in ("source", "target", "public")}
    real |= {"alpha": 0.3, "data": "census", "curator": {"n": 40, "epsilon": 1.0, "delta": 1e-6}}
    file = tmp_path / "both.yaml"
    file.write_text(yaml.safe_dump({**PLAIN, "real": real}))
    (tmp_path / "census").mkdir()
    assert load(str(file)) == parse(PLAIN)
    for given in (tmp_path, tmp_path / "census"):  # a folder of data sets is as good as the one that is meant
        found = load(str(file), [f"data={given}", "alpha=0.2"])
        assert (found.people, found.data) == ("real", str(tmp_path / "census"))
        assert (found.source.distribution, found.public.count) == (None, None)
        assert (found.curator.n, found.curator.epsilon, found.curator.rounds) == (40, 1.0, 1)
        assert found.alpha == 0.2  # the user has the last word
    file.write_text(yaml.safe_dump({**PLAIN, "real": [1]}))
    with pytest.raises(BadScenario, match="real must be a mapping"):
        load(str(file))


CSV = "x,y\n" + "".join(f"{n % 7},{'yes' if n % 3 else 'no'}\n" for n in range(60))
TABLE = {
    "files": ["people.csv"],
    "label": {"column": "y", "positive": ["yes"], "negative": ["no"]},
    "features": [{"kind": "number", "column": "x", "low": 0, "high": 7}],
}
SGD = {"name": "sgd", "steps": 5, "noise": 4.0, "diameter": 1.0}
TREE = {
    "name": "own",
    "title": "own",
    "alpha": 0.1,
    "divergence": {"chi_squared": 2},
    "source": {"table": TABLE},
    "target": {"table": {**TABLE, "files": ["others.csv"]}},
    "curator": {"n": 60, "epsilon": 90.0, "delta": 0.01, "kappa": 0.5, "eta": 0.1, "rounds": 1, "learner": SGD},
    "agents": {"count": 60, "mechanism": {"name": "warner", "epsilon": 1.0}},
}


def own(folder, **changes):
    for name in ("people.csv", "others.csv"):
        (folder / name).write_text(CSV)
    return parse_resolved({**TREE, "data": str(folder), **changes})


VOTERS = {
    "name": "model-agnostic", "chunks": 2, "queries": 4, "protects": "labels",
    "teacher": {"classifier": "DecisionTreeClassifier"}, "student": {"classifier": "DecisionTreeClassifier"},
    "aggregation": {"name": "gnmax", "noise": 50.0},
}  # fmt: skip


def voters(**changes):
    return {"protocol": "model-agnostic", "curator": {**TREE["curator"], "learner": {**VOTERS, **changes}}}


def where(*values):
    return {"table": {**TABLE, "where": {"x": list(values)}}}


def by_label(**rule):
    return voters(public_features=True) | {"source": {"table": {**TABLE, **rule}}}


HALF = {"column": "y", "values": ["no"], "factor": 0.5}
BOTH_SIDES = "source and {} read the same file, and a row could be in both"
LABEL_DECIDES = "column 'y' decides who is in the sample, and is the label"


@for_each(
    ("changes", "why"),
    [
        ({"agents": {"count": 60, "mechanism": {"name": "none"}}}, "cannot be asked"),
        (
            {"agents": {"count": 60, "mechanism": {"name": "gaussian", "epsilon": 1.0, "delta": 1e-5}}},
            "cannot be asked",
        ),
        ({"baselines": ["optimum"]}, "experiment: true"),
        ({"target": {"table": TABLE}}, BOTH_SIDES.format("target")),
        ({"public": {"table": TABLE}}, BOTH_SIDES.format("public")),
        ({"source": {"table": {**TABLE, "files": ["people.csv", "people.csv.gz"]}}}, "a file is named twice"),
        (voters(), "leaves the features .* unprotected.* public_features: true"),
        (by_label(where={"y": ["yes"]}), LABEL_DECIDES),
        (by_label(selection={"keep": "volunteers", "seed": 1, "unless": [HALF]}), LABEL_DECIDES),
    ],
)
def test_what_would_not_protect_real_people_is_refused(tmp_path, changes, why):
    with pytest.raises(BadScenario, match=why):
        own(tmp_path, **changes)


def test_people_of_a_table_are_real_unless_it_is_said_and_looked_at_only_in_an_experiment(tmp_path):
    assert own(tmp_path).people == "real"
    assert own(tmp_path, people="simulated", target={"table": TABLE}).people == "simulated"
    assert tiny().people == "simulated"
    for side in ("target", "public"):
        assert own(tmp_path, **{"source": where("1"), side: where("2")}).people == "real"
    assert not can_judge(own(tmp_path))
    assert can_judge(own(tmp_path, experiment=True, baselines=["optimum"]))
    promised = own(tmp_path, **voters(public_features=True)).curator.guarantee
    assert (promised.protects, promised.neighbours) == ("labels", "one label")
    assert own(tmp_path, **voters(protects="records")).curator.guarantee.protects == "records"
    bare = {**TREE["curator"], "epsilon": None, "delta": None}
    with pytest.raises(BadScenario, match="people are real"):
        open_curator(own(tmp_path, curator=bare), tmp_path / "state", None, None)


def test_a_state_directory_refuses_another_table(tmp_path):
    chosen = own(tmp_path)
    for _ in range(2):
        open_curator(chosen, tmp_path / "state", None, None).close()
    (tmp_path / "people.csv").write_text(CSV.replace("1,yes", "2,yes", 1))
    with pytest.raises(BadInput, match="the table has changed"):
        open_curator(chosen, tmp_path / "state", None, None)


def test_the_order_of_real_people_is_a_secret_of_the_state_directory(tmp_path):
    """Another directory, another order of the same people; after a restart, the same. Also of those who are hosted.

    Of these there are as many as the scenario says: how many of the table's people fit is data.
    """
    chosen, orders, hosted = own(tmp_path, agents={**TREE["agents"], "count": 50}), [], []
    referee = Identity.load_or_create(tmp_path / "referee.key").public
    for state in ("one", "two", "one"):
        with closing(open_curator(chosen, tmp_path / state, None, None)) as curator:
            orders.append(b"".join(block.features.tobytes() for block in curator._sample.blocks(10)))
        with closing(open_population(chosen, tmp_path / "hosted" / state, None, referee, None)) as people:
            assert len(people) == 50
            hosted.append(people._population.records(np.arange(50)).features.tobytes())
    assert orders[0] == orders[2] != orders[1]
    assert hosted[0] == hosted[2] != hosted[1]
    assert sorted(np.frombuffer(orders[0], np.float32)) == sorted(np.frombuffer(orders[1], np.float32))


def test_where_both_sides_read_one_file_a_row_has_what_both_promise_together(tmp_path):
    ledger = Extension(head=Head(chain="0" * 64, entries=1, hash="0" * 64), since=0, links=("0" * 64,))
    terms = Terms(run="r", digest="0" * 64, n=60, guarantee=own(tmp_path).curator.guarantee, ledger=ledger)
    assert promises(own(tmp_path), terms).keys() == {"curator", "agent"}
    row = promises(own(tmp_path, source=where("1"), target=where("2")), terms)["together"]
    assert row.pair == pytest.approx((91.0, 0.01))
