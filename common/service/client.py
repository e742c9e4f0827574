"""HTTP as Tandem's clients speak it: one place that retries, and that turns problem documents back into errors."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import httpx

from common.core.errors import (
    URN,
    BadInput,
    BadMessage,
    CannotWrite,
    PeerMisbehaved,
    PeerUnavailable,
    Unauthorized,
    VersionSkew,
    from_document,
)
from common.wire.identity import Signed
from common.wire.version import BEFORE, HEADER, check_stated, skew, stated

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts; the last repeats."""


class Client:
    """Requests to one service, which messages call :attr:`party`.

    All of Tandem's requests are idempotent, so each may be repeated until it is answered.

    Parameters
    ----------
    url
        Base address.
    patience
        Seconds to keep trying while nobody answers.
    transport
        For tests: another way to carry requests.
    timeout
        Seconds that one attempt may take.

    Raises
    ------
    BadInput
        If ``url`` is not an address of a web service.
    """

    party: ClassVar[str] = "service"

    def __init__(
        self, url: str, *, patience: float = 60.0, transport: httpx.BaseTransport | None = None, timeout: float = 60.0
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadInput(f"an address begins with http:// or https://, found {url!r}")
        self.url = url.rstrip("/")
        self._patience = patience
        stating = {HEADER: stated()}
        ways: dict[str, Any] = {"timeout": timeout, "transport": transport, "trust_env": False}
        self._client = httpx.Client(base_url=self.url, headers=stating, **ways)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def request(self, method: str, path: str, *, patience: float | None = None, **parts: Any) -> httpx.Response:
        """Send a request, again and again while the service does not answer or says 202 or 503.

        Parameters
        ----------
        patience
            Seconds to keep trying; None: as long as this client does.

        Raises
        ------
        CannotWrite
            If the service is there and cannot store anything at present: whoever asks decides how long to wait.
        PeerUnavailable
            If nobody answered within the patience.
        TandemError
            The error that the service reported, as its own type.
        """
        patience = self._patience if patience is None else patience
        began, attempt = time.monotonic(), 0
        while True:
            response: httpx.Response | None = None
            try:
                response = self._client.request(method, path, **parts)
            except (httpx.TransportError, httpx.InvalidURL) as error:
                why = str(error) or type(error).__name__
            if response is not None and response.status_code == 202:
                began, attempt = time.monotonic(), 0
                time.sleep(PAUSES[0])
                continue
            if response is not None and (response.status_code != 503 or _cannot_write(response)):
                return self._checked(response)
            if response is not None:
                why = "it answers 503"
            pause = PAUSES[min(attempt, len(PAUSES) - 1)]
            attempt += 1
            if time.monotonic() - began + pause > patience:
                raise PeerUnavailable(f"nobody answers at {self.url} ({why}); is the {self.party} running there?")
            time.sleep(pause)

    @property
    def _peer(self) -> str:
        return f"the {self.party} at {self.url}"

    def check_states_protocol(self, response: httpx.Response) -> None:
        """Refuse a peer that states no protocol, at the first contact: it is an older one.

        Raises
        ------
        VersionSkew
            Naming both versions.
        """
        if HEADER not in response.headers:
            raise skew(self._peer, None, BEFORE)

    def _checked(self, response: httpx.Response) -> httpx.Response:
        """Return a response that is a success; raise what another one says, and who says it."""
        check_stated(response.headers.get(HEADER), self._peer)
        if response.is_success:
            return response
        asked = f"{response.request.method} {response.request.url}"
        try:
            document = response.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise PeerMisbehaved(
                f"{asked} was answered {response.status_code} without a problem document; is that the address of the "
                f"{self.party}?"
            )
        if not str(document.get("type")).startswith(URN):
            said = str(document.get("detail", document.get("title", "no reason given")))
            raise PeerMisbehaved(
                f"{asked} was answered {response.status_code} ({said}): what listens there is not the {self.party}, or "
                "one of another version; check the address"
            )
        error = from_document(document)
        if type(error) is BadMessage and HEADER not in response.headers:
            raise VersionSkew(f"{skew(self._peer, None, BEFORE).detail}. It says: {error.detail}")
        if isinstance(error, Unauthorized):
            error = Unauthorized(f"the {self.party} at {self.url} says: {error.detail}", **error.members)
        raise error

    def document(self, method: str, path: str, **parts: Any) -> dict[str, Any]:
        """Send a request and return the JSON object that it is answered with.

        Raises
        ------
        PeerMisbehaved
            If the answer is none.
        """
        return self.document_of(self.request(method, path, **parts))

    def document_of(self, response: httpx.Response) -> dict[str, Any]:
        """Return the JSON object of a response.

        Raises
        ------
        PeerMisbehaved
            If it is none.
        """
        try:
            document = response.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise PeerMisbehaved(f"{response.request.url} answered something that is not a JSON object")
        return document

    def signed(self, method: str, path: str, message: Signed | None = None, **parts: Any) -> Signed:
        """Send a signed message (or nothing) and return the signed reply."""
        if message is not None:
            parts["content"] = message.raw()
        return read_signed_reply(self.request(method, path, **parts))


def read_signed_reply(response: httpx.Response) -> Signed:
    """Parse a signed reply.

    Raises
    ------
    PeerMisbehaved
        If it is none.
    """
    try:
        return Signed.model_validate_json(response.content)
    except ValueError:
        raise PeerMisbehaved(f"{response.request.url} answered something that is not a signed message") from None


def _cannot_write(response: httpx.Response) -> bool:
    try:
        return bool(response.json()["type"] == URN + CannotWrite.problem)
    except (ValueError, KeyError, TypeError):
        return False
