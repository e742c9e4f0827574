"""Text of strangers is shown, and never obeyed."""

from __future__ import annotations

import io
import logging

import pytest
from typer.testing import CliRunner

from common.core.errors import from_document
from common.core.plain import MAX_LENGTH, PlainFormatter, plain
from common.service.cli import application, fail_clearly

TITLE = "\x1b]0;mine\x07"
ATTACKS = [TITLE, "\x9b31m", "a\nb", "a\rb", "\u202eabc", "\u2066x", "\u2028", "\x00", "\ud800", "\u200b", "\U000e0001"]


@pytest.mark.parametrize("text", ATTACKS)
def test_nothing_of_it_is_a_command(text):
    shown = plain(f"before {text} after")
    assert shown.isprintable()
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    shown.encode()


@pytest.mark.parametrize("text", ["", "loss 0.1 < 0.2", "Übermaß: 5 µs, 日本語, 🙂"])
def test_what_can_be_seen_stays(text):
    assert plain(text) == text


def test_no_text_is_shown_without_end():
    assert len(plain("x" * 10**6)) == MAX_LENGTH + 3


def test_a_log_line_is_one_line():
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(PlainFormatter("%(name)s: %(message)s"))
    log = logging.Logger("peer")
    log.addHandler(handler)
    log.warning("%s", f"a\nroot: forged {TITLE}")
    try:
        raise ValueError(f"x{TITLE}")
    except ValueError:
        log.exception("stopped")
    assert written.getvalue().startswith("peer: a\\x0aroot: forged \\x1b]0;mine\\x07\n")
    assert "\x1b" not in written.getvalue()


def test_what_a_peer_says_of_an_error_reaches_the_terminal_as_text():
    app = application("x")

    @app.command("go")
    @fail_clearly
    def go() -> None:
        raise from_document({"type": "urn:tandem:problem:refused", "detail": f"no {TITLE} \n way"})

    @app.command("other")
    def other() -> None: ...

    ended = CliRunner().invoke(app, ["go"])
    assert ended.exit_code == 1
    assert ended.stderr == "Refused: no \\x1b]0;mine\\x07 way\n"
