"""The certificate maker: what each certificate may be used for, by whom, and what a second call does."""

import datetime
import stat

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from common.core.errors import BadInput
from common.net.certificates import CLIENTS, OWN_NAMES, SERVERS, check_holds, make_all, names_of, read
from tests.certified import PAST, circle

NOW = datetime.datetime.now(datetime.UTC)


def usages(path) -> list[x509.ObjectIdentifier]:
    return list(read(path).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def fresh(folder, *hosts: str) -> set[str]:
    """Make all again; return what was made anew."""
    made = make_all(folder, names_of(hosts), now=NOW)
    return {each.path.relative_to(folder).as_posix() for each in made if each.fresh}


LEAVES = {f"{p}/server.pem" for p in SERVERS} | {f"{p}/client.pem" for p in CLIENTS}


def test_each_party_gets_its_directory_no_key_of_another_one_and_certificates_for_one_use(tmp_path):
    folder = circle(tmp_path)
    assert {f"{p.parent.name}/{p.name}" for p in folder.glob("*/*")} == {
        "authority/ca.key",
        *(f"{party}/ca.pem" for party in ("authority", *SERVERS, "monitor", "public")),
        *LEAVES,
        *(name.replace(".pem", ".key") for name in LEAVES),
    }
    for key in folder.glob("*/*.key"):
        assert (stat.S_IMODE(key.stat().st_mode), stat.S_IMODE(key.parent.stat().st_mode)) == (0o600, 0o700)
    for name in LEAVES:
        server = name.endswith("server.pem")
        assert usages(folder / name) == [ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH]
    for path in folder.glob("*/*.pem"):
        read(path).verify_directly_issued_by(read(folder / "authority" / "ca.pem"))
        constraints = read(path).extensions.get_extension_for_class(x509.BasicConstraints)
        assert (constraints.critical, constraints.value.ca) == (True, path.name == "ca.pem")


def test_names_are_those_of_the_party_and_of_its_machine(tmp_path):
    names = names_of(["all.example", "referee=203.0.113.7"])
    make_all(tmp_path, names)
    shown = read(tmp_path / "referee" / "server.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName)
    said = [*shown.value.get_values_for_type(x509.DNSName), *map(str, shown.value.get_values_for_type(x509.IPAddress))]
    assert set(said) == {"referee", *OWN_NAMES, "all.example", "203.0.113.7"}
    assert "203.0.113.7" not in names["curator"]

    for host in ("", "referee=", "nobody=x", "a b", "x..y", "x" * 300, "curator=a=b", "straße"):
        with pytest.raises(BadInput, match="host"):
            names_of([host])


def test_what_ends_soon_has_other_names_lost_its_key_or_is_another_authoritys_is_made_anew_and_nothing_else(tmp_path):
    circle(tmp_path, days=397, now=NOW - datetime.timedelta(days=380))
    assert fresh(tmp_path) == LEAVES
    before = {path: path.read_bytes() for path in tmp_path.glob("*/*")}
    assert fresh(tmp_path) == set()
    assert {path: path.read_bytes() for path in tmp_path.glob("*/*")} == before
    (tmp_path / "referee" / "client.key").unlink()
    assert fresh(tmp_path, "witness=w.example") == {"referee/client.pem", "witness/server.pem"}
    for name in ("ca.pem", "ca.key"):
        (tmp_path / "authority" / name).unlink()
    assert fresh(tmp_path) == {"authority/ca.pem", *LEAVES}
    assert (tmp_path / "public" / "ca.pem").read_bytes() == (tmp_path / "authority" / "ca.pem").read_bytes()


def test_no_certificate_outlives_its_authority(tmp_path):
    circle(tmp_path, now=NOW - datetime.timedelta(days=3600))
    ends = {made.ends.replace(microsecond=0) for made in make_all(tmp_path, names_of([]), now=NOW)}
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
