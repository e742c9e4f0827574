"""A query, a mechanism, an operation, a protocol and a learner are added to a copy of the tree, in few files each.

In the copy each is listed, keeps the contracts of imports, and passes the suites of its kind.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tandem import modules_of
from tests.plugins.installing import EXAMPLE

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "*.egg-info", "build")
MOST = 3
"""Files that may change for one of them, its tests among them."""

KNOWN = """from common.local.mechanisms.mechanism import parse_mechanism


def test_with_one_coin_epsilon_is_that_of_three_to_one():
    assert parse_mechanism({"name": "two-coins", "coins": 1}).guarantee == (1.098612288668111, 0.0)
"""
AUDIT = """from common.operations.count_inside import Counted, CountInside
from deploy.auditing import Case
from benchmarks.audits.release_cases import claimed, people, released

AUDITED = {"operations two-count-inside": ("a count inside",)}


def cases() -> list[Case]:
    operation = CountInside(feature=0, low=0.5, high=1.5, epsilon=1.0)

    def number(release: Counted) -> float:
        return float(release.count)

    twins = {"half the noise": released(operation.model_copy(update={"epsilon": 2.0}), number)}
    inputs = people([[1]]), people([[0]])
    return [Case("a count inside", 1.0, inputs, released(operation, number), 4000, twins=twins, least=0.6)]
"""
DEMANDED = """from common.protocols.base import DEMANDS, Demands
from common.protocols.patterns import agents, curator, sequence

PATTERN = sequence(curator("learn"), agents("loss"), agents("loss"))

DEMANDS.register("two-tests")(Demands(PATTERN, reweighs=False, claims=False, answers="value"))
"""
SCRIPT = '''from common.local.queries.query import LossQuery
from common.operations.operation import Learn
from common.protocols.base import pattern_of
from common.protocols.base import Progress
from common.scenario.scenario import ResolvedScenario
from common.scenario.scenario import Scenario
from common.protocols.base import Progress, pattern_of
from referee.protocols.asking import EstimatePlan, ask, at_once, estimate_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script


@PROTOCOLS.register("two-tests")
class TwoTests(Protocol):
    """One learner's call, and two intervals for its loss that hold together."""

    done = "two intervals; both hold among those who answer, with probability {sure} at least; no level is tested"
    pattern = pattern_of("two-tests")
    small = ("protocol=two-tests",)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        half, answers = at_once(scenario.agents.count // 2, alike=True), EstimatePlan.of(scenario)
        hypothesis = (yield from ask(Learn(round=1))).hypothesis
        query = LossQuery(hypothesis=hypothesis, loss=scenario.agents.loss)
        first = yield from estimate_mean(query, answers, half, 2)
        second = yield from estimate_mean(query, answers, half, 2)
        yield Progress("tested twice", {"round": 1, "rounds": 1, "asked": first.asked + second.asked})
        reason = f"the halves say {first.estimate.value:.3f} and {second.estimate.value:.3f}"
        status = "done" if first.asked == second.asked == half else "exhausted"
        return Outcome(status, 1, hypothesis, second.estimate, reason, summary=second.summary)
'''
SETTINGS = """from typing import Annotated, ClassVar, Literal

from pydantic import Field

from common.core.values import PLAN, FromPlan
from common.learners.base import SETTINGS, LearnerSettings, OpenSettings, PlanRequest, PlanTask
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.privacy.events import Event, Gaussian
from common.privacy.rounding import down
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.statistics.formulas import PlannedValue, fixed

Mu = Annotated[float, Field(gt=0, le=100)]


class OpenAverage(OpenSettings):
    reweighs: ClassVar[bool] = False

    name: Literal["two-averages"] = "two-averages"
    mu: Mu | FromPlan
    norm: float = Field(gt=0, le=1e6)

    def planned_sample(self, request: PlanRequest) -> PlannedValue:
        return fixed(1, "any", "Dwork et al. 2006")

    def complete(self, task: PlanTask, n: int | None) -> "AverageSettings":
        if self.mu != PLAN:
            return self.settled(AverageSettings)
        whole = mu_allowed(*task.delta_budget("the average"))
        return self.settled(AverageSettings, mu=down(whole / task.rounds**0.5, 8.0))


@SETTINGS.register("two-averages")
class AverageSettings(OpenAverage, LearnerSettings):
    mu: Mu

    def can_give(self, hypothesis: Hypothesis) -> bool:
        return isinstance(hypothesis, Linear)

    def event(self, tv_bound: float) -> Event:
        return Gaussian(mu=self.mu)

    def planned_people(self, task: PlanTask) -> PlannedValue:
        return task.any_people("any n is as private", "Dwork et al. 2006")

    def planned_values(self, task: PlanTask, asked: OpenSettings) -> dict[str, PlannedValue]:
        return {"mu": fixed(self.mu, "mu*(eps, delta)/sqrt(T)", "Dong, Roth and Su 2022")}
"""
LEARNER = '''from typing import Self

import numpy as np

from common.core.arrays import AnyArray
from common.learners.two_averages import AverageSettings
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.local.records import Records
from curator.learners.base import LEARNERS, Learner
from curator.mechanisms.access import Access
from curator.mechanisms.sums import ClippedSum


@LEARNERS.register("two-averages")
class TwoAverages(AverageSettings, Learner):
    """Predict by the side on which the average of y (x, 1) has a point (Duda and Hart 1973, 5.8)."""

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(mu=2.0, norm=2.0),)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        def signed(records: Records) -> AnyArray:
            ones = np.ones((len(records), 1))
            return np.column_stack([records.features, ones]) * records.labels[:, None]

        total = access.release(ClippedSum(self.norm, access.dimension + 1, self.mu), signed)
        scaled = total / max(float(np.abs(total).max()), 1e-9)
        return Linear(weights=tuple(scaled[:-1].tolist()), threshold=-0.5 * float(scaled[-1]))
