"""The one way to a terminal: a line is plain text, a document goes out as it is, a command runs as it is printed.

No markup is read in any text, and no control character leaves.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from common.core.plain import command, plain, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def say(text: str, *, error: bool = False) -> None:
    """Print one line of plain text; ``error`` prints it on standard error."""
    typer.echo(plain(text), err=error)


def say_lines(text: str) -> None:
    """Print text whose line ends are the caller's own."""
    for line in text.split("\n"):
        say(line)


def say_command(*words: str | Path, lead: str = "") -> None:
    """Print a command, however narrow the terminal is, in one line (:func:`common.core.plain.command`)."""
    typer.echo(plain(lead) + command(*words))


def deliver(document: str, *, end: bool = True) -> None:
    """Write a document to standard output as it is, with a line end if wanted; a terminal gets visible characters."""
    if sys.stdout.isatty():
        document = "\n".join(map(visible, document.split("\n")))
    typer.echo(document, nl=end)


def deliver_json(value: Any) -> None:
    """Write a value to standard output as JSON in one line, in which all that is not visible ASCII is escaped."""
    typer.echo(json.dumps(value).replace("\x7f", "\\u007f"))


def ask(question: str, default: str | None = None) -> str:
    """Ask a person on the terminal; return what was typed, or what stands for nothing typed."""
    return str(typer.prompt(plain(question), default=default))


def styled(*parts: tuple[str, str]) -> Text:
    """Return one line for a :func:`console` of parts, each with its style; what is in the parts is plain text."""
    from rich.text import Text

    return Text.assemble(*((plain(text), style) for text, style in parts))


@cache
def console(*, stderr: bool = False) -> Console:
    """Return the console for tables and styled lines: a string is plain text there, in a table's cells as well."""
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        """Reads no markup, no emoji codes and no control characters in any string."""

        def render_str(
            self, text: str, *, style: Any = "", justify: Any = None, overflow: Any = None, **_: Any
        ) -> Text:
            return Text(plain(text), style=style, justify=justify, overflow=overflow)

        def on_broken_pipe(self) -> None:
            # Rich would end the process: a run goes on without its readers.
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    return PlainConsole(stderr=stderr, markup=False, emoji=False, highlight=False)


@contextmanager
def showing(what: str, remedy: str) -> Iterator[None]:
    """Show something that is stored already: an error of the display is one line on standard error, and no more.

    That says ``what`` is shown, and as a ``remedy`` how it is shown again.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, what is shown is stored
        warn(f"{what} cannot be shown here ({type(error).__name__}: {error}); {remedy}")
        _mute(sys.stdout)


def warn(text: str) -> None:
    """Print one line on standard error, if that can be written to."""
    try:
        say(text, error=True)
    except (OSError, ValueError):
        _mute(sys.stderr)


def _mute(stream: Any) -> None:
    """Send what is left of a stream that takes nothing to nowhere: else the process would end with its error."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
