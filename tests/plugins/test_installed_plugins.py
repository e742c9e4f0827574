"""A package of one's own adds one of each kind: listed, planned, run, audited, and held to the contract suites."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.plugins.installing import EXAMPLE, install

ROOT = Path(__file__).parents[2]
ADDED = {
    "protocols": "example-compare",
    "operations": "example-count-inside",
    "learners": "example-histogram",
    "mechanisms": "example-die",
    "queries": "example-inside",
    "hypotheses": "example-interval",
    "distributions": "example-band",
}
HELD_TO = {
    "tests.referee.protocols",
    "tests.curator.operations",
    "tests.curator.learners",
    "tests.common.local.mechanisms",
    "tests.common.local.queries",
    "tests.common.local.hypotheses",
    "tests.common.data.distributions",
}
"""Where the contract suites of these kinds are."""
SUITES = [
    "tests/common/data/distributions/test_distributions.py::TestEveryDistribution",
    "tests/common/local/hypotheses/test_hypotheses.py::TestContract",
    "tests/common/local/mechanisms/test_mechanism_contract.py",
    "tests/common/local/queries/test_queries.py::TestEveryQuery",
    "tests/curator/learners/test_learner_contract.py::TestContract",
    "tests/curator/operations/test_operation_contract.py",
    "tests/referee/protocols/test_protocol_contract.py",
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the package, and return an environment that finds it."""
    folder = tmp_path_factory.mktemp("site")
    install(EXAMPLE, folder)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def python(installed: dict[str, str], folder: Path, *arguments: str, status: int = 0) -> str:
    """Run Python, which must end so; return what it prints, or its complaint."""
    command = [sys.executable, *arguments]
    ended = subprocess.run(command, env=installed, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == status, ended.stdout[-5000:] + ended.stderr
    return ended.stderr if status else ended.stdout


COMMANDS = """
import json
from pathlib import Path
from typer.testing import CliRunner
from referee.cli import app
from tandem_example_plugins.compare import EXAMPLE

Path("bands.yaml").write_text(json.dumps(EXAMPLE))  # JSON is YAML, too
for words in ("list", "plan bands.yaml --json", "run bands.yaml --seed 1 --output run --json", "audit run --json"):
    ended = CliRunner().invoke(app, words.split())
    assert ended.exit_code == 0, ended.output
    print(json.dumps(ended.stdout))
"""
"""Commands of one user, one after the other."""


@pytest.mark.slow
def test_they_are_listed_planned_run_and_audited(installed: dict[str, str], tmp_path: Path) -> None:
    listed, *found = map(json.loads, python(installed, tmp_path, "-c", COMMANDS).splitlines())
    for noun, name in ADDED.items():
        assert re.search(rf"^{noun}: .*\b{name}\b", listed, re.MULTILINE), noun
    planned, result, audited = map(json.loads, found)
    assert planned["tight"]["n"]["value"] == 2000
    assert not [violation for violation in planned["violations"] if violation.startswith("privacy")]
    assert result["status"] == "done"
    assert result["answer"]["kind"] == "example-interval"
    assert result["truth"]["loss_on_target"] < 0.05
    assert result["estimate"]["low"] <= result["truth"]["loss_on_target"] <= result["estimate"]["high"]
    assert audited["verified"]
    assert (audited["operations"], audited["answers"]) == (2, 6000)
    # Who audits needs the same plug-ins: without them the scenario is refused, naming what is missing.
    bare = {**installed, "PYTHONPATH": str(ROOT)}
    refused = python(bare, tmp_path, "-m", "referee.cli", "plan", "bands.yaml", status=2)
    assert "no distribution has the name 'example-band'" in refused


@pytest.mark.slow
def test_the_contract_suites_hold_them_too(installed: dict[str, str], tmp_path: Path) -> None:
    """Each kind has a suite with tests of the new one, and all pass."""
    report = tmp_path / "report.xml"
    # In a folder of its own: sessions that share one clear away each other's folders.
    options = ["-q", "-n", "0", f"--junitxml={report}", f"--basetemp={tmp_path / 'inner'}"]
    python({**installed, "TANDEM_ONLY": "example-"}, ROOT, "-m", "pytest", *options, *SUITES)
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert {case.attrib["classname"].split(".test_")[0] for case in cases} == HELD_TO
    # docs/extending.md, "How many numbers of noise": what a learner of a package draws is counted, too.
    assert any(case.attrib["name"].startswith("test_draws_no_more_numbers_of_noise") for case in cases)


@pytest.mark.slow
def test_an_agent_with_plug_ins_loads_no_more_of_tandem(installed: dict[str, str], tmp_path: Path) -> None:
    """``tandem.extend`` loads what is asked of it alone, so a query of a stranger costs an agent no curator."""
    asked = (
        "import sys; from common.local.queries.query import QUERIES; from common.local.mechanisms.mechanism import "
        "MECHANISMS; from common.local.hypotheses.hypothesis import HYPOTHESES; "
        "assert {'example-inside', 'example-die', 'example-interval'} <= {*QUERIES, *MECHANISMS, *HYPOTHESES}; "
        "print([n for n in sys.modules if n.split('.')[0] in ('curator', 'referee', 'polars', 'sklearn')])"
    )
    assert python(installed, tmp_path, "-c", asked).strip() == "[]"


PAGE = ROOT / "docs" / "extending.md"
SHOWN = re.compile(r"^```\{literalinclude\} \.\./examples/plugins/(\S+)$", re.MULTILINE)


def test_the_page_shows_every_file() -> None:
    files = {str(path.relative_to(EXAMPLE)) for path in EXAMPLE.rglob("*.py")} | {"pyproject.toml"}
    assert files - {"tandem_example_plugins/__init__.py"} == set(SHOWN.findall(PAGE.read_text("utf-8")))
