"""One byte string per JSON value; and nothing that is not plain, finite, shallow JSON comes in."""

import collections
import contextlib
import enum
import io
import json
import logging
import math
import struct
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

import common.net.edge  # noqa: F401 - services raise no errors of their own
import scenarios
from common.core import canonical, strictyaml
from common.core.errors import (
    MEMBERS,
    URN,
    BadMessage,
    BadScenario,
    PeerError,
    RunCancelled,
    Superseded,
    TandemError,
    every_error,
    from_document,
)
from common.core.plain import MAX_LENGTH, MOST_LINES, JsonFormatter, PlainFormatter, html, plain
from common.core.values import Value, Word
from common.data.tables import Number
from common.scenario import loading
from tests.clocks import Clock
from tests.tiers import for_each

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-canonical.EXACT, canonical.EXACT)
    | st.floats(-canonical.EXACT, canonical.EXACT)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4).filter(str.isprintable), inner),
    max_leaves=12,
)


@settings(max_examples=200, derandomize=True)
@given(VALUES)
def test_decoding_gives_the_value_back_and_encoding_is_stable(value):
    raw = canonical.encode(value)
    assert canonical.decode(raw) == value
    assert canonical.encode(canonical.decode(raw)) == raw
    assert b"\n" not in raw


VALUE = {"high": 0.25, "bins": [1.0, 3e20], "agents": 10**12, "name": "model", "done": True, "gap": None}


def test_last_bits_are_no_difference_and_everything_else_is():
    assert canonical.alike(VALUE, {**VALUE, "high": 0.25 + 2.0**-50, "bins": (1, 3.0000000000000005e20)})
    for change in (
        {"high": 0.25 + 1e-8}, {"bins": [1.0]}, {"bins": [1.0, 3.0001e20]}, {"agents": 10**12 + 1},
        {"name": "models"}, {"done": 1}, {"gap": 0.0}, {"more": 1},
    ):  # fmt: skip
        assert not canonical.alike(VALUE, {**VALUE, **change}), change


@for_each(
    "value", [math.nan, math.inf, [-math.inf], {"a": {1, 2}}, "\ud800", object(), {"k": b"x"}, {"k": {1: 2}}, 10**400]
)
def test_what_has_no_encoding_is_refused(value):
    with pytest.raises(BadMessage):
        canonical.encode(value)


@for_each(
    "raw",
    [
        b"{", b"[" * 100_000, b"9" * 5000, b"9" * 301, b"[1e999]", b"1e999 ", b"-1e400", b"9" * 199 + b"e199",
        b"[" * 40 + b'"' + b'\\"' * 100_000, b"[" + b"[]," * (1 << 21) + b"0]", b"[" * 40 + b'"' * 100_001,
    ],
    ids=lambda raw: str(raw[:12]),
)  # fmt: skip
def test_what_is_not_acceptable_is_refused(raw):
    """And what the vectors of canonical JSON refuse (tests/vectors)."""
    with pytest.raises(BadMessage, match="not acceptable JSON"):
        canonical.decode(raw)


def test_what_is_in_a_string_is_no_bracket_and_no_number():
    brackets = ("[" * 100, '"' + "{" * 100, "\\" + "[" * 100, ['a[\\"['] * 50)
    for value in (*brackets, "e999", "9" * 400, "1.0", "1e-05", '"1.0,'):
        assert canonical.decode(canonical.encode(value)) == value
    wide: list[Any] = [[{"a": []}]] * 1000
    assert canonical.decode(canonical.encode(wide)) == wide


@settings(max_examples=500, derandomize=True)
@given(st.integers(0, (1 << 64) - 1))
def test_every_double_is_read_back_from_its_text(bits):
    (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    if math.isfinite(number):
        assert canonical.decode(canonical.encode([number])) == [number]


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=8) | VALUES, max_size=4))
def test_long_strings_are_written_as_short_ones(value):
    """A member of thousands of characters, quotation marks among them, is written as it is alone."""
    long = '\\\x00\x1f\x7f"/\u2028\U0001f600' * 8192
    head = canonical.encode([long])[1:-1]
    expected = json.loads(canonical.encode({**value, "m": ""}))
    members = b",".join(
        canonical.encode(name) + b":" + (head if name == "m" else canonical.encode(each))
        for name, each in expected.items()
    )
    assert canonical.encode({**value, "m": long}) == b"{" + members + b"}"


class Place(str):
    """Text that shows itself in another way, as an enumeration's may."""

    def __str__(self):
        return "elsewhere"


