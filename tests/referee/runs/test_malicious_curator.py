"""A curator that cheats, over the referee's own code: how the run ends, what agents spend, what the audit says.

Whatever such a curator signs, it signs with the key that agreed to the run.
"""

import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from common.core.errors import AuditFailed, BadMessage, Conflict
from common.crypto.identity import Identity, Signed
from common.net import transport
from common.scenario.scenario import ResolvedScenario
from curator.curator import Curator
from referee.audit.audit import audit
from referee.runs import curator as patience
from referee.service.referee import CuratorClient
from referee.view.audited import audit_lines
from tests.common.net.test_hostile_peers import endless, hostile, silent, whole
from tests.support import Bench, audited, leave_folder, tiny
from tests.tiers import thinned

pytestmark = pytest.mark.slow
Change = Callable[[dict[str, Any]], object]


class Cheating:
    """A curator that changes what it releases before it signs; ``kind``: of which of its messages."""

    def __init__(self, curator: Curator, change: Change, kind: str = "release") -> None:
        self.curator, self.change, self.kind = curator, change, kind
        self.identity: Identity = curator._journal.identity

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.curator, name)
        return real if name == "acknowledge" else lambda signed: self._changed(real(signed))

    def _changed(self, reply: Signed) -> Signed:
        if reply.kind != self.kind:
            return reply
        message = {**reply.message}
        self.change(message)
        try:
            return self.identity.sign(reply.kind, message)
        except BadMessage:  # what has no canonical form cannot be signed, but it can be sent
            return Signed.model_construct(kind=reply.kind, message=message, key=reply.key, signature="0" * 128)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "DOUBT", 0.0)


def cheated(
    folder: Path, change: Change, kind: str = "release", chosen: ResolvedScenario | None = None
) -> tuple[dict[str, Any], Path]:
    """Run with such a curator; return the result and the run folder."""
    with Bench(folder / "bench", chosen, curator=lambda own: Cheating(own, change, kind)) as bench:
        result = bench.run()
        asked = bench.referee.store.asked("run")
        run = leave_folder(folder / "run", bench.chosen, 1, bench.finished())
    assert (result["answer"], asked, result["agents"]["answered"]) == (None, 0, 0), "agents have spent something"
    return result, run


def releases(**changes: Any) -> Change:
    return lambda release: release.update(result={**release["result"], **changes})


def gives(**hypothesis: Any) -> Change:
    return releases(hypothesis=hypothesis)


def linear(*weights: float) -> Change:
    return gives(kind="linear", weights=list(weights), threshold=0.0)


STUMPS = tiny(
    'curator.learner={"name": "exponential", "hypotheses": "stumps", "draws": 500, "epsilon": 1.0, "cells": 5}'
)


HYPOTHESES: dict[str, tuple[str, Change, ResolvedScenario | None]] = {
    "over more features than people have": ("over 9 features", linear(*[0.1] * 9), None),
    "with a weight that is not finite": ("not a finite JSON value", linear(math.inf, *[0.0] * 7), None),
    "that is huge": ("at most", linear(*[0.1] * ((1 << 16) + 1)), None),
    "of a kind that nobody knows": ("nothing acceptable", gives(kind="oracle", secret="x"), None),
    "of another kind than its learner's": ("cannot give", gives(kind="constant", label=1), None),
    "outside its finite class": ("cannot give", gives(kind="stump", feature=0, threshold=0.3, sign=1), STUMPS),
    "outside its finite class, of another kind": ("cannot give", linear(*[0.1] * 8), STUMPS),
    "that is none": ("nothing acceptable", releases(hypothesis=None), None),
    "of another operation": ("nothing acceptable", releases(feature=1), None),
}


@pytest.mark.parametrize("name", thinned(HYPOTHESES, 4, rest=pytest.mark.thorough))
def test_a_hypothesis_outside_its_class_ends_the_run_before_anybody_is_asked_about_it(tmp_path, name):
    why, change, chosen = HYPOTHESES[name]
    result, run = cheated(tmp_path, change, chosen=chosen)
    assert result["status"] in ("failed", "refused")
    assert why in result["reason"]
    if name == "of another kind than its learner's":  # signed as it is, so that the audit reads who ended the run
        found = audit(run)
        assert (found.status, found.operations) == ("failed", 1)
        lines = "\n".join(audit_lines(found))
        assert "the run ended by the curator, which signed what this run does not take" in lines
        assert "of kind 'constant' that its learner 'sgd', with the settings of the scenario, cannot give" in lines


def test_a_release_that_declares_no_event_ends_the_run_before_anybody_is_asked(tmp_path):
    """Else the run goes on, and no audit can read what it has cost."""
    for number, event in enumerate((None, {"kind": "none such"}, [1], {"kind": "gaussian", "sensitivity": -1.0})):
        result, _ = cheated(tmp_path / str(number), releases(event=event))
        assert result["status"] == "failed"
        assert "does not say what it costs" in result["reason"]


