"""The tree shows the architecture: imports point one way."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTIES = {"curator", "issuer", "local_agent", "referee"}


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("package", ["common", *sorted(PARTIES)])
def test_the_same_read_off_the_files_themselves(package):
    """A second reading that needs no tool: it also sees imports inside functions."""
    for path in (ROOT / package).rglob("*.py"):
        forbidden = (PARTIES | {"deploy"}) - {package}
        if package != "common" and path.name == "cli.py":
            forbidden -= {"deploy"}
        assert not imported(path) & forbidden, path
        assert "tests" not in imported(path), path