def test_what_is_derived_from_a_type_of_json_is_written_as_it_is():
    here, one = Place("here"), enum.IntEnum("Number", {"one": 1})(1)
    value = {here: here, "b": [np.float64(1.0), collections.OrderedDict(z=here, a=one)]}
    assert canonical.encode(value) == b'{"b":[1,{"a":1,"z":"here"}],"here":"here"}'


TEXTS = st.sampled_from(["", "1.0", "a1e-7", "1e22:", "[2.0,", "é", '"3.0"']) | st.text(max_size=3)
SCALARS = (
    TEXTS
    | st.sampled_from([0.0, -0.0, 1.0, 1e-7, 1e22, 2.5, 3, 10**20])
    | st.floats(allow_nan=False, allow_infinity=False)
)


@given(st.recursive(SCALARS, lambda inside: st.lists(inside) | st.dictionaries(TEXTS, inside)))
def test_numbers_are_found_outside_of_strings_with_and_without_a_backslash(value):
    """With a backslash anywhere each string is looked at; without one, what lies between quotation marks is skipped."""
    assert canonical.encode([value, "\\"]) == canonical.encode([value, ""])[:-3] + b'"\\\\"]'


def test_a_word_travels_as_a_string_where_no_double_is_sure_to_be_exact():
    class Held(Value):
        word: Word = Field(ge=0, le=1 << 64)

    for word in (0, canonical.EXACT, canonical.EXACT + 1, (1 << 64) - 1):
        wire = Held(word=word).wire()
        assert wire == {"word": word if word <= canonical.EXACT else str(word)}
        assert Held.parse(canonical.decode(canonical.encode(wire))).word == word
    for word in (-1, (1 << 64) + 1):
        with pytest.raises(BadMessage):
            Held.parse({"word": word})


@for_each(
    ("text", "why"),
    [
        ("a: 1\na: 2\n", "given twice"),
        ("x: {b: 1, b: 2}\n", "given twice"),
        ("- {c: 1, c: 1}\n", "given twice"),
        ("a: &m {b: 1, b: 2}\nc: *m\n", "given twice"),
        (f"a: {'9' * 5000}", "a number has 5,000 characters"),
        ("a: 2001-13-01", "month must be"),
        ("a: 2001-01-01 25:00:00", "hour must be"),
    ],
)
def test_a_key_given_twice_or_a_value_that_is_none_is_no_yaml(text, why):
    with pytest.raises(yaml.YAMLError, match=why):
        strictyaml.load(text, aliases=True)
    if why != "given twice":
        with pytest.raises(BadScenario, match="not a YAML value"):
            loading.load("ball", [text.replace(": ", "=", 1)])


def test_what_is_sound_is_what_pyyaml_reads():
    merges = "a: &m {b: 1, c: 2}\nd: {<<: *m, b: 3}\ne: {b: 4, <<: [*m, {f: 5, c: 6}]}\n"
    for text in ("", merges, *map(scenarios.text, scenarios.names())):
        assert strictyaml.load(text, aliases=True) == yaml.safe_load(text)


