"""An issuer: one credential for each code, whatever is tried, and files that tell no code and no request."""

import json
import secrets
from contextlib import closing

import pytest

import issuer.issuer as issuing
from common.core.errors import BadInput, BadMessage, Conflict, Unauthorized
from common.crypto.blindrsa import blind
from common.crypto.identity import Identity
from common.crypto.vouching import check_credential, check_grant, read_issuer, token_input, token_request
from issuer.issuer import InvitationCodes, Issuer, Keys, grant
from local_agent.person.credential import ASKED, CREDENTIAL, held_credential
from tests.vouched import an_issuer, codes, credential

AGENT = Identity.create().public


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "issuer"


@pytest.fixture
def party(folder):
    with an_issuer(folder) as found:
        yield found


@pytest.fixture
def code(party, folder) -> str:
    return codes(folder, 1)[0]


def request(party: Issuer) -> bytes:
    message = token_input(AGENT, secrets.token_bytes(32), party.public.token_key_id)
    return token_request(party.public, blind(party.public.token_key, message).message)


def test_a_request_that_a_crash_has_left_beside_its_credential_is_forgotten(tmp_path, party, code):
    """With what it was blinded by, an issuer could tell whose credential it is."""
    (tmp_path / ASKED).write_text("{}")
    assert held_credential(tmp_path) is None
    assert (tmp_path / ASKED).exists()
    (tmp_path / CREDENTIAL).write_text(json.dumps(credential(party, code, AGENT).wire()))
    assert held_credential(tmp_path) is not None
    assert not (tmp_path / ASKED).exists()


def test_a_code_is_good_for_one_credential(party, code):
    assert check_credential(credential(party, code, AGENT), AGENT, [party.public]) == party.public
    for agent in (AGENT, Identity.create().public):
        with pytest.raises(Conflict, match="one code is good for one credential"):
            credential(party, code, agent)


def test_the_same_request_again_gets_the_same_signature_and_who_has_no_code_nothing(party, code):
    asked = request(party)
    assert party.issue(code, asked) == party.issue(code.lower().replace("-", " "), asked)
    for none in ("", "AAAAAA-AAAAAA-AAAAAA-AAAAAA", "x' OR '1'='1", "\ud800"):
        with pytest.raises(Unauthorized, match="no such invitation code"):
            party.issue(none, request(party))


def test_the_code_is_used_on_disk_before_the_signature_is_made(party, folder, code, monkeypatch):
    asked, seen = request(party), []

    class Crash(BaseException):
        pass

    def crashes(*arguments: object) -> bytes:
        seen.append(InvitationCodes(folder).counts())
        raise Crash

    with monkeypatch.context() as failing:
        failing.setattr(issuing, "blind_sign", crashes)
        with pytest.raises(Crash):
            party.issue(code, asked)
    assert seen == [(1, 1)]
    with pytest.raises(Conflict):
        party.issue(code, request(party))
    assert len(party.issue(code, asked)) == 256


def test_what_is_no_request_uses_no_code(party, folder, code):
    asked = request(party)
    other_key, other_type = asked[:2] + bytes([asked[2] ^ 1]) + asked[3:], b"\x00\x01" + asked[2:]
    for wrong in (b"", asked[:-1], asked + b"\x00", asked[:3] + b"\xff" * 256, other_key, other_type):
        with pytest.raises(BadMessage):
            party.issue(code, wrong)
    assert InvitationCodes(folder).counts() == (1, 0)


def test_a_copy_of_the_codes_lets_nobody_in_and_tells_no_request(party, folder):
    made, asked = codes(folder, 20), request(party)
    party.issue(made[0], asked)
    content = b"".join(path.read_bytes() for path in folder.glob("codes*"))
    plain = {code.replace("-", "") for code in made}
    assert ({len(code) for code in plain}, len(plain)) == ({24}, 20)
    for secret in (*(code.encode() for code in (*made, *plain)), asked[3:40]):
        assert secret not in content


def test_whoever_invites_first_makes_a_directory_of_the_issuers_alone(tmp_path):
    with closing(InvitationCodes(tmp_path / "below" / "fresh")) as fresh:
        fresh.invite(1)
    assert (tmp_path / "below" / "fresh").stat().st_mode & 0o077 == 0


def test_keys_are_kept_and_the_public_ones_are_for_everybody(party, folder):
    assert read_issuer(folder / "issuer.json") == party.public == Keys(folder).public
    fresh = folder.parent / "fresh"
    assert Keys(fresh).public == Keys(fresh).public != party.public
    assert all((fresh / name).stat().st_mode & 0o077 == 0 for name in ("tokens.key", "grants.key"))
    (folder / "tokens.key").write_bytes(b"no key")
    with pytest.raises(BadInput, match="RSA key of 2048 bits"):
        Keys(folder)


def test_one_process_serves_from_a_directory_and_others_invite_and_grant(party, folder):
    with pytest.raises(BadInput, match="in use by another process"):
        Issuer(folder)
    signed = grant(folder, AGENT, "City Hospital", 5000)
    assert check_grant(signed, AGENT, 5000, [party.public])[1].people == 5000
    for wrong in (("no key", "x", 5), (AGENT, "a\nb", 5), (AGENT, "", 5), (AGENT, "x", 0)):
        with pytest.raises(BadMessage):
            grant(folder, *wrong)


@pytest.mark.parametrize("lost", ["tokens.key", "grants.key"])
def test_a_lost_key_that_was_replaced_is_stated_and_the_old_one_kept_for_audits(folder, caplog, lost):
    before = Keys(folder).public
    Keys(folder)
    assert not caplog.records
    raw = (folder / "issuer.json").read_bytes()
    (folder / lost).unlink()
    for _ in range(2):  # the second time it is as it was
        now = Keys(folder).public
        assert now != before
        assert read_issuer(folder / "issuer.json") == now
    (told,) = (record.getMessage() for record in caplog.records)
    (kept,) = folder.glob("issuer-*.json")
    assert (read_issuer(kept), kept.read_bytes()) == (before, raw)
    assert kept.name in told
    with closing(Issuer(folder)) as party:
        (code,) = codes(folder, 1)
        assert check_credential(credential(party, code, AGENT), AGENT, [read_issuer(folder / "issuer.json")]) == now


def test_public_keys_that_were_cut_off_are_written_anew(folder, caplog):
    keys = Keys(folder).public
    (folder / "issuer.json").write_text("{")
    assert Keys(folder).public == keys == read_issuer(folder / "issuer.json")
    assert len(caplog.records) == 1
    assert [path.read_text() for path in folder.glob("issuer-*.json")] == ["{"]
