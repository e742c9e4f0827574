"""TLS between real parties on loopback, and the certificates for it: who is believed, and who is sent away."""

from __future__ import annotations

import datetime
import ssl
import stat
import subprocess
import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from benchmarks.floods import resident
from common.core.errors import BadInput, PeerUnavailable, PeerUntrusted
from common.net import connection as connection_module
from common.net import tls
from common.net.certificates import CLIENTS, OWN_NAMES, SERVERS, check_holds, make_all, names_of, read
from common.net.client import Client
from common.net.connection import Limits
from common.net.edge import TINY
from common.net.tls import CertificateFiles, client_context, server_context
from tests.certified import PAST, believe, circle
from tests.common.net.test_connections import app, connect, received, watch_slow_path
from tests.support import served


class Curator(Client):
    """A client that shows its certificate, as the referee does to the curator."""

    party, shows = "curator", True


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Path:
    return circle(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> Path:
    return circle(tmp_path_factory.mktemp("theirs"))


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> Path:
    return circle(tmp_path_factory.mktemp("ended"), now=PAST)


@pytest.fixture(autouse=True)
def started(monkeypatch) -> list[str]:
    """Nothing is believed or shown by default; returns the requests that took the slow path."""
    for name in (tls.CA, tls.CLIENT_CERT, tls.CLIENT_KEY):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("common.net.client.PAUSES", (0.01,))
    return watch_slow_path(monkeypatch)


def way(folder: Path, clients: Path | None = None) -> ssl.SSLContext:
    return server_context(CertificateFiles.of("this curator", folder / "curator" / "server.pem", None), clients)


def unchecked(folder: Path) -> ssl.SSLContext:
    """Return how a service speaks that does not look at its own certificate first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "curator" / "server.pem", folder / "curator" / "server.key")
    return context


@pytest.fixture(scope="module")
def curator(ours):
    with served(app(), tls=way(ours, ours / "curator" / "ca.pem")) as address:
        yield address


@pytest.fixture(scope="module")
def open_to_all(ours):
    with served(app(), tls=way(ours)) as address:
        yield address


def ask(address: str, kind: type[Client] = Curator, patience: float = 1.0) -> str:
    with closing(kind(address, patience=patience)) as client:
        return client.request("PUT", "/echo/a", content=b"b").text


def test_both_sides_know_each_other_and_the_short_way_is_the_same(curator, ours, monkeypatch, started):
    believe(monkeypatch, ours)
    with closing(Curator(curator, patience=1.0)) as client:
        for size in (0, 1, TINY - 1, TINY):
            assert client.request("PUT", "/echo/a", content=b"x" * size).content == b"a  " + b"x" * size
        assert started == []
        assert client.request("PUT", "/echo/a", content=b"b", params={"q": "usual"}).text == "a  b"
        assert started == ["https /echo/a"]
        assert client.request("GET", "/v1/health", params={"q": "usual"}).json() == {"status": "alive"}


def test_who_shows_or_believes_no_right_certificate_is_not_spoken_to(
    curator, open_to_all, ours, theirs, monkeypatch, started
):
    """A curator sends away before the request is read; nobody speaks to a service of another authority or name."""
    client, server = "referee/client.pem", "witness/server.pem"
    another_name = f"https://127.1:{urlsplit(open_to_all).port}"  # the same machine by a name that no certificate has
    for kind, address, believed, certificate, said in (
        (Client, curator, ours, ours / client, "the service at .* speaks only to who shows a certificate"),
        (Curator, curator, ours, None, "the curator at .* its authority: name one with --tls-client-cert"),
        (Curator, curator, ours, theirs / client, r"the curator at .* \(.*unknown ca\).*--tls-client-cert here"),
        (Curator, curator, ours, ours / server, r"the curator at .* \(.*unsupported certificate\)"),
        (Curator, open_to_all, None, None, r"not trusted here.*--tls-ca \(TANDEM_TLS_CA\)"),  # the system's are
        (Curator, open_to_all, theirs, None, "the curator at https://.* authority that is not trusted here.*--tls-ca"),
        (Curator, another_name, ours, None, r"for another name .*127\.1.*--host NAME"),
    ):
        with monkeypatch.context() as patched:
            if believed is not None:
                believe(patched, believed, None)
            if certificate is not None:
                patched.setenv(tls.CLIENT_CERT, str(certificate))
            with pytest.raises(PeerUntrusted, match=said):
                ask(address, kind, patience=60.0)
    assert started == []


def test_no_service_or_client_begins_on_what_it_cannot_show(ours, theirs, ended, tmp_path, monkeypatch):
    own, none = ours / "curator" / "server.pem", tmp_path / "none"
    for certificate, key, clients, said in (
        (ended / "curator" / "server.pem", None, None, "of this curator .* ended on"),
        (own, theirs / "curator" / "server.key", None, r"is not the key of .* \(this curator\)"),
        (own, none, None, "the key .* of this curator cannot be read: No such file"),
        (none, None, None, "the certificate .*none cannot be read: No such file"),
        (own, None, ours / "curator" / "server.key", "holds no certificate of an authority"),
        (own, None, none, "the authority's certificate .*none cannot be read"),
    ):
        with pytest.raises(BadInput, match=said):
            server_context(CertificateFiles.of("this curator", certificate, key), clients)
    believe(monkeypatch, ours)
    monkeypatch.setenv(tls.CLIENT_CERT, str(ended / "referee" / "client.pem"))
    with pytest.raises(BadInput, match=r"of this client of the curator .* ended on"):
        Curator("https://127.0.0.1:1")


def test_whoever_names_an_authority_speaks_to_no_other_machine_in_the_clear(ours, monkeypatch):
    believe(monkeypatch, ours, None)
    for address in ("http://203.0.113.7:1", "http://referee:8000", "http://127.evil.example"):
        with pytest.raises(BadInput, match=r"would be dialled without TLS: write https:// for the service"):
            Client(address)
    for here in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"):
        Client(here).close()


def test_nothing_older_than_tls_1_3_is_spoken(open_to_all, ours):
    def health(address: str, context: ssl.SSLContext) -> None:
        httpx.get(f"{address}/v1/health", verify=context, trust_env=False, timeout=60)

    context = ssl.create_default_context(cafile=str(ours / "public" / "ca.pem"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(httpx.TransportError):
        health(open_to_all, context)
    old = unchecked(ours)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with served(app(), tls=old) as address, pytest.raises(httpx.TransportError) as caught:
        health(address, client_context(ours / "public" / "ca.pem"))
    assert "TLS 1.3" in str(tls.fault_of(caught.value))


def test_who_dials_with_tls_where_there_is_none_or_the_other_way_round_is_told(open_to_all, ours, monkeypatch):
    with pytest.raises(BadInput, match=r"this service speaks TLS: dial it with https://"):
        ask(open_to_all.replace("https:", "http:"), patience=60.0)
    believe(monkeypatch, ours, None)
    with served(app()) as address, pytest.raises(PeerUntrusted, match=r"does not speak TLS: write http:// for it"):
        ask(address.replace("http:", "https:"), patience=60.0)


def test_a_peer_that_was_there_is_waited_for_while_its_certificate_is_renewed(ours, ended, monkeypatch):
    """A run that has begun does not end since a certificate did: the next one is waited for."""
    both = ours / "both.pem"
    both.write_bytes((ours / "public" / "ca.pem").read_bytes() + (ended / "public" / "ca.pem").read_bytes())
    believe(monkeypatch, ours, None)
    monkeypatch.setenv(tls.CA, str(both))
    with served(app(), tls=way(ours)) as address:
        client = Curator(address, patience=0.2)
        client.request("GET", "/v1/health")
    with served(app(), tls=unchecked(ended)) as other, closing(client):
        client._client.base_url = httpx.URL(other)
        with pytest.raises(PeerUnavailable, match=r"cannot connect to .* a certificate that has ended") as caught:
            client.request("GET", "/v1/health")
        assert not isinstance(caught.value, PeerUntrusted)


# Attacks ------------------------------------------------------------------------------------------------------------


NO_TLS = [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", b"\x00\x01", b"\x16\x03\x01\xff\xff"]


def test_many_who_shake_no_hands_lock_nobody_out_and_end(ours, monkeypatch):
    believe(monkeypatch, ours, None)
    for sent in (b"", b"\x16\x03\x01", NO_TLS[0]):
        with served(app(), Limits(50), way(ours)) as address, ExitStack() as opened:
            for _ in range(200):
                opened.enter_context(connect(address)).sendall(sent)
            assert [ask(address, Client) for _ in range(20)] == ["a  b"] * 20
    with served(app(), Limits(50, head=0.2), way(ours)) as address:
        for sent in (b"", b"\x16\x03\x01", *NO_TLS):
            with connect(address) as rude, suppress(ConnectionError):
                rude.sendall(sent)
                received(rude)


def test_of_too_many_handshakes_under_way_the_first_make_room(ours, monkeypatch):
    believe(monkeypatch, ours, None)
    monkeypatch.setattr(connection_module, "MAX_HANDSHAKES", 5)
    with served(app(), Limits(50), way(ours)) as address, ExitStack() as opened:
        begun = [opened.enter_context(connect(address)) for _ in range(20)]
        for connection in begun:
            connection.sendall(b"\x16\x03\x01")
        for connection in begun[:15]:
            with suppress(ConnectionError):
                assert connection.recv(1) == b""
        assert ask(address, Client) == "a  b"


FLOODED = """
import sys
from pathlib import Path
from common.net.tls import CertificateFiles, server_context
from common.net.app import create_app
from common.net.server import listen, serve

pem = Path(sys.argv[1])
serve(create_app("x", "y"), listen("127.0.0.1", 0), "x", server_context(CertificateFiles.of("x", pem, None)))
"""
MEMORY = 30 << 20
"""Bytes; 2,000 handshakes that are held together take 100 MiB."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process")
def test_many_who_speak_no_tls_take_no_memory(ours):
    """Who speaks plain HTTP, no protocol at all, or begins a handshake and breaks it."""
    command = [sys.executable, "-c", FLOODED, str(ours / "curator" / "server.pem")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as service:
        try:
            address = str(service.stdout.readline().split()[-1])
            before = resident(service.pid)
            for sent in (b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n", bytes(100), b"\x16" + bytes(600)):
                for i in range(2000):
                    with suppress(ConnectionError), connect(address) as plain:
                        plain.sendall(sent)
                        if i % 2 and sent[0] != 0x16:
                            assert plain.recv(1 << 12)
            grown = resident(service.pid) - before
        finally:
            service.terminate()
        assert grown < MEMORY
        assert "Traceback" not in service.stderr.read()


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
