"""Nobody chooses the order in which agents are asked: parties that try, and what one run tells of another's order."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core.errors import AuditFailed, BudgetExceeded
from common.crypto.identity import Signed
from common.net import messages
from curator.curator import Curator
from curator.startup import open_sample
from referee.audit.audit import audit
from referee.collection import order
from referee.collection.order import Batch, Order, commitment, form_batch
from referee.collection.roster import Roster
from referee.runs import execution, ordering
from referee.runs.ordering import BEFORE, BOTH
from tests.referee.audit.signing import Bodies, caught_of, entries_of, keys, lie, says
from tests.support import Bench, Curators, Halted, leave_folder, seal, tiny
from tests.tiers import for_each

RUN = tiny("agents.count=1200", "agents.batch=400")


def with_a_secret(folder: Path) -> Curator:
    """Open a curator with a secret of its own, and no public seed."""
    return Curator(tiny(), open_sample(tiny(), folder, 1, lambda text: None), folder)


@contextmanager
def secret(folder: Path) -> Iterator[Bench]:
    """A referee with 4,800 hosted people, whose runs have no public seed."""
    with (
        closing(Curators(folder / "curators", with_a_secret)) as curators,
        Bench(folder / "state", tiny("agents.count=4800"), curator=lambda own: curators) as bench,
    ):
        yield bench


def carry(bench: Bench, name: str = "run") -> Path:
    """Carry a run to its end; return its folder."""
    bench.referee.create(name, RUN.wire(), None)
    assert bench.referee.execute(name)["answer"] is not None
    return leave_folder(bench.folder.parent / name, RUN, 1, bench.finished(name))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run whose referee and curator are honest."""
    with secret(tmp_path) as bench:
        return carry(bench)


def promised_of(run: Path) -> messages.OrderCommitment:
    return messages.Configuration.parse(entries_of(run)[0].body["configuration"]).order[0]


def asked(bench: Bench, name: str) -> list[int]:
    """Return the agents that a run asked, in the order in which it took them."""
    cohorts = {cohort.first: cohort for cohort in bench.referee.store.cohorts()}
    batches = [form_batch(q.parts, cohorts.__getitem__, Roster([])) for q in bench.referee.store.questions(name)]
    return [int(agent) for batch in batches if isinstance(batch, Batch) for agent in batch.members]


# Who chooses --------------------------------------------------------------------------------------------------------


def test_an_honest_run_is_ordered_by_both_together(run):
    assert audit(run).choosers == (BOTH,)
    both = "the order in which agents were asked was chosen by the referee and the curator together"
    says(0, (both,), run, "--strict", *keys(run.parent, run))
    terms = messages.Terms.parse(Signed.parse(entries_of(run)[1].body["terms"]).message)
    (published,) = entries_of(run)[-1].body["order"].values()
    assert terms.share is not None
    assert terms.share not in published  # the referee opens its own part alone
    assert commitment(published) == promised_of(run).sha256


@for_each(
    ("lie", "why"),
    [
        (lambda *a: {}, r"asked something else|did not sign|was not asked"),
        (
            lambda agreed, cohorts, share: ordering.shares_in(agreed, cohorts, ordering.OrderEntropy("0" * 64)),
            r"not the one committed to|asked something else|did not sign",
        ),
    ],
    ids=["none", "another"],
)
def test_a_referee_that_takes_another_share_or_none_is_caught(tmp_path, monkeypatch, lie, why):
    monkeypatch.setattr(execution, "shares_in", lie)
    with secret(tmp_path) as bench:
        run = carry(bench)
    with pytest.raises(AuditFailed, match=why):
        audit(run)


def test_a_referee_that_says_its_order_is_anothers_passes_no_strict_audit(tmp_path, monkeypatch):
    honest = ordering.orders_of

    def shared(*a: Any) -> ordering.Orders:
        found = honest(*a)
        return found._replace(commitments=tuple(c.model_copy(update={"shared": True}) for c in found.commitments))

    monkeypatch.setattr(execution, "orders_of", shared)
    with secret(tmp_path) as bench:
        run = carry(bench)
    assert audit(run).choosers == (BEFORE,)
    for options, status, words in (
        ((), 0, "chosen by an earlier run"),
        (("--strict", *keys(run.parent, run)), 1, "a strict audit takes"),
    ):
        says(status, (words,), run, *options)


def test_a_referee_cannot_try_secrets_until_it_likes_the_order(tmp_path):
    """It was bound before it saw the share, and the curator answers one configuration: with another there is no run."""
    with secret(tmp_path) as bench:
        run = carry(bench)
        agreed = messages.Configuration.parse(entries_of(run)[0].body["configuration"])
        curator, again = bench._gate.curator, seal(bench.referee.identity, agreed)
        first = messages.Terms.parse(curator.open_run(again).message)
        assert first.share == messages.Terms.parse(curator.open_run(again).message).share
        for number in range(20):
            tried = agreed.order[0].model_copy(update={"sha256": commitment(f"secret {number}")})
            other = agreed.model_copy(update={"order": (tried,)})
            with pytest.raises(BudgetExceeded, match="belongs to run 'run'"):
                curator.open_run(seal(bench.referee.identity, other))


def with_share(bodies: Bodies) -> str:
    return f"{bodies[-1][1]['order']['0']}+{bodies[1][1]['terms']['message']['share']}"


