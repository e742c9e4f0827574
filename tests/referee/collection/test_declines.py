"""Who must not answer says so: nobody waits for them, other questions reach them, and the result says why."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from common.core.errors import BadMessage, ConfigurationMismatch, Forged, PatternViolation, PolicyRefused
from common.crypto.identity import Identity
from common.net import messages
from local_agent.cli import app
from local_agent.host import Host
from local_agent.policy import Policy
from referee.audit.audit import audit
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, leave_folder, seal, served, small, tiny
from tests.tiers import for_each

CHOSEN = ("agents.count=600", "agents.batch=600", "curator.rounds=1")


def only_items(bench: Bench) -> None:
    """Let the hosted people accept another kind of question than they are asked."""
    bench.population._policy = Policy(bench.referee.identity.public, 5.0, queries=frozenset({"item"}))


def decline_of(bench: Bench, who: Identity, **changed: object) -> messages.Decline:
    asked = bench.referee.poll(seal(who, messages.Poll(participant=who.public)))
    assert asked is not None
    message = messages.Assignment.parse(asked.message)
    said = {"run": message.run, "digest": message.digest, "question": message.question, "reason": "policy"}
    return messages.Decline.parse({**said, "assignment": message.fingerprint(), **changed})


def test_nobody_waits_for_those_who_decline_and_the_result_counts_them(tmp_path):
    with Bench(tmp_path / "state", tiny(*CHOSEN)) as bench:
        other = Identity.create()
        bench.referee.enrol(seal(other, messages.Enrolment(agents=200)), TOKEN)
        shares = []

        def attack() -> None:
            said = seal(other, decline_of(bench, other))
            shares.append(
                len(
                    messages.unpack_indices(
                        bench.referee.poll(seal(other, messages.Poll(participant=other.public))).message["people"]
                    )
                )
            )
            for _ in range(2):  # a lost reply: the same again changes nothing
                bench.referee.decline(said)
            assert bench.referee.poll(seal(other, messages.Poll(participant=other.public))) is None

        bench.meanwhile(attack)
        before = bench.clock()
        result = bench.run()
        assert bench.clock() == before  # no deadline passed
        finished = bench.finished()
    (share,) = shares
    assert share > 0
    assert result["agents"]["answered"] == 600 - share
    assert result["lost"] == {"silent": 0, "declined": {"policy": share}}
    assert audit(leave_folder(tmp_path / "run", tiny(*CHOSEN), 1, finished)).status == result["status"]


def test_a_host_that_must_refuse_says_why_and_stays_open_to_other_questions(tmp_path):
    with Bench(tmp_path, tiny(*CHOSEN)) as bench:
        only_items(bench)
        refused = []

        def ask() -> None:
            with pytest.raises(PolicyRefused, match="not accepted"):
                bench.host.step()
            refused.append(bench.host.declined)
            assert not bench.host.step()  # it is not asked again

        bench.meanwhile(ask)
        result = bench.run()
    assert refused == [True]
    assert result["status"] == "refused"
    assert "all 600 agents that were asked decline to answer" in result["reason"]
    assert "policy 600" in result["reason"]
    assert result["lost"] == {"silent": 0, "declined": {"policy": 600}}


@pytest.mark.slow
def test_a_question_that_all_who_were_asked_decline_leaves_the_run_to_the_others(tmp_path):
    chosen = small("portfolio")
    with Bench(tmp_path / "bench", chosen) as bench:
        willing = bench.population._policy

        def nobody() -> None:
            only_items(bench)
            with pytest.raises(PolicyRefused, match="not accepted"):
                bench.host.step()
            bench.population._policy = willing

        bench.meanwhile(nobody)
        result = bench.run()
        finished = bench.finished()
    agents, lost = result["agents"], result["lost"]
    assert result["status"] in ("done", "exhausted")
    assert 0 < lost["declined"]["policy"] < agents["asked"]
    assert agents["answered"] == agents["asked"] - lost["declined"]["policy"]
    assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).status == result["status"]


@for_each(
    ("changed", "problem"),
    [
        ({"assignment": "0" * 64}, ConfigurationMismatch),
        ({"digest": "0" * 64}, ConfigurationMismatch),
        ({"reason": "because my income is 5"}, BadMessage),
        ({"reason": "\x1b]0;x"}, BadMessage),
    ],
)
def test_what_declines_something_else_is_refused(tmp_path, changed, problem):
    with Bench(tmp_path, tiny(*CHOSEN)) as bench:

        def attack() -> None:
            who = bench.population.identity
            wire = {**decline_of(bench, who).wire(), **changed}
            with pytest.raises(problem):
                bench.referee.decline(who.sign("decline", wire))

        bench.meanwhile(attack)
        assert bench.run()["agents"]["answered"] == 600


def test_nobody_declines_for_others(tmp_path):
    with Bench(tmp_path, tiny(*CHOSEN)) as bench:

        def attack() -> None:
            who, stranger = bench.population.identity, Identity.create()
            said = decline_of(bench, who)
            with pytest.raises(PatternViolation):
                bench.referee.decline(seal(stranger, said))
            with pytest.raises(Forged):
                bench.referee.decline(seal(stranger, said).model_copy(update={"key": who.public}))

        bench.meanwhile(attack)
        assert bench.run()["agents"]["answered"] == 600


def test_who_declined_may_still_report(tmp_path):
    with Bench(tmp_path, tiny(*CHOSEN)) as bench:
        other = Identity.create()
        bench.referee.enrol(seal(other, messages.Enrolment(agents=1000)), TOKEN)

        def change_of_mind() -> None:
            who = bench.population.identity
            asked = bench.referee.poll(seal(who, messages.Poll(participant=who.public)))
            bench.referee.decline(seal(who, decline_of(bench, who)))
            bench.referee.report_packed(*bench.population.answer(asked, bench.referee.configuration("run")))
            bench.referee.decline(seal(other, decline_of(bench, other)))

        bench.meanwhile(change_of_mind)
        result = bench.run()
        finished = bench.finished()
    agents, lost = result["agents"], result["lost"]
    assert agents["answered"] > 0
    # Who answered after all has not declined: nobody is counted as both, and the audit's sum holds.
    assert lost == {"silent": 0, "declined": {"policy": agents["asked"] - agents["answered"]}}
    assert audit(leave_folder(tmp_path / "run", tiny(*CHOSEN), 1, finished)).answers == agents["answered"]


@pytest.mark.parametrize("run", ["../../etc/passwd", "a/b", "", "x" * 65, "a\n", None])
def test_a_runs_name_is_checked_before_it_enters_an_address(bench, run):
    wrong = bench.referee.identity.sign("assignment", {"run": run})
    asked = []

    class Port:
        def poll(self, signed):
            return wrong

        def configuration(self, name):
            asked.append(name)
            raise AssertionError

    with pytest.raises(BadMessage):
        Host(bench.population, Port(), bench.referee.identity.public).step()
    assert asked == []


def test_what_another_key_signed_is_not_used_at_all(bench):
    class Port:
        def poll(self, signed):
            return Identity.create().sign("assignment", {"run": "run"})

        def configuration(self, name):
            raise AssertionError

        def decline(self, signed):
            raise AssertionError

    with pytest.raises(Forged):
        Host(bench.population, Port(), bench.referee.identity.public).step()


def test_a_misfit_individual_stops_with_one_line_and_the_referee_learns_why(tmp_path):
    """A record of two features, where the question needs eight: the command ends, and the run does not wait."""
    record = tmp_path / "me.json"
    record.write_text('{"features": [0.1, 0.2], "label": 1}')
    chosen = tiny(*CHOSEN)
    said = []
    with Bench(tmp_path / "bench", chosen, individuals=1) as bench:
        state = ["--state", str(tmp_path / "me"), "--max-delay", "0", "--epsilon", "100", "--token", TOKEN, "--yes"]
        with served(referee_app(bench.referee, Runner(bench.referee))) as address:
            from local_agent.cli import read_record
            from local_agent.person.agent import (
                Agent,  # the same person enrols first, in the time before the run begins
            )

            agent = Agent(read_record(record), Policy(bench.referee.identity.public, 100.0), tmp_path / "me")
            Host(agent, bench.referee, bench.referee.identity.public).enrol(TOKEN)
            agent.close()

            def misfit() -> None:
                known = ["--referee", address, "--referee-key", bench.referee.identity.public]
                ended = CliRunner().invoke(app, ["answer", str(record), *known, *state])
                said.append((ended.exit_code, ended.stderr))

            bench.meanwhile(misfit)
            result = bench.run()
    ((code, stderr),) = said
    assert code == 1
    assert stderr.count("\n") == 1
    assert "needs 8 features, the record has 2" in stderr
    assert result["lost"]["declined"] == {"policy": 1}
