"""A query, a mechanism, an operation and a protocol are added to a copy of the tree, in three files each at most.

In the copy each is listed, keeps the contracts of imports, and passes the suites of its kind.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build")
MOST = 3
"""Files that may change for one of them, its tests among them."""

QUERY = '''"""Whether both of two hypotheses are wrong on my record."""

from __future__ import annotations

from typing import Literal, Self

from common.core.arrays import Floats, Indices
from common.local.hypotheses.hypothesis import AnyHypothesis
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant
from common.local.losses import evaluate
from common.local.naming import Names
from common.local.queries.query import QUERIES, AlikeQuery
from common.local.records import Records


@QUERIES.register("both-err")
class BothErrQuery(AlikeQuery):
    """1 if both hypotheses are wrong on me, else 0."""

    kind: Literal["both-err"] = "both-err"
    first: AnyHypothesis
    second: AnyHypothesis

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(first=Linear(weights=(0.5, -1.0), threshold=0.1), second=Constant(label=1)),)

    def asks(self, names: Names, slot: int) -> str:
        first, second = self.first.rule(names), self.second.rule(names, "another")
        return f"whether both of two rules are wrong about you, {first}, and {second}: the value is 1 if so, else 0"

    @property
    def min_features(self) -> int:
        return max(self.first.min_features, self.second.min_features)

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return evaluate("zero-one", self.first, records) * evaluate("zero-one", self.second, records)
'''
MECHANISM_ROW = """    (
        {"name": "two-coins", "coins": 1},
        (1.098612288668111, 0.0),
        [-0.5, 1.5],
        [0.75, 0.96],
        [0.020000000000000004, 0.24499999999999997],
        [],
    ),
"""
OPERATION = '''"""Count the records of which two features are 1."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from common.operations.operation import ReleasedCount
from common.operations.operation import OPERATIONS, Operation


@OPERATIONS.register("count-both")
class CountBoth(Operation[ReleasedCount]):
    """Count the records of which two features are 1, and release the number with noise."""

    result: ClassVar = ReleasedCount
    kind: Literal["count-both"] = "count-both"
    first: int = Field(ge=0, lt=1 << 20)
    second: int = Field(ge=0, lt=1 << 20)
    epsilon: float = Field(gt=0)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(first=0, second=1, epsilon=1.0),)

    @property
    def min_features(self) -> int:
        return max(self.first, self.second) + 1
'''
HANDLER = '''

@HANDLERS.register("count-both")
class CountBothHandler(OperationHandler[CountBoth, ReleasedCount]):
    """A noisy count on the sample itself."""

    def event(self, operation: CountBoth, standing: Standing) -> Event:
        return Release(epsilon=operation.epsilon)

    def run(self, operation: CountBoth, access: Access, standing: Standing) -> ReleasedCount:
        counted = access.release(
            counts.NoisyCount(operation.epsilon),
            lambda records: (records.features[:, [operation.first, operation.second]] > 0).all(axis=1),
        )
        return ReleasedCount(count=counted)
'''
AUDIT = '''"""A count of people with two features, under audit."""

from __future__ import annotations

from common.operations.both import CountBoth
from common.operations.operation import ReleasedCount
from deploy.auditing import Case
from benchmarks.audits.release_cases import claimed, people, released

AUDITED = {"operations count-both": ("a count of both",)}


def cases() -> list[Case]:
    """One person, who is counted or not."""
    operation = CountBoth(first=0, second=1, epsilon=1.0)

    def number(release: ReleasedCount) -> float:
        return float(release.count)

    twins = {"half the noise": released(operation.model_copy(update={"epsilon": 2.0}), number)}
    inputs = people([[1, 1]]), people([[1, 0]])
    return [Case("a count of both", 1.0, inputs, released(operation, number), 4000, twins=twins, least=0.6)]
'''
DEMANDED = '''"""Two tests: the curator learns once, and two halves of the agents test it apart."""

from __future__ import annotations

from common.protocols.base import DEMANDS, Demands
from common.protocols.patterns import agents, curator, sequence

PATTERN = sequence(curator("learn"), agents("loss"), agents("loss"))

DEMANDS.register("two-tests")(Demands(PATTERN, reweighs=False, claims=False, answers="value"))
'''
SCRIPT = '''"""Two tests: the curator learns once, and two halves of the agents test it apart."""

from __future__ import annotations