OTHER, ANOTHER = "f" * 64, "terms are for another configuration"
SHA256 = (0, "configuration", "order", 0, "sha256")
OPENINGS: dict[str, tuple[str, Callable[[Bodies], Bodies]]] = {
    "opens another secret": ("not the one committed to", lie((-1, "order", "0", OTHER))),
    "opens with the share": ("not the one committed to", lambda b: lie((-1, "order", "0", with_share(b)))(b)),
    "commits when it knows the share": (ANOTHER, lie((*SHA256, commitment(OTHER)), (-1, "order", "0", OTHER))),
    "opens nothing": ("whose seed was not published", lie((-1, "order", {}))),
    "changes the share": ("does not verify", lie((1, "terms", "message", "share", "0" * 64))),
    "hides the share": ("does not verify", lie((1, "terms", "message", "share", ...))),
    "has the share come after the first messages": ("does not belong here", lambda b: [b[0], *b[2:4], b[1], *b[4:]]),
    "opens what is no seed": (ANOTHER, lie((*SHA256, commitment("a/b")), (-1, "order", "0", "a/b"))),
}


def test_openings_that_are_wrong_or_out_of_order_are_caught(run, tmp_path):
    caught_of(OPENINGS, run, tmp_path)


# What one run tells of another --------------------------------------------------------------------------------------


def test_the_transcript_of_one_run_tells_nothing_of_the_next_ones_order(tmp_path):
    with secret(tmp_path) as bench:
        first = carry(bench)
        one, told = asked(bench, "run"), (first / "transcript.jsonl").read_text()
        second = carry(bench, "second")
        two = asked(bench, "second")
        assert asked(bench, "run") == one
        whole = bench.referee.store.cohorts()[0].seed
    assert audit(first).choosers == audit(second).choosers == (BOTH,)
    assert not set(one) & set(two)
    # The secret of the second run's layer is not in the first one's transcript, and with what is there its agents
    # come in another order: of the hundreds of places, those where both agree are as many as by chance.
    layers = order.read_layers(whole)
    assert not any(part in told for part in layers[-1].key.split("+"))
    below = Order(order.write_layers(layers[:-1]), 4800).slice(len(one), len(two))
    assert int(np.sum(below == np.array(two))) <= 8  # about one in 3,600 places
    both, left, n = len(set(below.tolist()) & set(two)), 4800 - len(one), len(two)
    mean, deviation = n * n / left, (n * n / left * (1 - n / left)) ** 0.5
    assert abs(both - mean) < 5 * deviation  # nor does it tell who is among them


def test_only_seeds_that_were_used_are_published(tmp_path):
    """A run that ends before it asks anybody publishes none, and the next one puts its own in the place."""
    with secret(tmp_path) as bench:
        gate, store = bench._gate, bench.referee.store

        def refuses(signed: Signed) -> Signed:
            raise BudgetExceeded("no", spent=1, requested=1, budget=1)

        honest, gate.open_run = gate.open_run, refuses  # type: ignore[method-assign]
        bench.referee.create("refused", RUN.wire(), None)
        assert bench.referee.execute("refused")["status"] == "refused"
        unused = store.cohorts()[0].seed
        folder = leave_folder(tmp_path / "refused", RUN, 1, bench.finished("refused"))
        gate.open_run = honest  # type: ignore[method-assign]
        run = carry(bench)
        assert unused not in store.cohorts()[0].seed
    assert (entries_of(folder)[-1].body["order"], audit(folder).choosers, audit(run).choosers) == ({}, (), (BOTH,))
    assert unused not in (folder / "transcript.jsonl").read_text()


def halt(signed: Signed | None = None) -> Signed:
    raise Halted


def test_a_run_beside_another_goes_on_in_its_order_and_says_so(tmp_path):
    """The first one is cut off between two of its questions; the second one runs meanwhile; none is asked twice."""
    with secret(tmp_path) as bench:
        bench.referee.create("first", RUN.wire(), None)
        bench.hooks = [lambda: None, lambda: None, halt]
        with pytest.raises(Halted):
            bench.referee.execute("first")
        assert bench.referee.store.run("first").result is None
        second = carry(bench, "second")
        first = carry(bench, "first")
        both = asked(bench, "first") + asked(bench, "second")
    assert len(set(both)) == len(both)
    assert (audit(first).choosers, audit(second).choosers) == ((BOTH,), (BEFORE,))
    assert promised_of(second).shared
    assert "second" in audit(first).others


def test_a_run_begins_only_once_no_other_may_still_change_its_order(tmp_path):
    """The first one has no terms yet: its curator's share would change the order of both."""
    with secret(tmp_path) as bench:
        gate = bench._gate
        honest, gate.open_run = gate.open_run, halt  # type: ignore[method-assign]
        for name in ("first", "second"):
            bench.referee.create(name, RUN.wire(), None)
        with pytest.raises(Halted):
            bench.referee.execute("first")
        gate.open_run = honest  # type: ignore[method-assign]
        bench.meanwhile(halt)
        with pytest.raises(Halted):
            bench.referee.execute("second")
        assert bench.referee.store.run("second").configuration is None
        for name in ("first", "second"):
            assert audit(carry(bench, name)).choosers == (BOTH,)
