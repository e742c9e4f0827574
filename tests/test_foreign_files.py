"""Every file that another party may have written is opened by the one reader, and parsed by the strict parsers."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
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
    ("referee/view/pages.py", "read_text"): "its own templates",
    ("referee/view/models.py", "load"): "common.models.export",
    ("referee/view/own_tables.py", "open"): "writes a new scenario",
    ("referee/view/own_tables.py", "read_text"): "its own texts",
    ("referee/view/own_tables.py", "load"): "strictyaml, of its own text",
    ("referee/cli.py", "load"): "common.scenario.loading",
    ("common/models/export.py", "loads"): "of what it has just dumped",
    ("common/scenario/loading.py", "load"): "strictyaml",
    ("common/data/schema.py", "load"): "strictyaml",
    ("tandem/extend.py", "read_bytes"): "its own text",
    ("tandem/runs.py", "load"): "common.scenario.loading",
    ("tandem/ui/planning.py", "load"): "common.scenario.loading",
}
"""Calls of these names that open nothing of a stranger's, or pass it to a parser that is meant."""


def test_no_other_code_opens_or_parses_what_another_party_wrote():
    found = {}
    for place in PLACES:
        files = sorted((ROOT / place).rglob("*.py")) if (ROOT / place).is_dir() else [ROOT / place]
        assert files
        for file in files:
            name = str(file.relative_to(ROOT))
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Call):
                    called = node.func
                    last = getattr(called, "attr", getattr(called, "id", ""))
                    if last in OPENS:
                        found[name, last] = node.lineno
    assert set(found) - set(ALLOWED) == set(), {key: found[key] for key in set(found) - set(ALLOWED)}
    assert set(ALLOWED) - set(found) == set()
