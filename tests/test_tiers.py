"""What the tiers of tests rest on."""

import os
import random
import re
import secrets
import subprocess
import sys
import uuid
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.numerics.randomness import RandomSource
from tests.chance import MOST, drawn_from
from tests.documents.reading import ROOT
from tests.tiers import for_each, thinned

GROUPED = """
import os
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(6))
def test_it(number):
    print(os.environ["PYTEST_XDIST_WORKER"])
"""


def test_a_loop_tries_every_case_and_reports_each_that_failed(tmp_path):
    @for_each("number", range(4))
    @for_each(("word", "size"), [("a", 1), ("bb", 3), ("c", 2)])
    def loop(tmp_path, number, word, size):
        (tmp_path / "own").touch(exist_ok=False)
        tried.append((number, word))
        assert len(word) == size

    tried: list[tuple[int, str]] = []
    with pytest.raises(ExceptionGroup, match="4 of 4 cases failed") as failed:
        loop(tmp_path=tmp_path)
    assert tried == list(product(range(4), ["a", "bb", "c"]))
    notes = [(one.__notes__, [inner.__notes__ for inner in one.exceptions]) for one in failed.value.exceptions]
    assert notes[1] == (["with number = 1"], [["with word, size = bb, 3"], ["with word, size = c, 2"]])


def test_a_loop_is_skipped_only_where_each_case_is(tmp_path):
    @for_each("number", range(3))
    class Some:
        def test_it(self, number, most):
            if number < most:
                pytest.skip("for a reason")

    some: Any = Some()
    some.test_it(most=2)
    with pytest.raises(pytest.skip.Exception, match="for a reason"):
        some.test_it(most=3)


def test_marked_cases_of_a_loop_are_a_test_of_their_own():
    @for_each("number", thinned(range(4), 2))
    def loop(number):
        tried.append(number)

    (mark,) = loop.pytestmark
    tried: list[int] = []
    quick, slow = mark.args[1]
    assert ([m.name for m in quick.marks], [m.name for m in slow.marks]) == ([], ["slow"])
    for part in (quick, slow):
        loop(**{mark.args[0]: part.values[0]})
    assert tried == [0, 2, 1, 3]


@pytest.mark.slow
def test_a_group_of_tests_stays_with_one_worker(tmp_path):
    """What starts containers, a cluster or a browser once for many tests relies on it."""
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-rP", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert len({line for line in done.stdout.splitlines() if line in ("gw0", "gw1")}) == 1


def test_each_test_belongs_to_one_tier():
    """Continuous integration runs two of them, one after the other: no test twice, and none left out."""
    tiers = re.findall(
        r'^\t\$\(PYTEST\) (?:-n [0-9]+ )?-m "?([a-z ]+)"?', (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert len(tiers) == 3
    for slow, thorough in product((False, True), repeat=2):
        assert [eval(tier, {"slow": slow, "thorough": thorough}) for tier in tiers].count(True) == 1, (slow, thorough)


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


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_is_drawn_follows_from_the_name_alone_and_a_fork_draws_for_itself():
    drawn()
    seen, identifiers = [], set()
    for name in ("one", "one", "another"):
        with drawn_from(name):
            seen.append(drawn())
            identifiers.add(uuid.uuid4())
    assert len(identifiers) == 3
    assert seen[0] == seen[1]
    assert all(first != other for first, other in zip(seen[0], seen[2], strict=True))
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
@for_each(("each", "status"), [(MOST / 4, 0), (MOST / 2, 4)])
def test_tests_that_fail_too_often_together_are_not_run(tmp_path: Path, each: float, status: int):
    (tmp_path / "test_likely.py").write_text(LIKELY.format(each=each))
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", os.devnull]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT, env=alone)
    assert done.returncode == status, done.stdout + done.stderr
    assert status == 0 or "tests fail by chance with probability 0.00015: 0.0001 is allowed" in done.stderr
