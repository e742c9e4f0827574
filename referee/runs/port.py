"""What the referee needs of a curator: three messages, over HTTP or in process."""

from __future__ import annotations

from typing import Protocol

from common.crypto.identity import Signed


class CuratorPort(Protocol):
    """The curator as the referee sees it."""

    def open_run(self, signed: Signed) -> Signed:
        """Agree to a run; the same configuration again gets the same answer."""
        ...

    def open_share(self, signed: Signed) -> Signed:
        """Open the share of an order that has a beacon; the same beacon again gets the same answer."""
        ...

    def perform(self, signed: Signed) -> Signed:
        """Carry out an operation; the same request again gets the stored release."""
        ...

    def acknowledge(self, signed: Signed) -> None:
        """Take the countersignature of all that was released; whoever is away is not waited for."""
        ...
