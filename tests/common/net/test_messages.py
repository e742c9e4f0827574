"""What comes by the million is read by patterns: with the same result as by the parser, or the parser reads it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core import canonical
from common.core.errors import BadMessage
from common.core.values import Value
from common.crypto.identity import Identity, Signed
from common.net import messages
from common.net import messages as signed_messages
from common.net.messages import SignedBytes, read, report_payload
from tests.tiers import for_each

SOMEBODY = Identity.create()
DIGEST = "ab" * 32
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
reports = st.builds(
    messages.Report,
    report_id=st.text("0123456789abcdef", min_size=32, max_size=32),
    run=st.text("abcXYZ019_-", min_size=1, max_size=64),
    digest=digests,
    question=st.integers(0, (1 << 31) - 1),
    assignment=digests,
    answer=st.one_of(st.sampled_from([0.0, 1.0, -0.0, 2.0]), st.floats(allow_nan=False, allow_infinity=False)),
)
usual = st.one_of(
    reports,
    st.builds(messages.Poll, participant=digests),
    st.builds(messages.Enrolment, agents=st.integers(1, 1 << 32)),
)


def envelope(kind: str, payload: bytes) -> bytes:
    return SOMEBODY.envelope(kind, payload)


@given(usual)
def test_both_ways_of_reading_find_the_same(value: messages.Report | messages.Poll | messages.Enrolment):
    signed = SOMEBODY.sign(value.KIND, value.wire())
    found, parsed = read(signed.raw()), Signed.parse(canonical.decode(signed.raw()))
    assert (found.kind, found.key, found.signature) == (parsed.kind, parsed.key, parsed.signature)
    assert canonical.encode(found.message) == canonical.encode(parsed.message)
    assert signed_messages.payload(found) == signed_messages.payload(parsed) == canonical.encode(value.wire())
    for one in (found, parsed):
        assert signed_messages.parse_payload(one, type(value)) == value
    for name in (*type(value).model_fields, "else"):
        assert signed_messages.field(found, name) == signed_messages.field(parsed, name)
    again = signed_messages.signed_bytes(found.kind, signed_messages.payload(found), found.key, found.signature)
    assert (type(again), again.signature) == (type(found), found.signature)
    assert signed_messages.parse_payload(again, type(value)) == value


@given(reports)
def test_a_report_is_written_as_canonical_json(report: messages.Report):
    fields = (report.report_id, report.run, report.digest, report.question, report.assignment, report.answer)
    assert report_payload(*fields) == canonical.encode(report.wire())


ONE = b'{"answer":%s,"assignment":"' + DIGEST.encode() + b'","digest":"' + DIGEST.encode()
ONE += b'","question":%s,"report_id":"' + b"0" * 32 + b'","run":"%s"}'


@for_each(
    ("answer", "question", "run"),
    [
        *((answer, b"0", b"r") for answer in b"1.0 1e-7 1.50 01.0 1e0 -0".split()),
        *((answer, b"0", b"r") for answer in (b"0.1000000000000000055", b"123456789012345678.0")),
        *((b"1", question, b"r") for question in (b"00", b"2147483648", b"9999999999", b"1.0")),
        *((b"1", b"0", run) for run in (b"r r", b"r\\u0041", b"r" * 65, b"")),
    ],
)
def test_what_is_not_in_the_usual_form_is_parsed(answer, question, run):
    raw = envelope("report", ONE % (answer, question, run))
    try:
        expected: Signed | None = Signed.parse(canonical.decode(raw))
    except BadMessage:
        expected = None
    if expected is None:
        with pytest.raises(BadMessage):
            read(raw)
    else:
        assert read(raw) == expected


def changed(raw: bytes) -> dict[str, bytes]:
    tree = json.loads(raw)
    return {
        "spaces": json.dumps(tree).encode(),
        "sorted": json.dumps(tree, sort_keys=True, separators=(",", ":")).encode(),
        "a newline behind": raw + b"\n",
        "more behind": raw + b"{}",
        "large digits": raw.replace(tree["key"].encode(), tree["key"].upper().encode()),
        "a short key": raw.replace(tree["key"].encode(), tree["key"][1:].encode()),
        "a key twice": raw[:-1] + b',"key":"%s"}' % tree["key"].encode(),
        "a field twice": raw.replace(b'{"participant"', b'{"participant":"x","participant"'),
        "a field more": raw.replace(b'{"participant"', b'{"more":1,"participant"'),
        "another kind": raw.replace(b'"poll"', b'"report"'),
        "an unknown kind": raw.replace(b'"poll"', b'"pool"'),
        "NaN": raw.replace(b'{"participant"', b'{"a":NaN,"participant"'),
        "no UTF-8": raw.replace(b'"poll"', b'"p\xffll"'),
        "nothing": b"",
    }


POLL = SOMEBODY.sign("poll", {"participant": SOMEBODY.public}).raw()


@for_each("name", changed(POLL))
def test_what_differs_is_read_or_refused_as_the_parser_does(name):
    raw = changed(POLL)[name]

    def general(raw: bytes) -> Signed:
        return Signed.parse(canonical.decode(raw))

    outcomes: list[object] = []
    for reader in (read, general):
        try:
            found = reader(raw)
            outcomes.append((found.kind, found.key, found.signature, found.message))
        except BadMessage as error:
            outcomes.append(error.detail)
    assert outcomes[0] == outcomes[1]


def test_what_has_no_canonical_form_is_said_so():
    with pytest.raises(BadMessage, match="not a finite JSON value"):
        signed_messages.payload(Signed.parse({**json.loads(POLL), "message": {"participant": "\ud800"}}))


def test_values_that_a_pattern_found_are_as_valid_as_others():
    for kind, payload in (
        ("report", ONE % (b"1", b"3", b"r")),
        ("report", ONE % (b"1", b"999999999", b"r" * 64)),
        ("report", ONE % (b"-0.0000012345678901234567", b"0", b"r")),
        ("poll", b'{"participant":"%s"}' % DIGEST.encode()),
        ("enrolment", b'{"agents":999999999}'),
    ):
        found = read(envelope(kind, payload))
        assert isinstance(found, SignedBytes)
        assert isinstance(found.value, Value)
        assert type(found.value).parse(found.value.wire()) == found.value
