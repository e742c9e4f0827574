"""The environment is made as the machine's pip is configured: uv is told what pip knows."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from deploy.packaging.install import NEEDED, find_uv, make_environment, settings, usable
from tests.tiers import for_each

ROOT = Path(__file__).parents[3]


def configured(tmp_path: Path, text: str, **environment: str) -> str:
    """What the real pip prints of a configuration file and an environment."""
    (tmp_path / "pip.conf").write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env=kept | {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_indexes_links_and_constraints_of_pip_are_passed_on(tmp_path):
    text = (
        "[global]\nindex-url = https://one.invalid/simple\nfind-links = /a /b\nconstraint = /c.txt\n"
        "extra-index-url =\n    https://two.invalid/simple\n    https://three.invalid/it's\n"
        "[download]\nindex-url = https://other.invalid/simple\n"
    )
    found = settings(configured(tmp_path, text))
    assert found["UV_DEFAULT_INDEX"] == "https://one.invalid/simple"
    assert found["UV_INDEX"] == "https://two.invalid/simple https://three.invalid/it's"
    assert found["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert found["UV_FIND_LINKS"] == "/a,/b"
    assert found["UV_CONSTRAINT"] == "/c.txt"


@pytest.mark.slow
def test_the_environment_is_stronger_than_the_section_of_install_and_that_than_the_global_one(tmp_path):
    text = "[install]\nindex-url = https://two.invalid\n[global]\nindex-url = https://one.invalid\ntimeout = 3\n"
    found = settings(configured(tmp_path, text))
    assert (found["UV_DEFAULT_INDEX"], found["UV_HTTP_TIMEOUT"]) == ("https://two.invalid", "3")
    found = settings(configured(tmp_path, text, PIP_INDEX_URL="https://three.invalid"))
    assert found["UV_DEFAULT_INDEX"] == "https://three.invalid"


def test_nothing_is_said_where_nothing_is_configured():
    assert settings("") == {}
    assert settings("global.disable-pip-version-check='1'\n") == {}


@pytest.mark.slow
def test_uv_installs_from_where_pip_would(tmp_path):
    """A real uv, which knows of no index but what pip's configuration names."""
    links, target = tmp_path / "links", tmp_path / "target"
    links.mkdir()
    with zipfile.ZipFile(links / "only_here-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("only_here.py", "")
        wheel.writestr("only_here-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: only-here\nVersion: 1.0\n")
        wheel.writestr(
            "only_here-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("only_here-1.0.dist-info/RECORD", "")
    told = settings(configured(tmp_path, f"[global]\nno-index = true\nfind-links = {links}\n"))
    uv = find_uv([sys.executable, "-m", "pip"], Path(sys.executable).parents[1])
    assert uv is not None
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(target), "only-here"]
    subprocess.run(command, env=os.environ | told | {"UV_CACHE_DIR": str(tmp_path / "cache")}, check=True)
    assert (target / "only_here.py").exists()


@pytest.mark.slow
def test_where_no_uv_can_be_had_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    fresh = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    assert find_uv([sys.executable, "-m", "pip", "--python", str(fresh / "bin" / "python")], fresh) is None


def test_the_oldest_python_is_the_one_that_the_project_names():
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    assert asked == f">={NEEDED[0]}.{NEEDED[1]}"
    assert f"sys.version_info < {NEEDED}" in (ROOT / "Makefile").read_text("utf-8")


def old(python: Path) -> None:
    """Leave what an environment of an older Python is, as far as anybody can tell by asking it."""
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n", "utf-8")
    python.chmod(0o755)


def gone(python: Path) -> None:
    """Leave what an environment is whose Python was uninstalled."""
    python.parent.mkdir(parents=True)
    python.symlink_to(python.parent / "python3.0")


@pytest.mark.slow
@pytest.mark.parametrize("left", [old, gone])
def test_an_environment_whose_python_is_too_old_or_gone_is_made_anew(tmp_path, capfd, left):
    folder = tmp_path / ".venv"
    left(folder / "bin" / "python")
    assert not usable(folder / "bin" / "python")
    make_environment(folder)
    assert usable(folder / "bin" / "python")
    assert "is made anew" in capfd.readouterr().err
    (folder / "kept").touch()
    make_environment(folder)
    assert (folder / "kept").exists()
    assert capfd.readouterr().err == ""


@for_each("left", [old, gone, None])
def test_make_does_not_trust_the_stamp_of_such_an_environment(tmp_path, left):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    python = tmp_path / ".venv" / "bin" / "python"
    if left is None:
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
    else:
        left(python)
    (tmp_path / ".venv" / "installed").touch()
    command = ["make", "--dry-run", "install", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ("install.py .venv" in done.stdout) == (left is not None)


def test_an_old_python_makes_no_environment(tmp_path):
    code = "import sys, runpy; sys.version_info = (3, 9, 1); runpy.run_path(sys.argv[1], run_name='__main__')"
    command = [
        sys.executable,
        "-c",
        code,
        str(ROOT / "deploy" / "packaging" / "install.py"),
        str(tmp_path / "made"),
        "",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, (tmp_path / "made").exists()) == (1, False)
    assert done.stderr.startswith("Tandem needs Python 3.11 or newer")
