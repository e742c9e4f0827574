"""Light agents for load tests, each with its own key, and a minimal HTTP/1.1 client with kept-alive connections."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import ssl
from collections.abc import Mapping
from typing import NamedTuple, cast

from nacl import bindings

from common.core.errors import BadMessage
from common.crypto.identity import covered, signed_form
from common.net import messages

_END = b"\r\n\r\n"


class Answer(NamedTuple):
    """The status, headers (lower case) as received, and body of a response."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: bytes) -> bytes:
        start = self.head.lower().find(b"\r\n" + name + b":")
        if start < 0:
            return b""
        begin = start + len(name) + 3
        end = self.head.find(b"\r\n", begin)
        return self.head[begin : end if end >= 0 else None].strip()


class Connection(asyncio.Protocol):
    """One kept-alive connection to a service; ``sent`` and ``received`` are its bytes so far."""

    def __init__(self) -> None:
        self.sent = self.received = 0
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiting: asyncio.Future[Answer] | None = None

    @classmethod
    async def to(
        cls, host: str, port: int, source: tuple[str, int] | None = None, tls: ssl.SSLContext | None = None
    ) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, host, port, local_addr=source, ssl=tls)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError("the service closed the connection"))

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._buffer += data
        end = self._buffer.find(_END)
        if end < 0:
            return
        answer = Answer(int(self._buffer[9:12]), bytes(self._buffer[:end]), b"")
        length = int(answer.header(b"content-length") or 0)
        total = end + len(_END) + length
        if len(self._buffer) >= total and self._waiting is not None:
            body = bytes(self._buffer[end + len(_END) : total])
            del self._buffer[:total]
            if not self._waiting.done():
                self._waiting.set_result(answer._replace(body=body))

    async def request(self, raw: bytes) -> Answer:
        """Send a whole request and return its answer; ConnectionError if the connection is closed before."""
        if self._transport is None:
            raise ConnectionResetError("the service closed the connection")
        self._waiting = asyncio.get_running_loop().create_future()
        self.sent += len(raw)
        self._transport.write(raw)
        return await self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def request(method: str, path: str, host: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """Return a whole request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


_ASSIGNMENT = re.compile(
    rb'\{"digest":"([0-9a-f]{64})","people":"AAAAAA==","query":.*,"question":([0-9]+),"run":"([^"]+)","slots":"[^"]+"\}'
)
"""An assignment in canonical JSON, as a referee sends it to an individual."""


class LightAgent:
    """One person's agent: its key of 64 bytes, and the report that it has made."""

    __slots__ = ("_secret", "key", "report_id", "sent")

    def __init__(self, seed: bytes) -> None:
        public, self._secret = bindings.crypto_sign_seed_keypair(seed)
        self.key = public.hex()
        self.report_id = ""
        self.sent = b""

    @classmethod
    def fresh(cls) -> LightAgent:
        return cls(secrets.token_bytes(32))

    def enrolment(self) -> bytes:
        return self._signed(messages.Enrolment.KIND, b'{"agents":1}')

    def poll(self) -> bytes:
        return self._signed(messages.Poll.KIND, b'{"participant":"%s"}' % self.key.encode())

    def answer(self, assignment: bytes) -> bytes:
        """Return the body of its report on a signed assignment, given as received.

        BadMessage if it is no assignment to an individual.
        """
        payload = assignment[assignment.index(b'"message":') + len(b'"message":') : assignment.rindex(b',"key":"')]
        match = _ASSIGNMENT.fullmatch(payload)
        if match is None:
            raise BadMessage(f"this is no question to one individual: {assignment[:200]!r}")
        self.report_id = secrets.token_hex(16)
        identifiers = match[3].decode(), match[1].decode(), int(match[2]), hashlib.sha256(payload).hexdigest()
        body = messages.report_payload(self.report_id, *identifiers, answer=float(ord(self.report_id[0]) & 1))
        self.sent = self._signed(messages.Report.KIND, body)
        return self.sent

    def _signed(self, kind: str, message: bytes) -> bytes:
        signature = bindings.crypto_sign(covered(kind, message), self._secret)[:64].hex()
        return signed_form(kind, message, self.key, signature)
