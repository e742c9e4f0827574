"""HTTP clients of the referee and the issuer. Agents open all connections and listen on no port."""

import httpx

from common.core.errors import BadMessage, PeerMisbehaved
from common.crypto.identity import Signed
from common.crypto.vouching import IssuerKey
from common.log.receipts import Proof
from common.net.client import ANSWER, Client, bearer, read_signed_reply
from common.net.messages import MAX_LISTED

MAX_PAUSE = 600.0  # seconds: the longest pause between two polls that an agent accepts


class RefereeClient(Client):
    """:class:`local_agent.host.RefereePort` over HTTP; ``pause``: seconds until the next poll, from the last reply."""

    party = "referee"
    insists = True
    most = ANSWER
    pause = 0.0

    def key(self) -> str:
        """Return the public key that the referee states, to be pinned, at the first contact.

        VersionSkew, which names both versions, if the referee has another version of the protocol.
        """
        response = self.request("GET", "/v1/referee")
        document = self.document_of(response)
        self.check_states_protocol(response)
        return str(document.get("key"))

    def enrol(self, signed: Signed, token: str) -> Signed:
        return self.signed("POST", "/v1/enrolments", signed, headers=bearer(token, "the code or token"))

    def poll(self, signed: Signed) -> Signed | None:
        response = self.request("POST", "/v1/polls", content=signed.raw())
        if response.status_code != 204:
            return read_signed_reply(response)
        self.pause = _seconds(response.headers.get("retry-after", "0"))
        return None

    def configuration(self, run: str) -> Signed:
        return self.signed("GET", f"/v1/runs/{run}/configuration")

    def decline(self, signed: Signed) -> None:
        self.request("POST", "/v1/declines", content=signed.raw())

    def report(self, signed: Signed) -> Signed:
        return self.signed("PUT", f"/v1/reports/{signed.message['report_id']}", signed)

    def report_packed(self, signed: Signed, body: bytes) -> Signed:
        """Send a packed report, the signed header in one line and then the body; return the receipt."""
        return self.signed(
            "PUT",
            f"/v1/packed-reports/{signed.message['report_id']}",
            content=signed.raw() + b"\n" + body,
            headers={"Content-Type": "application/octet-stream"},
        )

    def proof(self, signed: Signed) -> Proof:
        """Return the proof that a report is in the transcript, for a request signed by the report's sender."""
        return Proof.parse_signed(self.document("POST", "/v1/proofs", content=signed.raw()))


class HostClient(RefereeClient):
    """The client of a host, for which a question lists up to ``MAX_LISTED`` people with two 32-bit words each."""

    most = ANSWER + 11 * MAX_LISTED  # in base64 eight bytes take 10 2/3 characters


class IssuerClient(Client):
    """The issuer for an invited person: its public keys, and the blind signature for a token request."""

    party = "issuer"

    def key(self) -> IssuerKey:
        try:
            return IssuerKey.parse(self.document("GET", "/v1/issuer"))
        except BadMessage as error:
            raise PeerMisbehaved(f"{self.url} answers with no issuer's keys: {error.detail}") from None

    def issue(self, code: str, request: bytes) -> bytes:
        headers = bearer(code, "the issuer's code") | {"Content-Type": "application/private-token-request"}
        return self.request("POST", "/v1/token-requests", content=request, headers=headers).content


class RelayedClient(RefereeClient):
    """The client through a relay (RFC 9458): the referee does not learn the agent's address, nor the relay the content.

    It connects to the relay only. The referee's key must be pinned before, since a relay could substitute its own.
    """

    party = "referee behind the relay"

    def __init__(
        self, relay: str, referee: str, *, patience: float = 60.0, carrier: httpx.BaseTransport | None = None
    ) -> None:
        from common.net.oblivious.client import ThroughRelay

        super().__init__(relay, patience=patience, transport=ThroughRelay(relay, referee, carrier))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return min(seconds, MAX_PAUSE) if seconds > 0.0 else 0.0
