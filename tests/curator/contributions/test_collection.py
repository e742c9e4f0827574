"""Parties that try: somebody in between, another curator, somebody who contributes twice, or withdraws another's."""

import base64
from typing import Any

import pytest

from common.core import canonical, errors
from common.crypto.identity import Identity, Signed, verify
from common.scenario.scenario import parse
from curator.contributions.collection import FOLDER, Collection, collecting
from curator.contributions.contributor import RECEIPT, SENT, WITHDRAWAL_RECEIPT, Contributor
from curator.contributions.messages import Contribution, ContributionReceipt, Offer, Withdrawal
from curator.contributions.store import FILE, SHARED
from tests.curator.contributions.given import CONTRIBUTED, TABLE, TOKEN, Direct, give, key_in, person, scenario, sealed
from tests.curator.given import full_disk
from tests.tiers import for_each

ONE, OTHER = {"visits": 12, "plan": "family", "renews": "yes"}, {"visits": 1, "plan": None, "renews": "no"}


THIEF = Identity.create()


def agreed(offer, texts):
    return True


def sent(folder) -> Signed:
    return Signed.parse(canonical.decode((folder / SENT).read_bytes())["signed"])


def withdrawal(signed: Signed, identity: Identity, **changes: str) -> Signed:
    named = {name: signed.message[name] for name in ("curator", "offer", "contribution")}
    return identity.sign(Withdrawal.KIND, {**named, **changes})


# What honest people do ----------------------------------------------------------------------------------------------


def test_a_record_is_kept_as_it_was_sealed_and_the_receipt_says_so(tmp_path, collection):
    give(tmp_path / "me", collection, ONE)
    receipt = Signed.parse(canonical.decode((tmp_path / "me" / RECEIPT).read_bytes()))
    said = ContributionReceipt.parse(verify(receipt, ContributionReceipt.KIND, collection.curator))
    assert (said.status, said.contribution) == ("kept", sent(tmp_path / "me").message["contribution"])
    assert collection.counts() == (1, 0)
    for folder in (tmp_path / "me", tmp_path / "curator"):
        everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert b"family" not in everything.replace(collection.offer.raw(), b"")


def test_the_same_again_is_the_same_receipt_and_another_one_is_refused(tmp_path, collection):
    me = give(tmp_path / "me", collection, ONE)
    way = Direct(collection)
    again = me.contribute(ONE, way, TOKEN, lambda offer, texts: pytest.fail("asked twice"))
    assert again.raw() == (tmp_path / "me" / RECEIPT).read_bytes()
    with pytest.raises(errors.BadInput, match="another record"):
        me.contribute(OTHER, way, TOKEN, agreed)
    assert collection.counts() == (1, 0)


def test_what_is_withdrawn_is_overwritten_and_stays_withdrawn(tmp_path, collection):
    me = give(tmp_path / "me", collection, ONE)
    give(tmp_path / "other", collection, OTHER)
    mine = sent(tmp_path / "me").message["sealed"].encode()
    file = tmp_path / "curator" / "contributions" / FILE
    assert mine in file.read_bytes()
    way = Direct(collection)
    first = me.withdraw(way, TOKEN)
    assert first == me.withdraw(way, TOKEN)
    assert (tmp_path / "me" / WITHDRAWAL_RECEIPT).read_bytes() == first.raw()
    assert not any(mine[at : at + 40] in file.read_bytes() for at in range(0, len(mine) - 40, 40))
    assert collection.counts() == (1, 1)
    with pytest.raises(errors.BadInput, match="is withdrawn"):
        me.contribute(ONE, way, TOKEN, agreed)


def test_a_token_is_kept_as_a_hash_alone(tmp_path, collection):
    assert collection.admits(TOKEN) == SHARED
    assert collection.admits(TOKEN + "x") is None
    assert collection.admits("") is None
    files = [path for path in (tmp_path / "curator").rglob("*") if path.is_file()]
    assert files
    assert not any(TOKEN.encode() in path.read_bytes() for path in files)


