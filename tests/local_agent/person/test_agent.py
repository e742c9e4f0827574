"""One person: what they see and agree to, and one answer in a life, on disk before it leaves, whatever happens."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from common.core.errors import BadData, BadInput, BadMessage, Forged, PolicyRefused, TandemError
from common.core.version import HEADER, stated
from common.crypto.identity import Identity, Signed, verify
from common.local.hypotheses.hypothesis import Linear
from common.local.mechanisms.mechanism import MECHANISMS, Warner, parse_mechanism
from common.local.queries.query import LossQuery
from common.local.records import Records
from common.net import messages
from common.numerics.randomness import RandomSource
from local_agent.answers import evaluate, randomize
from local_agent.cli import app
from local_agent.client import RefereeClient
from local_agent.host import REMEMBERED, Host
from local_agent.person import agent as agent_module
from local_agent.person import checking
from local_agent.person import consent as consents
from local_agent.person.agent import Agent
from local_agent.person.checking import held_receipts, leaf_of, store_receipt
from local_agent.person.consent import NAME, ActivityLog, entries
from tests.local_agent.test_policy import LOSS, PERSON, POLICY, REFEREE, configuration, individual, question
from tests.support import ONE_QUESTION, TOKEN, Bench, seal, served, tiny
from tests.tiers import for_each


@pytest.fixture
def agent(tmp_path):
    found = Agent(PERSON, POLICY, tmp_path)
    yield found
    found.close()


def answer_of(signed) -> float:
    return messages.Report.parse(verify(signed, messages.Report.KIND)).answer


def test_it_answers_once_in_its_life_and_then_repeats_itself(agent, tmp_path):
    assert (agent.answered, agent.report) == (0, None)
    assert "nothing is spent of the lifetime budget, epsilon 2" in agent.spent
    first = agent.answer(*question())
    assert (agent.answered, answer_of(first) in (0.0, 1.0)) == (1, True)
    agent.close()
    with closing(Agent(PERSON, POLICY, tmp_path)) as again:
        assert (again.identity.public, again.report) == (agent.identity.public, first)
        assert again.answer(*question()) == first
        for other in (question(question=2), question(slots=(4,)), question(run="second")):
            with pytest.raises(PolicyRefused, match=r"of which \(0, 0\) is left"):
                again.answer(*other)


def test_a_larger_lifetime_budget_pays_for_several_answers_and_not_for_one_more(tmp_path):
    """Three tenths are more than .3 as doubles are, and ten more than 1, where a sum of doubles is below 1."""
    for lifetime, paid in ((0.3, 2), (0.30000000000000004, 3), (1.0, 9)):
        folder = tmp_path / f"{lifetime}"
        for number in range(1, paid + 2):
            with closing(Agent(PERSON, replace(POLICY, epsilon=lifetime), folder)) as agent:
                asked = question("agents.mechanism.epsilon=0.1", question=number)
                if number > paid:
                    with pytest.raises(PolicyRefused, match="would cost"):
                        agent.answer(*asked)
                else:
                    assert agent.answer(*asked) == agent.answer(*asked)
                assert agent.answered == min(number, paid)
        costs = [answer["epsilon"] for answer in json.loads((folder / "answered.json").read_bytes())["answers"]]
        assert costs == [0.1] * paid


def test_noise_of_different_questions_is_independent_and_of_the_same_question_identical(tmp_path):
    """Of 150 people, whether two answers are lies: the four counts are those of two independent coins (chi squared)."""
    lies = np.zeros((2, 2))
    opposite = {**LOSS, "hypothesis": {**LOSS["hypothesis"], "threshold": 1.0}}
    for number in range(150):
        with closing(Agent(PERSON, replace(POLICY, epsilon=6.0), tmp_path / f"{number}")) as agent:
            first = answer_of(agent.answer(*question()))
            second = answer_of(agent.answer(*question(question=2, query=opposite)))
            assert answer_of(agent.answer(*question(run="other"))) == first
        lies[int(first), int(second)] += 1
    expected = np.outer(lies.sum(axis=1), lies.sum(axis=0)) / lies.sum()
    assert ((lies - expected) ** 2 / expected).sum() < 15.2  # one degree of freedom: wrong once in 10,000


@for_each(("mechanism", "lifetime", "cost", "words"), [
    ("{name: warner, epsilon: 2}", 5.0, (2.0, 0.0), "epsilon 2; after 1 answer, 3 of the lifetime budget 5 is left"),
    ("{name: none}", math.inf, (math.inf, 1.0), "epsilon inf; after 1 answer, inf of the lifetime budget inf is"),
])  # fmt: skip
def test_what_is_on_disk_is_all_that_an_answer_costs(tmp_path, mechanism, lifetime, cost, words):
    with closing(Agent(PERSON, replace(POLICY, epsilon=lifetime), tmp_path)) as agent:
        agent.answer(*question(f"agents.mechanism={mechanism}"))
        assert words in agent.spent
    path = tmp_path / agent_module.ANSWERED
    (stored,) = json.loads(path.read_bytes())["answers"]
    assert ((stored["epsilon"], stored["delta"]), path.stat().st_mode & 0o077) == (cost, 0)
    # Releases up to 0.3.0 answered once; the first of them did not say what it had cost, which then counts as all.
    for old, left in ((stored, max(0.0, 3.0 - cost[0])), ({"report": stored["report"]}, 0.0)):
        path.write_text(json.dumps(old))
        with closing(Agent(PERSON, replace(POLICY, epsilon=3.0), tmp_path)) as later:
            assert (later.answered, later.left[0]) == (1, left)


def test_a_crash_before_it_is_on_disk_sends_nothing_and_spends_nothing(tmp_path, monkeypatch):
    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(28, "no space left on device")

    with closing(Agent(PERSON, replace(POLICY, epsilon=4.0), tmp_path)) as agent:
        for answered in range(2):  # before the first answer, and before a further one
            with monkeypatch.context() as patched:
                patched.setattr(agent_module, "write_durably", full)
                with pytest.raises(OSError, match="no space"):
                    agent.answer(*question(question=1 + answered))
            assert (agent.answered, agent.left[0]) == (answered, 4.0 - 2.0 * answered)
            agent.answer(*question(question=1 + answered))


def test_a_person_is_not_asked_what_cannot_be_answered(agent):
    for step in (agent.examine, agent.answer):  # the vectors have the other forms of people and slots
        with pytest.raises(BadMessage, match="one person"):
            step(*question(people=(0, 1), slots=(0, 1)))
    assert not agent.answered


def test_what_goes_wrong_becomes_the_constant_and_is_still_randomized(agent, monkeypatch):
    """4000 answers to a query that raises: ones come with 1 - p = 0.119 (epsilon 2), within 6 standard errors."""

    def fail(self: Any, records: Records, slots: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(LossQuery, "evaluate", fail)
    assert answer_of(agent.answer(*question())) in (0.0, 1.0)
    query = LossQuery(hypothesis=Linear.parse(LOSS["hypothesis"]))
    slots, source = np.zeros(1, dtype=np.int64), RandomSource.seeded(1)
    values, mechanism = evaluate(query, PERSON, slots), parse_mechanism({"name": "warner", "epsilon": 2.0})
    assert values.tolist() == [0.0]
    ones = sum(float(randomize(query, values, mechanism, slots, source)[0]) for _ in range(4000)) / 4000
    lie = 1 / (1 + np.exp(2))
    assert abs(ones - lie) < 6 * np.sqrt(lie * (1 - lie) / 4000)
    cases = (-7.0, 0.0), (0.25, 0.25), (9.0, 1.0), (np.inf, 1.0), (1e308, 1.0), (np.nan, 0.0), ([0.5] * 3, 0.0)
    for value, clamped in cases:
        monkeypatch.setattr(LossQuery, "evaluate", lambda self, records, slots, value=value: np.array([value]))
        assert evaluate(query, PERSON, slots).tolist() == [clamped]


def test_it_has_exactly_one_acceptable_record_and_one_process(agent, tmp_path):
    cases = (0.0, 2, 1, "exactly one record, found 2"), (np.nan, 1, 1, "NaN"), (0.0, 1, 0, "label outside")
    for feature, count, label, why in cases:
        record = Records(np.full((count, 8), feature, dtype=np.float32), np.full(count, label, dtype=np.int8))
        with pytest.raises(BadData, match=why):
            Agent(record, POLICY, tmp_path / "another")
    with pytest.raises(BadInput, match="in use by another process"):
        Agent(PERSON, POLICY, tmp_path)


UNHURRIED = (*ONE_QUESTION, "agents.deadline=600")


class Lying:
    """A referee that takes every report, and gives another receipt than its own."""

    def __init__(self, bench: Bench, lie: Callable[[Signed], Signed]) -> None:
        self._bench, self._lie = bench, lie

    def __getattr__(self, name: str) -> object:
        return getattr(self._bench.referee, name)

    def report(self, signed: Signed) -> Signed:
        return self._lie(self._bench.referee.report(signed))

    def report_packed(self, signed: Signed, body: bytes) -> Signed:
        return self._lie(self._bench.referee.report_packed(signed, body))


def forged(host: Host, match: str = ".") -> None:
    """Let a host find a forgery, and decline nothing."""
    with pytest.raises(Forged, match=match):
        host.step()
    assert not host.declined


LIES: dict[str, tuple[Callable[[Signed], Signed], str]] = {
    "another key": (lambda receipt: Identity.create().sign(receipt.kind, receipt.message), "signed by"),
    "another time": (lambda receipt: changed(receipt, time=1), "does not verify"),
}


def changed(signed: Signed, **message: object) -> Signed:
    return signed.model_copy(update={"message": {**signed.message, **message}})


@for_each("lie", [*LIES, "another report"])
def test_nobody_keeps_a_receipt_that_is_none_and_all_have_answered_all_the_same(tmp_path, lie):
    with Bench(tmp_path / "bench", tiny(*UNHURRIED), individuals=1) as bench:
        signer = bench.referee.identity
        other = signer.sign("receipt", {"run": "run", "question": 1, "report": "ab" * 64, "time": 1})
        told, why = LIES.get(lie, (lambda receipt: other, "for another report"))
        many = Host(bench.population, Lying(bench, told), signer.public)
        with individual(bench, tmp_path / "agent", port=Lying(bench, told)) as one:
            bench.meanwhile(lambda: [forged(host, why) for host in (one, many)])
            bench.run()
            assert (one.finished, one.people_asked, many.people_asked) == (True, 1, 599)
    for folder in (tmp_path / "agent", tmp_path / "bench" / "agents"):
        with pytest.raises(BadData, match="there is no receipt in"):
            list(held_receipts(folder))


@for_each(
    ("status", "problem", "settled"),
    [(409, "pattern", True), (410, "of-a-later-version", True), (409, "busy", True), (500, "internal", False)],
)
def test_any_problem_below_500_settles_a_report(tmp_path, status, problem, settled):
    """As in JavaScript, and as ``docs/wire.md`` has it: also one that this version does not know."""
    document = {"type": f"urn:tandem:problem:{problem}", "title": problem}
    answers = httpx.MockTransport(lambda request: httpx.Response(status, json=document, headers={HEADER: stated()}))
    with (
        closing(RefereeClient("http://127.0.0.1:1", patience=0.0, transport=answers)) as client,
        Bench(tmp_path / "bench", tiny(*UNHURRIED), individuals=1) as bench,
        individual(bench, tmp_path / "agent", port=Lying(bench, lambda _: client.configuration("run"))) as one,
    ):

        def step() -> None:
            with pytest.raises(TandemError, match=problem):
                one.step()

        bench.meanwhile(step)
        bench.run()
        assert one.finished == settled


def test_a_host_keeps_one_receipt_a_question_with_what_stands_for_its_report(tmp_path):
    with Bench(tmp_path / "bench", tiny(*UNHURRIED)) as bench:
        bench.run()
        (kept,) = held_receipts(tmp_path / "bench" / "agents")
        (question,) = bench.referee.store.questions("run")
        (report,) = bench.referee.store.reports(question)
    assert (kept.run, kept.question) == ("run", 1)
    assert kept.report.signature == report.signature.hex()
    assert kept.leaf == leaf_of(kept.report, report.body).hex()
    assert kept.path.stat().st_mode & 0o077 == 0


def test_a_run_of_the_same_name_takes_no_receipts_place(tmp_path, monkeypatch):
    """A referee that has left a report out could have the evidence overwritten by asking again under that name.

    The third one is in another history of the first run.
    """
    me, signer, now = Identity.create(), Identity.create(), itertools.count(1)
    monkeypatch.setattr(checking, "time", SimpleNamespace(time=lambda: float(next(now))))
    common = {"run": "run", "question": 1}
    reports = [me.sign("report", common | {"digest": run, "assignment": what}) for run, what in ("ab", "cd", "ae")]
    for report in (*reports, *reports):
        receipt = common | {"report": report.signature, "time": 1}
        store_receipt(tmp_path, signer.sign("receipt", receipt), report, b"")
    kept = {held.report.signature: held.sent for held in held_receipts(tmp_path)}
    assert kept == {report.signature: float(n) for n, report in enumerate(reports, start=1)}


def test_a_configuration_that_was_changed_on_its_way_is_not_kept_and_nothing_is_declined(tmp_path):
    class Spoiling(Lying):
        left = 1

        def configuration(self, run: str) -> Signed:
            found: Signed = self._bench.referee.configuration(run)
            self.left, spoilt = 0, self.left
            return changed(found, time=1) if spoilt else found

    with Bench(tmp_path / "bench", tiny(*UNHURRIED)) as bench:
        bench.host = Host(bench.population, Spoiling(bench, lambda receipt: receipt), bench.referee.identity.public)
        bench.meanwhile(lambda: forged(bench.host))
        result = bench.run()
    assert result["agents"]["answered"] == 600
    assert result["lost"] == {"silent": 0, "declined": {}}


def test_a_configuration_of_an_earlier_run_of_the_same_name_is_asked_for_anew(tmp_path):
    """A host outlives a referee that was put back to before that run."""
    with Bench(tmp_path / "bench", tiny(*UNHURRIED)) as bench:
        earlier = seal(bench.referee.identity, configuration())
        bench.host._configurations["run"] = earlier
        result = bench.run()
    assert (result["agents"]["answered"], result["lost"]) == (600, {"silent": 0, "declined": {}})


def test_who_was_enrolled_enrols_again_where_the_referee_was_put_back_to_before_that(tmp_path):
    with Bench(tmp_path / "later", tiny(*UNHURRIED), individuals=1) as later, Bench(tmp_path / "bench") as bench:
        with individual(later, tmp_path / "agent") as one:
            for host in (one, later.host):
                host._port, host._referee = bench.referee, bench.referee.identity.public
                assert not host.step()
        assert bench.referee.registrar.roster.agents == bench.chosen.agents.count + 600


def test_a_referee_that_names_run_after_run_fills_no_memory(agent):
    class Naming:
        asked = 0

        def poll(self, signed: Signed) -> Signed:
            self.asked += 1
            assignment, self.agreed = question(run=f"run-{self.asked}")
            return assignment

        def configuration(self, run: str) -> Signed:
            return self.agreed

        def report(self, signed: Signed) -> Signed:
            raise PolicyRefused("not this time")

        def decline(self, signed: Signed) -> None:
            pass

    host = Host(agent, Naming(), REFEREE.public)
    for _ in range(5 * REMEMBERED):
        with pytest.raises(PolicyRefused):
            host.step()
    assert list(host._configurations) == [f"run-{4 * REMEMBERED + n}" for n in range(1, REMEMBERED + 1)]


RUNNER = CliRunner()


def test_a_question_that_closes_while_somebody_decides_costs_nothing(tmp_path, caplog):
    busy = []
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION), individuals=1) as bench:

        def close(question: object, left: float) -> None:
            bench.referee.poll = lambda signed: None  # type: ignore[method-assign]

        with individual(bench, tmp_path / "me", 3.0, consent=close) as host:
            bench.meanwhile(lambda: busy.append(host.step()))
            bench.run()
            assert (busy, host.people_asked) == ([False], 0)
    assert "closed while you decided" in caplog.text


def test_every_mechanism_says_what_may_leave_with_its_own_probabilities():
    for name in MECHANISMS.names():
        for mechanism in MECHANISMS[name].example():
            for domain in (None, 2, 8):
                with suppress(PolicyRefused):
                    mechanism.answer_kind(domain)
                    assert re.fullmatch(r".{20,}\.", mechanism.leaves(domain), re.DOTALL)
    for name, domain in (("warner", None), ("krr", 8)):
        one: Any = parse_mechanism({"name": name, "epsilon": 1.0})
        shown = [float(found) for found in re.findall(r"probability (0\.\d+)", one.leaves(domain))]
        truth = [one.truth, 1 - one.truth] * 2 if domain is None else list(one.rates(8))
        assert shown == pytest.approx(truth, rel=1e-5)


def answer(tmp_path, address: str, *more: str, typed: str | None = None):
    (tmp_path / "me.json").write_text(json.dumps({"features": [0.125] * 8, "label": 1}))
    given = ["answer", str(tmp_path / "me.json"), "--referee", address, "--token", TOKEN, "--epsilon", "3", "--once"]
    return RUNNER.invoke(app, [*given, "--max-delay", "0", "--state", str(tmp_path / "me"), *more], input=typed)


def test_without_a_terminal_and_without_yes_nothing_is_sent(tmp_path):
    ended = answer(tmp_path, "http://127.0.0.1:9")
    assert ended.exit_code == 1
    assert re.fullmatch(r".*there is no terminal.*--yes.*\n", ended.stderr)
    assert not (tmp_path / "me").exists()


def asked(tmp_path, *more: str, typed: str | None = None) -> tuple[Result, dict[str, Any], str]:
    """Let a person answer by the command in a run; return what it printed, the run's result, and the referee's key."""
    ended = []
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION), individuals=1) as bench:
        with individual(bench, tmp_path / "me", 3.0):
            pass  # the same person enrols first, in the time before the run begins
        with served(bench.app()) as address:
            bench.meanwhile(lambda: ended.append(answer(tmp_path, address, *more, typed=typed)))
            result = bench.run()
            return ended[0], result, bench.referee.identity.public


def test_all_that_a_person_must_know_is_shown_before_anything_is_spent(tmp_path, monkeypatch):
    monkeypatch.setattr(consents, "has_terminal", lambda: True)
    spent: list[bool] = []
    monkeypatch.setattr(typer, "confirm", lambda text: not spent.append((tmp_path / "me" / "answered.json").exists()))
    ended, result, key = asked(tmp_path)
    text = " ".join(ended.stdout.split())
    mechanism = tiny(*ONE_QUESTION).agents.mechanism
    assert isinstance(mechanism, Warner)
    epsilon, truth = mechanism.epsilon, mechanism.truth
    for part in (
        "the referee at http://127.0.0.1", key, "run 'run'", "The scenario of the run names no columns.",
        f'"{tiny(*ONE_QUESTION).title}", in the words of the referee',
        "whether a rule that predicts the label of your record from numbers 1 to 8 of your record is wrong about you",
        f"If the value is 1, the bit is 1 with probability {truth:.6g} and 0 with probability {1 - truth:.6g}",
        f"({epsilon:g}, 0)-differential privacy",
        f"guesses right with probability {truth:.3f}"[:-1],
        "epsilon 3; nothing of it is spent so far",
        f"This answer spends {epsilon:g}; {3 - epsilon:g} would be left",
    ):  # fmt: skip
        assert part in text
    assert max(map(len, ended.stdout.splitlines()[1:-1])) <= 100
    assert (spent, (tmp_path / "me" / "answered.json").exists()) == ([False], True)
    assert result["lost"] == {"silent": 0, "declined": {}}


@for_each(("typed", "more", "code", "events"), [
    ("y\n", (), 0, ["enrolled", "asked", "agreed", "answered"]),
    ("n\n", (), 1, ["enrolled", "asked", "declined"]),
    ("\n", (), 1, ["enrolled", "asked", "declined"]),
    (None, ("--yes",), 0, ["enrolled", "asked", "agreed", "answered"]),
])  # fmt: skip
def test_the_command_asks_answers_and_logs(tmp_path, monkeypatch, typed, more, code, events):
    monkeypatch.setattr(consents, "has_terminal", lambda: typed is not None)
    ended, result, _ = asked(tmp_path, *more, typed=typed)
    assert ended.exit_code == code, ended.output
    assert "What it costs" in ended.stdout
    assert ("Answer this question? [y/N]" in ended.stdout) == (typed is not None)
    assert ("nothing is spent" in ended.stderr, (tmp_path / "me" / "answered.json").exists()) == (code == 1, code == 0)
    assert result["lost"] == {"silent": 0, "declined": {"consent-withheld": 1} if code else {}}
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
