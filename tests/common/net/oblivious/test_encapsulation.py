"""Binary HTTP and its encapsulation: the examples of RFC 9292 and 9458, and what a relay may do to what it carries."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadMessage, Forged, UnknownKey
from common.crypto.hpke import RecipientKey
from common.crypto.identity import Identity
from common.net.oblivious import encapsulation as ohttp
from common.net.oblivious.binary_http import MAX_FIELDS, InnerRequest, InnerResponse, padded
from tests.tiers import for_each

# RFC 9458, appendix A.
SECRET = bytes.fromhex("3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a")
CONFIGURATION = bytes.fromhex(
    "01002031e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e79815500080001000100010003"
)
REQUEST = bytes.fromhex("00034745540568747470730b6578616d706c652e636f6d012f")
EPHEMERAL = bytes.fromhex("bc51d5e930bda26589890ac7032f70ad12e4ecb37abb1b65b1256c9c48999c73")
ENCAPSULATED_REQUEST = bytes.fromhex(
    "010020000100014b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c208b4726374e469135906992e"
    "1268c594d2a10c695d858c40a026e7965e7d86b83dd440b2c0185204b4d63525"
)
RESPONSE = bytes.fromhex("0140c8")
NONCE = bytes.fromhex("c789e7151fcba46158ca84b04464910d")
ENCAPSULATED_RESPONSE = bytes.fromhex("c789e7151fcba46158ca84b04464910d86f9013e404feea014e7be4a441f234f857fbd")

GATEWAY = ohttp.GatewayKey.derived(b"material" * 4)


def listed(*configurations: bytes) -> bytes:
    return b"".join(struct.pack(">H", len(raw)) + raw for raw in configurations)


def test_the_example_of_the_rfc():
    (configuration,) = ohttp.decode_list(listed(CONFIGURATION))
    gateway = ohttp.GatewayKey(configuration, RecipientKey.of(SECRET))
    assert gateway.key.public == configuration.public
    sent, here = ohttp.encapsulate(configuration, REQUEST, ephemeral=EPHEMERAL)
    assert sent == ENCAPSULATED_REQUEST
    opened, there = gateway.open(sent)
    assert opened == REQUEST
    assert there.seal(RESPONSE, NONCE) == ENCAPSULATED_RESPONSE
    assert here.open(ENCAPSULATED_RESPONSE) == RESPONSE


def test_two_requests_of_one_sender_share_nothing_but_the_gateway_s_key():
    first, second = (ohttp.encapsulate(GATEWAY.configuration, b"the same request")[0] for _ in range(2))
    assert first[:7] == second[:7]  # identifier and algorithms, the same for everybody
    assert not set(struct.iter_unpack("4s", first[7:39])) & set(struct.iter_unpack("4s", second[7:39]))
    assert first[39:] != second[39:]


def test_a_request_that_was_changed_or_cut_off_does_not_open_and_another_key_is_named_as_such():
    sent = ohttp.encapsulate(GATEWAY.configuration, b"request")[0]
    for at in (*range(7), 7, 20, 39, len(sent) - 1):
        with pytest.raises(UnknownKey if at < 7 else BadMessage):
            GATEWAY.open(sent[:at] + bytes([sent[at] ^ 1]) + sent[at + 1 :])
    for size in (0, 6, 7, 38, ohttp.REQUEST_OVERHEAD - 1, ohttp.REQUEST_OVERHEAD):
        with pytest.raises(BadMessage):
            GATEWAY.open(sent[:size])


def test_a_response_is_the_answer_to_one_request_also_if_that_is_sent_again():
    mine, here = ohttp.encapsulate(GATEWAY.configuration, b"mine")
    theirs, _ = ohttp.encapsulate(GATEWAY.configuration, b"theirs")
    right, again, wrong = (GATEWAY.open(sent)[1].seal(b"x") for sent in (mine, mine, theirs))
    assert right != again
    assert here.open(right) == here.open(again) == b"x"
    assert (len(mine), len(right)) == (4 + ohttp.REQUEST_OVERHEAD, 1 + ohttp.RESPONSE_OVERHEAD)
    changed = right[:-1] + bytes([right[-1] ^ 1])
    for handed_back in (wrong, changed, right[:-1], right[:16], right[:31], b"", right + b"\x00"):
        with pytest.raises(Forged):
            here.open(handed_back)


def test_keys_are_read_as_they_are_written_and_unknown_algorithms_are_passed_over():
    known = ohttp.KeyConfiguration.of(GATEWAY.key.public)
    assert ohttp.decode_list(ohttp.encode_list([known])) == [known]
    p256 = b"\x05\x00\x10" + bytes(65) + b"\x00\x04\x00\x01\x00\x01"
    other_cipher = known.encode()[:-4] + b"\x00\x03\x00\x03"
    assert ohttp.decode_list(listed(p256, other_cipher, known.encode())) == [known]
    cut = (CONFIGURATION[:-1], CONFIGURATION[:-4], CONFIGURATION + b"\x00", CONFIGURATION[:20])
    whole = listed(CONFIGURATION)
    none = listed(p256, other_cipher), b"", b"\x00", b"\x00\x00", b"\xff\xff", whole[:-1], whole * 100
    for raw in (*none, *map(listed, cut)):
        with pytest.raises(BadMessage):
            ohttp.decode_list(raw)


def test_a_gateways_secret_follows_from_its_referees_own_for_one_purpose():
    referee, relay = Identity.create(), Identity.create()
    assert referee.derived(b"one") == referee.derived(b"one") != referee.derived(b"two")
    assert referee.derived(b"one") != relay.derived(b"one")


# RFC 9292, section 5.1: a request in the known-length form.
PLAIN_REQUEST = bytes.fromhex(
    "0003474554056874747073000a2f68656c6c6f2e747874406c0a757365722d6167656e74346375726c2f372e31362e33206c6962"
    "6375726c2f372e31362e33204f70656e53534c2f302e392e376c207a6c69622f312e322e3304686f73740f7777772e6578616d70"
    "6c652e636f6d0f6163636570742d6c616e677561676506656e2c206d690000"
)
# The same, in the indeterminate-length form, which nobody here speaks.
INDETERMINATE = b"\x02" + PLAIN_REQUEST[1:24] + bytes(4)
# Section 5.2: a response with content and a trailer, in the known-length form.
PLAIN_RESPONSE = bytes.fromhex(
    "0140c8001d5468697320636f6e74656e7420636f6e7461696e732043524c462e0d0a0d07747261696c65720474657874"
)
# Two informational responses, and then the final one, as in section 5.2, in the known-length form.
INFORMED = bytes.fromhex("014066130772756e6e696e670a22736c6565702031352240670040c8000268690000")
FIELDS = ((b"user-agent", b"curl/7.16.3 libcurl/7.16.3 OpenSSL/0.9.7l zlib/1.2.3"), (b"host", b"www.example.com"))


def test_the_request_of_the_rfc():
    found = InnerRequest.decode(PLAIN_REQUEST)
    assert (found.method, found.scheme, found.authority, found.path) == (b"GET", b"https", b"", b"/hello.txt")
    assert found.fields == (*FIELDS, (b"accept-language", b"en, mi"))
    assert found.content == b""
    assert found.encode() == PLAIN_REQUEST


def test_the_response_of_the_rfc_without_its_trailer():
    found = InnerResponse.decode(PLAIN_RESPONSE)
    assert (found.status, found.fields, found.content) == (200, (), b"This content contains CRLF.\r\n")
    assert found.encode() == PLAIN_RESPONSE[: -len("\x0d\x07trailer\x04text")] + b"\x00"


def test_informational_responses_are_passed_over_empty_sections_may_be_cut_off_and_zeros_may_follow():
    assert InnerResponse.decode(INFORMED) == InnerResponse(200, (), b"hi")
    whole = InnerRequest.decode(PLAIN_REQUEST)
    for raw in (PLAIN_REQUEST[:-1], PLAIN_REQUEST[:-2], PLAIN_REQUEST + bytes(700)):
        assert InnerRequest.decode(raw) == whole
    assert InnerResponse.decode(b"\x01\x40\xc8") == InnerResponse(200)


WRONG_FIELDS = (b"Upper", b"x"), (b":path", b"x"), (b"", b"x"), (b"name", b"a\r\nb: c"), (b"name", b" a")
NO_REQUESTS = [
    *(b"", INDETERMINATE, PLAIN_REQUEST[:-3], PLAIN_REQUEST[:10], PLAIN_REQUEST + b"\x00\x01", PLAIN_RESPONSE),
    b"\x00\x00\x00\x00\x00",  # neither a method nor a path
    b"\x00\x03G T\x00\x00\x01/",
    b"\x00\x03GET\x00\x00\x01/\xff" + bytes(7),  # a section of very many bytes
    *(InnerRequest(b"GET", b"/", (field,)).encode() for field in WRONG_FIELDS),
    InnerRequest(b"GET", b"/", ((b"a", b"b"),) * (MAX_FIELDS + 1)).encode(),
]
INFORMS_ON = b"\x01" + b"\x40\x64\x00" * (MAX_FIELDS + 1)
NO_RESPONSES = [b"", PLAIN_REQUEST, b"\x01\x00", b"\x01\x42\x58", PLAIN_RESPONSE[:20], INFORMS_ON]


@for_each(
    ("kind", "raw"), [*((InnerRequest, raw) for raw in NO_REQUESTS), *((InnerResponse, raw) for raw in NO_RESPONSES)]
)
def test_what_is_no_request_or_response_is_refused(kind, raw):
    with pytest.raises(BadMessage):
        kind.decode(raw)


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
        assert len(padded(b"x" * size, 4096, 55)) + 55 == -(-(size + 55) // 4096) * 4096
