"""Mistakes that people make with scenarios, runs and folders: the remedy that a message names works when followed."""

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from common.lifetime.ledger import PeopleLedger
from deploy.processes import PartyProcess
from referee.cli import app
from tests.certified import PAST, circle
from tests.referee.view.test_mistakes import GOOD, OPTIONS, as_words, init, words, write

CHECK = ("check", "mine.yaml")
SET = "--set"
AGREED = "curator.lifetime={epsilon: 12.0, delta: 0.0004}"


def run_into(folder: str, *more: str) -> tuple[str, ...]:
    return "run", "mine.yaml", "--output", folder, "--yes", *more


AGAIN = run_into("runs/a")


@dataclass(frozen=True)
class Wrong:
    """What somebody types, words of what is said, and what they type then; empty: the message ends the matter."""

    typed: tuple[str, ...]
    said: str
    then: tuple[str, ...] = ()


def in_plan(wrong: str, said: str, right: str, command: str = "plan") -> Wrong:
    """Return a mistake in what a command is to set, and what is set then; empty: nothing."""
    return Wrong((command, "mine.yaml", SET, wrong), said, (command, "mine.yaml", *((SET, right) if right else ())))


in_check = partial(in_plan, command="check")


MISTAKES = {
    "another ending": Wrong(("check", "mine.yml"), "did you mean 'mine.yaml'?", CHECK),
    "a shipped name that is misspelt": Wrong(("plan", "bal"), "did you mean 'ball'?", ("plan", "ball")),
    "a section that is misspelt": in_plan("agnts.count=10", "did you mean 'agents'?", "agents.count=10"),
    "a key that is misspelt": in_plan("agents.cuont=10", "did you mean 'count'?", "agents.count=10"),
    "a key without a value": in_plan("agents.count", "--set wants KEY=VALUE", "agents.count=10"),
    "a word for a number": in_plan("agents.count=many", "agents.count: Input should be", "agents.count=10"),
    "a word for a number, or plan": in_plan("agents.count=many", "(or plan), found 'many'", "agents.count=plan"),
    "an accuracy in per cent": in_plan("alpha=11", "alpha: Input should be less than 0.5", "alpha=0.11"),
    "a budget below 0": in_plan("curator.epsilon=-1", "should be greater than 0", "curator.epsilon=1"),
    "a protocol that is misspelt": in_plan("protocol=portfolioo", "did you mean 'portfolio'?", "protocol=portfolio"),
    "a file that is elsewhere": in_check("source.table.files=['q.csv']", "there is no such file in", ""),
    "a directory that is elsewhere": in_check(
        "data=elsewhere", "say where they are with --set data=DIRECTORY", "data=."
    ),
    "one file for both sides": in_check(
        "target.table.files=['s.csv']", "give different files", "target.table.files=['t.csv']"
    ),
    "a column that is not there": Wrong(
        (*CHECK, SET, "source.table.id=memberr", SET, "target.table.id=memberr"),
        "no such column, which is the people's id", CHECK
    ),
    "people whose budget is used up": Wrong(
        run_into("runs/next"), "curator.lifetime: {epsilon: 8.0", run_into("runs/agreed", SET, AGREED)
    ),
    "no word that their budget may be spent": Wrong(
        ("run", "mine.yaml", "--output", "runs/next", SET, AGREED), "agree beforehand, with --yes; nothing was charged",
        run_into("runs/third", SET, AGREED),
    ),
    "a folder that is full of other things": Wrong(run_into("full"), "choose another --output", AGAIN),
    "a file in the place of a folder": Wrong(run_into("s.csv"), "is a file", AGAIN),
    "a run that is not there": Wrong(
        ("report", "runs/nothere"), "there is no run folder runs/nothere", ("report", "runs/a")
    ),
    "a folder that is no run's": Wrong(("audit", "full"), "full is not a run folder", ("audit", "runs/a")),
    "a model that is not there": Wrong(
        ("model", "runs/nothere"), "neither a run folder nor a model file", ("model", "runs/a")
    ),
    "a report into a folder that is not there": Wrong(
        ("report", "runs/a", "--output", "deep/x.html"),
        "there is no directory deep, in which x.html is to be written: make it first",
        ("report", "runs/a", "--output", "x.html"),
    ),
    "people without two columns": Wrong(
        ("predict", "runs/a", "fewer.csv", "--output", "p.csv"),
        "has no column 'income' and no column 'sex'; its 2 columns",
        ("predict", "runs/a", "t.csv", "--output", "p.csv"),
    ),
    "people who are not there": Wrong(
        ("predict", "runs/a", "nothere.csv", "--output", "p.csv"), "nothere.csv: there is no such file",
        ("predict", "runs/a", "t.csv", "--output", "q.csv"),
    ),
    "a report of a run that has not ended": Wrong(("report", "half"), "`--output half` goes on with it"),
    "an audit of a run that has not ended": Wrong(
        ("audit", "half"), "`--output half` goes on with it", run_into("half")
    ),
    "a strict audit without keys": Wrong(
        ("audit", "runs/a", "--strict"), "(--referee-key, --curator-key)", ("audit", "runs/a")
    ),
    "an option that is misspelt": Wrong(("audit", "runs/a", "--strictt"), "--strict", ("audit", "runs/a")),
    "a result that was changed": Wrong(("audit", "changed"), "Audit failed", ("audit", "runs/a")),
    "a scenario that is no YAML": Wrong(("check", "broken.yaml"), "broken.yaml is not YAML", CHECK),
    "a table in the place of a scenario": Wrong(("check", "s.csv"), "no shipped scenario is called 's.csv'", CHECK),
    "a folder of another scenario": Wrong(
        (*AGAIN, SET, "alpha=0.2"), "belongs to another scenario", (*CHECK, SET, "alpha=0.2")
    ),
    "a file that cannot be read": in_check("source.table.files=['full']", "full: cannot be read: Is a directory", ""),
    "a key that is given twice": Wrong(("check", "twice.yaml"), "alpha", CHECK),
}  # fmt: skip


