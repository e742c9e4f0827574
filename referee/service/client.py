"""The curator over HTTP, as the referee sees it."""

from __future__ import annotations

from common.service.client import Client
from common.wire.identity import Signed

_ONCE = 5.0
"""Seconds for a message that a run does not wait for."""


class CuratorClient(Client):
    """:class:`referee.runs.port.CuratorPort` over HTTP."""

    def open_run(self, signed: Signed) -> Signed:
        """Send a configuration, get terms."""
        return self.signed("PUT", f"/v1/runs/{signed.message['run']}", signed)

    def perform(self, signed: Signed) -> Signed:
        """Send an operation, get its release (asks again while the curator is still at it)."""
        run, operation_id = signed.message["run"], signed.message["operation_id"]
        return self.signed("PUT", f"/v1/runs/{run}/operations/{operation_id}", signed)

    def acknowledge(self, signed: Signed) -> None:
        """Send what the referee has received; a curator that is away is not asked for long."""
        path = f"/v1/runs/{signed.message['run']}/acknowledgement"
        self.request("PUT", path, patience=_ONCE, timeout=_ONCE, content=signed.model_dump_json())
