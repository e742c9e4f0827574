"""The scripts of docs/corrections.md: each asserts what it claims, and prints what the page shows, line by line."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from tests.documents.reading import ROOT, commands

NAMES = sorted(path.stem for path in (ROOT / "benchmarks" / "corrections").glob("[a-z]*.py"))
SHOWN = {printed.text: printed.shows for printed in commands() if printed.document == "docs/corrections.md"}


@pytest.mark.parametrize("name", NAMES)
def test_a_script_prints_what_the_page_shows(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    import_module(f"benchmarks.corrections.{name}").main()
    assert tuple(capsys.readouterr().out.splitlines()) == SHOWN[f"python -m benchmarks.corrections.{name}"]


def test_the_page_shows_every_script_and_no_other() -> None:
    scripts = [text for text in SHOWN if text.startswith("python -m benchmarks.corrections.")]
    assert sorted(text.rpartition(".")[2] for text in scripts) == NAMES
