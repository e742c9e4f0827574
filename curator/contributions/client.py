"""A curator that collects, as contributors see it over HTTP."""

from __future__ import annotations

from common.net.client import ANSWER, Client, read_signed_reply
from common.wire.identity import Signed, verify
from curator.contributions.messages import Offer


class CollectorClient(Client):
    """Requests of a contributor."""

    party = "curator"
    most = ANSWER

    def offer(self, curator: str) -> Offer:
        """Return the offer, if the curator with this key has signed it: the first contact with it.

        Raises
        ------
        Forged
            If another key has signed it.
        BadMessage
            If it is none.
        VersionSkew
            If it speaks another version of the protocol.
        """
        response = self.request("GET", "/v1/contributions/offer")
        self.check_states_protocol(response)
        whose = (
            "the key that you gave (--curator-key): somebody else answers at this address, or in between, or the key "
            "is another curator's. Nothing was sent"
        )
        return Offer.parse(verify(read_signed_reply(response), Offer.KIND, curator, whose))

    def contribute(self, signed: Signed, token: str) -> Signed:
        """Give a contribution; get the receipt."""
        return self.signed("POST", "/v1/contributions", signed, headers=_bearer(token))

    def withdraw(self, signed: Signed) -> Signed:
        """Withdraw a contribution; get the receipt."""
        return self.signed("POST", "/v1/withdrawals", signed)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
