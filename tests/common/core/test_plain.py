"""Text of strangers is shown, and never obeyed."""

from __future__ import annotations

import io
import json
import logging

from typer.testing import CliRunner

from common.core.errors import MEMBERS, PeerError, from_document
from common.core.plain import MAX_LENGTH, MOST_LINES, JsonFormatter, PlainFormatter, html, plain
from common.net.cli import application, fail_clearly
from tests.tiers import for_each

TITLE = "\x1b]0;mine\x07"
ATTACKS = [TITLE, "\x9b31m", "a\nb", "a\rb", "\u202eabc", "\u2066x", "\u2028", "\x00", "\ud800", "\u200b", "\U000e0001"]


@for_each("text", ATTACKS)
def test_nothing_of_it_is_a_command(text):
    shown = plain(f"before {text} after")
    assert shown.isprintable()
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    shown.encode()


@for_each("text", ["", "loss 0.1 < 0.2", "Übermaß: 5 µs, 日本語, 🙂"])
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


def test_what_was_raised_forges_no_line_of_a_log_and_has_an_end():
    for formatter in (PlainFormatter("%(name)s: %(message)s"), JsonFormatter()):
        written = io.StringIO()
        handler = logging.StreamHandler(written)
        handler.setFormatter(formatter)
        log = logging.Logger("peer")
        log.addHandler(handler)
        try:
            raise ValueError(f"x\npeer: verified {TITLE}\u202e" + "\ny" * 100_000)
        except ValueError:
            log.exception("stopped")
        first, *rest = written.getvalue().rstrip("\n").split("\n")
        assert all(line.isprintable() and line.startswith("  ") for line in rest)
        assert len(rest) <= MOST_LINES + 1
        assert first.isascii()
        if isinstance(formatter, JsonFormatter):
            assert rest == []
            assert len(json.loads(first)["raised"].split("\n")) <= MOST_LINES + 1


def test_what_a_peer_reports_is_plain_and_short_wherever_it_goes():
    nested = {"a": ["x" * 1000] * 1000}
    document = {"type": "urn:tandem:problem:refused", "detail": "no\n# head " + TITLE * 10**5, TITLE: 1, "more": nested}
    error = from_document(document | {f"n{number}": TITLE for number in range(1000)} | {"spent": 2.0})
    error.reported_by = "the curator at http://x"
    assert error.detail.startswith("no # head \\x1b]0;mine")
    assert str(error).startswith("the curator at http://x says: no # head")
    assert len(json.dumps(error.document())) < 2 * MAX_LENGTH + 100 * MEMBERS
    assert all(isinstance(value, str) and value.isprintable() for value in error.members.values())
    assert str(PeerError(TITLE)).isprintable(), "an error that nothing catches is on a terminal"


def test_text_in_a_page_or_a_drawing_is_no_markup():
    assert html(f"<script>{TITLE}\n\ud800&") == "&lt;script&gt;\\x1b]0;mine\\x07\\x0a\\ud800&amp;"
