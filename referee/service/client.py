"""The curator over HTTP, as the referee sees it."""

from __future__ import annotations

from common.core.errors import PeerUnavailable, PeerUntrusted
from common.crypto.identity import PROOF_HEADER, Identity, Signed, announce_body
from common.net.client import Client, read_signed_reply
from common.net.edge import LARGE
from referee.runs.curator import CURATOR_PATIENCE

_ONCE = 5.0
"""Seconds for a message that a run does not wait for."""


class CuratorClient(Client):
    """:class:`referee.runs.curator.CuratorPort` over HTTP.

    Attributes:
        identity: The referee's: it announces each request, so that the curator reads its body. Without one it reads 4
            KiB.
    """

    party = "curator"
    shows = True
    most = LARGE
    works = CURATOR_PATIENCE
    identity: Identity | None = None

    def bind(self) -> None:
        """See at once whether the curator can be trusted, if it is there: before a run waits for it.

        Raises:
            PeerUntrusted: If TLS does not show that it is the curator, or it does not accept our certificate.
        """
        if self.url.startswith("https://"):
            try:
                self.request("GET", "/v1/health", patience=0.0, timeout=_ONCE)
            except PeerUntrusted:
                raise
            except PeerUnavailable:
                pass  # the run that asks it waits for it

    def open_run(self, signed: Signed) -> Signed:
        """Send a configuration, get terms."""
        return self._put(f"/v1/runs/{signed.message['run']}", signed)

    def open_share(self, signed: Signed) -> Signed:
        """Send a run's beacon, get the curator's share of its order."""
        return self._put(f"/v1/runs/{signed.message['run']}/share", signed)

    def perform(self, signed: Signed) -> Signed:
        """Send an operation, get its release (asks again while the curator is still at it)."""
        run, operation_id = signed.message["run"], signed.message["operation_id"]
        return self._put(f"/v1/runs/{run}/operations/{operation_id}", signed)

    def acknowledge(self, signed: Signed) -> None:
        """Send what the referee has received; a curator that is away is not asked for long."""
        path = f"/v1/runs/{signed.message['run']}/acknowledgement"
        body = signed.raw()
        self.request("PUT", path, patience=_ONCE, timeout=_ONCE, content=body, headers=self._announced(path, body))

    def _put(self, path: str, signed: Signed) -> Signed:
        body = signed.raw()
        return read_signed_reply(self.request("PUT", path, content=body, headers=self._announced(path, body)))

    def _announced(self, path: str, body: bytes) -> dict[str, str]:
        return {} if self.identity is None else {PROOF_HEADER: announce_body(self.identity, "PUT", path, body)}
