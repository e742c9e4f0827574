"""The people of the shipped scenarios: what is assumed of S and T is true, and the Adult files are read right."""

import os
from contextlib import closing
from pathlib import Path
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
from common.scenario.resolved import parse_resolved
from common.scenario.scenario import parse, policy_digest, public_sample
from curator.startup import open_curator
from deploy.baselines import can_judge
from local_agent.hosted.population import open_population
from referee.runs.results import promises
from tests.support import tiny
from tests.tiers import for_each

CHECKOUT = Path(__file__).resolve().parents[3]
SHELF = Path(os.environ.get("TANDEM_DATA", CHECKOUT.parent / "shared" / "data"))
needs_adult = pytest.mark.skipif(
    not (SHELF / "adult" / "adult.data.xz").is_file(), reason="the Adult files are not here (TANDEM_DATA)"
)


REWEIGHED = [name for name in shipped() if demands_of(load(name).protocol).reweighs]
"""Scenarios that rest on a divergence of S and T."""


@for_each("name", REWEIGHED)
def test_the_assumed_divergence_is_no_smaller_than_the_known_one(name):
    scenario = load(name)
    source: Any = scenario.source.distribution
    if scenario.source == scenario.target:
        known = (1.0, 1.0)
    elif source is not None:
        known = (source.chi_squared(), source.supremum())
    elif scenario.source.table.selection is not None:
        known = (scenario.source.table.selection.chi_squared, scenario.source.table.selection.supremum)
    else:
        known = (1.0, 1.0)
    assumed = scenario.divergence
    assert assumed.chi_squared >= known[0] * (1 - 1e-12)
    assert assumed.supremum is None or assumed.supremum >= known[1] * (1 - 1e-12)


@for_each("name", REWEIGHED)
def test_source_and_target_differ_in_who_they_are_at_most(name):
    source, target = load(name).source, load(name).target
    if load(name).problem is not None:
        assert source == target
    elif source.distribution is not None:
        assert (source.distribution.side, target.distribution.side) == ("source", "target")  # type: ignore[attr-defined]
        assert source.distribution == target.distribution.model_copy(update={"side": "source"})
    else:
        who = {"where": target.table.where, "selection": target.table.selection}
        assert source.table.model_copy(update=who) == target.table


@needs_adult
class TestAdult:
    @pytest.fixture(autouse=True)
    def _shelf(self, monkeypatch):
        monkeypatch.setenv("TANDEM_DATA", str(SHELF))

    def read(self, name):
        scenario = load(name)
        folder = locate(scenario.data)
        return load_table(folder, scenario.source.table), load_table(folder, scenario.target.table)

    @pytest.mark.slow
    def test_men_and_women_are_all_there_with_their_known_share_of_high_incomes(self):
        # 21790 + 10860 men and 10771 + 5421 women, rows with '?' included.
        men, women = self.read("adult")
        assert (len(men), len(women)) == (32650, 16192)
        assert np.sum(men.labels == 1) == 9918
        assert np.sum(women.labels == 1) == 1769
        assert men.dimension == women.dimension == 61

    @pytest.mark.slow
    def test_volunteers_are_enough_and_biased_and_the_population_is_not(self):
        scenario = load("adult-biased")
        volunteers, population = self.read("adult-biased")
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
    chosen = parse(PLAIN)
    one, same, other = (public_sample(chosen, seed) for seed in (1, 1, 2))
    assert len(one) == 50
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert set(one.labels.tolist()) == {-1, 1}
    assert public_sample(parse({**PLAIN, "public": None}), 1) is None


def test_unknown_labels_tell_nothing():
    unlabelled = public_sample(parse({**PLAIN, "public": {**PLAIN["public"], "labelled": False}}), 1)
    assert set(unlabelled.labels.tolist()) == {1}
    np.testing.assert_array_equal(unlabelled.features, public_sample(parse(PLAIN), 1).features)


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


class TestReal:
    @pytest.fixture
    def file(self, tmp_path):
        table = {"label": {"column": "y", "positive": ["1"], "negative": ["0"]},
                 "features": [{"kind": "number", "column": c, "low": 0, "high": 1} for c in "abcd"]}  # fmt: skip
        real = {side: {"table": {"files": [f"{side}.csv"], **table}} for side in ("source", "target", "public")}
        path = tmp_path / "both.yaml"
        path.write_text(yaml.safe_dump({**PLAIN, "real": {**real, "alpha": 0.3, "curator": {"n": 40, "epsilon": 1.0}}}))
        return str(path)

    def test_without_data_people_are_simulated(self, file):
        assert load(file) == parse(PLAIN)

    def test_with_data_the_real_ones_are_laid_over(self, file, tmp_path):
        real = load(file, [f"data={tmp_path}", "alpha=0.2"])
        assert real.people == "real"
        assert real.source.table is not None
        assert real.source.distribution is None
        assert real.public.count is None
        assert (real.curator.n, real.curator.epsilon, real.curator.rounds) == (40, 1.0, 1)
        assert real.alpha == 0.2  # the user has the last word

    def test_a_folder_of_data_sets_is_as_good_as_the_one_that_is_meant(self, file, tmp_path):
        path = tmp_path / "named.yaml"
        path.write_text(Path(file).read_text().replace("real:\n", "real:\n  data: census\n"))
        (tmp_path / "census").mkdir()
        for given in (tmp_path, tmp_path / "census"):
            assert load(str(path), [f"data={given}"]).data == str(tmp_path / "census")

    def test_what_is_no_mapping_is_refused(self, tmp_path):
        path = tmp_path / "odd.yaml"
        path.write_text(yaml.safe_dump({**PLAIN, "real": [1]}))
        with pytest.raises(BadScenario, match="real must be a mapping"):
            load(str(path))


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