# Somebody in between ------------------------------------------------------------------------------------------------


@for_each("content", [b"", b"\xff" * 64, b"0" * 63])
def test_a_damaged_hash_of_the_token_is_refused_at_the_start_and_replaced_by_the_token(tmp_path, content):
    chosen = scenario(tmp_path)
    with collecting(tmp_path / "curator", chosen, token=TOKEN):
        pass
    (tmp_path / "curator" / FOLDER / "token").write_bytes(content)
    with pytest.raises(errors.BadInput, match="token"), collecting(tmp_path / "curator", chosen):
        pass
    with collecting(tmp_path / "curator", chosen, token=TOKEN) as again:
        assert again.admits(TOKEN) == SHARED


def test_who_carries_it_reads_nothing_of_it(tmp_path, collection):
    """Also not which of two records it is: both have one length, and every byte of it is pseudorandom."""
    way = Direct(collection)
    for place, record in enumerate((ONE, OTHER)):
        person(tmp_path / str(place), collection).contribute(record, way, TOKEN, agreed)
    first, second = (base64.b64decode(signed.message["sealed"]) for signed in way.seen)
    assert len(first) == len(second)
    assert sum(a == b for a, b in zip(first, second, strict=True)) < len(first) / 8
    assert first[32:64] != second[32:64]


def altered(signed: Signed) -> Signed:
    raw = bytearray(base64.b64decode(signed.message["sealed"]))
    raw[40] ^= 1
    changed = {**signed.message, "sealed": base64.b64encode(bytes(raw)).decode()}
    return signed.model_copy(update={"message": changed})


def stolen(signed: Signed) -> Signed:
    return THIEF.sign(signed.kind, signed.message)


def test_a_contribution_is_of_no_use_at_another_curator_or_for_another_scenario(tmp_path, collection):
    give(tmp_path / "me", collection, ONE)
    for name, chosen in (("another curator", scenario(tmp_path)), ("another title", scenario(tmp_path, title="x"))):
        with collecting(tmp_path / name, chosen, token=TOKEN) as other:
            with pytest.raises(errors.BadMessage, match=r"this is for the offer .* of curator"):
                other.accept(sent(tmp_path / "me"))
            assert other.counts() == (0, 0)


def test_a_curator_that_reads_its_address_loosely_cannot_open_it_either(tmp_path, collection, monkeypatch):
    """The seal itself is bound: not only the check before it."""
    give(tmp_path / "me", collection, ONE)
    me = key_in(tmp_path / "me")
    monkeypatch.setattr(Collection, "_check_address", lambda *arguments: None)
    with collecting(tmp_path / "another", scenario(tmp_path, title="x"), token=TOKEN) as other:
        other._private = collection._private  # even one that has got the same key
        for changes in ({"curator": other.curator}, {"offer": Offer.parse(other.offer.message).fingerprint()}):
            signed = me.sign(Contribution.KIND, {**sent(tmp_path / "me").message, **changes})
            with pytest.raises(errors.BadMessage, match="cannot be opened"):
                other.accept(signed)


def test_a_receipt_of_somebody_else_or_about_something_else_is_not_believed(tmp_path, collection):
    give(tmp_path / "other", collection, OTHER)
    another = Signed.parse(canonical.decode((tmp_path / "other" / RECEIPT).read_bytes()))
    forged = Identity.create().sign(another.kind, another.message)

    class Liar(Direct):
        answer: Signed

        def contribute(self, signed, token):
            super().contribute(signed, token)
            return self.answer

    for answer in (another, forged, collection.offer):
        way = Liar(collection)
        way.answer = answer
        with pytest.raises(errors.Forged):
            person(tmp_path / "me", collection).contribute(ONE, way, TOKEN, agreed)
    assert not (tmp_path / "me" / RECEIPT).exists()


