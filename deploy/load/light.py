"""Light agents: each its own key and messages of its own; what they answer is a coin toss, for nobody's data is here.

They are what a real individual's agent sends, byte for byte, and check nothing that costs only them time.
"""

from __future__ import annotations

import hashlib
import re
import secrets

from nacl import bindings

from common.core.errors import BadMessage
from common.crypto.identity import covered
from common.wire import messages

_ASSIGNMENT = re.compile(
    rb'\{"digest":"([0-9a-f]{64})","people":"AAAAAA==","query":.*,"question":([0-9]+),"run":"([^"]+)","slots":"[^"]+"\}'
)
"""An assignment in canonical JSON, as a referee sends it to an individual."""


class LightAgent:
    """One person's agent: 64 bytes of key, and the report that it has made."""

    __slots__ = ("_secret", "key", "report_id", "sent")

    def __init__(self, seed: bytes) -> None:
        public, self._secret = bindings.crypto_sign_seed_keypair(seed)
        self.key = public.hex()
        self.report_id = b""
        self.sent = b""

    @classmethod
    def fresh(cls) -> LightAgent:
        """Return an agent with a key of its own."""
        return cls(secrets.token_bytes(32))

    def enrolment(self) -> bytes:
        """Return the body that enrols it."""
        return self._signed(messages.Enrolment.KIND, b'{"agents":1}')

    def poll(self) -> bytes:
        """Return the body of its poll."""
        return self._signed(messages.Poll.KIND, b'{"participant":"%s"}' % self.key.encode())

    def answer(self, assignment: bytes) -> bytes:
        """Return the body of its report on an assignment (a signed one, as it came).

        Raises
        ------
        BadMessage
            If it is none to an individual.
        """
        payload = assignment[assignment.index(b'"message":') + len(b'"message":') : assignment.rindex(b',"key":"')]
        asked = _ASSIGNMENT.fullmatch(payload)
        if asked is None:
            raise BadMessage(f"this is no question to one individual: {assignment[:200]!r}")
        self.report_id = secrets.token_hex(16).encode()
        body = b'{"answer":%s,"assignment":"%s","digest":"%s","question":%d,"report_id":"%s","run":"%s"}' % (
            b"1.0" if self.report_id[0] & 1 else b"0.0",
            hashlib.sha256(payload).hexdigest().encode(),
            asked[1],
            int(asked[2]),
            self.report_id,
            asked[3],
        )
        self.sent = self._signed(messages.Report.KIND, body)
        return self.sent

    def _signed(self, kind: str, message: bytes) -> bytes:
        what = covered(kind, message)
        signature = bindings.crypto_sign(what, self._secret)[:64].hex()
        return b'{"kind":"%s","message":%s,"key":"%s","signature":"%s"}' % (
            kind.encode(),
            message,
            self.key.encode(),
            signature.encode(),
        )
