"""A witness's file of a run: it takes what goes further, gives the same word again, and never goes back."""

from __future__ import annotations

import pytest

from common.core.errors import BadMessage, BrokenLedger, Forged, RolledBack
from common.crypto.identity import Identity, verify
from common.log.entries import START
from common.log.receipts import StoredCheckpoint, Witnessed, signed_checkpoint
from common.log.transcript import Entry, append
from referee.state.witness_log import WitnessLog

REFEREE = Identity.create()
DIGEST = "d" * 64


def transcript(*kinds: str) -> list[Entry]:
    entries: list[Entry] = []
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
    return [StoredCheckpoint.model_validate_json(line) for line in log.kept(REFEREE.public, "run", 0, 10)]


def word(signed) -> Witnessed:
    return Witnessed.parse(verify(signed, Witnessed.KIND))


def test_words_are_one_chain_with_times_that_never_go_back(log):
    said = [word(log.keep(REFEREE.public, "run", checkpoint(ENTRIES[:n]))) for n in (1, 2, 4)]
    assert [w.position for w in said] == [0, 1, 2]
    assert [w.previous for w in said] == [START, said[0].fingerprint(), said[1].fingerprint()]
    assert [w.time for w in said] == [100, 200, 200]
    kept = kept_in(log)
    assert [each.said().entries for each in kept] == [1, 2, 4]
    assert [next(iter(each.seen().values())) for each in kept] == said
    assert [StoredCheckpoint.model_validate_json(line) for line in log.kept(REFEREE.public, "run", 1, 1)] == kept[1:2]
    assert log.kept(REFEREE.public, "other", 0, 10) == []


def test_the_same_entries_again_get_the_same_word_whenever_they_were_signed(log):
    first = log.keep(REFEREE.public, "run", checkpoint(ENTRIES[:2]))
    assert log.keep(REFEREE.public, "run", checkpoint(ENTRIES[:2])) == first
    assert log.keep(REFEREE.public, "run", checkpoint(ENTRIES[:2], now=99)) == first
    assert len(log.kept(REFEREE.public, "run", 0, 10)) == 1


@pytest.mark.parametrize(
    "other",
    [
        checkpoint(ENTRIES[:1]),
        checkpoint(transcript("configuration", "operation")),
        checkpoint(ENTRIES[:3], configuration="e" * 64),
    ],
    ids=["older", "another history", "another configuration"],
)
def test_nothing_goes_back(log, other):
    log.keep(REFEREE.public, "run", checkpoint(ENTRIES[:2]))
    with pytest.raises(RolledBack, match="has seen 2 entries"):
        log.keep(REFEREE.public, "run", other)
    assert len(log.kept(REFEREE.public, "run", 0, 10)) == 1


def test_only_the_referee_of_a_run_speaks_of_it(log):
    with pytest.raises(Forged):
        log.keep(REFEREE.public, "run", checkpoint(ENTRIES, signer=Identity.create()))
    with pytest.raises(BadMessage, match="not of 'other'"):
        log.keep(REFEREE.public, "other", checkpoint(ENTRIES))
    for key, run in (("../../etc", "run"), (REFEREE.public, "../run")):
        with pytest.raises(BadMessage):
            log.kept(key, run, 0, 1)


def test_a_line_that_was_cut_off_was_never_acknowledged_and_is_replaced(log, tmp_path):
    log.keep(REFEREE.public, "run", checkpoint(ENTRIES[:1]))
    path = tmp_path / REFEREE.public / "run.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"checkpoint": {"kind": "ch')
    assert len(log.kept(REFEREE.public, "run", 0, 10)) == 1
    log.keep(REFEREE.public, "run", checkpoint(ENTRIES[:2]))
    assert path.read_bytes().startswith(whole)
    assert [each.said().entries for each in kept_in(log)] == [1, 2]


def test_a_file_that_was_edited_is_said_so(log, tmp_path):
    log.keep(REFEREE.public, "run", checkpoint(ENTRIES[:1]))
    (tmp_path / REFEREE.public / "run.jsonl").write_bytes(b"{}\n")
    with pytest.raises(BrokenLedger, match="edited"):
        log.keep(REFEREE.public, "run", checkpoint(ENTRIES[:2]))


def test_a_word_for_another_checkpoint_is_none_for_this(log):
    other = log.keep(REFEREE.public, "run", checkpoint(ENTRIES[:1]))
    with pytest.raises(Forged, match="another checkpoint"):
        StoredCheckpoint(checkpoint=checkpoint(ENTRIES[:2]), witnessed=(other,)).seen()
