"""What signatures cannot show is printed by the audit, and answers that no honest agents give are no result."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.core.arrays import AnyArray, Indices
from common.core.errors import AuditFailed
from common.crypto.identity import Signed
from common.data.population import RecordSource
from common.local.mechanisms.mechanism import LocalRandomizer
from common.local.queries.query import Query
from common.statistics.robustness import silence_bound
from deploy.load.client import LightAgent
from local_agent.answers import answer_together, evaluate_people
from local_agent.hosted import population
from referee.audit.audit import audit
from referee.collection.judging import Sent, claims
from referee.protocols import driver
from referee.view import show
from referee.view.pages import report, view_of
from referee.view.wording import ends_in_words, silent_in_words
from tests.referee.audit.signing import keys, said
from tests.support import TOKEN, Bench, leave_folder, tiny
from tests.tiers import for_each

CROWD = 200
CHOSEN = ("protocol=learn-and-test", "agents.count=600", "agents.batch=600", "curator.rounds=1", "agents.deadline=5",
          "agents.mechanism.epsilon=1")  # fmt: skip


def test_keys_that_are_not_known_from_elsewhere_are_said_first(undisturbed, run):
    code, output = said(run)
    assert code == 0
    assert output.startswith("not pinned: the referee and the curator of this folder may be anybody")
    code, output = said(run, *keys(undisturbed[0], run))
    assert code == 0
    assert output.startswith("verified")


def test_a_strict_audit_fails_without_both_keys(undisturbed, run):
    both = keys(undisturbed[0], run)
    for given, missing in (
        ((), "the key of the referee and of the curator,"),
        (both[:2], "the key of the curator,"),
        (both[2:], "the key of the referee,"),
    ):
        code, output = said(run, "--strict", *given)
        assert code == 1
        assert missing in output
    assert said(run, "--strict", *both)[0] == 0


def test_who_is_enrolled_is_said_and_who_vouches_for_them(run):
    found = audit(run)
    assert (found.individuals, found.hosts, found.missing) == (0, (6000,), 0.0)
    assert "enrolled: a host for 6,000 people; that they are people is the word" in said(run)[1]


def without_ones(folder: Path) -> Path:
    """Leave a run whose referee has taken answers of individuals only, and dropped those that say 1."""
    chosen = tiny(*CHOSEN)
    with Bench(folder / "state", chosen, individuals=CROWD) as bench:
        agents = [LightAgent.fresh() for _ in range(CROWD)]
        for agent in agents:
            bench.referee.enrol(Signed.model_validate_json(agent.enrolment()), TOKEN)

        def answer() -> None:
            for agent in agents:
                asked = bench.referee.poll(Signed.model_validate_json(agent.poll()))
                report = Signed.model_validate_json(agent.answer(asked.model_dump_json().encode()))
                if not report.message["answer"]:
                    assert bench.referee.collection.accept(claims([Sent(report)])) == [None]

        bench.meanwhile(answer)
        setattr(bench.host, "step", lambda: False)  # noqa: B010 - they are left out as well
        bench.run()
        return leave_folder(folder / "run", chosen, 1, bench.finished())


def test_a_referee_that_drops_whoever_says_1_has_no_result(tmp_path, monkeypatch):
    """It does not judge its answers as honest referees do, signs what is left, and the audit finds it."""
    with monkeypatch.context() as cheating:
        cheating.setattr(driver, "implausible", lambda *a: False)
        run = without_ones(tmp_path / "cheat")
    with pytest.raises(AuditFailed, match="not what the transcript's answers lead to"):
        audit(run)
    honest = audit(without_ones(tmp_path / "honest"))
    assert honest.status == "exhausted"
    assert honest.silent is not None
    assert honest.silent.estimate is not None
    assert (honest.silent.estimate.low, honest.silent.estimate.high) == (0.0, 1.0)


def test_who_is_silent_is_counted_and_the_share_of_the_silent_has_a_sampling_error(tmp_path):
    chosen = tiny(*CHOSEN)
    with Bench(tmp_path / "state", chosen) as bench:
        bench.population._dropout = 0.1
        result = bench.run()
        run = leave_folder(tmp_path / "run", chosen, 1, bench.finished())
    found, answered = audit(run), result["agents"]["answered"]
    assert found.missing == pytest.approx(share := 1.0 - answered / 600)
    assert 0.05 < share < 0.15
    assert found.silent is not None
    assert found.silent.silence == silence_bound([(600, answered)], 0.95)
    could, most = found.silent.estimate, found.silent.silence.most
    assert could is not None
    assert most > share
    assert could.high == pytest.approx((1.0 - most) * result["estimate"]["high"] + most)
    assert could.confidence == pytest.approx(0.9)
    assert result["silent"]["estimate"] == could.wire()
    output = said(run)[1]
    assert f"answers of up to {share:.1%} of the agents asked are missing: however those people" in output
    assert "the loss is in [" in output
    assert "(90%); were their answers left out because of what they say, in [" in output


LEVELS = ("alpha=0.1", "accuracy.reweigh_above=3.5", "accuracy.halt_below=3.7", "agents.mechanism.epsilon=3",
          "agents.count=20000", "agents.deadline=5")  # fmt: skip


def leave_out(patch: pytest.MonkeyPatch, bench: Bench, out: Callable[[Any, Any, Indices], Any]) -> None:
    """Have answers left out as no honest agents do: by what is answered, who errs, and who it is."""
    people = bench.population
    silent: list[Any] = []

    def answer(query: Query, mechanism: LocalRandomizer, records: RecordSource, who: Indices, *rest: Any) -> AnyArray:
        answers = answer_together(query, mechanism, records, who, *rest)
        silent.append(out(answers, evaluate_people(query, records, who, rest[0]) == 1.0, who))
        return answers

    patch.setattr(population, "answer_together", answer)
    patch.setattr(people, "_speaks", lambda who: ~silent.pop())


def test_a_run_whose_erring_people_are_silent_ends_done_and_its_verdict_names_them(tmp_path, capsys, monkeypatch):
    """The model errs on 40%, half of whom are silent: 25% of the answers, so the test rejects .37. It is false."""
    chosen = tiny(*LEVELS)
    with Bench(tmp_path / "state", chosen) as bench:
        leave_out(monkeypatch, bench, lambda answers, errs, who: errs & (who % 2 == 0))
        result = bench.run()
        run = leave_folder(tmp_path / "run", chosen, 1, bench.finished())
    assert result["status"] == "done"
    assert result["estimate"]["high"] < 0.37
    assert result["silent"]["matters"]
    assert result["silent"]["estimate"]["high"] > 0.4
    found = audit(run)
    assert found.silent is not None
    assert found.silent.matters
    for words in (said(run)[1], silent_in_words(result), report([view_of(run)]), table_of(result, capsys)):
        assert f"{found.silent.silence.missing:.1%} of " in words
        assert ends_in_words(found.silent.estimate.low, found.silent.estimate.high) in words
    view = view_of(run)
    assert view.verdict.tone == "open"
    left_out = result["silent"]["left_out"]
    assert left_out["high"] > 0.4
    assert view.verdict.title.startswith("Inconclusive: error between ")
    assert view.verdict.title.endswith(" with 95% confidence among all who were asked")
    assert (
        "did not answer: were they to differ from those who did, the loss could be anywhere in [" in view.verdict.detail
    )


@for_each("share", [0.2, 0.5, 1.0])
def test_a_referee_that_suppresses_by_answer_gets_done_and_no_verdict_and_no_strict_0(tmp_path, share, monkeypatch):
    """The model errs on 40% and the level is 37%: answers 1 are left out, and a test on the others rejects it."""
    chosen = tiny(*LEVELS)
    with Bench(tmp_path / "state", chosen) as bench:
        leave_out(monkeypatch, bench, lambda answers, errs, who: (answers == 1) & (who % 100 < round(100 * share)))
        result = bench.run()
        run = leave_folder(tmp_path / "run", chosen, 1, bench.finished())
    assert result["status"] == "done"
    assert result["estimate"]["high"] < 0.37
    assert result["silent"]["left_out"]["high"] >= 0.4
    code, output = said(run, "--strict", *keys(tmp_path, run))
    assert code == 3
    for words in (
        "the result depends on those who did not answer: with all of them against it, it is not shown",
        "; if no answer was left out because of what it says",
        "Verified, but it depends on the silent",
    ):
        assert words in output
    assert said(run, *keys(tmp_path, run))[0] == 0
    title = view_of(run).verdict.title
    assert "below 37% with" not in title
    assert title.endswith("among all who were asked")


@for_each(("dropout", "status"), [(0.0, 0), (0.02, 0), (0.5, 3)])
def test_an_interval_holds_for_all_who_were_asked_and_a_few_who_drop_out_are_no_3(tmp_path, dropout, status):
    chosen = tiny("protocol=learn-and-test", "agents.count=6000", "curator.rounds=1", "agents.deadline=5",
                  "agents.mechanism.epsilon=3")  # fmt: skip
    with Bench(tmp_path / "state", chosen) as bench:
        bench.population._dropout = dropout
        result = bench.run()
        run = leave_folder(tmp_path / "run", chosen, 1, bench.finished())
    assert said(run, "--strict", *keys(tmp_path, run))[0] == status
    verdict = view_of(run).verdict
    assert (verdict.tone == "good") == (status == 0)
    assert verdict.title.endswith(" among all who were asked") == (dropout > 0.0)
    if dropout:
        low, high = result["silent"]["left_out"]["low"], result["silent"]["left_out"]["high"]
        assert low < result["estimate"]["low"]
        assert high > result["estimate"]["high"]


def table_of(result: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    show.result({**result, "truth": None, "peak_memory_bytes": 0, "run": "run"}, simulated=True)
    return " ".join(capsys.readouterr().out.split())
