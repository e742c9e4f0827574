"""An installed Tandem owns one name, and does from there what the checkout does."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy.packaging.backend import ROOT
from tests.common.test_light_start import HEAVY, tops
from tests.deploy.packaging.test_backend import CHECKOUT, ours
from tests.support import TINY

pytestmark = pytest.mark.slow

BUILD = """
import sys
sys.path.insert(0, "deploy/packaging")
import backend
print(getattr(backend, sys.argv[1])(sys.argv[2]))
"""


def built(checkout: Path, kind: str, folder: Path) -> Path:
    """Build as a front end does: a process in the checkout, with the backend's folder on its path."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(folder)], cwd=checkout, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(CHECKOUT, "build_wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; what it depends on is this environment's, but not its way to the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, str(wheel)], env=clean(), check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder


def clean() -> dict[str, str]:
    """This environment's variables without those that lead to the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))}


def run(environment: Path, folder: Path, command: str, *arguments: str) -> str:
    done = subprocess.run(
        [str(environment / "bin" / command), *arguments],
        cwd=folder,
        env=clean(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_owns_one_name(wheel):
    names = tops([name.replace("/", ".", 1) for name in contents(wheel)])
    assert {name for name in names if "-" not in name} == {ROOT}
    assert len({name.partition("/")[0] for name in contents(wheel)}) == 2  # and its own description


def test_no_module_of_it_imports_a_bare_name_of_ours(wheel):
    bare = ours() - {ROOT}
    code = {name: content for name, content in contents(wheel).items() if name.endswith(".py")}
    assert len(code) > 200
    for name, content in code.items():
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                assert str(node.module).partition(".")[0] not in bare, name
            if isinstance(node, ast.Import):
                assert not tops([alias.name for alias in node.names]) & bare, name


def test_a_source_distribution_builds_the_same_wheel(wheel, tmp_path):
    checkout, source = tmp_path / "checkout", tmp_path / "source"
    for name in ours():
        shutil.copytree(CHECKOUT / name, checkout / name, dirs_exist_ok=True)
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, checkout)
    with tarfile.open(built(checkout, "build_sdist", tmp_path)) as archive:
        archive.extractall(source, filter="data")
    assert contents(built(next(source.iterdir()), "build_wheel", tmp_path)) == contents(wheel)


def test_the_bare_names_stay_everybodys(environment, tmp_path):
    code = "import importlib.util, json; print(json.dumps([n for n in %r if importlib.util.find_spec(n)]))"
    assert json.loads(run(environment, tmp_path, "python", "-c", code % sorted(ours()))) == [ROOT]


def test_commands_work_outside_the_checkout(environment, tmp_path):
    assert "subsample-test-reweigh" in run(environment, tmp_path, "referee", "list")
    assert json.loads(run(environment, tmp_path, "referee", "plan", "ball", "--json"))["scenario"] == "ball"
    sets = [part for override in TINY for part in ("--set", override)]
    options = ["--seed", "1", "--set", "baselines=[]", "--deployment", "processes", "--output", "run", "--json"]
    assert json.loads(run(environment, tmp_path, "referee", "run", "ball", *sets, *options))["agents"]["answered"] > 0
    assert json.loads(run(environment, tmp_path, "referee", "audit", "run", "--json"))["verified"] is True


def test_it_starts_as_lightly_as_the_checkout(environment, tmp_path):
    """Importing a party runs the face's own module first: it must not load what only its functions need."""
    for module in ("referee.cli", "local_agent.person.agent"):
        code = f"import {ROOT}.{module}, json, sys; print(json.dumps(sorted(sys.modules)))"
        assert not tops(json.loads(run(environment, tmp_path, "python", "-c", code))) & HEAVY
