"""Agents in Python and people in browsers in one small run, over TLS: ``benchmarks.mixed`` is the large one."""

import shutil

import pytest

from benchmarks.browsers import COMMANDS
from benchmarks.mixed import measure

INSTALLED = {name: any(map(shutil.which, commands)) for name, commands in COMMANDS.items()}


@pytest.mark.slow
@pytest.mark.xdist_group("chromium")
@pytest.mark.skipif(not INSTALLED["chromium"], reason="no Chromium is installed here: apt-get install chromium")
def test_agents_in_python_and_people_in_browsers_answer_one_run_over_tls(tmp_path, capfd):
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    firefox = int(INSTALLED["firefox"])
    assert measure(tmp_path, 32, {"chromium": 4 - firefox, "firefox": firefox}), capfd.readouterr().out