def prepared(folder: Path) -> None:
    """Leave two tables, a scenario, a finished run, one that has not ended, and files that are wrong."""
    write(folder / "s.csv", numbered(0))
    write(folder / "t.csv", numbered(10_000))
    assert init(OPTIONS)[0] == 0
    status, printed = words(*AGAIN)
    assert status == 0, printed
    write(folder / "fewer.csv", "member,age\n1,30\n")
    for name in ("half", "changed"):
        shutil.copytree(folder / "runs/a", folder / name)
    (folder / "half/result.json").unlink()
    result = json.loads((folder / "changed/result.json").read_text())
    write(folder / "changed/result.json", json.dumps({**result, "iterations": 7}))
    (folder / "full").mkdir()
    write(folder / "full/mine.txt", "mine")
    write(folder / "broken.yaml", "a: [1")
    write(folder / "twice.yaml", "alpha: 0.1\n" + (folder / "mine.yaml").read_text())


def numbered(first: int) -> str:
    """Return the good table with a member's number of its own in each row."""
    header, *rows = GOOD.splitlines()
    return "\n".join([header, *(f"{first + at},{row.partition(',')[2]}" for at, row in enumerate(rows))]) + "\n"


@pytest.mark.slow
def test_a_message_about_a_command_is_followed_and_then_it_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    prepared(tmp_path)
    failed = []
    for name, one in MISTAKES.items():
        status, printed = words(*one.typed)
        if status == 0 or one.said not in printed or "Traceback" in printed or "Errno" in printed:
            failed.append(f"{name}: {status} {printed[-300:]}")
        if one.then and (found := words(*one.then))[0] != 0:
            failed.append(f"{name}, followed: {found[1][-300:]}")
    assert not failed, "\n".join(failed)
    assert not (tmp_path / "runs/next").exists(), "a run that was refused has left a folder"


CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24  # of Linux


def as_user() -> None:
    """Let permissions hold for a command that root starts, too."""
    if os.getuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 1 << 30))


def started(*typed: str, limit: Callable[[], None]) -> tuple[int, str]:
    """Run a command as a process of its own, within limits; return what :func:`words` does.

    It writes no compiled modules: where files may have 64 bytes Python would leave cut off ones for everybody else.
    """
    command = [str(Path(sys.executable).parent / "referee"), *typed]
    own = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, env=own, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def two_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write(tmp_path / "s.csv", numbered(0))
    write(tmp_path / "t.csv", numbered(10_000))
    return tmp_path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="drops capabilities of Linux")