def test_a_referee_cannot_go_on_with_a_hypothesis_outside_the_class(tmp_path, monkeypatch):
    """Referee and curator together: the run goes on in spite of it, and the audit does not."""
    monkeypatch.setattr("referee.protocols.driver.check_learned", lambda *parts: None)
    change = gives(kind="constant", label=1)
    with Bench(tmp_path / "bench", curator=lambda own: Cheating(own, change)) as bench:
        assert bench.run()["agents"]["answered"] > 0
        run = leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())
    monkeypatch.undo()
    with pytest.raises(AuditFailed, match="cannot give"):
        audit(run)


OTHERS: dict[str, tuple[str, Change, str]] = {
    "another operation's number": ("does not answer", lambda m: m.update(operation_id="7"), "release"),
    "another request": ("does not answer", lambda m: m.update(request="0" * 64), "release"),
    "another run": ("does not answer", lambda m: m.update(run="earlier"), "release"),
    "another configuration": ("does not answer", lambda m: m.update(digest="0" * 64), "release"),
    "another head of its ledger": ("ledger", lambda m: m["ledger"]["head"].update(hash="0" * 64), "release"),
    "a shorter ledger": ("ledger", lambda m: m["ledger"]["head"].update(entries=1), "release"),
    "terms of another configuration": ("another configuration", lambda m: m.update(digest="0" * 64), "terms"),
    "terms for more people": ("not those of the scenario", lambda m: m.update(n=m["n"] + 1), "terms"),
    "terms with a smaller guarantee": (
        "not those of the scenario",
        lambda m: m["guarantee"].update(epsilon=m["guarantee"]["epsilon"] / 2),
        "terms",
    ),
    "a share that is bound where there is no beacon": ("bound to", lambda m: m.update(share_sha256="0" * 64), "terms"),
}


@pytest.mark.parametrize("name", thinned(OTHERS, 4, rest=pytest.mark.thorough))
def test_what_answers_something_else_ends_the_run_and_costs_agents_nothing(tmp_path, name):
    why, change, kind = OTHERS[name]
    result, run = cheated(tmp_path, change, kind)
    assert result["status"] == "failed"
    assert why in result["reason"]
    assert audit(run).status == "failed"


def test_a_release_of_an_earlier_run_is_no_answer_in_this_one(tmp_path):
    """The same curator key, state put back, the same operation: the configuration is another one."""
    kept: list[Signed] = []
    with Bench(tmp_path / "first") as first:
        honest = first.curator.perform
        first._gate.perform = lambda signed: kept.append(honest(signed)) or kept[-1]  # type: ignore[method-assign]
        first.run()
    with Bench(tmp_path / "second") as second:
        second._gate.perform = lambda signed: kept[0]  # type: ignore[method-assign]
        result = second.run()
    assert (result["status"], result["answer"], result["agents"]["asked"]) == ("failed", None, 0)


def test_two_releases_for_one_operation_are_two_heads_of_one_ledger(tmp_path):
    """A curator that equivocates: the referee keeps the first one; what follows the second does not extend it."""

    kept: list[dict[str, Any]] = []

    def twice(release: dict[str, Any]) -> None:
        if kept:
            release["ledger"] = {**release["ledger"], "links": []}
        kept.append(release)

    with Bench(tmp_path, curator=lambda own: Cheating(own, twice)) as bench:
        result = bench.run()
        assert audited(bench).operations == 1
        with pytest.raises(Conflict):  # an honest one gives one release for an operation's number
            bench.perform(0, {"kind": "learn", "round": 2})
    assert result["status"] == "failed"
    assert "ledger" in result["reason"]


STALLS = {
    "nothing": silent,
    "still at work": whole(b"{}", status="202 Accepted"),
    "slow": endless(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", b" ", 0.1),
    "slow header": endless(b"HTTP/1.1 200 OK\r\n", b"x-header: y\r\n", 0.1),
}


@pytest.mark.parametrize("name", sorted(STALLS))
def test_a_curator_that_stalls_ends_the_run_when_the_declared_patience_does(tmp_path, name, monkeypatch):
    monkeypatch.setattr(transport, "LOOK", 0.05)
    with hostile(STALLS[name]) as url, Bench(tmp_path) as bench, closing(CuratorClient(url, patience=600.0)) as client:
        bench._gate.curator = client
        bench.referee._curator, bench.referee._curator_patience = client, 0.3
        result = bench.run()
    assert (result["status"], result["answer"], result["agents"]["asked"]) == ("failed", None, 0)
    assert "has not answered for 0 s, the patience" in result["reason"]
