"""The game of the adaptive adversary: what it reaches with one pair is known, and with more it is no less."""

import json
import random
import re
import subprocess
import sys
import threading
from importlib import import_module

import numpy as np
import pytest

from benchmarks import answer_times
from benchmarks.adaptive_pair import value
from benchmarks.cheats.__main__ import lines, played
from benchmarks.cheats.playing import CHEATS
from benchmarks.hand_over import SECOND, second_task
from benchmarks.kills.once import EVERYBODY, once
from benchmarks.private_choice import main
from benchmarks.rounds import REST, compare, split
from common.core import canonical
from common.data.population import TableRecordSource
from common.local.mechanisms.mechanism import Warner
from common.local.queries.query import LossQuery
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.theorems.gaussian_dp import delta_of
from common.scenario.loading import load
from common.scenario.scenario import settled
from curator.curator import Curator
from deploy.simulation import conduct
from local_agent.answers import answer_together
from referee.protocols.base import small_ball
from tests.documents.reading import ROOT
from tests.support import TINY


def test_full_draws_of_one_pair_are_gaussian_releases() -> None:
    found = value(1.0, [(0.0, 0.1, 0.0)], 25, 0.5, 0.005)
    assert found == pytest.approx(delta_of(0.5, 0.5), rel=0.01)


def test_each_script_prints_what_is_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    printed = {}
    for name in sorted(path.stem for path in (ROOT / "benchmarks" / "corrections").glob("[a-z]*.py")):
        monkeypatch.setattr(sys, "argv", [name])
        import_module(f"benchmarks.corrections.{name}").main()
        printed[name] = capsys.readouterr().out.splitlines()
    kept = (ROOT / "benchmarks" / "results" / "corrections").glob("*.txt")
    assert printed == {path.stem: path.read_text("utf-8").splitlines() for path in kept}


SMALL = [*TINY, "accuracy.halt_below=5.9", "accuracy.reweigh_above=5.5", "agents.mechanism.epsilon=6"]


def test_it_counts_the_last_task():
    both, alone = (second_task(load("hand-over", [*SMALL, *more]), 1) for more in ([], [SECOND]))
    assert both["done"] == alone["done"] == 1.0
    assert both["all_calls"] > both["calls"] >= 1.0
    assert alone["all_calls"] == alone["calls"]
    assert both["agents"] > 0.0
    assert 0.0 <= both["loss"] < 0.5


@pytest.mark.thorough
def test_parties_are_killed_at_work_and_nothing_acknowledged_is_lost(tmp_path):
    found = once(tmp_path, None, random.Random(3), 3, (0.1, 2.0))
    assert len(found.kills) == 3
    assert found.wrong == []
    assert found.acknowledged == found.stored == found.counted == EVERYBODY


@pytest.mark.thorough
def test_the_same_rounds_are_compared_and_the_curator_is_as_it_was():
    perform = Curator.perform
    found = compare(settled(small_ball()))
    assert found["rounds"] == 3
    assert found["exchanges"] >= 5  # three calls of the learner, and a reweigh between them
    assert 0.0 < found["exchange_ms"] < found["embedded_ms"]
    assert Curator.perform is perform


def test_the_parts_of_a_round_are_all_of_it_and_functions_are_put_back():
    encode = canonical.encode
    with split() as found:
        conduct(settled(small_ball()), 1, lambda number, hypothesis: None)
    rounds = found.rounds()
    assert len(rounds) == 2  # three calls of the learner begin two whole rounds
    for each in rounds:
        assert sum(each["parts"].values()).tolist() == pytest.approx(each["seconds"].tolist())
        assert {"learn", "reweigh", "people", "randomized", REST} <= each["parts"].keys()
        assert min(wall for wall, _ in each["parts"].values()) >= 0.0
        assert each["asked"] > 0
    assert canonical.encode is encode


def test_prices_as_documented(capsys):
    assert main(["--repetitions", "0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["worth"] == []
    prices = {row["law"]: row for row in told["prices"]}
    assert prices["one run"]["epsilon"] == pytest.approx(1.0, abs=1e-9)
    documented = {"Poisson, 4": (1.37, 0.74), "geometric, 4": (1.28, 0.79), "geometric, 30": (1.69, 0.61)}
    for law, (epsilon, left) in documented.items():
        assert (round(prices[law]["epsilon"], 2), round(prices[law]["mu_left"], 2)) == (epsilon, left)
        assert prices[law]["epsilon"] <= prices[law]["renyi"]


KEPT = (ROOT / "benchmarks" / "results" / "cheats.txt").read_text("utf-8")
CHEATS_SHOWN = {
    block.split("\n", 1)[0]: block.splitlines()
    for block in re.findall(r"^=== (.*?)\n(?=\n|\Z)", KEPT, re.DOTALL | re.M)
}


FIRST = ("dropped reports", "a fork")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FIRST else pytest.mark.thorough) for name in CHEATS]
)
def test_every_line_that_is_kept_is_printed_in_its_order(name):
    assert list(CHEATS_SHOWN) == list(CHEATS)
    printed = list(lines(played(name)))
    assert printed[0] == f"=== {name}"
    at = 0
    for line in CHEATS_SHOWN[name][1:]:
        assert line in printed[at:], f"not printed after {printed[at - 1]!r}: {line!r}"
        at = printed.index(line, at) + 1
    statuses = [line for line in printed if line.startswith("--- ")]
    assert statuses == [line for line in CHEATS_SHOWN[name] if line.startswith("--- ")]


@pytest.mark.thorough
def test_requests_beside_many_who_are_enrolled_are_answered_and_measured():
    command = [sys.executable, "-m", "benchmarks.enrolled", "--sizes", "5000", "--individuals", "200", "--json"]
    [found] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found["enrolled"] == 5000
    assert all(found[name]["requests"] == 200 and not found[name]["rejected"] for name in ("enrol", "poll", "report"))
    assert found["first_question_seconds"] > 0.0


def test_a_question_is_digested_once_and_not_for_each_person(monkeypatch):
    digests, digest = [], canonical.digest
    monkeypatch.setattr(canonical, "digest", lambda value: (digests.append(1), digest(value))[1])
    people = TableRecordSource(Records(np.zeros((50, 8), dtype=np.float32), np.ones(50, dtype=np.int8)))
    secret = RandomSource(bytes(32), simulated=False)
    answer_together(LossQuery.example()[0], Warner(epsilon=1.0), people, np.arange(50), np.arange(50), secret)
    assert len(digests) == 1


@pytest.mark.thorough
def test_the_schedule_grants_more_than_answers_take(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["answer_times", "--people", "2000", "--json"])
    answer_times.main()
    rows = json.loads(capsys.readouterr().out)
    assert {row["mechanism"] for row in rows} >= {"warner", "laplace", "krr", "olh", "hadamard"}
    assert min(row["room"] for row in rows) > 1.0


def test_a_server_that_another_thread_has_started_again_stays_when_that_thread_ends(postgresql):
    """Otherwise whoever kills parties from a thread of its own would take the server along when it is done."""
    killer = threading.Thread(target=postgresql.crash)
    killer.start()
    killer.join()
    assert [postgresql.execute("SELECT 1") for _ in range(20)] == 20 * [[(1,)]]
