"""Addresses of services, refused in one line where they are none; and what every command does first."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from common.core.errors import BadInput
from common.net.cli import NEW_OBJECTS
from common.net.client import Client, witness_at
from common.net.oblivious.client import ThroughRelay
from common.net.oblivious.relay import Relay
from common.net.pages import check_loopback
from common.net.server import listen
from common.net.tls import CA, bare_host, context_for, dialled_host, host_port, read_address
from deploy.processes import PartyProcess
from deploy.remote import operating
from tests.support import fetch

NONE = (
    "http://",
    "http://:80",
    "http://::1:8790",
    "http://[::1",
    "http://[::1]:x",
    "http://host:99999",
    "http://host:0",
    "http://host:-1",
    "http://host:8o00",
    "http://exa\nmple",
    "http://a..b:80",
    f"http://{'a' * 64}.example",
)
GOOD = ("http://[::1]:8790", "https://[fe80::1%25en0]:1", "http://127.0.0.1", "http://b\u00fccher.example:8/below/")


TAKERS: tuple[Callable[[str], Any], ...] = (
    Client,
    lambda url: ThroughRelay(url, "00" * 32),
    Relay,
    witness_at,
    lambda url: operating(url, "token").__enter__(),
    lambda url: context_for(url, party="referee", shows=False),
)


def test_what_is_no_address_is_refused_in_one_line_by_whatever_takes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setenv(CA, "ca.pem")
        for take, url in product(TAKERS, NONE):
            with pytest.raises(BadInput, match=r"\A[^\n]* is no address of a service[^\n]*\Z"):
                take(url)
    for url in ("", "localhost:8000", "ftp://x", "file:///etc/passwd", "[::1]:8000"):
        with pytest.raises(BadInput, match="begins with http://"):
            Client(url)
    for url in GOOD:
        assert (Client(url).url, bool(httpx.URL(url).host)) == (url.rstrip("/"), True)


def test_a_host_of_ipv6_is_written_in_brackets_and_read_without() -> None:
    cases = {"::1": "[::1]:80", "::": "[::]:80", "fe80::1%en0": "[fe80::1%25en0]:80", "1.2.3.4": "1.2.3.4:80"}
    for host, expected in cases.items():
        assert host_port(host, 80) == expected
        assert read_address(f"http://{expected}").port == 80
    assert [bare_host(host) for host in ("[::1]", "::1", "a.b")] == ["::1", "::1", "a.b"]
    dialled = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1", "a.b": "a.b"}
    assert {host: dialled_host(host) for host in dialled} == dialled


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_service_on_ipv6_prints_an_address_that_clients_take(tmp_path: Path) -> None:
    """Of a party's service and of a page: what is printed is dialled as it is."""
    check_loopback("[::1]", 8100)
    witness = ["referee.cli", "witness", "--state", str(tmp_path / "state")]
    for words, printed, path in ((witness, "listens on", "/v1/witness"), (["tandem.cli", "ui"], "open", "")):
        secret = {"TANDEM_WITNESS_TOKEN": "long-enough"}
        party = PartyProcess("party", [*words, "--host", "::1", "--port", "0"], tmp_path, secret)
        try:
            url = party.wait_for(printed).split()[-1]
            assert url.startswith("http://[::1]:")
            assert fetch("GET", url + path, follow_redirects=True).status_code == 200
        finally:
            party.stop()


def test_where_no_service_can_listen_is_refused_in_one_line() -> None:
    with listen("localhost", 0) as listener:
        place, port = listener.getsockname()[:2]
        assert place in ("127.0.0.1", "::1")
        elsewhere = ("203.0.113.1", 0), ("127.0.0.1", 70000), ("127.0.0.1", -1), ("::1", 65536)
        for host, taken in (place, port), *elsewhere, ("no such host", 0), ("a..b", 0), ("x" * 64, 0):
            with pytest.raises(BadInput, match="cannot listen on ") as refused:
                listen(host, taken)
            assert "\n" not in refused.value.detail
            assert "Errno" not in refused.value.detail
    with listen("", 0) as listener:
        assert listener.getsockname()[0] in ("0.0.0.0", "::")


COUNT = """
import gc, sys
from importlib import import_module
sys.argv = ["command", "--help"]
for party in "referee", "curator", "local_agent", "issuer", "tandem":
    gc.set_threshold(700)
    try:
        import_module(f"{party}.cli").main()
    except SystemExit:
        pass
    print(party, gc.get_threshold()[0], file=sys.stderr)
"""
PROGRAM = """
import logging
from common.net.cli import log_plainly
log_plainly()
log = logging.getLogger("tandem")
try:
    raise ValueError("first\\nsecond \\x1b[31m")
except ValueError:
    log.warning("peer said %s", "a\\n{\\x1b]0;title\\u202e", exc_info=True)
"""


def ran(program: str, form: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TANDEM_LOG_FORMAT": form}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)


def test_a_command_looks_for_garbage_rarely():
    found = dict(line.split() for line in ran(COUNT).stderr.splitlines())
    assert found == dict.fromkeys(("referee", "curator", "local_agent", "issuer", "tandem"), str(NEW_OBJECTS))


def test_a_message_is_plain_or_one_json_object_in_one_line_and_another_format_is_refused() -> None:
    said = json.loads(ran(PROGRAM, "json").stderr)
    assert (said["level"], said["logger"], said["time"][-6:]) == ("warning", "tandem", "+00:00")
    assert said["message"] == r"peer said a\x0a{\x1b]0;title\u202e"
    assert said["raised"].splitlines()[-1] == r"second \x1b[31m"
    written = ran(PROGRAM).stderr
    assert written.splitlines()[0] == r"tandem: peer said a\x0a{\x1b]0;title\u202e"
    assert ran(PROGRAM, "plain").stderr == written
    refused = ran(PROGRAM, "JSON")
    assert refused.stderr == "Bad usage: TANDEM_LOG_FORMAT is plain or json, found 'JSON'\n"
    assert refused.returncode == 2
