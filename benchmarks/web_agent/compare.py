"""Cases go to the modules in JavaScript, which say where they make another thing of one than Python does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import IO

from benchmarks.web_agent.cases import Wire, cases

HERE = Path(__file__).parent


def node(script: str) -> subprocess.Popen[str]:
    """Start a script of this folder, with pipes for its input and output."""
    return subprocess.Popen(["node", str(HERE / script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def compared(
    count: int, seed: int, script: str = "questions.js", made: Callable[[int, int], Iterator[Wire]] = cases
) -> tuple[int, list[Wire]]:
    """Return how many cases were compared, and what is different of those where both agents differ."""
    with node(script) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        writer = Thread(target=_write, args=(process.stdin, made(count, seed)))
        writer.start()
        *different, last = map(json.loads, process.stdout)
        writer.join()
    if last["cases"] != count:
        raise RuntimeError(f"{last['cases']:,} of {count:,} cases were compared: the others could not be made")
    return last["cases"], different


def _write(pipe: IO[str], made: Iterator[Wire]) -> None:
    with pipe:
        for case in made:
            pipe.write(json.dumps(case) + "\n")
