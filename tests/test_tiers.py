"""What the tiers of tests rest on."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product

import pytest

from tests.documents.reading import ROOT

GROUPED = """
import os
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(6))
def test_it(number):
    print(os.environ["PYTEST_XDIST_WORKER"])
"""


@pytest.mark.slow
def test_a_group_of_tests_stays_with_one_worker(tmp_path):
    """What starts containers, a cluster or a browser once for many tests relies on it."""
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-rP", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert len({line for line in done.stdout.splitlines() if line in ("gw0", "gw1")}) == 1


def test_each_test_belongs_to_one_tier():
    """Continuous integration runs two of them, one after the other: no test twice, and none left out."""
    tiers = re.findall(r'^\t\$\(PYTEST\) (?:-n 5 )?-m "?([a-z ]+)"?', (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(tiers) == 3
    for slow, thorough in product((False, True), repeat=2):
        assert [eval(tier, {"slow": slow, "thorough": thorough}) for tier in tiers].count(True) == 1, (slow, thorough)
