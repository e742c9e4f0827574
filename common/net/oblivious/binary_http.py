"""Binary HTTP (RFC 9292): one request or response as bytes, in the known-length form, padded with zeros.

A message may end early if only empty sections would follow, and any number of zero bytes may follow it (sections 3.7
and 3.8), so a sender can give all messages the same length. Trailers are read and dropped: no client or service of
Tandem sends any.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from common.core.errors import BadMessage

MAX_FIELDS = 64  # most header fields of one message; a connection accepts as many
_REQUEST, _RESPONSE = 0, 1  # framing indicators of the known-length form
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+\Z")
_VALUE = re.compile(rb"(?:[^\x00\n\r\t ](?:[^\x00\n\r]*[^\x00\n\r\t ])?)?\Z")  # RFC 9113, section 8.2.1
_WORD = re.compile(rb"[!-~]*\Z")

Fields = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class InnerRequest:
    """A request: control data, header fields (names in lower case), content."""

    method: bytes
    path: bytes
    fields: Fields = ()
    content: bytes = field(default=b"", repr=False)
    scheme: bytes = b"https"
    authority: bytes = b""

    def encode(self) -> bytes:
        control = b"".join(map(_sized, (self.method, self.scheme, self.authority, self.path)))
        return _integer(_REQUEST) + control + _sections(self.fields, self.content)

    @classmethod
    def decode(cls, raw: bytes) -> InnerRequest:
        """Decode a request; BadMessage if it is not one in the known-length form."""
        reader = _Reader(raw)
        reader.framing(_REQUEST)
        method, scheme, authority, path = (reader.word() for _ in range(4))
        if not method or not path:
            raise BadMessage("a binary request has a method and a path")
        fields, content = reader.sections()
        return cls(method, path, fields, content, scheme, authority)


@dataclass(frozen=True)
class InnerResponse:
    """A final response: status in [200, 599], header fields, content."""

    status: int
    fields: Fields = ()
    content: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        return _integer(_RESPONSE) + _integer(self.status) + _sections(self.fields, self.content)

    @classmethod
    def decode(cls, raw: bytes) -> InnerResponse:
        """Decode a final response, or raise BadMessage; informational responses before it (100 to 199) are skipped."""
        reader = _Reader(raw)
        reader.framing(_RESPONSE)
        status, informational = reader.integer(), 0
        while 100 <= status <= 199 and informational < MAX_FIELDS:
            reader.fields()
            status, informational = reader.integer(), informational + 1
        if not 200 <= status <= 599:
            raise BadMessage(f"the status of a final response is from 200 to 599, found {status}")
        fields, content = reader.sections()
        return cls(status, fields, content)


def padded(message: bytes, multiple: int, overhead: int = 0) -> bytes:
    """Return a message padded with zeros, so that with the encryption's overhead its length is a whole multiple."""
    return message + bytes(-(len(message) + overhead) % multiple)


def _integer(value: int) -> bytes:
    for power, size in enumerate((1, 2, 4, 8)):
        if value < 1 << (8 * size - 2):
            return (value | power << (8 * size - 2)).to_bytes(size, "big")
    raise ValueError(f"{value} has more than 62 bits")


def _sized(part: bytes) -> bytes:
    return _integer(len(part)) + part


def _sections(fields: Fields, content: bytes) -> bytes:
    header = b"".join(_sized(name) + _sized(value) for name, value in fields)
    return _sized(header) + _sized(content) + _integer(0)


class _Reader:
    """Reads a message from its beginning; raises :class:`BadMessage` for anything missing."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def framing(self, expected: int) -> None:
        framing = self.integer()
        if framing != expected:
            raise BadMessage(f"expected a binary message of framing {expected} (known length), found {framing}")

    def integer(self) -> int:
        first = self._take(1)[0]
        value = first & 0x3F
        for byte in self._take((1 << (first >> 6)) - 1):
            value = value << 8 | byte
        return value

    def word(self) -> bytes:
        word = self._part()
        if not _WORD.match(word):
            raise BadMessage("the control data of a binary message is visible ASCII")
        return word

    def fields(self) -> Fields:
        """Read a section of fields; at the end of the message, return no fields."""
        section = _Reader(self._part() if self._at < len(self._raw) else b"")
        fields: list[tuple[bytes, bytes]] = []
        while section._at < len(section._raw):
            name, value = section._part(), section._part()
            if not _NAME.match(name) or not _VALUE.match(value):
                raise BadMessage("a binary message has a field that HTTP does not allow")
            fields.append((name, value))
            if len(fields) > MAX_FIELDS:
                raise BadMessage(f"a binary message has at most {MAX_FIELDS} fields")
        return tuple(fields)

    def sections(self) -> tuple[Fields, bytes]:
        """Read header, content and trailer, which may be left out where they are empty, and the padding."""
        fields = self.fields()
        content = self._part() if self._at < len(self._raw) else b""
        self.fields()
        if self._raw.count(0, self._at) != len(self._raw) - self._at:
            raise BadMessage("nothing but zeros may stand behind a binary message")
        return fields, content

    def _part(self) -> bytes:
        return self._take(self.integer())

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._raw):
            raise BadMessage("a binary message ends too early")
        part, self._at = self._raw[self._at : end], end
        return part
