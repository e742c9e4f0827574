"""The lease of the driver, by the clock of the database, when that clock jumps."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from typer.testing import CliRunner

from common.core.errors import BadInput, BadMessage, BrokenLedger, Forged, RolledBack
from common.crypto.identity import Identity, verify
from common.log.entries import START
from common.log.receipts import StoredCheckpoint, Witnessed, signed_checkpoint
from common.log.transcript import SignedEntry, append
from referee.cli import app
from referee.service.referee import Referee, RefereeSettings
from referee.store import FAR, RefereeStore, backup
from referee.witness_log import WitnessLog
from tests.clocks import Clock
from tests.support import TOKEN

NO_CURATOR: Any = None


def test_a_clock_that_jumps_keeps_nobody_waiting_and_lets_one_drive(tmp_path, monkeypatch):
    clock = Clock(1_000_000.0)
    monkeypatch.setattr("time.time", clock)
    url = f"sqlite:///{tmp_path}/shared.sqlite"
    with closing(RefereeStore(url)) as first, closing(RefereeStore(url)) as second:
        assert first.take_lease("first", 10.0)
        clock.now -= 10.0 * (FAR - 2)  # one that is a little behind is waited for
        assert not second.take_lease("second", 10.0)
        clock.now -= 86_400.0
        assert first.take_lease("first", 10.0)  # a driver whose own clock was put back drives on
        assert first.fence == 1
        assert second.take_lease("second", 10.0)
        assert (second.fence, second.lease_left()) == (2, 10.0)
        first.renew_lease(10.0)  # it learns that it was replaced
        assert first.fence is None
        clock.now += 86_400.0
        assert first.take_lease("first", 10.0)
        second.renew_lease(10.0)
        assert (first.fence, second.fence) == (3, None)


def test_a_referee_starts_from_a_copy_that_was_made_while_it_served(tmp_path):
    """The copy is of one moment: of what is in the write-ahead log, and of nothing that is under way or comes later."""
    state, copy = tmp_path / "referee", tmp_path / "copy"
    with closing(Referee(state, NO_CURATOR)) as live, closing(sqlite3.connect(state / "referee.sqlite")) as other:
        live.allow("enrolment", TOKEN)
        before = live.identity.public
        other.execute("BEGIN IMMEDIATE")
        other.execute("DELETE FROM tokens")  # under way, not committed
        backup(state, copy)
        other.rollback()
        live.allow("operator", "a-later-operator")
    assert not any(path.stat().st_mode & 0o077 for path in (copy, copy / "identity.key"))
    with closing(Referee(copy, NO_CURATOR)) as again:
        assert again.identity.public == before
        again.authorize("enrolment", TOKEN)
        assert {purpose for purpose, _ in again.store.tokens()} == {"enrolment"}


def test_a_key_elsewhere_comes_along_and_what_is_no_referee_is_refused(tmp_path):
    key, state = tmp_path / "keys" / "referee.key", tmp_path / "referee"
    with closing(Referee(state, NO_CURATOR, settings=RefereeSettings(key=key))) as live:
        public = live.identity.public
    with pytest.raises(BadInput, match="--key"):
        backup(state, tmp_path / "copy")
    outcome = CliRunner().invoke(app, ["backup", str(tmp_path / "copy"), "--state", str(state), "--key", str(key)])
    assert (outcome.exit_code, "state directory to start from" in outcome.output) == (0, True)
    with closing(Referee(tmp_path / "copy", NO_CURATOR)) as again:
        assert again.identity.public == public
    with pytest.raises(BadInput, match="is not empty"):
        backup(state, tmp_path / "copy", key)
    with pytest.raises(BadInput, match="pg_dump"):
        backup(tmp_path / "keys", tmp_path / "other")


REFEREE = Identity.create()
DIGEST = "d" * 64


def transcript(*kinds: str) -> list[SignedEntry]:
    entries: list[SignedEntry] = []
    for kind in kinds:
        entries.append(append(entries[-1] if entries else None, kind, {}, REFEREE))
    return entries


ENTRIES = transcript("configuration", "question", "answers", "result")


def checkpoint(entries, now=10, run="run", signer=REFEREE, configuration=DIGEST):
    return signed_checkpoint(signer, run, configuration, entries, now)


@pytest.fixture
def log(tmp_path):
    times = iter([100.0, 200.5, 150.0, 300.0, 400.0])
    return WitnessLog(tmp_path, Identity.create(), lambda: next(times))


def kept_in(log) -> list[StoredCheckpoint]:
    return log.kept(REFEREE.public, "run")


def word(signed) -> Witnessed:
    return Witnessed.parse(verify(signed, Witnessed.KIND))


def test_words_are_one_chain_with_times_that_never_go_back(log):
    said = [word(log.keep(checkpoint(ENTRIES[:n]))) for n in (1, 2, 4)]
    assert [w.position for w in said] == [0, 1, 2]
    assert [w.previous for w in said] == [START, said[0].fingerprint(), said[1].fingerprint()]
    assert [w.time for w in said] == [100, 200, 200]
    kept = kept_in(log)
    assert [each.verified().entries for each in kept] == [1, 2, 4]
    assert [next(iter(each.seen().values())) for each in kept] == said
    assert [StoredCheckpoint.model_validate_json(line) for line in log.lines(REFEREE.public, "run", 1, 1)] == kept[1:2]
    assert log.kept(REFEREE.public, "other") == []


def test_the_same_entries_again_get_the_same_word_whenever_they_were_signed_and_nothing_goes_back(log):
    first = log.keep(checkpoint(ENTRIES[:2]))
    assert log.keep(checkpoint(ENTRIES[:2])) == log.keep(checkpoint(ENTRIES[:2], now=99)) == first
    for other in (
        checkpoint(ENTRIES[:1]),
        checkpoint(transcript("configuration", "operation")),
        checkpoint(ENTRIES[:3], configuration="e" * 64),
    ):
        with pytest.raises(RolledBack, match="has seen 2 entries"):
            log.keep(other)
    assert len(kept_in(log)) == 1


def test_only_the_referee_of_a_run_speaks_of_it(log):
    log.keep(checkpoint(ENTRIES, signer=Identity.create()))
    assert kept_in(log) == []
    for key, run in (("../../etc", "run"), (REFEREE.public, "../run")):
        with pytest.raises(BadMessage):
            log.kept(key, run)


def test_a_line_that_was_cut_off_was_never_acknowledged_and_is_replaced_and_an_edited_one_is_refused(log, tmp_path):
    log.keep(checkpoint(ENTRIES[:1]))
    path = tmp_path / REFEREE.public / "run.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"checkpoint": {"kind": "ch')
    assert len(kept_in(log)) == 1
    log.keep(checkpoint(ENTRIES[:2]))
    assert path.read_bytes().startswith(whole)
    assert [each.verified().entries for each in kept_in(log)] == [1, 2]
    path.write_bytes(b"{}\n")
    with pytest.raises(BrokenLedger, match="edited"):
        log.keep(checkpoint(ENTRIES[:3]))


def test_a_folder_that_is_gone_takes_nothing(tmp_path):
    own = Identity.create()
    WitnessLog(tmp_path / "to be made", own).check_writable()
    with pytest.raises(PermissionError):
        WitnessLog(tmp_path / "gone" / "too", own).check_writable()


def test_a_word_for_another_checkpoint_is_none_for_this(log):
    other = log.keep(checkpoint(ENTRIES[:1]))
    with pytest.raises(Forged, match="another checkpoint"):
        StoredCheckpoint(checkpoint=checkpoint(ENTRIES[:2]), witnessed=(other,)).seen()
