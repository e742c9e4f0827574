"""What contributors are told once is what the machinery does: hooks, version, changelog, supported versions."""

from __future__ import annotations

import re
import tomllib

import yaml

from tests.documents.reading import ROOT


def version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def test_the_hooks_before_a_commit_are_those_of_make_check() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    lines = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    assert [hook["entry"] for hook in local["hooks"]] == lines


def test_the_changelog_begins_with_this_version_and_its_day_or_what_came_after() -> None:
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = heads[heads[0] == "Unreleased" :]
    assert re.fullmatch(rf"{re.escape(version())} \(\d{{4}}-\d\d-\d\d\)", released[0])
    assert len({head.split()[0] for head in heads}) == len(heads)


def test_this_version_is_supported() -> None:
    minor = ".".join(version().split(".")[:2])
    assert f"| {minor}.x | yes |" in (ROOT / "SECURITY.md").read_text()