def test_what_the_system_refuses_is_called_so_and_once_it_is_allowed_the_same_command_works(two_tables):
    """A file that may not be read, a directory that may not be written, and a full disk."""
    (two_tables / "shut").mkdir()
    begin = ("init", "s.csv", "t.csv", *as_words(OPTIONS), "--yes")
    into = run_into("shut/run")
    failed = []
    for typed, limit, place, said in (
        (begin, small_files, "", "make room, then repeat the command"),
        (CHECK, as_user, "s.csv", "s.csv: cannot be read: Permission denied"),
        (("predict", "nothere", "s.csv"), as_user, "s.csv", "'s.csv' is not readable"),
        (into, as_user, "shut", "Permission denied: 'shut/run'"),
        (into, small_files, "", "make room, then repeat the command"),
        (("report", "shut/run"), as_user, "shut/run/result.json", "result.json"),
    ):
        before = (two_tables / place).stat().st_mode
        if place:
            (two_tables / place).chmod(0)
        status, printed = started(*typed, limit=limit)
        if status not in (1, 2) or said not in printed or "Traceback" in printed:
            failed.append(f"{said}: {status} {printed[-400:]}")
        (two_tables / place).chmod(before)
        if typed[0] != "predict" and (typed, limit) != (into, as_user) and (found := words(*typed))[0] != 0:
            failed.append(f"{said}, followed: {found[1][-400:]}")
    assert not failed, "\n".join(failed)
    assert len(PeopleLedger().table()) == 1


@pytest.mark.slow
def test_a_run_that_is_killed_is_called_so_and_the_same_command_goes_on_and_charges_once(two_tables):
    assert init(OPTIONS)[0] == 0
    command = [Path(sys.executable).parent / "referee", *run_into("runs/killed")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        while "agents reported their label" not in run.stderr.readline():
            assert run.poll() is None
        run.kill()
    charged = PeopleLedger().table()
    assert len(charged) == 1
    for command_of_now in ("report", "audit", "model"):
        status, printed = words(command_of_now, "runs/killed")
        assert (status, "`--output runs/killed` goes on with it" in printed) == (1, True), printed
    status, printed = words(*run_into("runs/killed"))
    assert (status, PeopleLedger().table()) == (0, charged), printed
    assert words("audit", "runs/killed")[0] == 0


TOKENS = {"TANDEM_ENROLMENT_TOKEN": "enrolment-token", "TANDEM_OPERATOR_TOKEN": "operator-token"}
FUTURE = datetime.now(UTC) + timedelta(days=30)


@pytest.fixture
def own_environment():
    """What a command that runs in this process keeps for the processes that it starts goes with the test."""
    with patch.dict(os.environ):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("own_environment")
def test_a_message_about_a_service_is_followed_and_then_it_works(tmp_path, monkeypatch):
    """A port in use, a certificate that has ended or not begun (a wrong clock), and a wrong token."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    served = "serve", "--state", "r"
    for folder, now, said in (("old", PAST, "ended on 2021"), ("early", FUTURE, "begins on")):
        circle(tmp_path / folder, now=PAST)
        circle(tmp_path / folder, now=now)  # by the authority of then
        shown = "--port", "0", "--tls-cert", f"{folder}/referee/server.pem"
        found = CliRunner().invoke(app, [*served, *shown], env=TOKENS)
        assert (found.exit_code, said in found.output, "(referee certificates DIR)" in found.output) == (1, True, True)
        assert words("certificates", folder)[0] == 0
        party = PartyProcess("referee", ["referee.cli", *served, *shown], tmp_path, TOKENS)
        try:
            address = party.wait_for("listens on").split()[-1]
            taken = CliRunner().invoke(app, [*served, "--port", address.rpartition(":")[2]], env=TOKENS)
            assert (taken.exit_code, "already in use; choose another with --port" in taken.output) == (1, True)
            asked = "runs", "--url", address, "--tls-ca", f"{folder}/public/ca.pem", "--token"
            status, printed = words(*asked, "wrong-token")
            assert (status, "take the TANDEM_OPERATOR_TOKEN with which the referee was" in printed) == (1, True), (
                printed
            )
            assert words(*asked, TOKENS["TANDEM_OPERATOR_TOKEN"]) == (0, "there is no run here")
        finally:
            party.stop()
