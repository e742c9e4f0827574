"""A package of one's own adds one of each kind: listed, planned, run, audited, and held to the contract suites."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

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
    "tests.common.operations",
    "tests.common.local.queries",
    "tests.common.local.hypotheses",
    "tests.common.data.distributions",
}
"""Where the contract suites of these kinds are."""
SUITES = [
    "tests/common/data/distributions/test_distributions.py::TestEveryDistribution",
    "tests/common/local/hypotheses/test_hypotheses.py::TestContract",
    "tests/common/local/mechanisms/test_frequency_contract.py",
    "tests/common/local/mechanisms/test_mechanism_contract.py",
    "tests/common/local/queries/test_queries.py::TestEveryQuery",
    "tests/common/operations/test_operations_contract.py",
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


def referee(installed: dict[str, str], folder: Path, *arguments: str) -> str:
    """Give a command as a user does; it must succeed."""
    command = [sys.executable, "-m", "referee.cli", *arguments]
    ended = subprocess.run(command, env=installed, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_they_are_listed_planned_run_and_audited(installed: dict[str, str], tmp_path: Path) -> None:
    listed = referee(installed, tmp_path, "list")
    for noun, name in ADDED.items():
        assert re.search(rf"^{noun}: .*\b{name}\b", listed, re.MULTILINE), noun
    printed = subprocess.run(
        [sys.executable, "-c", "import json, tandem_example_plugins.compare as c; print(json.dumps(c.EXAMPLE))"],
        env=installed, capture_output=True, text=True, timeout=300, check=True,
    ).stdout  # fmt: skip
    (tmp_path / "bands.yaml").write_text(yaml.safe_dump(json.loads(printed)), "utf-8")
    planned = json.loads(referee(installed, tmp_path, "plan", "bands.yaml", "--json"))
    assert planned["tight"]["n"]["value"] == 2000
    assert not [violation for violation in planned["violations"] if violation.startswith("privacy")]
    result = json.loads(referee(installed, tmp_path, "run", "bands.yaml", "--seed", "1", "--output", "run", "--json"))
    assert result["status"] == "done"
    assert result["answer"]["kind"] == "example-interval"
    assert result["truth"]["loss_on_target"] < 0.05
    assert result["estimate"]["low"] <= result["truth"]["loss_on_target"] <= result["estimate"]["high"]
    audited = json.loads(referee(installed, tmp_path, "audit", "run", "--json"))
    assert audited["verified"]
    assert (audited["operations"], audited["answers"]) == (2, 6000)
    # Who audits needs the same plug-ins: without them the scenario is refused, naming what is missing.
    bare = {**installed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "referee.cli", "plan", "bands.yaml"]
    refused = subprocess.run(command, env=bare, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert refused.returncode != 0
    assert "no distribution has the name 'example-band'" in refused.stderr


@pytest.mark.slow
def test_the_contract_suites_hold_them_too(installed: dict[str, str], tmp_path: Path) -> None:
    """Each kind has a suite with tests of the new one, and all pass."""
    report = tmp_path / "report.xml"
    # In a folder of its own: sessions that share one clear away each other's folders.
    options = ["-q", "-n", "0", f"--junitxml={report}", f"--basetemp={tmp_path / 'inner'}"]
    command = [sys.executable, "-m", "pytest", *options, *SUITES]
    only = {**installed, "TANDEM_ONLY": "example-"}
    ended = subprocess.run(command, env=only, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode != 0:
        pytest.fail(ended.stdout[-5000:])
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
    command = [sys.executable, "-c", asked]
    ended = subprocess.run(
        command, env=installed, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    assert ended.stdout.strip() == "[]"


PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
MARK = re.compile(r"<!-- file: (\S+) -->\n(?:\n```\w+\n.*?\n```\n)?", re.DOTALL)


def quoted(page: str) -> str:
    """Return the page with every marked file as it is."""

    def block(mark: re.Match[str]) -> str:
        name = mark.group(1)
        text = (EXAMPLE / name).read_text("utf-8")
        return f"<!-- file: {name} -->\n\n```{Path(name).suffix.removeprefix('.').replace('py', 'python')}\n{text}```\n"

    return MARK.sub(block, page)


def test_the_page_quotes_the_files_as_they_are() -> None:
    page = PAGE.read_text("utf-8")
    assert page == quoted(page), "run: python -m tests.plugins.test_installed_plugins"


def test_every_file_of_the_package_is_on_the_page() -> None:
    files = {str(path.relative_to(EXAMPLE)) for path in EXAMPLE.rglob("*.py")} | {"pyproject.toml"}
    assert files - {"tandem_example_plugins/__init__.py"} == set(MARK.findall(PAGE.read_text("utf-8")))


if __name__ == "__main__":
    PAGE.write_text(quoted(PAGE.read_text("utf-8")), "utf-8")
