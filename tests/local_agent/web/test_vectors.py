"""The agent in JavaScript comes to what every vector says, and is packed as a library that needs no other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from local_agent.page import plain_module
from tests.vectors import FOLDER

ROOT = Path(__file__).parents[3]
WEB = ROOT / "local_agent" / "web"
TSC = ROOT / "build" / "typescript" / "node_modules" / ".bin" / "tsc"
NODE = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js here")


@NODE
@pytest.mark.parametrize("stripped", [False, True])
def test_every_vector_holds_in_javascript(tmp_path, stripped) -> None:
    command = ["node", "--no-warnings", str(Path(__file__).with_name("vectors.mjs"))]
    if stripped:  # as a page has the modules
        for module in WEB.glob("*.js"):
            (tmp_path / module.name).write_bytes(plain_module(module.read_text("utf-8")))
        (tmp_path / "package.json").write_text('{"type": "module"}')
        command.append(f"{tmp_path.as_uri()}/")
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in found.stdout.splitlines()]
    assert [line for line in lines if "count" not in line] == []
    counts = {line["file"]: line["count"] for line in lines}
    assert counts.keys() == {path.stem for path in FOLDER.glob("*.json")}
    assert sum(counts.values()) > 1300


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm here")
def test_the_package_holds_the_modules_and_needs_no_other() -> None:
    command = ["npm", "pack", "--dry-run", "--json", "--offline"]
    output = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=120, check=True).stdout
    listed = json.loads(output)
    (packed,) = listed if isinstance(listed, list) else listed.values()
    files = {file["path"] for file in packed["files"]}
    own = {path.relative_to(WEB).as_posix() for pattern in ("*.js", "types/*.d.ts") for path in WEB.glob(pattern)}
    assert files == own | {"package.json"}
    package = json.loads((WEB / "package.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert package["license"] == project["license"]
    assert package["version"] == project["version"].replace(".dev", "-dev.")
    assert not [key for key in package if "ependencies" in key or key == "scripts"]
    named = [target for entry in package["exports"].values() if isinstance(entry, dict) for target in entry.values()]
    assert {target.removeprefix("./") for target in named} <= files
    imported = {name for path in WEB.glob("*.js") for name in re.findall(r'from "([^"]+)"', path.read_text("utf-8"))}
    assert {name for name in imported if not name.startswith("./")} == {"node:fs/promises", "node:path"}


@pytest.mark.skipif(not TSC.exists(), reason="there is no TypeScript in build/typescript, where .ci/run installs it")
def test_the_types_of_the_modules_hold() -> None:
    types = ["--types", "node", "--typeRoots", str(TSC.parents[1] / "@types")]
    strict = ["--noEmit", "--strict", "--allowJs", "--checkJs", "--target", "es2024", "--module", "nodenext"]
    libraries = ["--lib", "es2024,dom,dom.iterable"]
    usage = str(Path(__file__).with_name("types.ts"))
    for what in (["-p", str(WEB), *types], [*strict, *libraries, *types, usage]):
        found = subprocess.run([str(TSC), *what], cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert found.returncode == 0, found.stdout
