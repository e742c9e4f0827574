"""What passes a relay: decoders of Oblivious HTTP, and requests that are changed inside, then sealed as agents do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.fuzz.corpus import FINISHED, TOKEN, Corpus
from benchmarks.fuzz.decoders import Decoder
from benchmarks.fuzz.mutation import Mutator
from common.core import canonical
from common.core.errors import BadMessage, Forged
from common.crypto.identity import Signed
from common.net.oblivious.binary_http import InnerRequest, InnerResponse
from common.net.oblivious.encapsulation import (
    MAX_INNER,
    Exchange,
    GatewayKey,
    decode_list,
    encapsulate,
    encode_list,
    signed_keys,
    verified_keys,
)
from common.net.oblivious.gateway import PURPOSE


def gateway_key(corpus: Corpus) -> GatewayKey:
    """Return the key of the corpus's referee's gateway."""
    return GatewayKey.derived(corpus.referee.identity.derived(PURPOSE))


def inner_requests(corpus: Corpus) -> list[InnerRequest]:
    """Return what an individual's agent asks."""
    token = ((b"authorization", f"Bearer {TOKEN}-enrolment".encode()), (b"content-type", b"application/json"))
    found = [
        InnerRequest(b"GET", b"/v1/referee"),
        InnerRequest(b"GET", f"/v1/runs/{FINISHED}/configuration".encode()),
        InnerRequest(b"PUT", b"/v1/reports/" + b"0" * 32, (), corpus.signed["report"][0].raw()),
    ]
    for kind, path in (("enrolment", "enrolments"), ("decline", "declines"), ("proof-request", "proofs")):
        found.append(InnerRequest(b"POST", f"/v1/{path}".encode(), token, corpus.signed[kind][0].raw()))
    return found


def oblivious_decoders(corpus: Corpus) -> Iterator[Decoder]:
    """Return the decoders of both ends of a relay."""
    key = gateway_key(corpus)
    inner = [request.encode() for request in inner_requests(corpus)]
    yield Decoder("binary request", partial(_again, InnerRequest), (BadMessage,), raws=inner)
    answers = [
        InnerResponse(200, ((b"content-type", b"application/json"),), corpus.signed["receipt"][0].raw()).encode(),
        InnerResponse(204, ((b"retry-after", b"0.0"),)).encode() + bytes(64),
    ]
    yield Decoder("binary response", partial(_again, InnerResponse), (BadMessage,), raws=answers)
    listed = encode_list([key.configuration])
    p256 = b"\x00\x4a\x05\x00\x10" + bytes(65) + b"\x00\x04\x00\x01\x00\x01"
    yield Decoder("key configurations", decode_list, (BadMessage,), raws=[listed, p256 + listed])
    signed = signed_keys(corpus.referee.identity, [key.configuration])
    pinned = corpus.referee.identity.public
    yield Decoder("signed keys", partial(_verified, pinned), (BadMessage, Forged), [signed.wire()], [signed.raw()])
    sent, exchange = encapsulate(key.configuration, inner[0])
    yield Decoder("encapsulated request", key.open, (BadMessage,), raws=[sent])
    back = key.open(sent)[1].seal(answers[0])
    yield Decoder("encapsulated response", exchange.open, (Forged,), raws=[back])


def sealed_requests(corpus: Corpus) -> Iterator[Callable[[Mutator], tuple[bytes, Exchange]]]:
    """Return what makes changed requests and seals them: the change reaches what is behind the gateway."""
    configuration = gateway_key(corpus).configuration

    def sealed(request: InnerRequest, m: Mutator) -> tuple[bytes, Exchange]:
        raw = request.encode()
        return encapsulate(configuration, m.raw(raw)[:MAX_INNER] if m.random.random() < 0.9 else raw)

    for request in inner_requests(corpus):
        yield partial(sealed, request)


def _again(kind: type[InnerRequest] | type[InnerResponse], raw: bytes) -> None:
    """Read a message; what was read must be read again from how it is written."""
    found = kind.decode(raw)
    if kind.decode(found.encode()) != found:
        raise AssertionError("what was read is written as something else")


def _verified(pinned: str, raw: bytes) -> object:
    return verified_keys(Signed.parse(canonical.decode(raw)), pinned)