@for_each("change", [altered, stolen, lambda signed: stolen(altered(signed))])
def test_who_carries_it_cannot_change_it_or_sign_it_as_their_own(tmp_path, collection, change):
    """Else somebody's record would be in the sample twice, and be charged once."""
    with pytest.raises((errors.Forged, errors.BadMessage), match=r"does not verify|cannot be opened"):
        person(tmp_path / "me", collection).contribute(ONE, Direct(collection, change), TOKEN, agreed)
    assert collection.counts() == (0, 0)


# People who cheat ---------------------------------------------------------------------------------------------------


def test_nobody_contributes_twice_with_one_key_or_under_anothers_name(tmp_path, collection):
    give(tmp_path / "me", collection, ONE)
    me = key_in(tmp_path / "me")
    taken = sent(tmp_path / "me").message["contribution"]
    for who, name, said in ((me, "1" * 32, "contributed already"), (THIEF, taken, "another contribution has this")):
        with pytest.raises(errors.Conflict, match=said):
            collection.accept(sealed(collection, who, name, b"another"))


def test_who_agrees_in_two_windows_gives_one_record_and_can_still_withdraw_it(tmp_path, collection):
    """What was sealed last would else be on this device, and what was sealed first with the curator."""
    way, me = Direct(collection), person(tmp_path / "me", collection)

    def agreed_there_first(offer, texts):
        give(tmp_path / "me", collection, ONE)
        return True

    receipt = me.contribute(ONE, way, TOKEN, agreed_there_first)
    assert collection.counts() == (1, 0)
    assert receipt.message["contribution"] == sent(tmp_path / "me").message["contribution"]
    me.withdraw(way, TOKEN)
    assert collection.counts() == (0, 1)


def test_nobody_withdraws_anothers(tmp_path, collection):
    give(tmp_path / "me", collection, ONE)
    give(tmp_path / "thief", collection, OTHER)
    mine = sent(tmp_path / "me")
    stranger, thief = Identity.create(), key_in(tmp_path / "thief")
    me = key_in(tmp_path / "me")
    with pytest.raises(errors.Forged, match="another key has signed"):
        collection.withdraw(withdrawal(mine, stranger))
    with pytest.raises(errors.Conflict, match="has another name"):
        collection.withdraw(withdrawal(mine, thief))
    forged = withdrawal(mine, stranger).model_copy(update={"key": me.public})
    with pytest.raises(errors.Forged):
        collection.withdraw(forged)
    with pytest.raises(errors.BadMessage, match="of curator"):
        collection.withdraw(withdrawal(mine, me, curator="f" * 64))
    assert collection.counts() == (2, 0)


def test_another_key_than_the_one_that_is_pinned_gets_nothing(tmp_path, collection):
    """The key is needed at the first contact, whole, and no other one is taken later."""
    with pytest.raises(errors.BadInput, match="--curator-key"):
        Contributor(tmp_path / "me", None)
    for none in ("", "abc", "E" * 64, f"{collection.curator[:-1]} "):
        with pytest.raises(errors.BadInput, match="--curator-key is a public key of 64 hexadecimal digits"):
            Contributor(tmp_path / "me", none)
    assert not (tmp_path / "me").exists()  # what was mistyped is not what this directory belongs to
    assert Contributor(tmp_path / "me", f" {collection.curator}\n").curator == collection.curator
    with pytest.raises(errors.BadInput, match="belongs to another curator"):
        Contributor(tmp_path / "me", "e" * 64)
    assert Contributor(tmp_path / "me", None).curator == collection.curator


# Faults -------------------------------------------------------------------------------------------------------------