'''
LEARNED = """from common.learners.base import Calls
from common.scenario.loading import load
from common.scenario.plan import plan, resolve
from deploy.simulation import conduct

LEARNER = "curator.learner={name: two-averages, mu: plan, norm: 2.0}"
SIZES = ["curator.n=20000", "curator.kappa=null", "curator.epsilon=1.0", "curator.delta=1.0e-6"]


def test_it_spends_the_budget_and_no_more_and_runs():
    asked = load("ball", ["protocol=learn-and-test", LEARNER, *SIZES])
    found, settled = plan(asked), resolve(asked)
    assert 0.2 < found.settings["mu"].value == found.learner["mu"] < 0.3
    curator = settled.curator
    assert 0.99 < Calls(curator.n, None, curator.eta, curator.rounds).spent(curator.settings, 1e-6) <= 1.0
    learned = []
    conduct(settled, 1, lambda number, hypothesis: learned.append(hypothesis))
    assert [hypothesis.kind for hypothesis in learned] == ["linear"]
"""
ALONE = {**os.environ, "TANDEM_ONLY": "two-"}
"""Contract suites of the copy try what is added: all else is held to them by itself."""


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), "utf-8")


def run(tree: Path, *arguments: str) -> str:
    """Run Python in the copy, and return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=ALONE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def example(name: str) -> tuple[str, list[str]]:
    """Return a file of the example package up to its import of :mod:`tandem.extend`, and what follows, by class."""
    text = (EXAMPLE / "tandem_example_plugins" / f"{name}.py").read_text("utf-8").replace('"example-', '"two-')
    before, code = re.split(r"from tandem\.extend import (?:\([^)]*\)|.*)\n", text)
    return before, re.split(r"\n(?=@HANDLERS)", code)


def inner(code: str) -> str:
    """Return code behind the imports of what it takes from :mod:`tandem.extend`, from where the tree has it."""
    modules = modules_of(str(ROOT / "tandem" / "extend.py"))
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    return "".join(f"from {modules[name]} import {name}\n" for name in sorted(used & modules.keys())) + code


def add_a_query(tree: Path) -> None:
    before, (query,) = example("inside")
    (tree / "common/local/queries/inside.py").write_text(before + inner(query))


def add_a_mechanism(tree: Path) -> None:
    """Add the one that CONTRIBUTING.md prints, with its known answers."""
    (page,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)
    (tree / "common/local/mechanisms/two_coins.py").write_text(page)
    (tree / "tests/common/local/mechanisms/test_two_coins.py").write_text(KNOWN)
    known = tree / "tests/common/local/mechanisms/test_known_mechanisms.py"
    edit(known, "== set(MECHANISMS.names())", '== set(MECHANISMS.names()) - {"two-coins"}')


def add_an_operation(tree: Path) -> None:
    before, (operation, handler) = example("count_inside")
    (tree / "common/operations/count_inside.py").write_text(before + inner(operation))
    handlers = tree / "curator/operations.py"
    own = "from common.operations.count_inside import Counted, CountInside\n\n\n"
    handlers.write_text(handlers.read_text("utf-8") + inner(own + handler), "utf-8")
    (tree / "benchmarks/audits/count_inside_cases.py").write_text(AUDIT)


def add_a_protocol(tree: Path) -> None:
    (tree / "common/protocols/two_tests.py").write_text(DEMANDED)
    (tree / "referee/protocols/two_tests.py").write_text(SCRIPT)


def add_a_learner(tree: Path) -> None:
    (tree / "common/learners/two_averages.py").write_text(SETTINGS)
    (tree / "curator/learners/two_averages.py").write_text(LEARNER)
    (tree / "tests/curator/learners/test_two_averages.py").write_text(LEARNED)


ADDING = {
    "queries: .*two-inside": add_a_query,
    "mechanisms: .*two-coins": add_a_mechanism,
    "operations: .*two-count-inside": add_an_operation,
    "protocols: .*two-tests": add_a_protocol,
    "learners: .*two-averages": add_a_learner,
}
AUDITS = "tests/audit/test_audit_parties.py::"
LEARNERS = "tests/curator/learners/test_learner_contract.py::"
SUITES = (
    "tests/common/local/queries/test_queries.py::TestEveryQuery",
    "tests/common/local/queries/test_queries.py::test_every_kind_says_in_plain_words_what_it_asks",
    "tests/common/local/mechanisms/test_mechanism_contract.py",
    "tests/common/local/mechanisms/test_two_coins.py",
    "tests/common/local/mechanisms/test_known_mechanisms.py::test_every_registered_mechanism_is_known",
    "tests/common/scenario/test_resolved.py::test_what_protocols_ask_for_is_asked_of_their_scenarios",
    "tests/curator/learners/test_two_averages.py",
    f"{LEARNERS}test_a_twin_that_asks_for_more_releases_nothing",
    f"{LEARNERS}TestContract",
    f"{LEARNERS}test_draws_as_often_as_its_event_pays_for",
    "tests/curator/operations/test_operation_contract.py",
    "tests/local_agent/test_policy.py::test_every_shipped_kind_is_accepted_unless_the_person_narrows_it",
    "tests/local_agent/hosted/test_population.py::test_together_people_answer_as_each_would_alone",
    "tests/referee/protocols/test_protocol_contract.py",
    "tests/referee/view/test_show.py::test_every_part_of_a_pattern_is_drawn_and_the_page_has_every_protocol",
    f"{AUDITS}test_every_mechanism_that_claims_privacy_has_a_case_with_a_twin",
    f"{AUDITS}test_every_operation_and_every_way_to_use_people_is_audited",
    f"{AUDITS}test_a_learner_uses_people_in_audited_ways_alone",
    f"{AUDITS}test_whatever_is_audited_has_a_case_with_a_twin",
)
"""The suites of each kind, and what else goes over all that is registered."""


@pytest.mark.slow
def test_one_of_each_is_added_in_few_files_and_held_to_the_suites_of_its_kind(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    paths = lambda: [path for end in ("py", "md", "toml") for path in tree.rglob(f"*.{end}")]  # noqa: E731
    for add in ADDING.values():
        before = {path: path.read_bytes() for path in paths()}
        add(tree)
        assert 1 <= sum(before.get(path) != path.read_bytes() for path in paths()) <= MOST, add.__name__
    listed = run(tree, "-m", "referee.cli", "list")
    assert [line for line in ADDING if not re.search(rf"^{line}\b", listed, re.MULTILINE)] == []
    run(tree, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-m", "not thorough", *SUITES)
    run(tree, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache")
