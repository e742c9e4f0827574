"""Who dials: every call site in the product stands in the documents, and goes through the one transport."""

import ast
import re
from collections.abc import Iterator

from benchmarks.house import PACKAGES, ROOT

DIALS = {
    "create_connection",
    "open_connection",
    "urlopen",
    "HTTPTransport",
    "AsyncHTTPTransport",
    "AsyncClient",
    "connect_ex",
}
"""Names by which a connection is made past :mod:`common.net.transport`."""
OF_HTTPX = {"Client", "get", "post", "put", "request", "stream"}
LIBRARIES = {
    "aiohttp",
    "requests",
    "urllib3",
    "http.client",
    "urllib.request",
    "ftplib",
    "smtplib",
    "telnetlib",
    "xmlrpc",
}
OWN = {
    "common/net/transport.py": "the one transport",
    "common/net/client.py": "the one client, over it",
    "common/net/oblivious/relay.py": "a relay's connections, with limits of their own",
    "common/net/oblivious/client.py": "a client's way through a relay, over the one transport",
    "curator/sample/cluster.py": "an operator's Ray cluster",
    "local_agent/hosted/cluster.py": "an operator's Ray cluster",
    "deploy/load/client.py": "the load test's connections",
    "benchmarks/kills/fleet.py": "the load test's agents, over the one transport",
}
"""Modules that make connections, or pass on an HTTP library's client."""


def dialling(tree: ast.AST) -> Iterator[str]:
    """Go through the names in a module by which it dials past the one client."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in LIBRARIES)
        if isinstance(node, ast.ImportFrom) and node.module in LIBRARIES:
            yield node.module
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_httpx = isinstance(node.func.value, ast.Name) and node.func.value.id == "httpx"
            if node.func.attr in DIALS or (of_httpx and node.func.attr in OF_HTTPX):
                yield node.func.attr


def modules() -> Iterator[tuple[str, ast.AST]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text("utf-8"))


def test_nothing_dials_past_the_one_client():
    found = {name for name, tree in modules() if any(dialling(tree))}
    assert found <= OWN.keys(), f"these dial by themselves: {sorted(found - OWN.keys())}"
    assert {name for name in OWN if not (ROOT / name).exists()} == set()


def test_a_call_past_the_client_is_seen():
    for text in (
        "import httpx\nhttpx.get('x')",
        "import requests",
        "import socket\nsocket.create_connection(('a', 1))",
    ):
        assert list(dialling(ast.parse(text)))
    assert not list(dialling(ast.parse("import httpx\nerror = httpx.TransportError")))


def test_the_documents_list_all_that_are_clients_of_a_peer():
    text = (ROOT / "docs" / "security.md").read_text("utf-8").partition("## Who dials whom")[2]
    listed = set(re.findall(r"^\| `([a-z_/]+\.py)`", text.partition("\n## ")[0], re.MULTILINE))
    clients = {"common/net/oblivious/relay.py"}
    for name, tree in modules():
        for node in ast.walk(tree):
            kinds = (
                [base.id for base in node.bases if isinstance(base, ast.Name)] if isinstance(node, ast.ClassDef) else []
            )
            calls = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Client"
            if calls or "Client" in kinds:
                clients.add(name)
    assert listed == clients
