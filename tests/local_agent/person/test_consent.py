"""A person sees what is asked before the agent answers, and can say no; the log keeps both."""

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from common.core.errors import BadData, ConsentWithheld, PolicyRefused
from common.local.mechanisms.mechanism import MECHANISMS, Warner, parse_mechanism
from local_agent.cli import app
from local_agent.person import consent as consents
from local_agent.person.consent import NAME, ActivityLog, Consent, entries
from local_agent.policy import PersonalPolicy
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.local_agent.test_policy import individual
from tests.support import TOKEN, Bench, served, tiny
from tests.tiers import for_each

CHOSEN = ("agents.count=600", "agents.batch=600", "curator.rounds=1")
PERSON = {"features": [0.125] * 8, "label": 1}
RUNNER = CliRunner()


class Watched:
    """The question that an individual meets in a run, and what was said about it."""

    def __init__(self, tmp_path, *, agrees: bool, meanwhile=lambda bench: None) -> None:
        self.shown: list[str] = []
        self.folder, self.error = tmp_path / "me", ""
        with Bench(tmp_path / "bench", tiny(*CHOSEN), individuals=1) as bench:
            self.key = bench.referee.identity.public
            policy, journal = PersonalPolicy(self.key, 3.0), ActivityLog(self.folder)

            def agree() -> bool:
                self.spent_while_asked = host.people_asked
                meanwhile(bench)
                return agrees

            consent = Consent("http://referee", policy, journal, self.shown.append, agree)
            with individual(bench, self.folder, 3.0, consent=consent) as host:

                def answer() -> None:
                    try:
                        self.busy = host.step()
                    except ConsentWithheld as error:
                        self.error = str(error)
                    self.answered = host.people_asked

                bench.meanwhile(answer)
                self.result = bench.run()

    @property
    def log(self) -> list[str]:
        return [entry["event"] for entry in entries(self.folder)]


def test_all_that_a_person_must_know_is_shown_before_anything_is_spent(tmp_path):
    seen = Watched(tmp_path, agrees=True)
    text = " ".join(seen.shown[0].split())
    mechanism = tiny(*CHOSEN).agents.mechanism
    assert isinstance(mechanism, Warner)
    epsilon, truth = mechanism.epsilon, mechanism.truth
    for part in (
        "http://referee", seen.key, "run 'run'", "The scenario of the run names no columns.",
        f'"{tiny(*CHOSEN).title}", in the words of the referee',
        "whether a rule that predicts the label of your record from numbers 1 to 8 of your record is wrong about you",
        f"If the value is 1, the bit is 1 with probability {truth:.6g} and 0 with probability {1 - truth:.6g}",
        f"({epsilon:g}, 0)-differential privacy",
        f"guesses right with probability {truth:.3f}"[:-1],
        "epsilon 3; nothing of it is spent so far",
        f"This answer spends {epsilon:g}; {3 - epsilon:g} would be left",
    ):  # fmt: skip
        assert part in text
    assert (seen.spent_while_asked, seen.answered) == (0, 1)
    assert max(map(len, seen.shown[0].splitlines())) <= 100
    assert seen.log == ["asked", "agreed"]
    assert seen.result["lost"] == {"silent": 0, "declined": {}}


def test_who_says_no_spends_nothing_and_the_referee_learns_it_at_once(tmp_path):
    seen = Watched(tmp_path, agrees=False)
    assert "nothing is spent" in seen.error
    assert not seen.answered
    assert seen.log == ["asked", "declined"]
    assert seen.result["lost"] == {"silent": 0, "declined": {"consent-withheld": 1}}


def test_a_question_that_closes_while_somebody_decides_costs_nothing(tmp_path, caplog):
    def close(bench: Bench) -> None:
        bench.referee.poll = lambda signed: None  # type: ignore[method-assign]

    seen = Watched(tmp_path, agrees=True, meanwhile=close)
    assert (seen.busy, seen.answered) == (False, 0)
    assert "closed while you decided" in caplog.text


