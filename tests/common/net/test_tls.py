"""TLS between real parties on loopback: who is believed, who is sent away, and that nothing else changes."""

import ssl
import subprocess
import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from common.core.errors import BadInput, PeerUnavailable, PeerUntrusted
from common.net import connection as connection_module
from common.net import tls
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


def test_who_shows_a_curator_no_right_certificate_is_sent_away_before_its_request_is_read(
    curator, ours, theirs, monkeypatch, started
):
    other, server = theirs / "referee" / "client.pem", ours / "witness" / "server.pem"
    for kind, certificate, said in (
        (Client, ours / "referee" / "client.pem", "the service at .* speaks only to who shows a certificate"),
        (Curator, None, "the curator at .* its authority: name one with --tls-client-cert"),
        (Curator, other, r"the curator at .* \(.*unknown ca\).*--tls-client-cert here"),
        (Curator, server, r"the curator at .* \(.*unsupported certificate\)"),
    ):
        believe(monkeypatch, ours, None)
        if certificate is not None:
            monkeypatch.setenv(tls.CLIENT_CERT, str(certificate))
        with pytest.raises(PeerUntrusted, match=said):
            ask(curator, kind, patience=60.0)
    assert started == []


def test_a_service_of_an_authority_or_a_name_that_is_not_believed_is_not_spoken_to(
    open_to_all, ours, theirs, monkeypatch
):
    another_name = f"https://127.1:{urlsplit(open_to_all).port}"  # the same machine by a name that no certificate has
    for believed, address, said in (
        (None, open_to_all, r"not trusted here.*--tls-ca \(TANDEM_TLS_CA\)"),  # those of the system are
        (theirs, open_to_all, "the curator at https://.* authority that is not trusted here.*--tls-ca"),
        (ours, another_name, r"for another name .*127\.1.*--host NAME"),
    ):
        if believed is not None:
            believe(monkeypatch, believed, None)
        with pytest.raises(PeerUntrusted, match=said):
            ask(address, patience=60.0)


def test_an_ended_certificate_is_refused_with_the_remedy(ended, ours, monkeypatch):
    believe(monkeypatch, ended, None)
    said = r"the curator at .* has ended: .*referee certificates DIR"
    with served(app(), tls=unchecked(ended)) as address, pytest.raises(PeerUntrusted, match=said):
        ask(address, patience=60.0)


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
@pytest.mark.parametrize(
    "sent",
    [b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n", bytes(100), b"\x16" + bytes(600)],
    ids=["plain HTTP", "no TLS", "a broken handshake"],
)
def test_many_who_speak_no_tls_take_no_memory(sent, ours):
    command = [sys.executable, "-c", FLOODED, str(ours / "curator" / "server.pem")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as service:
        try:
            address = str(service.stdout.readline().split()[-1])
            before = resident(service.pid)
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


def resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))
