"""The page of a referee that serves: a process of its own beside it, so that no reader takes time from agents.

It is ``tandem ui`` for this referee, on this machine's loopback. It holds the operator's token as any operator's client
does, and asks over HTTP what they may ask; it cannot touch the database, and no agent's address leads to it.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from common.core.machine import python_environment, python_module
from common.core.threads import Supervised
from common.net.cli import ENDS_WITH_STDIN

_ENDING = 5.0
"""Seconds that it has to end."""


@contextmanager
def page_beside(url: str, token: str, port: int) -> Iterator[None]:
    """Serve the page until the block ends, or this process does, however that happens.

    It prints its address, with the key that opens it, on this process's standard output. A page that ends by itself is
    started again, with another key.

    Args:
        url: Where the referee listens.
        token: The operator's: handed over in the environment, which other users of the machine cannot read.
        port: Of 127.0.0.1; 0 takes any free one.
    """
    command = [*python_module("tandem.cli"), "ui", "--referee", url, "--port", str(port)]
    environment = {**python_environment(), "TANDEM_OPERATOR_TOKEN": token, ENDS_WITH_STDIN: "1"}
    ending, changing = threading.Event(), threading.Lock()
    started: list[subprocess.Popen[bytes]] = []

    def serve() -> None:
        with changing:
            if ending.is_set():
                return
            process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE)  # noqa: S603 - our interpreter
            started[:] = [process]
        status = process.wait()
        if not ending.wait(_ENDING):  # what ends the page from a terminal ends this process, too
            raise ChildProcessError(f"the page has ended with exit status {status}")

    Supervised("page").start(serve)
    try:
        yield
    finally:
        with changing:
            ending.set()
        for process in started:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(_ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
