"""The environment is made as the machine's pip is configured: uv is told what pip knows."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.packaging.install import find_uv, settings


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
