"""The agent in JavaScript: every vector and question means the same there, and it is a library that needs no other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from benchmarks.web_agent import messages
from benchmarks.web_agent.compare import compared
from local_agent.page import plain_module
from tests.local_agent.web.node import in_node
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


@NODE
def test_a_referees_reasons_are_shown_in_visible_characters() -> None:
    script = """
        import { RefereeClient } from "WEB/client.js";
        const body = JSON.stringify({ type: "urn:tandem:problem:refused", detail: "full\\u001b[2J\\u202e\\nAnswer?" });
        const fetch = async () => new Response(body, { status: 403 });
        const client = new RefereeClient("https://referee.example", { fetch });
        console.log(JSON.stringify(await client.configuration("run").catch(({ detail }) => detail)));
    """
    assert in_node(script) == "full\\x1b[2J\\u202e\\x0aAnswer?"


@NODE
def test_json_with_very_long_strings_is_read() -> None:
    script = """
        import { decode, utf8 } from "WEB/messages.js";
        const texts = ["x".repeat(15 << 20), '"'.repeat(7 << 20), "\\\\".repeat(7 << 20)];
        const same = (text) => decode(utf8(JSON.stringify({ "a\\\\": text })))["a\\\\"] === text;
        console.log(JSON.stringify(texts.map(same)));
    """
    assert in_node(script) == [True, True, True]


@NODE
def test_generated_questions_have_one_meaning() -> None:
    assert compared(2000, seed=1) == (2000, [])


@NODE
def test_damaged_messages_are_refused_alike() -> None:
    assert compared(1500, 1, "messages.js", messages.cases) == (1500, [])
