"""The last release of a run is countersigned too: the referee acknowledges it, and the curator stores that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from common.core.errors import ConfigurationMismatch, Forged, PeerUnavailable, RolledBack
from common.crypto.identity import Identity, Signed, verify
from common.log.ledger import Entry
from common.wire import messages
from curator.service.curator import Curator
from curator.service.startup import open_curator
from curator.state.ledger import listed
from tests.support import Bench, tiny


def acknowledgements(curator: Curator) -> list[tuple[int, Entry]]:
    return [(n, entry) for n, entry in curator._directory.journal.chain.numbered() if entry.kind == "acknowledgement"]


@pytest.fixture
def ended(tmp_path) -> Iterator[Bench]:
    with Bench(tmp_path) as bench:
        bench.run()
        yield bench


def test_the_referee_countersigns_all_that_was_released(ended):
    [(number, entry)] = acknowledgements(ended.curator)
    chain = ended.curator._directory.journal.chain
    assert number == len(chain)
    signed = Signed.parse(entry.body["acknowledgement"])
    received = messages.Acknowledgement.parse(verify(signed, "acknowledgement", ended.referee.identity.public))
    assert received.seen == chain.head(number - 1)
    assert chain.entries[number - 2].kind == "result"


def test_the_same_again_or_an_older_one_changes_nothing(ended, tmp_path):
    [(number, entry)] = acknowledgements(ended.curator)
    signed, chain = Signed.parse(entry.body["acknowledgement"]), ended.curator._directory.journal.chain
    head = chain.head()
    ended.curator.acknowledge(signed)
    older = {**signed.message, "seen": chain.head(number - 2).wire()}
    ended.curator.acknowledge(ended.referee.identity.sign("acknowledgement", older))
    assert chain.head() == head
    ended.curator.close()
    with closing(open_curator(tiny(), tmp_path / "curator", 1, None)) as again:
        again.acknowledge(signed)
        assert again._directory.journal.chain.head() == head
    assert listed(tmp_path / "curator")[-1]["referee_had_seen"] == number - 1


def test_strangers_other_runs_and_other_ledgers_are_refused(ended):
    [(_, entry)] = acknowledgements(ended.curator)
    message: dict[str, Any] = entry.body["acknowledgement"]["message"]
    referee = ended.referee.identity
    with pytest.raises(Forged):
        ended.curator.acknowledge(Identity.create().sign("acknowledgement", message))
    with pytest.raises(ConfigurationMismatch):
        ended.curator.acknowledge(referee.sign("acknowledgement", {**message, "run": "other"}))
    forked = {**message, "seen": {**message["seen"], "hash": "0" * 64}}
    with pytest.raises(RolledBack):
        ended.curator.acknowledge(referee.sign("acknowledgement", forked))
    assert len(acknowledgements(ended.curator)) == 1


class Away:
    """A curator that nobody reaches once all is released."""

    def __init__(self, curator: Curator) -> None:
        self.open_run, self.open_share, self.perform = curator.open_run, curator.open_share, curator.perform

    def acknowledge(self, signed: Signed) -> None:
        raise PeerUnavailable("nobody answers")


def test_a_curator_that_is_away_does_not_fail_the_run(tmp_path):
    with Bench(tmp_path, curator=Away) as bench:
        result = bench.run()
        assert result["status"] == "exhausted"  # that is how this scenario ends
        assert acknowledgements(bench.curator) == []