def test_what_the_disk_does_not_take_is_not_acknowledged_and_may_be_sent_again(tmp_path, collection):
    me, way = person(tmp_path / "me", collection), Direct(collection)
    me.contribute(ONE, Direct(collection), TOKEN, agreed)
    give(tmp_path / "other", collection, OTHER)
    other = key_in(tmp_path / "other")
    gone = withdrawal(sent(tmp_path / "other"), other)
    signed = sealed(collection, Identity.create(), "3" * 32, ONE)
    with full_disk(1 << 10):
        for deed in (lambda: collection.accept(signed), lambda: collection.withdraw(gone)):
            with pytest.raises(errors.CannotWrite, match="nothing changed") as refused:
                deed()
            assert refused.value.status == 503
    assert collection.counts() == (2, 0)
    assert collection.accept(signed).message["status"] == "kept"
    assert collection.withdraw(gone).message["status"] == "withdrawn"
    assert me.contribute(ONE, way, TOKEN, agreed).message["status"] == "kept"


def test_people_of_files_do_not_contribute(tmp_path):
    of_files = scenario(tmp_path, {**TABLE, "files": ["people.csv"]})
    with pytest.raises(errors.BadInput, match="do not contribute"), collecting(tmp_path / "curator", of_files):
        pass
    assert not (tmp_path / "curator").exists()


# After the run has begun ----------------------------------------------------------------------------------------------


def test_once_the_run_has_begun_nobody_comes_and_nobody_goes(tmp_path, collection):
    me = give(tmp_path / "me", collection, ONE)
    left = give(tmp_path / "left", collection, OTHER)
    gone = left.withdraw(Direct(collection), TOKEN)
    collection.run_begun = True
    with pytest.raises(errors.RunBegun, match="the run has begun, and with it the sample is fixed"):
        me.withdraw(Direct(collection), TOKEN)
    with pytest.raises(errors.RunBegun):
        give(tmp_path / "late", collection, OTHER)
    with pytest.raises(errors.NotFound, match="holds no contribution of this key"):
        person(tmp_path / "late", collection).withdraw(Direct(collection), TOKEN)
    assert me.contribute(ONE, Direct(collection), TOKEN, agreed).message["status"] == "kept"
    assert left.withdraw(Direct(collection), TOKEN) == gone
    assert collection.counts() == (1, 1)


def test_contributions_are_one_table_of_one_process(tmp_path):
    """What a scenario cannot say of contributions."""
    files, whole = {**TABLE, "files": ["customers.csv"]}, scenario(tmp_path).wire()
    assert "contributed" not in whole["target"]["table"]

    def contributed(**more: object) -> dict[str, Any]:
        return {"source": {"table": {**CONTRIBUTED, **more}}}

    condition = "found a condition on .* where people contribute"
    for said, changes in (
        ("contribute to the curator alone", {"target": {"table": CONTRIBUTED}}),
        ("either files, or contributed", contributed(files=["customers.csv"])),
        ("either files, or contributed", {"source": {"table": TABLE}}),
        ("leave it out where people contribute", contributed(selection={"keep": "volunteers", "seed": 1})),
        *((condition, contributed(where={column: ["yes"]})) for column in ("plan", "renews", "region")),
        ("baselines read", {"baselines": ["curator-only"]}),
        ("own process", {"curator": {**whole["curator"], "storage": {"workers": 2}}}),
    ):
        with pytest.raises(errors.BadScenario, match=said):
            parse({**whole, **changes})
    assert parse({**whole, "target": {"table": {**files, "where": {"plan": ["pro"]}}}})


def test_a_device_seals_nothing_for_an_offer_whose_answer_would_tell_a_field(tmp_path, collection):
    """A curator that offers a condition all the same: the offer is refused before the record is touched."""
    tree = Offer.parse(collection.offer.message).wire()
    offer = {**tree, "table": {**tree["table"], "where": {"plan": ["pro"]}}}

    class Curious(Direct):
        def offer(self, curator: str) -> Offer:
            return Offer.parse(offer)

    curious = Curious(collection)
    with pytest.raises(errors.BadMessage, match=r"found a condition on plan"):
        person(tmp_path / "me", collection).contribute(ONE, curious, TOKEN, agreed)
    assert curious.seen == []
