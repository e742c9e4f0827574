"""What the tiers of tests rest on."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
