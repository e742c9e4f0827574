"""What the product's sources may do: who dials, who opens what another party wrote, and that nothing imports tests."""

import ast
from collections.abc import Iterator
from functools import cache

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
    *("aiohttp", "requests", "urllib3", "http.client", "urllib.request"),
    *("ftplib", "smtplib", "telnetlib", "xmlrpc"),
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
CLIENTS = {
    "local_agent/client.py": "a referee: 16 MiB, a question and what it is about; an issuer: 64 KiB",
    "local_agent/page.py": "who serves a page, for check-page: 1 MiB a file",
    "referee/service/referee.py": "a curator: 64 MiB, a release",
    "curator/contributions/contributor.py": "a curator that collects: 16 MiB",
    "tandem/stream.py": "a curator, for a consumer of its stream: 64 KiB",
    "common/net/client.py": "a witness of runs: 4 MiB a page, 32 MiB all pages; a witness of a ledger: 64 KiB",
    "deploy/remote.py": "a referee, for its operator: 16 MiB; a transcript 128 MiB; reports 4 KiB an agent",
    "common/net/oblivious/relay.py": "a referee, for a relay: 16 MiB, and 256 MiB all that are under way",
}
"""Clients of a peer, and how large an answer may be: docs/security.md has the rule ("Who dials whom")."""
PLACES = (
    "referee/audit",
    "referee/view",
    "referee/cli.py",
    "referee/cli_results.py",
    "referee/runfolder.py",
    "tandem",
    "common/models",
    "common/scenario",
    "common/data/schema.py",
    "common/crypto/vouching.py",
    "common/log/transcript.py",
    "local_agent/person/checking.py",
)
"""What ``referee audit``, ``report``, ``model``, ``export``, the page and ``local-agent check`` read with."""
OPENS = (
    *("open", "fdopen", "read_text", "read_bytes", "load", "loads", "safe_load", "full_load", "compose", "connect"),
    *("model_validate_json", "validate_json", "iterdir", "glob", "rglob", "scandir", "walk", "listdir", "fromfile"),
    *("memmap", "ZipFile", "TarFile", "decompress"),
)
"""Names of functions and methods that open or parse something."""
ALLOWED = {
    ("referee/audit/audit.py", "open"): "takes in the orders: no file",
    ("referee/runfolder.py", "load"): "strictyaml",
    ("referee/view/models.py", "load"): "common.models.export",
    ("referee/view/own_tables.py", "open"): "writes a new scenario",
    ("referee/view/own_tables.py", "load"): "strictyaml, of the text that it writes",
    ("referee/view/scenario_text.py", "read_text"): "its own texts",
    ("referee/view/scenario_text.py", "load"): "strictyaml, of its own text",
    ("referee/cli.py", "load"): "common.scenario.loading",
    ("common/models/export.py", "loads"): "of what it has just dumped",
    ("common/scenario/loading.py", "load"): "strictyaml",
    ("common/data/schema.py", "load"): "strictyaml",
    ("tandem/__init__.py", "read_bytes"): "its own text, and that of tandem.extend",
    ("tandem/runs.py", "load"): "common.scenario.loading",
    ("tandem/stream.py", "read_text"): "a consumer's own points",
    ("tandem/ui/own.py", "load"): "common.scenario.loading, of its own text",
    ("tandem/ui/own.py", "read_text"): "its own text",
    ("tandem/ui/own.py", "iterdir"): "the folder that it has just made",
    ("tandem/ui/own.py", "glob"): "folders of its own name that it has made",
    ("tandem/ui/planning.py", "load"): "common.scenario.loading",
    ("tandem/ui/starting.py", "read_bytes"): "the model that it has just written",
}
"""Calls of these names that open nothing of a stranger's, or pass it to a parser that is meant."""


Nodes = list[ast.AST]


@cache
def modules() -> dict[str, Nodes]:
    """Return what of each module of the product the tests here look at: imports, classes and calls."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): nodes(path.read_text("utf-8")) for path in sorted(paths)}


def nodes(text: str) -> Nodes:
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Call)
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


def dialling(module: Nodes) -> Iterator[str]:
    """Go through the names in a module by which it dials past the one client."""
    for node in module:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in LIBRARIES)
        if isinstance(node, ast.ImportFrom) and node.module in LIBRARIES:
            yield node.module
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_httpx = isinstance(node.func.value, ast.Name) and node.func.value.id == "httpx"
            if node.func.attr in DIALS or (of_httpx and node.func.attr in OF_HTTPX):
                yield node.func.attr


def clients(module: Nodes) -> Iterator[ast.AST]:
    """Go through the classes in a module that are clients of a peer, and the calls that make one."""
    for node in module:
        bases = node.bases if isinstance(node, ast.ClassDef) else [node.func] if isinstance(node, ast.Call) else []
        if any(isinstance(base, ast.Name) and base.id == "Client" for base in bases):
            yield node


def test_nothing_dials_past_the_one_client_and_all_that_are_clients_of_a_peer_are_known():
    found = {name for name, module in modules().items() if any(dialling(module))}
    assert found <= OWN.keys(), f"these dial by themselves: {sorted(found - OWN.keys())}"
    assert {name for name in OWN if not (ROOT / name).exists()} == set()
    relay = "common/net/oblivious/relay.py"
    assert CLIENTS.keys() == {relay, *(name for name, module in modules().items() if any(clients(module)))}


def test_a_call_past_the_client_is_seen():
    for text in (
        "import httpx\nhttpx.get('x')",
        "import requests",
        "import socket\nsocket.create_connection(('a', 1))",
    ):
        assert list(dialling(nodes(text)))
    assert not list(dialling(nodes("import httpx\nerror = httpx.TransportError")))


def test_no_module_imports_the_tests():
    """Import-linter knows the product alone."""
    for name, module in modules().items():
        for node in module:
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [one for one in named if one.partition(".")[0] == "tests"], name


def test_no_other_code_opens_or_parses_what_another_party_wrote():
    found = {}
    for name, module in modules().items():
        if any(name == place or name.startswith(f"{place}/") for place in PLACES):
            for node in module:
                if isinstance(node, ast.Call):
                    last = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    if last in OPENS:
                        found[name, last] = node.lineno
    assert all((ROOT / place).exists() for place in PLACES)
    assert found.keys() == ALLOWED.keys(), {key: found.get(key) for key in found.keys() ^ ALLOWED.keys()}
