"""All output to a terminal: lines as plain text, documents unchanged, commands so that they run as printed.

Markup in texts is not interpreted, and control characters are never written.
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

from common.core.errors import BadInput
from common.core.plain import command, plain, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def say(text: str, *, error: bool = False) -> None:
    """Print one line of plain text; ``error`` prints it on standard error."""
    typer.echo(plain(text), err=error)


def say_lines(text: str) -> None:
    """Print text with several lines; its line ends must come from the caller, not from another party."""
    for line in text.split("\n"):
        say(line)


def say_command(*words: str | Path, lead: str = "") -> None:
    """Print a command in one line, for any width of the terminal (:func:`common.core.plain.command`)."""
    typer.echo(plain(lead) + command(*words))


def deliver(document: str, *, end: bool = True) -> None:
    """Write a document unchanged to standard output, with a line end if ``end``; a terminal gets visible characters."""
    if sys.stdout.isatty():
        document = "\n".join(map(visible, document.split("\n")))
    typer.echo(document, nl=end)


def deliver_json(value: Any) -> None:
    """Write a value to standard output as JSON in one line; characters other than visible ASCII are escaped."""
    typer.echo(json.dumps(value).replace("\x7f", "\\u007f"))


def ask(question: str, default: str | None = None) -> str:
    """Ask a person on the terminal; return the typed text, or ``default`` if nothing was typed.

    Raises BadInput if the input is not a terminal and has ended.
    """
    try:
        return str(typer.prompt(plain(question), default=default))
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        say("")  # ends the line of the question
        raise BadInput(
            "the input ended before this question was answered: give the option that it names, or run the command on "
            "a terminal"
        ) from None


def styled(*parts: tuple[str, str]) -> Text:
    """Return one line for a :func:`console` from parts, each with its style; the parts are plain text."""
    from rich.text import Text

    return Text.assemble(*((plain(text), style) for text, style in parts))


@cache
def console(*, stderr: bool = False) -> Console:
    """Return the console for tables and styled lines; it treats strings as plain text, also in a table's cells."""
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        """A console that interprets no markup, emoji codes or control characters in strings."""

        def render_str(
            self, text: str, *, style: Any = "", justify: Any = None, overflow: Any = None, **_: Any
        ) -> Text:
            return Text(plain(text), style=style, justify=justify, overflow=overflow)

        def on_broken_pipe(self) -> None:
            # Rich would end the process, but a run must continue without its readers.
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    return PlainConsole(stderr=stderr, markup=False, emoji=False, highlight=False)


@contextmanager
def showing(what: str, remedy: str) -> Iterator[None]:
    """Show something that is already stored: an error of the display only prints one line on standard error.

    That line names ``what`` was to be shown, and as ``remedy`` how to show it again.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - after any error, the content is still stored
        warn(f"{what} cannot be shown here ({type(error).__name__}: {error}); {remedy}")
        _mute(sys.stdout)


def warn(text: str) -> None:
    """Print one line on standard error, if it can be written."""
    try:
        say(text, error=True)
    except (OSError, ValueError):
        _mute(sys.stderr)


def _mute(stream: Any) -> None:
    """Redirect a stream that cannot be written to the null device; else the process would end with its error."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
