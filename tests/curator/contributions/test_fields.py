"""What a person contributes is the row that they would be in a file, of one length, and refused where it is none."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core.errors import BadData, BadMessage, Conflict, Forged, NotFound, PolicyRefused, TandemError
from common.crypto.identity import Identity, Signed
from common.data.loading import load
from common.data.tables import TableSource, record_of
from curator.cli import app as curator_command
from curator.contributions import collection as limits
from curator.contributions import messages
from curator.contributions.collection import Collection, collecting, new_invitations
from curator.contributions.messages import Offer
from curator.contributions.store import FILE
from tests.curator.contributions import given
from tests.curator.contributions.given import CONTRIBUTED, PEOPLE, TABLE, TOKEN, Direct, give, person, rows, sealable
from tests.curator.contributions.test_collection import withdrawal
from tests.tiers import for_each

SOURCE = TableSource.parse(CONTRIBUTED)
ONE = {"visits": 12, "plan": "family", "renews": "yes"}


def test_what_is_read_again_is_the_record_of_a_files_row_to_the_bit(tmp_path):
    people = rows()
    given.write(tmp_path / "people.csv", people)
    loaded = load(tmp_path, TableSource.parse({**TABLE, "files": ["people.csv"]}))
    for place, one in enumerate(people):
        texts = messages.read_fields(sealable(one, SOURCE), SOURCE)
        record = record_of(texts, SOURCE)
        np.testing.assert_array_equal(record.features[0], loaded.features[place])
        assert record.labels[0] == loaded.labels[place]


def test_all_records_of_a_table_have_one_length_before_they_are_sealed():
    lengths = {len(sealable(person, SOURCE)) for person in rows(200)}
    longest = {**ONE, "visits": "0.000000000000000000000000000001", "plan": "professional"}
    lengths |= {len(sealable(longest, SOURCE))}
    assert lengths == {messages.record_length(SOURCE)}


@for_each(("change", "said"), [
    ({"visits": 31}, "field 'visits' is beyond the public bounds 0 to 30"),
    ({"visits": -1e-9}, "field 'visits' is beyond the public bounds"),
    *(({"visits": text}, "field 'visits' must be a finite number") for text in ("many", "1e999")),
    ({"visits": "1" + 32 * "0"}, "field 'visits': a number has at most 32 characters"),
    ({"visits": [1]}, "field 'visits' must be a number, a text, a boolean or null"),
    ({"plan": "gold"}, 'field \'plan\' must be one of "basic", "family", "professional", "pro", or null'),
    ({"renews": "maybe"}, "field 'renews': the label must be one of yes, no"),
    ({"renews": None}, "field 'renews': the label"),
])  # fmt: skip
def test_a_record_that_is_none_is_refused_before_it_is_sealed_and_no_value_is_shown(change, said):
    with pytest.raises(BadData) as refused:
        messages.checked_fields({**ONE, **change}, SOURCE)
    assert refused.value.detail.startswith(said)
    for value in change.values():
        assert value is None or str(value) not in refused.value.detail.replace("0 to 30", "")


def test_a_label_above_a_number_has_its_length_too():
    source = TableSource.parse({**CONTRIBUTED, "label": {"column": "income", "above": 50}})
    person = {**ONE, "income": "0." + 30 * "1"}
    assert len(sealable(person, source)) == messages.record_length(source)
    with pytest.raises(BadData, match="'income': a number has at most"):
        messages.checked_fields({**ONE, "income": "0." + 31 * "1"}, source)


GOOD = sealable(ONE, SOURCE)


@for_each("plaintext", [
    b"", b"\xff" * len(GOOD), b"[" * len(GOOD), b'"text"'.ljust(len(GOOD)), GOOD[:-1], GOOD + b" ", b" " + GOOD[:-1],
    GOOD.replace(b'"12"', b"12  "), GOOD.replace(b'"12"', b'"99"'), GOOD.replace(b'"yes"', b"null "),
    GOOD.replace(b"family", b"golden"), GOOD.replace(b"visits", b"wisits"),
    GOOD.replace(b"{", b'{"a":1,')[: len(GOOD)],
])  # fmt: skip
def test_a_curator_takes_nothing_but_records_of_the_table_and_says_the_same_of_all_others(plaintext):
    with pytest.raises(BadData, match=r"^the sealed record is none that the offer's table describes: nothing of it"):
        messages.read_fields(plaintext, SOURCE)


PRIVATE = bytes(range(32))
CURATOR, PERSON, NAME = "c" * 64, "a" * 64, "0" * 32


def offer(title: str = "t") -> Offer:
    about = {"scenario": "s", "title": title, "policy": "0" * 64, "table": CONTRIBUTED, "people": 24}
    promised = {"guarantee": {"epsilon": 1.0, "delta": 1e-6}, "public_key": messages.public_key_of(PRIVATE)}
    return Offer.parse({**about, **promised})


def test_nothing_else_opens_it_and_what_is_wrong_is_not_said():
    sealed = messages.seal(b"record", offer(), CURATOR, NAME, PERSON)
    assert messages.open_contribution(sealed, PERSON, PRIVATE) == b"record"
    offers = [{"offer": other} for other in ("d" * 64, offer(title="another").fingerprint())]
    bytes_of = [{"sealed": text} for text in (base64.b64encode(bytes(100)).decode(), "AAAA", "A")]
    changes = [{"curator": "d" * 64}, {"contribution": "1" * 32}, *offers, *bytes_of]
    cases = [*((change, PERSON, PRIVATE) for change in changes), ({}, "b" * 64, PRIVATE), ({}, PERSON, b"\x01" * 32)]
    for change, contributor, private in cases:
        with pytest.raises(BadMessage, match=r"^this contribution cannot be opened: it was sealed to another key"):
            messages.open_contribution(sealed.model_copy(update=change), contributor, private)


def signed(collection: Collection, identity: Identity, number: int, record: Any = ONE) -> Signed:
    return given.sealed(collection, identity, f"{number:032x}", record)


def come_and_go(collection: Collection, name: int) -> Signed:
    """Let a stranger contribute and withdraw at once; return what was contributed."""
    stranger = Identity.create()
    sent = signed(collection, stranger, name)
    collection.accept(sent)
    collection.withdraw(withdrawal(sent, stranger))
    return sent


def honest(folder: Path, collection: Collection, tokens: list[str]) -> None:
    """Let as many honest people contribute as there are places."""
    for place, (record, token) in enumerate(zip(rows(PEOPLE), tokens, strict=True)):
        give(folder / str(place), collection, record, token)
    assert collection.counts()[0] == PEOPLE


def test_what_is_not_kept_costs_nobody_a_place(tmp_path, collection):
    """Ten times as many as there are places: withdrawals of nothing, records that are none, and forgeries."""
    file = tmp_path / "curator" / "contributions" / FILE
    size = file.stat().st_size
    for number in range(10 * PEOPLE):
        stranger = Identity.create()
        sent = signed(collection, stranger, number)
        with pytest.raises(NotFound, match="nothing was deleted or stored"):
            collection.withdraw(withdrawal(sent, stranger))
        for amiss, problem in (
            (signed(collection, stranger, number, b"{}"), BadData),
            (signed(collection, stranger, number, b" " * 4096), BadData),
            (Identity.create().sign(sent.kind, sent.message), BadMessage),
            (sent.model_copy(update={"key": Identity.create().public}), Forged),
        ):
            with pytest.raises(problem):
                collection.accept(amiss)
    assert (collection.counts(), file.stat().st_size) == ((0, 0), size)
    honest(tmp_path, collection, [TOKEN] * PEOPLE)


def test_who_comes_and_goes_with_fresh_keys_costs_nobody_a_place(tmp_path, collection):
    """Each is kept for a moment, and its withdrawal is remembered, so that nobody can bring the record back."""
    for number in range(3 * PEOPLE):
        with pytest.raises(Conflict, match="has withdrawn"):
            collection.accept(come_and_go(collection, number))
    assert collection.counts() == (0, 3 * PEOPLE)
    honest(tmp_path, collection, [TOKEN] * PEOPLE)


def test_what_is_remembered_is_bounded_and_who_was_invited_is_still_admitted(tmp_path, collection, monkeypatch):
    monkeypatch.setattr(limits, "MAX_TOKEN_WITHDRAWALS", 20)
    codes = new_invitations(tmp_path / "curator", PEOPLE - 1)
    for number in range(20):
        come_and_go(collection, number)
    with pytest.raises(PolicyRefused, match="20 records that were given with the shared token were withdrawn"):
        collection.accept(signed(collection, Identity.create(), 20))
    assert collection.counts() == (0, 20)
    for place, code in enumerate(codes):
        give(tmp_path / str(place), collection, ONE, code)
    assert collection.counts() == (PEOPLE - 1, 20)


def test_the_shared_token_takes_no_place_of_those_who_were_invited(tmp_path, collection):
    codes = new_invitations(tmp_path / "curator", PEOPLE - 3)
    for number in range(3):
        collection.accept(signed(collection, Identity.create(), number))
    for number in range(3, 2 * PEOPLE):
        with pytest.raises(PolicyRefused, match="belong to those who were invited"):
            collection.accept(signed(collection, Identity.create(), number))
    assert collection.counts() == (3, 0)
    for place, code in enumerate(codes):
        give(tmp_path / str(place), collection, ONE, code.lower().replace("-", " "))
    assert collection.counts() == (PEOPLE, 0)
    with pytest.raises(PolicyRefused, match=f"all of its {PEOPLE} places are taken"):
        give(tmp_path / "late", collection, ONE)


def test_a_code_is_good_for_one_record(tmp_path, collection):
    mine, other = new_invitations(tmp_path / "curator", 2)
    me = give(tmp_path / "me", collection, ONE, mine)
    again = me.contribute(ONE, Direct(collection), mine, lambda offer, texts: False)
    assert again.message["status"] == "kept"
    with pytest.raises(PolicyRefused, match="good for one: withdraw that one first"):
        give(tmp_path / "twice", collection, ONE, mine)
    for change in range(limits.MAX_CODE_WITHDRAWALS):
        me.withdraw(Direct(collection), "")
        if change + 1 < limits.MAX_CODE_WITHDRAWALS:
            me = give(tmp_path / f"mind {change}", collection, ONE, mine)
    with pytest.raises(PolicyRefused, match="as many as may be: ask the curator for another code"):
        give(tmp_path / "once more", collection, ONE, mine)
    give(tmp_path / "other", collection, ONE, other)
    assert collection.counts() == (1, limits.MAX_CODE_WITHDRAWALS)


def test_a_withdrawal_of_what_has_not_come_sends_it_first_so_that_it_cannot_come_later(tmp_path, collection):
    """Also where all places are taken, or the token is wrong: then nothing is said to be deleted."""
    held_back: list[Signed] = []

    class Away(Direct):
        def contribute(self, sent: Signed, token: str) -> Signed:
            held_back.append(sent)
            raise NotFound("lost")

    (code,) = new_invitations(tmp_path / "curator", 1)
    me = person(tmp_path / "me", collection)
    with pytest.raises(NotFound):
        me.contribute(ONE, Away(collection), code, lambda offer, texts: True)
    for token in ("", "wrong-token"):
        with pytest.raises(TandemError, match="neither token nor code"):
            me.withdraw(Direct(collection), token)
    assert collection.counts() == (0, 0)
    assert me.withdraw(Direct(collection), code).message["status"] == "withdrawn"
    with pytest.raises(Conflict, match="has withdrawn"):
        collection.accept(held_back[0], str(collection.admits(code)))


def test_the_command_prints_codes_once_and_keeps_hashes_alone(tmp_path):
    with collecting(tmp_path / "curator", given.scenario(tmp_path)) as uninvited:
        assert not uninvited.admits_people
        done = CliRunner().invoke(curator_command, ["invite", "--count", "3", "--state", str(tmp_path / "curator")])
        codes = done.stdout.split()
        assert (done.exit_code, len(set(codes)), uninvited.admits_people) == (0, 3, True)
        assert all(uninvited.admits(code) for code in codes)
        assert uninvited.admits("") is None
    files = b"".join(path.read_bytes() for path in (tmp_path / "curator").rglob("*") if path.is_file())
    assert not any(code.encode() in files for code in codes)
