"""Whatever is registered and claims privacy has an audit, and ``referee audit-privacy`` judges as it says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core.arrays import AnyArray
from common.learners.base import SETTINGS
from common.local.mechanisms.mechanism import MECHANISMS
from common.numerics.randomness import RandomSource
from common.operations.operation import OPERATIONS
from common.privacy.events import NonPrivate
from curator.learners.base import LEARNERS
from deploy.auditing import every, report
from deploy.auditing.case import Case
from deploy.auditing.cases import mechanism_cases
from referee.cli import app

pytestmark = pytest.mark.slow

CASES = every.cases()
AUDITED = every.audited()
SHIPPED = {case.name for case in CASES}
PRIVATE_LEARNERS = [
    name
    for name in LEARNERS.names()
    if not any(isinstance(e.event(0.01), NonPrivate) for e in LEARNERS[name].example())
]


@pytest.mark.parametrize("name", MECHANISMS.names())
def test_every_mechanism_that_claims_privacy_has_a_case_with_a_twin(name: str) -> None:
    private = math.isfinite(mechanism_cases.made(name, 1.0).guarantee[0])
    assert private == (f"mechanism {name}" in SHIPPED)
    assert private == (name != "none")
    assert not private or mechanism_cases.case(name).twins


@pytest.mark.parametrize(
    "name", [*(f"learners {n}" for n in LEARNERS.names()), *(f"operations {n}" for n in OPERATIONS.names())]
)
def test_every_learner_and_operation_has_a_case_with_a_twin(name: str) -> None:
    group, _, short = name.partition(" ")
    if group == "learners" and short not in PRIVATE_LEARNERS:
        assert name not in AUDITED
        return
    found = [case for case in CASES if case.name in AUDITED[name]]
    assert len(found) == len(AUDITED[name])
    assert any(case.twins for case in found)


def test_no_two_cases_have_one_name() -> None:
    assert len(CASES) == len(SHIPPED)


def test_settings_and_learners_are_the_same_names() -> None:
    assert set(SETTINGS.names()) == set(LEARNERS.names())


def _tells(share: float) -> Callable[[int, int, RandomSource], AnyArray]:
    def subject(value: int, runs: int, source: RandomSource) -> AnyArray:
        return np.where(source.bernoullis(share, runs) == 1, value, 1 - value)

    return subject


COIN = Case("a coin", 1.0, (0, 1), _tells(0.73), 2000, twins={"more truth": _tells(0.9)})


@pytest.mark.parametrize(
    ("case", "verdicts", "status"),
    [
        (COIN, ["holds", "caught"], 0),
        (replace(COIN, honest=_tells(0.9)), ["BROKEN", "caught"], 1),
        (replace(COIN, twins={"nothing at all": _tells(0.73)}), ["holds", "NOT CAUGHT"], 1),
    ],
)
def test_the_command_tells_what_holds_from_what_does_not(
    case: Case, verdicts: list[str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(every, "cases", lambda: [case])
    printed = CliRunner().invoke(app, ["audit-privacy"])
    assert printed.exit_code == status
    lines = printed.output.splitlines()
    assert [line.rpartition("  ")[2] for line in lines[1:-1]] == verdicts
    document = CliRunner().invoke(app, ["audit-privacy", "--json", "--scale", "0.5"])
    assert document.exit_code == status
    found = json.loads(document.output)
    assert [row["expected"] for row in found] == [verdict in ("holds", "caught") for verdict in verdicts]
    assert [row["runs"] for row in found] == [1000, 2000]


def test_a_name_that_no_case_has_is_refused_with_those_there_are() -> None:
    refused = CliRunner().invoke(app, ["audit-privacy", "--only", "nobody"])
    assert refused.exit_code == 2
    assert "mechanism warner" in refused.output


def test_a_twin_has_the_trials_of_its_case_at_least() -> None:
    assert [row.runs for row in report.rows([COIN], 0.1)] == [200, 2000]
