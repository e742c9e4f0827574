"""Untrusted text, made safe to show: no control characters, no line breaks, no bidirectional overrides."""

import json
import logging
import os
import re
import shlex
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

MAX_LENGTH = 2000  # characters of one text that are shown
MOST_LINES = 400  # lines of a traceback that are logged
_WIDTH, _NAME = 96, 16
LONGEST_NAME = 80  # characters of the longest name that is compared with known ones
_LINE_END = re.compile(r"\s*[\r\n]\s*")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})  # invisible, or changes how other characters are shown


def plain(text: str) -> str:
    """Return a text in one line, at most :data:`MAX_LENGTH` long, with invisible characters replaced by their codes."""
    return visible(text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + "...")


def one_line(text: str) -> str:
    """Return a text as :func:`plain` does, with each line end replaced by a space."""
    return plain(_LINE_END.sub(" ", text[: 2 * MAX_LENGTH].strip()))


def visible(text: str) -> str:
    """Return a text as :func:`plain` does, without a limit on its length."""
    if text.isascii() and text.isprintable():
        return text
    characters = []
    for character in text:
        number = ord(character)
        if unicodedata.category(character) not in _HIDDEN:
            characters.append(character)
        elif number < 0x100:
            characters.append(f"\\x{number:02x}")
        else:
            characters.append(f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}")
    return "".join(characters)


def command(*words: str | Path) -> str:
    """Return a command quoted for a shell, in one line of visible characters, for any contents of its words.

    A word with invisible characters is written as ``$'...'`` with its bytes in octal (POSIX.1-2024, bash, zsh).
    A path that begins with a dash is preceded by ``./``.
    """
    return " ".join(_word(word) for word in words)


def _word(word: str | Path) -> str:
    text = f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word)
    if all(unicodedata.category(character) not in _HIDDEN for character in text):
        return shlex.quote(text)
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:  # no file can have this name
        raw = text.encode(errors="backslashreplace")
    plainly = {byte: chr(byte) for byte in range(0x20, 0x7F) if chr(byte) not in "\\'"}
    return "$'" + "".join(plainly.get(byte, f"\\{byte:03o}") for byte in raw) + "'"


def html(text: str) -> str:
    """Return a text for HTML or SVG: as :func:`plain` does, with markup escaped."""
    return escape(plain(text))


def clock(seconds: int) -> str:
    """Return a time in seconds since 1970 as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def nearest(name: object, names: Iterable[str]) -> str:
    """Return `` (did you mean 'sgd'?)``, to follow a wrong name, if a known name is similar; else an empty text."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        return ""
    import difflib  # imported only after an error

    near = difflib.get_close_matches(name, list(names), 1, 0.65)
    return f" (did you mean {near[0]!r}?)" if near else ""


def in_columns(parts: Mapping[str, str]) -> str:
    """Return named texts for a terminal, made plain: names on the left, and wrapped texts beside them."""
    lines = [plain(f"{name:<{_NAME}}  {text}") for name, text in parts.items()]
    indent = " " * (_NAME + 2)
    return "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent=indent, break_on_hyphens=False) for line in lines)


_RUN: ContextVar[str] = ContextVar("run", default="")


class PlainFormatter(logging.Formatter):
    """Writes each log message in one line of visible characters, followed by the lines of a traceback, if any."""

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None  # another handler may have set it
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in logging
        record.message = plain(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name in logging
        """Return the lines of a traceback, indented, so that none of them looks like a message."""
        return "\n".join(f"  {line}" for line in _exception_lines(super().formatException(ei)))


def _exception_lines(text: str) -> list[str]:
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half:,} lines ...", *lines[-half:]]
    return [plain(line) for line in lines]


class JsonFormatter(logging.Formatter):
    """Writes each log message as a JSON object of plain texts in one ASCII line, with its run and its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": plain(record.getMessage()),
        }
        if run := _RUN.get():
            line["run"] = plain(run)
        if record.exc_info:
            line["raised"] = "\n".join(_exception_lines(self.formatException(record.exc_info)))
        return json.dumps(line)


@contextmanager
def about_run(run: str) -> Iterator[None]:
    """Set the run that log messages are about within the block; nested blocks use the inner run."""
    before = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(before)
