"""HTTP as Tandem's clients speak it: one place that retries, and that turns problem documents back into errors."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any, ClassVar

import httpx

from common.core.errors import (
    URN,
    BadMessage,
    CannotWrite,
    PeerMisbehaved,
    PeerUnavailable,
    PeerUntrusted,
    Unauthorized,
    VersionSkew,
    from_document,
)
from common.service import addresses
from common.service.tls import context_for, fault_of
from common.wire.identity import Signed
from common.wire.version import BEFORE, HEADER, check_stated, skew, stated

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts; the last repeats."""

_CARRIED = frozenset(("content-encoding", "content-length", "transfer-encoding"))


class Client:
    """Requests to one service, which messages call :attr:`party`.

    All of Tandem's requests are idempotent, so each may be repeated until it is answered. Whether a peer can be trusted
    is said at once at the first contact; later it is waited for like one that is away, as its certificate is renewed.

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
        If ``url`` is not an address of a web service, or a file that TLS needs cannot be used.
    """

    party: ClassVar[str] = "service"
    shows: ClassVar[bool] = False
    """Whether this process's client certificate is for this party: nobody else is told whose connection it is."""
    most: ClassVar[int | None] = None
    """Bytes of one answer, at most, once it is unpacked; None where it may be as large as it likes."""
    insists: ClassVar[bool] = False
    """Whether a service that is there and cannot store anything is asked again, like one that is away."""

    def __init__(
        self, url: str, *, patience: float = 60.0, transport: httpx.BaseTransport | None = None, timeout: float = 60.0
    ) -> None:
        self.url = addresses.base(url)
        self._patience = patience
        stating = {HEADER: stated()}
        tls = context_for(self.url, party=self.party, shows=self.shows)
        ways: dict[str, Any] = {"timeout": timeout, "transport": transport, "trust_env": False}
        self._client = httpx.Client(base_url=self.url, headers=stating, verify=tls is None or tls, **ways)
        self._met = False

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
            If the service is there and cannot store anything at present: whoever asks decides how long to wait. Where
            the client insists, only if that is still so after the patience.
        PeerUnavailable
            If nobody answered within the patience.
        PeerUntrusted
            If TLS does not show that it is the service which is meant, or it does not accept our certificate.
        TandemError
            The error that the service reported, as its own type.
        """
        patience = self._patience if patience is None else patience
        began, attempt = time.monotonic(), 0
        while True:
            response: httpx.Response | None = None
            try:
                response = self._received(self._client.build_request(method, path, **parts))
            except (httpx.TransportError, httpx.InvalidURL) as error:
                why = self._fault(error)
            self._met = self._met or response is not None
            if response is not None and response.status_code == 202:
                began, attempt = time.monotonic(), 0
                time.sleep(PAUSES[0])
                continue
            says_why = response is not None and response.status_code == 503 and _cannot_write(response)
            if response is not None and (response.status_code != 503 or (says_why and not self.insists)):
                return self._checked(response)
            if response is not None:
                why = "it answers 503"
            pause = PAUSES[min(attempt, len(PAUSES) - 1)]
            attempt += 1
            if time.monotonic() - began + pause > patience:
                if response is not None and says_why:
                    return self._checked(response)
                raise PeerUnavailable(f"nobody answers at {self.url} ({why}); is the {self.party} running there?")
            time.sleep(pause)

    def _received(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its whole response.

        Raises
        ------
        PeerMisbehaved
            If it has more than :attr:`most` bytes.
        """
        if self.most is None:
            return self._client.send(request)
        response, body = self._client.send(request, stream=True), bytearray()
        with closing(response):
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > self.most:
                    raise PeerMisbehaved(f"{self._peer} answers with more than {self.most >> 20} MiB")
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in _CARRIED]
        return httpx.Response(response.status_code, headers=headers, content=bytes(body), request=request)

    def _fault(self, error: Exception) -> str:
        """Return why nobody answered.

        Raises
        ------
        PeerUntrusted
            If that is of TLS, and nobody has ever answered.
        """
        fault = fault_of(error)
        if fault is not None and not self._met:
            raise PeerUntrusted(f"the {self.party} at {self.url} {fault}")
        return fault or str(error) or type(error).__name__

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
