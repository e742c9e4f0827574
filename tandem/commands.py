"""The installed commands; an interrupt while one is still loading ends it at once, without a traceback.

Each has its own import statement, because a wheel's modules are moved by rewriting such statements.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _ended_by_interrupts() -> Iterator[None]:
    """Let an interrupt end this process by the system's default: nothing has begun that could be kept or reported."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not where the shell has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, handler)


def referee() -> None:
    """Run the command ``referee``."""
    with _ended_by_interrupts():
        from referee.cli import main
    main()


def curator() -> None:
    """Run the command ``curator``."""
    with _ended_by_interrupts():
        from curator.cli import main
    main()


def local_agent() -> None:
    """Run the command ``local-agent``."""
    with _ended_by_interrupts():
        from local_agent.cli import main
    main()


def issuer() -> None:
    """Run the command ``issuer``."""
    with _ended_by_interrupts():
        from issuer.cli import main
    main()


def tandem() -> None:
    """Run the command ``tandem``."""
    with _ended_by_interrupts():
        from tandem.cli import main
    main()
