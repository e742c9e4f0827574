"""Binary HTTP: the examples of RFC 9292, truncation, padding, and what must be refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadMessage
from common.net.oblivious.binary_http import MAX_FIELDS, InnerRequest, InnerResponse, padded
from tests.tiers import for_each

# RFC 9292, section 5.1: a request in the known-length form.
REQUEST = bytes.fromhex(
    "0003474554056874747073000a2f68656c6c6f2e747874406c0a757365722d6167656e74346375726c2f372e31362e33206c6962"
    "6375726c2f372e31362e33204f70656e53534c2f302e392e376c207a6c69622f312e322e3304686f73740f7777772e6578616d70"
    "6c652e636f6d0f6163636570742d6c616e677561676506656e2c206d690000"
)
# The same, in the indeterminate-length form, which nobody here speaks.
INDETERMINATE = b"\x02" + REQUEST[1:24] + bytes(4)
# Section 5.2: a response with content and a trailer, in the known-length form.
RESPONSE = bytes.fromhex(
    "0140c8001d5468697320636f6e74656e7420636f6e7461696e732043524c462e0d0a0d07747261696c65720474657874"
)
# Two informational responses, and then the final one, as in section 5.2, in the known-length form.
INFORMED = bytes.fromhex("014066130772756e6e696e670a22736c6565702031352240670040c8000268690000")
FIELDS = ((b"user-agent", b"curl/7.16.3 libcurl/7.16.3 OpenSSL/0.9.7l zlib/1.2.3"), (b"host", b"www.example.com"))


def test_the_request_of_the_rfc():
    found = InnerRequest.decode(REQUEST)
    assert (found.method, found.scheme, found.authority, found.path) == (b"GET", b"https", b"", b"/hello.txt")
    assert found.fields == (*FIELDS, (b"accept-language", b"en, mi"))
    assert found.content == b""
    assert found.encode() == REQUEST


def test_the_response_of_the_rfc_without_its_trailer():
    found = InnerResponse.decode(RESPONSE)
    assert (found.status, found.fields, found.content) == (200, (), b"This content contains CRLF.\r\n")
    assert found.encode() == RESPONSE[: -len("\x0d\x07trailer\x04text")] + b"\x00"


def test_informational_responses_are_passed_over_empty_sections_may_be_cut_off_and_zeros_may_follow():
    assert InnerResponse.decode(INFORMED) == InnerResponse(200, (), b"hi")
    whole = InnerRequest.decode(REQUEST)
    for raw in (REQUEST[:-1], REQUEST[:-2], REQUEST + bytes(700)):
        assert InnerRequest.decode(raw) == whole
    assert InnerResponse.decode(b"\x01\x40\xc8") == InnerResponse(200)


@for_each(
    "raw",
    [
        b"",
        INDETERMINATE,
        REQUEST[:-3],
        REQUEST[:10],
        REQUEST + b"\x00\x01",
        RESPONSE,
        b"\x00\x00\x00\x00\x00",  # neither a method nor a path
        b"\x00\x03G T\x00\x00\x01/",
        b"\x00\x03GET\x00\x00\x01/\xff" + bytes(7),  # a section of very many bytes
        InnerRequest(b"GET", b"/", ((b"Upper", b"x"),)).encode(),
        InnerRequest(b"GET", b"/", ((b":path", b"x"),)).encode(),
        InnerRequest(b"GET", b"/", ((b"", b"x"),)).encode(),
        InnerRequest(b"GET", b"/", ((b"name", b"a\r\nb: c"),)).encode(),
        InnerRequest(b"GET", b"/", ((b"name", b" a"),)).encode(),
        InnerRequest(b"GET", b"/", ((b"a", b"b"),) * (MAX_FIELDS + 1)).encode(),
    ],
)
def test_what_is_no_request_is_refused(raw):
    with pytest.raises(BadMessage):
        InnerRequest.decode(raw)


INFORMS_ON = b"\x01" + b"\x40\x64\x00" * (MAX_FIELDS + 1)


@for_each("raw", [b"", REQUEST, b"\x01\x00", b"\x01\x42\x58", RESPONSE[:20], INFORMS_ON])
def test_what_is_no_response_is_refused(raw):
    with pytest.raises(BadMessage):
        InnerResponse.decode(raw)


NAMES = st.from_regex(rb"[a-z][a-z-]{0,20}", fullmatch=True)
VALUES = st.from_regex(rb"[!-~]{0,80}", fullmatch=True)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(NAMES, VALUES), max_size=5), st.binary(max_size=20_000), st.integers(200, 599))
def test_whatever_is_written_is_read_again(fields, content, status):
    request = InnerRequest(b"PUT", b"/v1/reports/" + b"0" * 32, tuple(fields), content)
    assert InnerRequest.decode(padded(request.encode(), 4096, 55)) == request
    response = InnerResponse(status, tuple(fields), content)
    assert InnerResponse.decode(padded(response.encode(), 8192, 32)) == response


def test_padding_fills_whole_multiples():
    for size in (0, 1, 4040, 4041, 4042, 9000):
        assert (len(padded(b"x" * size, 4096, 55)) + 55) % 4096 == 0
    assert len(padded(b"x" * 4041, 4096, 55)) == 4041
