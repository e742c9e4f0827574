"""The certificate maker: what each certificate may be used for, by whom, and what a second call does."""

import datetime
import stat

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from common.core.errors import BadInput
from common.net.certificates import CLIENTS, OWN_NAMES, SERVERS, check_holds, make_all, names_of, read
from tests.certified import PAST, circle
from tests.tiers import for_each


def usages(path) -> list[x509.ObjectIdentifier]:
    return list(read(path).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_each_party_gets_its_directory_and_no_key_of_another_one(tmp_path):
    folder = circle(tmp_path)
    held = {f"{p.parent.name}/{p.name}" for p in folder.glob("*/*")}
    assert held == {
        "authority/ca.pem",
        "authority/ca.key",
        *(f"{party}/ca.pem" for party in (*SERVERS, "monitor", "public")),
        *(f"{party}/server.{kind}" for party in SERVERS for kind in ("pem", "key")),
        *(f"{party}/client.{kind}" for party in CLIENTS for kind in ("pem", "key")),
    }
    for key in folder.glob("*/*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700


def test_a_servers_certificate_is_no_clients_and_the_other_way_round(tmp_path):
    folder = circle(tmp_path)
    authority = read(folder / "authority" / "ca.pem")
    for party in SERVERS:
        assert usages(folder / party / "server.pem") == [ExtendedKeyUsageOID.SERVER_AUTH]
    for party in CLIENTS:
        assert usages(folder / party / "client.pem") == [ExtendedKeyUsageOID.CLIENT_AUTH]
    for path in folder.glob("*/*.pem"):
        found = read(path)
        found.verify_directly_issued_by(authority)
        constraints = found.extensions.get_extension_for_class(x509.BasicConstraints)
        assert constraints.critical
        assert constraints.value.ca == (path.name == "ca.pem")


def test_names_are_those_of_the_party_and_of_its_machine(tmp_path):
    names = names_of(["all.example", "referee=203.0.113.7"])
    make_all(tmp_path, names)
    shown = read(tmp_path / "referee" / "server.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName)
    said = [*shown.value.get_values_for_type(x509.DNSName), *map(str, shown.value.get_values_for_type(x509.IPAddress))]
    assert set(said) == {"referee", *OWN_NAMES, "all.example", "203.0.113.7"}
    assert "203.0.113.7" not in names["curator"]


@for_each("host", ["", "referee=", "nobody=x", "a b", "x..y", "x" * 300, "curator=a=b", "straße"])
def test_a_name_that_is_none_is_refused(host):
    with pytest.raises(BadInput, match=r"host"):
        names_of([host])


def test_what_ends_soon_has_other_names_or_lost_its_key_is_made_anew(tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    circle(tmp_path, days=397, now=now - datetime.timedelta(days=380))
    fresh = {made.path.relative_to(tmp_path).as_posix() for made in make_all(tmp_path, names_of([])) if made.fresh}
    assert fresh == {f"{p}/server.pem" for p in SERVERS} | {f"{p}/client.pem" for p in CLIENTS}
    (tmp_path / "referee" / "client.key").unlink()
    made = make_all(tmp_path, names_of(["witness=w.example"]))
    assert {m.path.relative_to(tmp_path).as_posix() for m in made if m.fresh} == {
        "referee/client.pem",
        "witness/server.pem",
    }


def test_the_same_call_again_changes_nothing_and_another_authority_replaces_all(tmp_path):
    folder = circle(tmp_path)
    before = {path: path.read_bytes() for path in folder.glob("*/*")}
    assert not any(made.fresh for made in make_all(folder, names_of([])))
    assert {path: path.read_bytes() for path in folder.glob("*/*")} == before
    for name in ("ca.pem", "ca.key"):
        (folder / "authority" / name).unlink()
    assert all(made.fresh for made in make_all(folder, names_of([])))
    assert (folder / "public" / "ca.pem").read_bytes() == (folder / "authority" / "ca.pem").read_bytes()


def test_no_certificate_outlives_its_authority(tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    circle(tmp_path, now=now - datetime.timedelta(days=3600))
    ends = {made.ends.replace(microsecond=0) for made in make_all(tmp_path, names_of([]), now=now)}
    assert ends == {read(tmp_path / "authority" / "ca.pem").not_valid_after_utc}


def test_an_authority_that_cannot_be_used_is_said_so(tmp_path):
    folder = circle(tmp_path / "a")
    key = folder / "authority" / "ca.key"
    for content, why in (
        ((folder / "referee" / "server.key").read_bytes(), "ca.key is not the key of "),
        (b"nothing", "ca.key cannot be read: it is no key in PEM"),
        (None, "ca.key cannot be read: No such file"),
    ):
        key.unlink() if content is None else key.write_bytes(content)
        with pytest.raises(BadInput, match=why):
            make_all(folder, names_of([]))
    ended = circle(tmp_path / "b", now=datetime.datetime(2010, 1, 1, tzinfo=datetime.UTC))
    with pytest.raises(BadInput, match=r"the certificate of this authority \(.*\) ended on 2019-12-30"):
        make_all(ended, names_of([]))


def test_a_certificate_that_does_not_hold_is_said_so_with_the_day(tmp_path):
    folder = circle(tmp_path, now=PAST)
    with pytest.raises(BadInput, match=r"of this referee .* ended on 2021-02-01: make another \(referee certificates"):
        check_holds(folder / "referee" / "server.pem", "this referee")
    with pytest.raises(BadInput, match=r"begins on 2019-12-31: set this machine's clock"):
        check_holds(folder / "referee" / "server.pem", "this referee", PAST - datetime.timedelta(days=3))
    with pytest.raises(BadInput, match=r"it is no certificate in PEM"):
        check_holds(folder / "referee" / "server.key", "this referee")
