"""What comes by the million is read by patterns: with the same result as by the parser, or the parser reads it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core import canonical
from common.core.errors import BadMessage
from common.crypto.identity import Identity, Signed
from common.net import messages
from common.net.messages import SignedBytes, field, parse_payload, read, report_payload, signed_bytes
from tests.tiers import for_each

SOMEBODY = Identity.create()
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


def parsed(raw: bytes) -> Signed:
    return Signed.parse(canonical.decode(raw))


@given(usual)
def test_both_ways_of_reading_find_the_same(value: messages.Report | messages.Poll | messages.Enrolment):
    raw = SOMEBODY.sign(value.KIND, value.wire()).raw()
    found, slow = read(raw), parsed(raw)
    assert (found.kind, found.key, found.signature) == (slow.kind, slow.key, slow.signature)
    assert found.payload == slow.payload == canonical.encode(found.message) == canonical.encode(value.wire())
    again = signed_bytes(found.kind, found.payload, found.key, found.signature)
    assert (type(again), again.signature) == (type(found), found.signature)
    for one in (found, slow, again):
        assert parse_payload(one, type(value)) == value
    for name in (*type(value).model_fields, "else"):
        assert field(found, name) == field(slow, name)


@given(reports)
def test_a_report_is_written_as_canonical_json(report: messages.Report):
    fields = (report.report_id, report.run, report.digest, report.question, report.assignment, report.answer)
    assert report_payload(*fields) == canonical.encode(report.wire())


DIGEST = "ab" * 32
ONE = messages.Report(report_id="0" * 32, run="r", digest=DIGEST, question=0, assignment=DIGEST, answer=1.0)
USUAL = ONE, messages.Poll(participant=DIGEST), messages.Enrolment(agents=1)
REPORT, POLL, ENROLMENT = (SOMEBODY.sign(each.KIND, each.wire()).raw() for each in USUAL)
KEY = SOMEBODY.public.encode()
EDITS = [
    *((REPORT, b'"answer":1', b'"answer":' + other) for other in b"1.0 1e-7 1.50 01.0 1e0 -0".split()),
    *((REPORT, b'"answer":1', b'"answer":' + other) for other in (b"0.1000000000000000055", b"123456789012345678.0")),
    *((REPORT, b'"question":0', b'"question":' + other) for other in b"00 2147483648 9999999999 1.0".split()),
    *((REPORT, b'"run":"r"', b'"run":"%s"' % other) for other in (b"r r", b"r\\u0041", b"r" * 65, b"")),
    *((POLL, b'{"participant"', b"{" + more) for more in (b'"participant":"x","participant"', b'"a":1,"participant"')),
    *((POLL, b'{"participant"', b"{" + more) for more in (b'"a":NaN,"participant"', b' "participant"')),
    *((ENROLMENT, b'{"agents":1}', b'{"agents":%s}' % other) for other in (b"0", b"01", b"4294967297", b"1.0")),
    *((POLL, b'"poll"', other) for other in (b'"report"', b'"pool"', b'"p\xffll"')),
    *((POLL, KEY, other) for other in (KEY.upper(), KEY[1:])),
    *((POLL, POLL, other) for other in (POLL + b"\n", POLL + b"{}", POLL[:-1] + b',"key":"%s"}' % KEY, b"")),
    (POLL, POLL, json.dumps(json.loads(POLL), sort_keys=True, separators=(",", ":")).encode()),
]


@for_each(("raw", "old", "new"), EDITS)
def test_what_is_not_in_the_usual_form_is_read_or_refused_as_the_parser_does(raw, old, new):
    assert old in raw
    outcomes: list[object] = []
    for reader in (read, parsed):
        try:
            found = reader(raw.replace(old, new))
            outcomes.append((found.kind, found.key, found.signature, found.message))
        except BadMessage as error:
            outcomes.append(error.detail)
    assert outcomes[0] == outcomes[1]


def test_what_has_no_canonical_form_is_said_so():
    with pytest.raises(BadMessage, match="not a finite JSON value"):
        assert Signed.parse({**json.loads(POLL), "message": {"participant": "\ud800"}}).payload


def test_values_that_a_pattern_found_are_as_valid_as_others():
    report = canonical.encode(ONE.wire())
    least = report.replace(b'"answer":1', b'"answer":-0.0000012345678901234567')
    for kind, raw in (
        ("report", report.replace(b'"question":0', b'"question":999999999').replace(b'"r"', b'"%s"' % (b"r" * 64))),
        ("report", least),
        ("enrolment", b'{"agents":999999999}'),
    ):
        found = read(SOMEBODY.envelope(kind, raw))
        assert isinstance(found, SignedBytes)
        assert type(found.value).parse(found.value.wire()) == found.value
