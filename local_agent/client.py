"""The referee over HTTP, as agents see it. They dial; nobody can dial them."""

from __future__ import annotations

from common.service.client import Client, read_signed_reply
from common.wire.identity import Signed
from common.wire.receipts import Proof

MAX_PAUSE = 600.0
"""Seconds that an agent lets a referee wait before its next poll, at most."""


class RefereeClient(Client):
    """:class:`local_agent.port.RefereePort` over HTTP.

    Attributes
    ----------
    pause
        Seconds after which the referee wants the next poll.
    """

    party = "referee"
    pause = 0.0

    def key(self) -> str:
        """Return the public key that the referee names (to be pinned): the first contact with it.

        Raises
        ------
        VersionSkew
            If it speaks another version of the protocol; names both.
        """
        response = self.request("GET", "/v1/referee")
        document = self.document_of(response)
        self.check_states_protocol(response)
        return str(document.get("key"))

    def enrol(self, signed: Signed, token: str) -> Signed:
        """Enrol a participant."""
        return self.signed("POST", "/v1/enrolments", signed, headers={"Authorization": f"Bearer {token}"})

    def poll(self, signed: Signed) -> Signed | None:
        """Return an assignment, or None."""
        response = self.request("POST", "/v1/polls", content=signed.raw())
        if response.status_code != 204:
            return read_signed_reply(response)
        self.pause = _seconds(response.headers.get("retry-after", "0"))
        return None

    def configuration(self, run: str) -> Signed:
        """Return a run's configuration."""
        return self.signed("GET", f"/v1/runs/{run}/configuration")

    def decline(self, signed: Signed) -> None:
        """Say that a question will not be answered, and why."""
        self.request("POST", "/v1/declines", content=signed.raw())

    def report(self, signed: Signed) -> Signed:
        """Hand in an individual report, get the receipt; raises what the referee says of it."""
        return self.signed("PUT", f"/v1/reports/{signed.message['report_id']}", signed)

    def report_packed(self, signed: Signed, body: bytes) -> Signed:
        """Hand in a packed report: the signed header in one line, then the body; get the receipt."""
        return self.signed(
            "PUT",
            f"/v1/packed-reports/{signed.message['report_id']}",
            content=signed.raw() + b"\n" + body,
            headers={"Content-Type": "application/octet-stream"},
        )

    def proof(self, signed: Signed) -> Proof:
        """Return the proof that a report is in the transcript, for a :class:`~common.wire.receipts.ProofRequest`."""
        return Proof.parse(self.document("POST", "/v1/proofs", content=signed.raw()))


def _seconds(text: str) -> float:
    """Return a time to wait as it came from a referee: what is none, or too long, is not believed."""
    try:
        found = float(text)
    except ValueError:
        return 0.0
    return min(found, MAX_PAUSE) if found > 0.0 else 0.0
