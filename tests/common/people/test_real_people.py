"""People of a table are real unless a scenario says otherwise, and a state belongs to the table it was made for."""

import pytest

from common.core.errors import BadInput, BadScenario
from common.scenario import loading
from common.scenario.resolved import parse_resolved
from common.wire.state import claim_people
from curator.service.startup import open_curator
from deploy.truth import can_judge
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
    "target": {"table": TABLE},
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
    (folder / "people.csv").write_text(CSV)
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
