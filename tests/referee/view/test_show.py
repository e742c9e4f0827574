"""What a person sees in the terminal: every command says what it did and what to do next."""

import json
import re
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from common.local.hypotheses.rules import Constant
from common.local.queries.query import Answers, AskAgents
from common.operations.operation import Learn, Learned
from common.protocols.base import AskCurator
from common.protocols.patterns import agents, curator, many, maybe, sequence, some, together
from deploy.baselines import reading
from referee.cli import app
from referee.protocols.base import PROTOCOLS, Outcome
from referee.protocols.subsample_test_reweigh import RoundsPlan, run_rounds
from referee.runs.results import result_document
from referee.runs.verdict import ENDED
from referee.view import audited, show
from referee.view.diagrams import mermaid, page
from referee.view.pages import report as page_of
from referee.view.show import ProgressEstimate, ProgressFilter, in_time
from referee.view.wording import judged_in_words, run_view
from tests.referee.protocols.test_protocol_contract import replied
from tests.support import TINY, Bench, tiny

SETS = [part for override in TINY for part in ("--set", override)]


def said(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.fixture
def wide(monkeypatch):
    for console in (show._OUT, show._ERR):
        monkeypatch.setattr(console, "_width", 300)


@pytest.mark.usefixtures("wide")
def test_a_run_tells_its_rounds_its_result_and_what_to_do_next(tmp_path):
    folder = tmp_path / "run"
    output = said("run", "ball", "--seed", "3", "--output", str(folder), *SETS, "--set", "baselines=[curator-only]")
    result = json.loads((folder / "result.json").read_text())
    for words in (
        *("ball: A ball", "(seed 3)", "round 1: loss on T", "baseline curator-only", "people labelled -1"),
        *(result["truth"]["reading"], f"{ENDED[result['status']]}: ", "each person of the curator has", "epsilon = 60"),
        *("is enough to undo the noise", "run folder", "referee audit"),
    ):
        assert words in output
    report = (folder / "report.html").read_text()
    assert '<svg xmlns="http://www.w3.org/2000/svg" class="chart"' in report
    assert "people labelled -1" in report
    assert [r["round"] for r in result["rounds"]] == list(range(1, result["iterations"] + 1))
    assert yaml.safe_load((folder / "scenario.yaml").read_text())["curator"]["n"] == 1200
    assert "verified" in said("audit", str(folder))


def test_each_finding_of_an_audit_is_one_line_however_narrow_the_terminal_is(undisturbed, monkeypatch):
    monkeypatch.setattr(show._OUT, "_width", 40)
    lines = CliRunner().invoke(app, ["audit", str(undisturbed[0] / "run")]).output.splitlines()
    assert [line.partition(" ")[0] for line in lines[:2]] == ["not", "verified"]
    assert all(line.startswith("  ") for line in lines[2:])
    assert lines[-1] == f"  not covered, since it is not signed: {', '.join(audited.UNSIGNED)}"


ONLY: dict[str, dict[str, float | str]] = {"curator-only": {"loss_on_target": 0.2, "note": ""}}
BASELINES = ONLY | {"optimum": {"loss_on_target": 0.1, "note": ""}}


def test_the_reading_says_what_was_gained():
    optimum = ONLY | {"optimum": {"loss_on_target": 0.195, "note": ""}}
    for hybrid, baselines, words in (
        (0.15, BASELINES, "is 0.050 below that of the curator alone, 0.050 above what was fitted to people of T"),
        (0.09, BASELINES, "0.010 below what was fitted"),
        (0.2, BASELINES, "no gain here (+0.000)"),
        (0.2, optimum, "little is to repair"),
        (0.1, ONLY, "is 0.100 below that of the curator alone"),
        (0.1, {}, ""),
    ):
        assert words in reading(tiny(), {"iterations": 3, "status": "exhausted"}, hybrid, baselines)


def test_only_what_was_tested_against_a_level_has_passed_a_test():
    """A run whose agents ran out, that only estimates, or that learns once, shows nothing to be below a level."""
    for chosen, status, passed in (
        (("mode=realizable",), "done", True),
        (("mode=realizable",), "exhausted", False),
        (("mode=agnostic",), "exhausted", False),
        (("protocol=learn-and-test", "mode=realizable"), "done", False),
    ):
        told = reading(tiny(*chosen), {"iterations": 1, "status": status}, 0.1, BASELINES)
        assert ("passed the agents' test" in told, "nothing was reweighed" in told) == (passed, True)


def test_a_refused_run_is_not_called_non_private(tmp_path):
    """Its scenario asks for privacy, and its curator released nothing."""
    nobody = dict.fromkeys(("enrolled", "asked", "answered", "rejected"), 0)
    ended = {"status": "refused", "reason": "no", "agents": nobody, "lost": {"silent": 0, "declined": {}}}
    result = result_document(tiny(), None, rounds=[], terms=None, enrolment={}, seconds={"total": 0.0}, **ended)
    page = page_of([run_view(tiny(), {**result, "truth": None, "run": "run", "peak_memory_bytes": 0}, [])])
    assert "nothing was asked of the curator" in page
    assert "no guarantee" not in page
    public = tiny("curator.epsilon=null", "curator.delta=null").curator
    assert "no guarantee: the scenario asks for none" in str(public.guarantee)


@pytest.mark.slow
@pytest.mark.usefixtures("wide")
def test_a_plan_says_who_is_protected_what_its_sizes_can_give_and_who_cannot_help():
    few = ("portfolio", "curator.learner.noise=9", "agents.count=617")
    fewer = (*few[:2], "agents.count=60", "curator.n=300")
    seeded = "the run's seed is enough"
    for (name, *sets), there, missing in (
        (("ball", "curator.learner.steps=10"), ("141,570", "Algorithm 2", "docs/corrections.md", seeded), ""),
        (("ball", "curator.learner.steps=10"), ("violated accuracy: steps = 10", "each agent has: epsilon"), ""),
        (("ball",), ("has: epsilon = 0.5, delta = 0.0001 for the whole record: one record of",), ""),
        (("adult", "curator.learner.noise=100"), (), seeded),
        (few, ("Forecast of the verdict, if all agents answer: 'yes' where the model errs on ",), "cannot help"),
        (few, ("What fits: protocol portfolio: the model as agents teach it",), "cannot help"),
        (fewer, ("cannot help 60 agents cannot tell less than", "cannot help the model of 300 people"), ""),
    ):
        output = said("plan", name, *(word for each in sets for word in ("--set", each)))
        assert all(words in output for words in there), output
        assert not missing or missing not in output
    document = json.loads(said("plan", "select-then-estimate", "--json"))
    assert (document["advice"], document["privacy"]["agent"]["covers"]) == (None, "agent")


def test_a_run_says_before_it_spends_anything_that_its_agents_cannot_help(tmp_path, capsys):
    for count, warned in (("9000", False), ("60", True)):
        chosen = tiny(f"agents.count={count}", "curator.learner.diameter=1", "curator.rounds=1")
        with show.live(chosen, 5, tmp_path, quiet=False) as on_progress:
            on_progress("the curator loads its people", {})
        told = " ".join(capsys.readouterr().err.split())
        assert (f"before anything is spent: {count} agents cannot tell" in told) == warned


@pytest.mark.usefixtures("wide")
def test_where_a_plan_has_two_forecasts_each_says_of_which_protocol_it_is():
    output = said("plan", "portfolio", "--set", "protocol=learn-and-test")
    named = "Forecast of the verdict of protocol learn-and-test, which the scenario names, if all agents answer: on how"
    fits = "Forecast of the verdict of protocol portfolio, which fits, if all agents answer: 'yes'"
    assert output.index(named) < output.index(fits)
    assert output.count("Forecast of the verdict") == 2
    once = said("plan", "portfolio")
    assert once.count("Forecast of the verdict") == once.count("Forecast of the verdict, if all agents answer:") == 1


@pytest.mark.usefixtures("wide")
def test_a_plan_says_that_reweighing_does_not_use_the_loss_that_agents_test():
    output = said("plan", "ball", "--set", "agents.loss=hinge", "--set", "agents.reweigh=mistakes")
    assert "violated accuracy: agents test the hinge loss, reweighing goes by mistakes" in output


def numbers(number: int, rounds: int = 1000, value: float = 0.25) -> dict[str, float]:
    return {"round": number, "rounds": rounds, "asked": 10.0, "value": value, "low": value - 0.01, "high": value + 0.01}


def lines(rounds: int, of: int = 1000) -> list[int]:
    said: list[int] = []
    pace = ProgressFilter(lambda text, found, more: said.append(int(found["round"])))
    for number in range(1, rounds + 1):
        pace("round", numbers(number, of))
    pace.flush()
    return said


def test_rounds_of_one_digit_are_said_and_the_last(tmp_path, capsys, monkeypatch):
    assert lines(1000) == [*range(1, 10), *range(10, 101, 10), *range(200, 1001, 100)]
    assert lines(37) == [*range(1, 10), 10, 20, 30, 37]
    assert lines(34, of=34) == [*range(1, 10), 10, 20, 30, 34]
    assert lines(3) == [1, 2, 3]
    for terminal, count in ((None, 28), (True, 0)):
        monkeypatch.setattr(show._ERR, "_force_terminal", terminal)
        with show.live(tiny(), 5, tmp_path, quiet=False) as on_progress:
            for number in range(1, 1001):
                on_progress(f"round {number}", numbers(number))
        said = [line for line in capsys.readouterr().err.splitlines() if "round " in line]
        assert len(said) == count or terminal
        assert "25% (24% to 26%)" in "".join(said)
        assert terminal or "since round 900" in said[-1]


def test_what_is_no_round_comes_after_the_rounds_before_it_and_a_further_task_begins_anew():
    said: list[str] = []
    pace = ProgressFilter(lambda text, found, more: said.append(text))
    for text, found in (
        *((f"first {number}", numbers(number)) for number in range(1, 13)),
        *(("task 1 done", {}), ("second 1", numbers(1)), ("second 2", numbers(2))),
    ):
        pace(text, found)
    pace.flush()
    assert said[-5:] == ["first 10", "first 12", "task 1 done", "second 1", "second 2"]


def test_the_time_left_is_that_of_all_remaining_rounds_at_the_pace_so_far_and_the_trend_what_intervals_carry():
    clock = iter([0.0, 20.0, 40.0])
    outlook = ProgressEstimate(lambda: next(clock))
    assert outlook.after(numbers(1)) == ""
    assert outlook.after(numbers(11)).endswith("at most 33.0 min left")  # 2 s a round, 989 rounds
    assert "left" not in outlook.after(numbers(1000))
    assert (in_time(0.2), in_time(80.0), in_time(100.0), in_time(7200.0)) == ("1 s", "80 s", "1.7 min", "2.0 h")
    outlook = ProgressEstimate(lambda: 0.0)  # progress without a loss has no trend
    outlook.after({"round": 1.0, "rounds": 5.0})
    assert outlook.after({"round": 2.0, "rounds": 5.0}) == "at most 1 s left"
    said: list[str] = []
    pace = ProgressFilter(lambda text, found, more: said.append(more))
    for number in range(1, 13):
        pace("round", numbers(number))
    pace.flush()  # a run that halts early
    assert ["left" in more for more in said[-2:]] == [True, False]
    for value, words in ((0.2, "down by 5 points"), (0.3, "up by 5 points"), (0.245, "level within the intervals")):
        outlook = ProgressEstimate(lambda: 0.0)
        outlook.after(numbers(1))
        assert outlook.after(numbers(2, value=value)).startswith(f"{words} since round 1")


def test_every_part_of_a_pattern_is_drawn_and_the_page_has_every_protocol():
    pattern = sequence(
        together(curator("count"), agents("item")),
        some(agents("loss")),
        maybe(curator("reweigh")),
        many(agents("code")),
    )
    answer, release = "Agents-->>Referee: answers", "Curator-->>Referee: release"
    assert [line.strip() for line in mermaid(pattern).splitlines()][4:] == [
        *("par every message leaves before any answer arrives", "Referee->>Agents: item", answer),
        *("and", "Referee->>Curator: count", release, "end"),
        *("loop at least once", "Referee->>Agents: loss", answer, "end"),
        *("opt", "Referee->>Curator: reweigh", release, "end"),
        *("loop any number of times", "Referee->>Agents: code", answer, "end"),
    ]
    drawn = page()
    assert re.findall(r"^## (.*)$", drawn, re.MULTILINE) == list(PROTOCOLS.shipped())
    for words in ("```mermaid", "Where it ends `done`, it has shown this: "):
        assert drawn.count(words) == len(PROTOCOLS.shipped()), words


LUCKY = {"value": 0.034, "low": 0.0, "high": 0.395, "confidence": 0.95}
CLEAR = {"value": 0.034, "low": 0.02, "high": 0.05, "confidence": 0.95}
FEW = "too few agents answered about it to tell"


@pytest.mark.parametrize("found", [LUCKY, CLEAR])
@pytest.mark.usefixtures("wide")
def test_progress_result_and_report_all_say_so(found, tmp_path, capsys):
    with Bench(tmp_path / "state") as bench:
        result = {**bench.run(), "truth": None, "run": "run", "peak_memory_bytes": 0, "estimate": found, "seconds": {}}
    rounds = {"round": 1.0, "rounds": 3.0, "asked": 10.0, **{key: found[key] for key in ("value", "low", "high")}}
    with show.live(bench.chosen, 5, tmp_path, quiet=False) as on_progress:
        on_progress("round 1", rounds)
    show.result(bench.chosen, result)
    final, live = capsys.readouterr()
    page = page_of([run_view(bench.chosen, result, [rounds])])
    judged = judged_in_words({"estimate": found, "asked": 1_234})
    assert judged.endswith(", 1,234 agents")
    for told in (live, final, page, judged):
        assert (FEW in told, "3.4% (2% to 5%)" in told) == (found is LUCKY, found is CLEAR)
    # Of halting a report speaks only where the run may halt.
    for protocol, halting in (("subsample-test-reweigh", True), ("learn-and-test", False)):
        chosen = tiny(f"protocol={protocol}", "mode=realizable")
        assert ("The run halts by a one-sided" in page_of([run_view(chosen, result, [rounds])])) == halting


def after_three_rounds(*, first_is_best: bool) -> Outcome:
    """Return how an agnostic run ends whose first model is told to err on a third, the others on half, or not so."""
    script = run_rounds(RoundsPlan.of(tiny("mode=agnostic", "curator.rounds=3", "agents.count=9000")), None, 1, 3)
    learned: list[Learned] = []

    def reply(step: Any) -> Any:
        if isinstance(step, AskCurator) and isinstance(step.operation, Learn):
            learned.append(Learned(hypothesis=Constant(label=1)))
            return learned[-1]
        if not isinstance(step, AskAgents):
            return None
        ones = np.zeros(step.count, dtype=np.uint8)
        ones[:: 3 if (len(learned) == 1) == first_is_best else 2] = 1
        return Answers(step.count, ones, np.arange(step.count))

    return replied(script, reply)


def test_an_answer_of_the_first_round_is_never_said_to_be_reweighed():
    outcome = after_three_rounds(first_is_best=True)
    assert outcome.reason == "all 3 rounds were used; the answer is the first round's, which nothing had reweighed"
    assert after_three_rounds(first_is_best=False).reason == "all 3 rounds were used"
    told = reading(tiny(), {"iterations": 3, "status": "exhausted", "reason": outcome.reason}, 0.1, ONLY)
    assert "reweigh" not in told
