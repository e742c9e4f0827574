"""The referee over HTTP, as agents see it. They dial; nobody can dial them."""

from __future__ import annotations

from common.service.client import Client, read_signed_reply
from common.wire.identity import Signed


class RefereeClient(Client):
    """:class:`local_agent.port.RefereePort` over HTTP."""

    def key(self) -> str:
        """Return the public key that the referee names (to be pinned)."""
        return str(self.document("GET", "/v1/referee").get("key"))

    def enrol(self, signed: Signed, token: str) -> Signed:
        """Enrol a participant."""
        return self.signed("POST", "/v1/enrolments", signed, headers={"Authorization": f"Bearer {token}"})

    def poll(self, signed: Signed) -> Signed | None:
        """Return an assignment, or None."""
        response = self.request("POST", "/v1/polls", content=signed.model_dump_json())
        return None if response.status_code == 204 else read_signed_reply(response)

    def configuration(self, run: str) -> Signed:
        """Return a run's configuration."""
        return self.signed("GET", f"/v1/runs/{run}/configuration")

    def decline(self, signed: Signed) -> None:
        """Say that a question will not be answered, and why."""
        self.request("POST", "/v1/declines", content=signed.model_dump_json())

    def report(self, signed: Signed) -> None:
        """Hand in an individual report; raises what the referee says of it."""
        self.request("PUT", f"/v1/reports/{signed.message['report_id']}", content=signed.model_dump_json())

    def report_packed(self, signed: Signed, body: bytes) -> None:
        """Hand in a packed report: the signed header in one line, then the body."""
        self.request(
            "PUT",
            f"/v1/packed-reports/{signed.message['report_id']}",
            content=signed.model_dump_json().encode() + b"\n" + body,
            headers={"Content-Type": "application/octet-stream"},
        )