REPEATED = {
    "laughs": "a0: &a0 [x,x,x,x,x,x,x,x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 8}]\n" for i in range(1, 12)),
    "merges": "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{f'*a{i - 1},' * 9}]}}\n" for i in range(1, 30)),
    "itself": "&a [*a]",
    "deeper": "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 40)),
}
MOST = 1 << 12
ENDLESS = {
    "lists": "[" * 100_000,
    "mappings": "{a: " * 100_000,
    "blocks": "- " * 100_000 + "1",
    "keys": "? " * 100_000,
    "wide": "[" + "a," * MOST + "]",
    "many keys": "".join(f"k{i}: 1\n" for i in range(MOST // 2)),
    "digits": "a: " + "1:" * 200_000 + "1",
    "hex": "a: 0x" + "f" * 1_000_000,
    "directives": "".join(f"%TAG !a{i}! b\n" for i in range(100_000)) + "--- 1",
    "tag": "!!python/object/apply:os.system [x]",
    "control": 'a: "\x00"',
    "surrogate": "\ud800",
    "documents": "---\n" * 100_000,
}


def test_what_is_deep_large_or_endless_is_refused_before_anything_recurses(monkeypatch):
    monkeypatch.setattr(strictyaml, "MOST", MOST)
    for name, text in (ENDLESS | REPEATED).items():
        with pytest.raises(yaml.YAMLError, match="not allowed here" if name in REPEATED else None):
            strictyaml.load(text)
        with pytest.raises(yaml.YAMLError):
            strictyaml.place(text, ("a",))  # which loads it with aliases
    for text in ("a: &a 1\nb: *a", "<<: {a: 1}"):
        assert strictyaml.load(text, aliases=True)
        with pytest.raises(yaml.YAMLError, match="not allowed here"):
            strictyaml.load(text)
    deepest = "[" * canonical.DEEPEST + "]" * canonical.DEEPEST
    assert strictyaml.load(deepest) == canonical.decode(deepest.encode())


TITLE = "\x1b]0;mine\x07"
ATTACKS = [TITLE, "\x9b31m", "a\nb", "a\rb", "\u202eabc", "\u2066x", "\u2028", "\x00", "\ud800", "\u200b", "\U000e0001"]


@for_each("text", ATTACKS)
def test_nothing_of_it_is_a_command(text):
    shown, page = plain(f"before {text} after"), html(f"<script>{text}&")
    assert shown.isprintable()
    assert (shown[:7], shown[-6:]) == ("before ", " after")
    shown.encode()
    assert page.isprintable()
    assert page.startswith("&lt;script&gt;")


def test_what_can_be_seen_stays_up_to_a_length():
    for text in ("", "loss 0.1 < 0.2", "Übermaß: ½ €, 日本語, 🙂"):
        assert plain(text) == text
    assert len(plain("x" * 10**6)) == MAX_LENGTH + 3


@for_each("kind", [PlainFormatter, JsonFormatter])
def test_what_was_raised_forges_no_line_of_a_log_and_has_an_end(kind):
    written = io.StringIO()
    handler, log = logging.StreamHandler(written), logging.Logger("peer")
    handler.setFormatter(kind("%(name)s: %(message)s") if kind is PlainFormatter else kind())
    log.addHandler(handler)
    log.warning("%s", f"a\nroot: forged {TITLE}")
    try:
        raise ValueError(f"x\npeer: verified {TITLE}\u202e" + "\ny" * 100_000)
    except ValueError:
        log.exception("stopped")
    warned, first, *rest = written.getvalue().rstrip("\n").split("\n")
    assert warned.isprintable()
    assert "forged" in warned
    assert first.isascii()
    assert all(line.isprintable() and line.startswith("  ") for line in rest)
    raised = rest if kind is PlainFormatter else json.loads(first)["raised"].split("\n")
    assert 1 < len(raised) <= MOST_LINES + 1
    assert kind is PlainFormatter or rest == []


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


OWN = (RunCancelled, Superseded, PeerError)


@for_each("kind", every_error(), ids=lambda kind: kind.__name__)
def test_a_document_gives_the_error_back(kind):
    assert "problem" in vars(kind), "it has no type of its own"
    assert [other.problem for other in every_error()].count(kind.problem) == 1
    assert 400 <= kind.status < 600
    assert kind.__doc__
    error = kind("a sentence", spent=1.5, budget=2)
    document = error.document()
    assert document["type"] == URN + kind.problem
    again = from_document(document)
    if issubclass(kind, OWN):
        assert type(again) is PeerError, "a peer steers this process, or judges another peer, by what it reports"
        return
    assert type(again) is kind
    assert (again.detail, again.members, again.document()) == (error.detail, error.members, document)


STRANGE: list[dict[str, Any]] = [
    {},
    {"type": "urn:other:problem"},
    {"type": None, "title": 7},
    {"type": URN + "nothing", "detail": ["x"]},
]


@for_each("document", [*STRANGE, {"type": URN + "refused", "self": 1, "kind": 2, "detail": "d", "args": 3}])
def test_any_document_of_a_stranger_becomes_some_error(document):
    error = from_document(document)
    assert isinstance(error.detail, str)
    assert type(error) is PeerError if document in STRANGE else isinstance(error, TandemError)


@for_each(("work", "point"), [(0.0, 0.5), (0.49, 0.5), (0.5, 0.5), (0.51, 1.0), (1.5, 2.0), (70.0, 128.0)])
@for_each("fails", [False, True])
def test_a_block_ends_at_the_unit_times_a_power_of_two_also_by_an_exception(work, point, fails):
    clock = Clock(1000.0)
    with contextlib.suppress(ZeroDivisionError), clock.schedule().held(0.5):
        clock.now += work
        _ = 1 / (not fails)
    assert clock.now == 1000.0 + point
    with clock.schedule().held(None):
        clock.now += 0.1
    assert clock.now == pytest.approx(1000.1 + point)


def test_what_is_wrong_as_a_whole_is_described_by_its_validator_alone():
    with pytest.raises(BadMessage) as caught:
        Number.parse({"column": "age", "low": 3, "high": 1})
    assert caught.value.detail == "Number: low = 3.0 must be below high = 1.0"
