"""Resolved scenarios: the same JSON, a type of its own, and no number that is still open."""

import pytest

import scenarios
from common.core import strictyaml
from common.core.errors import BadScenario
from common.core.values import may_be_open
from common.learners.base import LearnerSettings
from common.net.cli import version
from common.protocols.base import DEMANDS, demands_of
from common.scenario.loading import load, shipped
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario, Scenario, parse, parse_resolved, policy_digest, settled
from referee.protocols.base import PROTOCOLS
from tests.support import TINY
from tests.tiers import for_each, thinned

SETTLED = load("ball", list(TINY))


def test_no_field_of_it_may_be_open():
    for section in ("curator", "agents"):
        for kind, may in ((ResolvedScenario, False), (Scenario, True)):
            fields = kind.model_fields[section].annotation.model_fields.values()
            assert any(may_be_open(field.annotation) for field in fields) == may


def test_a_scenario_of_which_nothing_is_open_is_resolved_as_it_stands():
    found = settled(SETTLED)
    assert type(SETTLED) is Scenario
    assert type(found) is ResolvedScenario
    assert found.wire() == SETTLED.wire()
    assert policy_digest(found) == policy_digest(SETTLED)
    assert settled(found) is resolve(found) is found
    assert resolve(SETTLED) == parse_resolved(SETTLED.wire()) == found


@for_each(
    "opened", ["curator.n", "curator.rounds", "curator.eta", "curator.kappa", "agents.count", "curator.learner.noise"]
)
def test_what_is_left_at_plan_is_refused(opened):
    scenario = load("ball", [*TINY, f"{opened}=plan"])
    assert scenario.anything_open
    for refuse in (lambda: settled(scenario), lambda: parse_resolved(scenario.wire())):
        with pytest.raises(BadScenario, match="a run needs a resolved scenario: a value is still at 'plan'"):
            refuse()


@for_each("name", thinned([name for name in shipped() if load(name).data is None], 8, rest=pytest.mark.thorough))
def test_every_shipped_scenario_resolves_to_one_that_a_run_admits(name):
    found = resolve(load(name))
    assert not found.anything_open
    assert found.curator.learner is None or isinstance(found.curator.learner, LearnerSettings)
    assert parse_resolved(found.wire()).wire() == found.wire()


def test_what_protocols_ask_for_is_asked_of_their_scenarios():
    assert set(DEMANDS.names()) <= set(PROTOCOLS.names())
    assert demands_of("gossip") == demands_of("subsample-test-reweigh")
    tree = load("ball").wire()
    del tree["divergence"]
    for name, demands in DEMANDS.items():
        if demands.reweighs:
            with pytest.raises(BadScenario, match="divergence: must be given"):
                parse({**tree, "protocol": name})
        else:
            assert parse({**tree, "protocol": name}).divergence.chi_squared == 1.0
        if not demands.several_tasks:
            with pytest.raises(BadScenario, match=f"tasks are for protocol hand-over, found '{name}'"):
                load("ball", [f"protocol={name}", "tasks=[{features: 1}]", "baselines=[]"])


def refused(tmp_path, text: str, *sets: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(BadScenario) as caught:
        load(str(path), list(sets))
    assert "\n" not in caught.value.detail
    return caught.value.detail.replace(str(path), "mine.yaml")


def test_a_wrong_key_or_value_is_named_with_its_line_and_a_key_with_this_version(tmp_path):
    text = scenarios.text("ball")
    line = text.count("\n") + 1
    said = refused(tmp_path, f"{text}version: 7\n")
    assert said == (
        f"version: unknown key (mine.yaml, line {line}, column 1; "
        f"a key of a newer version is unknown to this one, {version()})"
    )
    inner = text.replace("\nagents:\n", "\nagents:\n  turbo: 1\n")
    line = 1 + inner.splitlines().index("  turbo: 1")
    assert f"agents.turbo: unknown key (mine.yaml, line {line}, column 3;" in refused(tmp_path, inner)
    said = refused(tmp_path, text.replace("vc_dimension: ", "vc_dimension: -"))
    line = 1 + next(at for at, row in enumerate(text.splitlines()) if row.startswith("vc_dimension:"))
    assert f"(mine.yaml, line {line}, column 1)" in said
    assert "newer" not in said
    assert "mine.yaml" not in refused(tmp_path, text, "alpha=7")  # what an option sets stands in no file
    assert refused(tmp_path, text.replace("name: sgd", "name: nothing-like-it")).endswith("(mine.yaml)")


def test_a_truth_value_is_no_number(tmp_path):
    """YAML reads yes as one, which would then be an epsilon, or a number of people, of 1."""
    text = scenarios.text("ball")
    line = 1 + next(at for at, row in enumerate(text.splitlines()) if row.startswith("  epsilon:"))
    said = refused(tmp_path, text.replace("  epsilon: 0.5\n", "  epsilon: yes\n", 1))
    assert said.startswith("curator.epsilon: Input should be a number, found a truth value (yes, ")
    assert said.endswith(f"(mine.yaml, line {line}, column 3)")
    for key in ("curator.n", "curator.learner.steps", "source.distribution.norm", "agents.count"):
        assert refused(tmp_path, text, f"{key}=on").startswith(f"{key}: Input should be a number")


def test_a_budget_has_both_numbers_or_none():
    for key in ("epsilon=0.5", "delta=1e-6"):
        with pytest.raises(BadScenario, match=r"curator: a budget needs epsilon and delta, .* or neither; found"):
            load("ball-nonprivate", [f"curator.{key}"])


def test_an_option_is_a_number_as_python_writes_one_and_a_text_where_it_stands_in_quotation_marks():
    for override, field, value in (
        ("beta=1e-2", "beta", 0.01),
        ("title='7'", "title", "7"),
        ('data="1e3"', "data", "1e3"),
    ):
        assert getattr(load("ball", [override]), field) == value, override


@for_each(("path", "expected"), [
    (("a",), (1, 1)), (("b", "c"), (3, 3)), (("b", "d", 1), (4, 10)), (("b", "function-wrap", "c"), (3, 3)),
    (("z",), None), ((), None),
])  # fmt: skip
def test_a_path_leads_to_a_line(path, expected):
    assert strictyaml.place("a: 1\nb:\n  c: 2\n  d: [1, 22]\n", path) == expected