def test_every_mechanism_says_what_may_leave():
    for name in MECHANISMS.names():
        for mechanism in MECHANISMS[name].example():
            for domain in (None, 2, 8):
                try:
                    mechanism.answer_kind(domain)
                except PolicyRefused:
                    continue
                assert re.fullmatch(r".{20,}\.", mechanism.leaves(domain), re.DOTALL)


def test_the_probabilities_that_are_shown_are_those_of_the_mechanism():
    for name, domain in (("warner", None), ("krr", 8)):
        mechanism: Any = parse_mechanism({"name": name, "epsilon": 1.0})
        shown = [float(found) for found in re.findall(r"probability (0\.\d+)", mechanism.leaves(domain))]
        truth = [mechanism.truth, 1 - mechanism.truth] * 2 if domain is None else list(mechanism.rates(8))
        assert shown == pytest.approx(truth, rel=1e-5)


def answer(tmp_path, address: str, *more: str, typed: str | None = None):
    (tmp_path / "me.json").write_text(json.dumps(PERSON))
    given = ["answer", str(tmp_path / "me.json"), "--referee", address, "--token", TOKEN, "--epsilon", "3", "--once"]
    return RUNNER.invoke(app, [*given, "--max-delay", "0", "--state", str(tmp_path / "me"), *more], input=typed)


def test_without_a_terminal_and_without_yes_nothing_is_sent(tmp_path):
    ended = answer(tmp_path, "http://127.0.0.1:9")
    assert ended.exit_code == 1
    assert re.fullmatch(r".*there is no terminal.*--yes.*\n", ended.stderr)
    assert not (tmp_path / "me").exists()


@for_each(("typed", "more", "code", "events"), [
    ("y\n", (), 0, ["enrolled", "asked", "agreed", "answered"]),
    ("n\n", (), 1, ["enrolled", "asked", "declined"]),
    ("\n", (), 1, ["enrolled", "asked", "declined"]),
    (None, ("--yes",), 0, ["enrolled", "asked", "agreed", "answered"]),
])  # fmt: skip
def test_the_command_asks_answers_and_logs(tmp_path, monkeypatch, typed, more, code, events):
    monkeypatch.setattr(consents, "has_terminal", lambda: typed is not None)
    ended = []
    with Bench(tmp_path / "bench", tiny(*CHOSEN), individuals=1) as bench:
        with individual(bench, tmp_path / "me", 3.0):
            pass  # the same person enrols first, in the time before the run begins
        with served(referee_app(bench.referee, Runner(bench.referee))) as address:
            bench.meanwhile(lambda: ended.append(answer(tmp_path, address, *more, typed=typed)))
            bench.run()
    assert ended[0].exit_code == code, ended[0].output
    assert "What it costs" in ended[0].stdout
    assert ("Answer this question? [y/N]" in ended[0].stdout) == (typed is not None)
    assert (tmp_path / "me" / NAME).stat().st_mode & 0o777 == 0o600
    logged = list(entries(tmp_path / "me"))
    assert [entry["event"] for entry in logged] == events
    assert "0.125" not in json.dumps(logged)
    shown = RUNNER.invoke(app, ["log", "--state", str(tmp_path / "me")])
    assert [line.split()[1] for line in shown.stdout.splitlines()] == events
    as_json = RUNNER.invoke(app, ["log", "--json", "--state", str(tmp_path / "me")])
    assert [json.loads(line) for line in as_json.stdout.splitlines()] == logged


def test_the_log_outlives_a_crash_in_the_middle_of_a_line_and_the_same_refusal_is_one(tmp_path):
    with pytest.raises(BadData, match="there is no log"):
        list(entries(tmp_path / "nowhere"))
    journal = ActivityLog(tmp_path)
    for detail in ("no", "no", "no", "another"):
        journal.refused(BadData(detail))
    assert [entry["detail"] for entry in entries(tmp_path)] == ["no", "another"]
    (tmp_path / NAME).unlink()
    ActivityLog(tmp_path).write("asked", run="a")
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'{"time": "2')
    ActivityLog(tmp_path).write("answered", run="a\x1b[31m")
    assert [entry["event"] for entry in entries(tmp_path)] == ["asked", "answered"]
    shown = RUNNER.invoke(app, ["log", "--state", str(tmp_path)])
    assert "\x1b" not in shown.stdout