from common.local.queries.query import LossQuery
from common.operations.operation import Learn
from common.protocols.base import pattern_of
from common.protocols.base import Progress
from common.scenario.scenario import ResolvedScenario
from common.scenario.scenario import Scenario
from referee.protocols.asking import EstimatePlan, ask, at_once, estimate_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script, small_ball


@PROTOCOLS.register("two-tests")
class TwoTests(Protocol):
    """One learner's call, and two intervals for its loss that hold together."""

    title = "Two tests"
    done = "two intervals; both hold among those who answer, with probability {sure} at least; no level is tested"
    pattern = pattern_of("two-tests")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        return (small_ball("protocol=two-tests"),)

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


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, the tests, and the files that they read."""
    tree = tmp_path_factory.mktemp("copy") / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    return tree


@pytest.fixture
def tree(copied: Path):
    """The copy, which is restored afterwards; what a test has changed in it is counted."""
    before = _texts(copied)
    yield copied
    after = _texts(copied)
    changed = {path for path in after if after[path] != before.get(path)}
    for path in changed:
        if path in before:
            path.write_bytes(before[path])
        else:
            path.unlink()
    assert 1 <= len(changed) <= MOST, sorted(changed)


def _texts(tree: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for end in ("py", "md", "toml") for path in tree.rglob(f"*.{end}")}


def put(path: Path, text: str) -> None:
    assert not path.exists()
    path.write_text(text, "utf-8")


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), "utf-8")


def run(tree: Path, *arguments: str) -> str:
    """Run Python in the copy, and return what it prints."""
    done = subprocess.run([sys.executable, *arguments], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def suites(tree: Path, *paths: str) -> None:
    """Run suites of the copy, and check the contracts of its imports: nothing may need a further change."""
    run(tree, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-m", "not thorough", *paths)
    run(tree, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache")


def test_a_query_is_one_file(tree: Path) -> None:
    put(tree / "common/local/queries/both_err.py", QUERY)
    assert re.search(r"\bboth-err\b", run(tree, "-m", "referee.cli", "list", "queries"))
    suites(tree, "tests/common/local/queries", "tests/common/local/test_local.py", "tests/local_agent/test_policy.py")


def test_a_mechanism_is_one_file_and_its_known_answers(tree: Path) -> None:
    (page,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)
    put(tree / "common/local/mechanisms/two_coins.py", page)
    known = tree / "tests/common/local/mechanisms/test_known_mechanisms.py"
    marks = re.findall(r"^OF_VALUES.* = \[\n", known.read_text("utf-8"), re.MULTILINE)
    edit(known, marks[0], marks[0] + MECHANISM_ROW)
    assert re.search(r"\btwo-coins\b", run(tree, "-m", "referee.cli", "list", "mechanisms"))
    suites(
        tree,
        "tests/common/local/mechanisms",
        "tests/local_agent/hosted/test_population.py",
        "tests/audit/test_audit_parties.py::test_every_mechanism_that_claims_privacy_has_a_case_with_a_twin",
    )


def test_an_operation_is_one_file_its_handler_and_its_audit(tree: Path) -> None:
    put(tree / "common/operations/both.py", OPERATION)
    first = "from common.operations.operation import"
    edit(tree / "curator/operations.py", first, f"from common.operations.both import CountBoth\n{first}")
    handlers = tree / "curator/operations.py"
    handlers.write_text(handlers.read_text("utf-8") + HANDLER, "utf-8")
    put(tree / "benchmarks/audits/both_cases.py", AUDIT)
    assert re.search(r"\bcount-both\b", run(tree, "-m", "referee.cli", "list", "operations"))
    suites(
        tree,
        "tests/common/operations",
        "tests/curator/operations/test_operation_contract.py",
        "tests/curator/operations/test_releases.py",
        "tests/audit/test_audit_parties.py::test_every_operation_and_every_way_to_use_people_is_audited",
        "tests/audit/test_audit_parties.py::test_whatever_is_audited_has_a_case_with_a_twin",
    )


def test_a_protocol_is_two_files_and_the_page_that_is_made_of_all(tree: Path) -> None:
    put(tree / "common/protocols/two_tests.py", DEMANDED)
    put(tree / "referee/protocols/two_tests.py", SCRIPT)
    (tree / "docs/protocols.md").write_text(run(tree, "-m", "referee.view.diagrams"), "utf-8")
    assert re.search(r"\btwo-tests\b", run(tree, "-m", "referee.cli", "list", "protocols"))
    suites(
        tree,
        "tests/referee/protocols/test_protocol_contract.py",
        "tests/common/scenario/test_resolved.py",
        "tests/referee/view/test_show.py",
    )
