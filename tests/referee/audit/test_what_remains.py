"""What signatures cannot show is printed by the audit, and answers that no honest agents give are no result."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from common.core.errors import AuditFailed
from common.statistics.means.intervals import Estimate
from common.wire.identity import Signed
from deploy.load.light import LightAgent
from referee.audit.audit import audit
from referee.audit.ending import worst_case
from referee.cli import app
from referee.collection.reading import Sent, claims
from referee.protocols import quorum
from tests.referee.audit.signing import identity_of
from tests.support import TOKEN, Bench, leave_folder, tiny

CROWD = 200
CHOSEN = ("protocol=learn-and-test", "agents.count=600", "agents.batch=600", "curator.rounds=1", "agents.deadline=5",
          "agents.mechanism.epsilon=1")  # fmt: skip


def said(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["audit", *map(str, arguments)])
    return done.exit_code, done.output


def test_keys_that_are_not_known_from_elsewhere_are_said_first(undisturbed, run):
    code, output = said(run)
    assert code == 0
    assert output.startswith("not pinned: the referee and the curator of this folder may be anybody")
    referee = identity_of(undisturbed[0]).public
    curator = audit_terms_key(run)
    code, output = said(run, "--referee-key", referee, "--curator-key", curator)
    assert code == 0
    assert output.startswith("verified")


def audit_terms_key(run: Path) -> str:
    from common.wire.transcript import read, split

    entries = read(split((run / "transcript.jsonl").read_bytes()), None)
    return Signed.parse(next(entry for entry in entries if entry.kind == "terms").body["terms"]).key


def test_a_strict_audit_fails_without_both_keys(undisturbed, run):
    referee, curator = identity_of(undisturbed[0]).public, audit_terms_key(run)
    for given, missing in (
        ((), "the key of the referee and of the curator,"),
        (("--referee-key", referee), "the key of the curator,"),
        (("--curator-key", curator), "the key of the referee,"),
    ):
        code, output = said(run, "--strict", *given)
        assert code == 1
        assert missing in " ".join(output.split())
    assert said(run, "--strict", "--referee-key", referee, "--curator-key", curator)[0] == 0


def test_who_is_enrolled_is_said_and_who_vouches_for_them(run):
    found = audit(run)
    assert (found.individuals, found.hosts, found.missing) == (0, (6000,), 0.0)
    assert "enrolled: a host for 6,000 people; that they are people is the word" in said(run)[1]


def test_the_worst_case_counts_everybody_who_kept_silent_against_the_answer():
    found = worst_case(Estimate(value=0.2, low=0.1, high=0.3, confidence=0.95), 0.25)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.075, 0.475))
    assert worst_case(None, 0.5) is None
    nothing = worst_case(Estimate(value=0.2, low=0.1, high=0.3, confidence=0.95), 1.0)
    assert nothing is not None
    assert (nothing.low, nothing.high) == (0.0, 1.0)


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
        cheating.setattr(quorum, "implausible", lambda *a: False)
        run = without_ones(tmp_path / "cheat")
    with pytest.raises(AuditFailed, match="not what the transcript's answers lead to"):
        audit(run)
    honest = audit(without_ones(tmp_path / "honest"))
    assert honest.status == "exhausted"
    assert honest.worst_case is not None
    assert (honest.worst_case.low, honest.worst_case.high) == (0.0, 1.0)


def test_who_is_silent_is_counted_in_the_worst_case(tmp_path):
    chosen = tiny(*CHOSEN)
    with Bench(tmp_path / "state", chosen) as bench:
        bench.population._dropout = 0.1
        result = bench.run()
        run = leave_folder(tmp_path / "run", chosen, 1, bench.finished())
    found = audit(run)
    share = 1.0 - result["agents"]["answered"] / 600
    assert found.missing == pytest.approx(share)
    assert 0.05 < share < 0.15
    assert found.worst_case is not None
    assert found.worst_case.high == pytest.approx((1.0 - share) * result["estimate"]["high"] + share)
    output = said(run)[1]
    assert f"answers of up to {share:.1%} of those whom a question asked are not there" in output
    assert "because they disagree, the loss is in [" in output
