"""Documented commands, run exactly as they are printed, show what the documents say."""

import fcntl
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.documents import table, unrun
from tests.documents.jobs import Job, Step
from tests.documents.reading import blocks, commands, pages, tokens
from tests.documents.running import Clone, Done, wait_for

PRINTED = commands()


def finish(step: Step, clone: Clone, line: str) -> None:
    """Run a command to its end and compare what it shows; it is run again as often as its row allows."""
    for left in reversed(range(step.tries)):
        done = clone.run(line, step.seconds)
        assert done.status == step.status, f"{line}\n{done.output[-3000:]}"
        try:
            for pattern in step.shows:
                assert re.search(pattern, done.words), f"{line} does not show {pattern!r}\n{done.output[-3000:]}"
            compare(step, done)
            if step.check is not None:
                step.check(clone, done)
        except AssertionError:
            if not left:
                raise
        else:
            return


def compare(step: Step, done: Done) -> None:
    """Find every line that a document prints as this command's output in what it printed now."""
    shown = [line for printed in PRINTED if printed.text == step.command for line in printed.shows]
    for start, command in unrun.SHOWN.items():
        if command == step.command:
            found = (block for page in pages() for block in blocks(page) if block.text.strip().startswith(start))
            shown += [line for block in found for line in block.lines if line.strip()]
    lines = [" ".join(tokens(line)) for line in done.output.splitlines()]
    for line in shown:
        text = " ".join(tokens(line))
        pattern = re.escape(text)
        if step.varies is not None:
            pattern = f"(?:{step.varies})".join(re.escape(piece) for piece in re.split(step.varies, text))
        assert any(re.search(pattern, found) for found in lines), f"no line of the output is {text!r}:\n{done.output}"


def parameters(jobs: Iterable[Job]) -> list[Any]:
    """Return jobs as parameters, each with the probability with which it fails by chance, if it has one.

    Those that listen on printed ports are one worker's, so that no other waits for it.
    """
    group = pytest.mark.xdist_group("ports")

    def marks(job: Job) -> list[pytest.MarkDecorator]:
        chances = [pytest.mark.chance(step.chance) for step in job.steps if step.chance]
        return [*chances, *([group] if job.ports else []), *([pytest.mark.thorough] if job.thorough else [])]

    return [pytest.param(job, marks=marks(job), id=job.name) for job in jobs]


@pytest.mark.slow
@pytest.mark.parametrize("job", parameters(table.QUICK))
def test_quick_commands(copy: Clone, job: Job) -> None:
    carry_out(job, copy)


@pytest.mark.slow
@pytest.mark.parametrize("job", parameters(job for job in table.SLOW if len(job.steps) == 1 and not job.alone))
def test_commands_that_take_a_minute(copy: Clone, job: Job) -> None:
    carry_out(job, copy)


@pytest.mark.slow
@pytest.mark.parametrize("job", parameters(job for job in table.SLOW if len(job.steps) > 1 or job.alone))
def test_sequences_of_commands(own_copy: Clone, job: Job) -> None:
    carry_out(job, own_copy)


def free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def carry_out(job: Job, clone: Clone) -> None:
    with (Path(tempfile.gettempdir()) / "tandem-documents.lock").open("a") as lock, ExitStack() as background:
        if job.ports:  # one such job at a time, in all test runs of this machine
            fcntl.flock(lock, fcntl.LOCK_EX)
        until = time.monotonic() + 30  # what the job before has started may still be ending
        while taken := [port for port in job.ports if not free(port)]:
            if time.monotonic() > until:
                pytest.skip(f"the documents name port {taken[0]}, on which somebody else listens here")
            time.sleep(0.2)
        if job.needs is not None and shutil.which(job.needs, path=clone.environment["PATH"]) is None:
            pytest.skip(f"{job.needs} is not installed")
        background.enter_context(job.prepare(clone))
        for step in job.steps:
            line = step.line(clone)
            if step.until is None:
                finish(step, clone, line)
            else:
                wait_for(background.enter_context(clone.background(line, step.typed)), step.until)
