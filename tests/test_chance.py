"""What chance decides in tests is fixed by their names, or stated and bounded."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from common.numerics.randomness import RandomSource
from tests.chance import MOST, drawn_from
from tests.documents.reading import ROOT

LIKELY = """
import pytest

@pytest.mark.chance({each})
@pytest.mark.parametrize("number", range(3))
def test_it(number):
    pass
"""


def drawn() -> list[object]:
    legacy = np.random.random()  # noqa: NPY002 - libraries use it
    return [RandomSource.secure().words(3).tolist(), secrets.token_hex(8), random.random(), legacy]


def test_what_is_drawn_follows_from_the_name_alone():
    drawn()
    seen = []
    for name in ("one", "one", "another"):
        with drawn_from(name):
            seen.append(drawn())
    assert seen[0] == seen[1]
    assert all(first != other for first, other in zip(seen[0], seen[2], strict=True))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_nothing_is_drawn_twice_and_a_fork_draws_for_itself():
    read, write = os.pipe()
    with drawn_from("a name"):
        if not (child := os.fork()):
            os.write(write, os.urandom(32))
            os._exit(0)
        os.waitpid(child, 0)
        assert len({os.urandom(32), os.urandom(32), os.read(read, 32)}) == 3
    os.close(read)
    os.close(write)


@pytest.mark.slow
@pytest.mark.parametrize(("each", "status"), [(MOST / 4, 0), (MOST / 2, 4)])
def test_tests_that_fail_too_often_together_are_not_run(tmp_path: Path, each: float, status: int):
    (tmp_path / "test_likely.py").write_text(LIKELY.format(each=each))
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", os.devnull]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT, env=alone)
    assert done.returncode == status, done.stdout + done.stderr
    assert status == 0 or "tests fail by chance with probability 0.00015: 0.0001 is allowed" in done.stderr
