"""The HTTP client of Tandem: retries requests, and turns problem documents back into errors."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import httpx

from common.core import canonical
from common.core.errors import (
    URN,
    BadInput,
    BadMessage,
    CannotWrite,
    NotFound,
    PeerMisbehaved,
    PeerUnavailable,
    PeerUntrusted,
    RolledBack,
    VersionSkew,
    from_document,
)
from common.core.plain import one_line
from common.core.version import BEFORE, HEADER, check_stated, skew, stated
from common.crypto.identity import Signed, verify
from common.log.receipts import RunSeen, StoredCheckpoint, Witnessed, check_contradiction
from common.log.witness import FileWitness, Witness
from common.net.edge import SMALL
from common.net.tls import base_address, context_for, fault_of, is_address
from common.net.transport import Transport, pause, send

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between attempts; the last value repeats

ANSWER = 16 << 20  # bytes of the longest answer except a release: a question with its hypothesis
QUOTED = 200  # most characters quoted from the response of something that is not the peer
SOON = 15.0  # seconds that an attempt may take, however short the patience is
AT_WORK = (0.1, 5.0)  # seconds between two requests to a peer that is computing: an eighth of the time so far, clipped


class Client:
    """A client of one service, called :attr:`party` in messages. All requests are idempotent: each may be repeated.

    A peer that cannot be trusted is refused at the first contact; later it is retried, since its certificate may be
    being renewed. The client follows no redirect, reads nothing compressed and keeps no cookie.

    Args:
        patience: Seconds to keep trying while the service does not answer.
        timeout: Seconds that one attempt may take: at most the patience, or :data:`SOON`; each 64 KiB sent or received
            adds one.

    Raises:
        BadInput: If ``url`` is not an address of a web service, or a file that TLS needs cannot be used.
    """

    party: ClassVar[str] = "service"
    shows: ClassVar[bool] = False  # whether this process's client certificate is for this party
    most: ClassVar[int] = SMALL  # most bytes of one answer, where a request states no other limit
    works: float = 0.0  # seconds for which the service may answer 202: it is still computing
    insists: ClassVar[bool] = False  # whether to retry at a service that cannot store anything

    def __init__(
        self, url: str, *, patience: float = 60.0, transport: httpx.BaseTransport | None = None, timeout: float = 60.0
    ) -> None:
        self.url = base_address(url)
        self.patience = patience
        self._timeout = timeout
        common = {HEADER: stated(), "Accept-Encoding": "identity"}
        self._carrier = transport or Transport(context_for(self.url, party=self.party, shows=self.shows))
        self._client = httpx.Client(
            base_url=self.url, headers=common, transport=self._carrier, trust_env=False, timeout=timeout
        )
        self._met = False

    def close(self) -> None:
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        patience: float | None = None,
        timeout: float | None = None,
        most: int | None = None,
        **parts: Any,
    ) -> httpx.Response:
        """Send a request; retry while the service does not answer, or answers 503, or 202 where that is allowed.

        Also retried are 502 and 504, from a proxy whose service cannot be reached, and 408, from a service that waited
        too long for the request: it has processed none of it.

        Args:
            patience, timeout, most: For this request alone: seconds to keep trying (and for 202 answers), seconds of
                one attempt, bytes of the answer.

        Raises:
            CannotWrite: If the service cannot store anything at present; where the client insists, after the patience.
            PeerUnavailable: If the service did not answer within the patience.
            PeerUntrusted: If TLS does not authenticate the intended service, or the service refuses our certificate.
            PeerMisbehaved: If its answer is too long, or it answers 202 for too long.
            Overdue: If the caller's deadline has passed (:func:`common.net.transport.time_limit`).
            TandemError: The error that the service reported, as its own type.
        """
        works = self.works if patience is None else min(self.works, patience)
        patience = self.patience if patience is None else patience
        seconds = timeout or min(self._timeout, max(patience, SOON))
        most = self.most if most is None else most
        began, attempt, at_work = time.monotonic(), 0, None
        while True:
            response, reason = self._attempt(method, path, seconds, most, parts)
            if response is not None and response.status_code == 202:
                at_work = at_work or time.monotonic()
                self._pause_at_work(f"{method} {path}", time.monotonic() - at_work, works)
                began, attempt = time.monotonic(), 0
                continue
            says_why = response is not None and response.status_code == 503 and _cannot_write(response)
            if response is not None and (not _is_away(response) or (says_why and not self.insists)):
                return self._checked(response)
            wait = PAUSES[min(attempt, len(PAUSES) - 1)]
            attempt += 1
            if time.monotonic() - began + wait > patience:
                if response is not None and says_why:
                    return self._checked(response)
                raise PeerUnavailable(f"cannot connect to {self.url} ({reason}); is the {self.party} running there?")
            pause(wait)

    def _attempt(
        self, method: str, path: str, seconds: float, most: int, parts: Mapping[str, Any]
    ) -> tuple[httpx.Response | None, str]:
        try:
            request = self._client.build_request(method, path, **parts)
            response = send(self._carrier.handle_request, request, seconds=seconds, most=most, peer=self._peer)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            return None, self._fault(error)
        self._met = True
        return response, f"it answers {response.status_code}"

    def _pause_at_work(self, call: str, took: float, works: float) -> None:
        if took >= works:
            limit = f"for {took:,.0f} s, longer than {works:,.0f}" if works else "which takes no time"
            raise PeerMisbehaved(
                f"{self._peer} answers {call} that it is still at work (202), {limit}: check the address, or ask who "
                "runs it"
            )
        pause(min(max(took / 8.0, AT_WORK[0]), AT_WORK[1]))

    def _fault(self, error: Exception) -> str:
        fault = fault_of(error)
        if fault is not None and not self._met:
            raise PeerUntrusted(f"the {self.party} at {self.url} {fault}")
        return fault or str(error) or type(error).__name__

    @property
    def _peer(self) -> str:
        return f"the {self.party} at {self.url}"

    def check_states_protocol(self, response: httpx.Response) -> None:
        """Refuse a peer that states no protocol at the first contact: it is an older version (VersionSkew)."""
        if HEADER not in response.headers:
            raise skew(self._peer, None, BEFORE)

    def _checked(self, response: httpx.Response) -> httpx.Response:
        check_stated(response.headers.get(HEADER), self._peer)
        if response.is_success:
            return response
        call = f"{response.request.method} {response.request.url}"
        document = json_of(response)
        if not isinstance(document, dict):
            raise PeerMisbehaved(
                f"{call} was answered {response.status_code} without a problem document; is that the address of the "
                f"{self.party}?"
            )
        if not str(document.get("type")).startswith(URN):
            reason = one_line(str(document.get("detail", document.get("title", "no reason given"))))[:QUOTED]
            raise PeerMisbehaved(
                f"{call} was answered {response.status_code} ({reason}): what listens there is not the {self.party}, "
                "or one of another version; check the address"
            )
        error = from_document(document)
        error.status = response.status_code
        if type(error) is BadMessage and HEADER not in response.headers:
            raise VersionSkew(f"{skew(self._peer, None, BEFORE).detail}. It says: {error.detail}")
        error.reported_by = self._peer
        raise error

    def document(self, method: str, path: str, **parts: Any) -> dict[str, Any]:
        """Send a request and return the JSON object in the answer, or raise PeerMisbehaved."""
        return self.document_of(self.request(method, path, **parts))

    def document_of(self, response: httpx.Response) -> dict[str, Any]:
        document = json_of(response)
        if not isinstance(document, dict):
            raise PeerMisbehaved(f"{response.request.url} answered something that is not a JSON object")
        return document

    def signed(self, method: str, path: str, message: Signed | None = None, **parts: Any) -> Signed:
        if message is not None:
            parts["content"] = message.raw()
        return read_signed_reply(self.request(method, path, **parts))


def json_of(response: httpx.Response) -> Any:
    """Return the JSON value of a response; None if it is not JSON, or would take too much memory."""
    try:
        return canonical.decode(response.content)
    except BadMessage:
        return None


def read_signed_reply(response: httpx.Response) -> Signed:
    """Parse a signed reply, or raise PeerMisbehaved."""
    try:
        canonical.check_shape(response.content)
        return Signed.model_validate_json(response.content)
    except (ValueError, BadMessage) as error:
        reason = error.detail if isinstance(error, BadMessage) else "not a signed message"
        raise PeerMisbehaved(f"{response.request.url} answered something that is {reason}") from None


def _is_away(response: httpx.Response) -> bool:
    if response.status_code in (502, 504):
        document = json_of(response)
        return not (isinstance(document, dict) and str(document.get("type")).startswith(URN))
    return response.status_code in (408, 503)


def _cannot_write(response: httpx.Response) -> bool:
    document = json_of(response)
    return isinstance(document, dict) and document.get("type") == URN + CannotWrite.problem


def bearer(token: str, name: str) -> dict[str, str]:
    """Return the header with a token; BadInput, which does not show the token, if no header can hold it."""
    if not (token.isascii() and token.isprintable()):
        raise BadInput(f"{name} holds a line's end or a character beyond ASCII: give it as it was handed out")
    return {"Authorization": f"Bearer {token}"}


T = TypeVar("T")

WITNESS_TOKEN = "TANDEM_WITNESS_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token of a witness service."""
WITNESS_PATIENCE = 2.0  # seconds for which a referee keeps trying; a checkpoint can also be witnessed later
_PAGE = 100  # checkpoints requested together
_BYTES = 32 << 20  # most bytes of all pages together


class WitnessClient(Client):
    """A service that keeps checkpoints of runs (:class:`common.log.witness.Witness`); putting one needs a token."""

    party = "witness"
    most = 4 << 20

    def __init__(self, url: str, token: str = "", *, patience: float = WITNESS_PATIENCE) -> None:
        super().__init__(url, patience=patience, timeout=max(patience, WITNESS_PATIENCE))
        self._headers = bearer(token, "the witness's token") if token else {}
        self._pinned: str | None = None

    @property
    def place(self) -> str:
        return self.url

    def key(self) -> str:
        """Return the witness's public key, with which its statements are verified from now on."""
        self._pinned = str(self.document("GET", "/v1/witness").get("key"))
        return self._pinned

    def keep(self, signed: Signed) -> Signed:
        """Have a checkpoint kept; return the witness's signed statement.

        RolledBack if the witness has seen another history of the run, and shows one that the same referee has signed.
        """
        path = f"/v1/runs/{signed.key}/{signed.message['run']}"
        try:
            response = self.request("PUT", path, content=signed.raw(), headers=self._headers)
        except RolledBack as error:
            check_contradiction(error.members.get("checkpoint"), signed, self._peer)
            raise
        word = read_signed_reply(response)
        verify(word, Witnessed.KIND, self._pinned, "the witness that answers there")
        return word

    def kept(self, signer: str = "", run: str = "") -> list[StoredCheckpoint]:
        return self._pages(f"/v1/runs/{signer}/{run}", StoredCheckpoint.parse, len)

    def check_writable(self) -> None:
        self.request("GET", "/v1/ready")

    def runs(self, referee: str) -> list[RunSeen]:
        """Return the runs of a referee that the witness has seen, by name."""
        return self._pages(f"/v1/runs/{referee}", RunSeen.parse, lambda page: page[-1].run if page else "")

    def _pages(self, path: str, parse: Callable[[Any], T], after: Callable[[list[T]], int | str]) -> list[T]:
        """Return a whole list; ``after`` returns where its next page begins. Endless pages are refused."""
        items: list[T] = []
        begin, read, previous = after(items), 0, None
        while True:
            response = self.request("GET", path, params={"after": begin, "most": _PAGE})
            page = json_of(response)
            if not isinstance(page, list) or len(page) > _PAGE or (page and page == previous):
                raise PeerMisbehaved(f"{self._peer} answers {path} with no list of at most {_PAGE} further lines")
            read += len(response.content)
            if read > _BYTES:
                raise PeerMisbehaved(
                    f"{self._peer} answers {path} with pages of more than {_BYTES >> 20} MiB together: they are not "
                    "used. Name another witness, or ask who runs it"
                )
            try:
                items += map(parse, page)
            except BadMessage as error:
                raise PeerMisbehaved(f"{self._peer} answers {path} with what is no such list: {error.detail}") from None
            previous = page
            if len(page) < _PAGE or (following := after(items)) == begin:
                return items
            begin = following


class HttpWitness:
    """A service at ``http://HOST:PORT/v1/heads/NAME`` that keeps the heads of a ledger."""

    def __init__(self, url: str) -> None:
        self.place = base_address(url)
        base, _, name = self.place.rpartition("/v1/heads/")
        self._base, self._path = base or self.place, f"/v1/heads/{name}"

    def key(self) -> str:
        return ""

    def kept(self, signer: str = "", run: str = "") -> list[StoredCheckpoint]:
        try:
            return [StoredCheckpoint(checkpoint=read_signed_reply(self._request("GET")))]
        except NotFound:
            return []

    def keep(self, signed: Signed) -> None:
        self._request("PUT", content=signed.model_dump_json())

    def check_writable(self) -> None:
        with closing(Client(self._base, patience=0.0, timeout=1.0)) as client:  # check readiness without waiting
            client.request("GET", "/v1/ready")

    def _request(self, method: str, **parts: Any) -> httpx.Response:
        token = os.environ.get(WITNESS_TOKEN, "")
        headers = bearer(token, WITNESS_TOKEN) if token else {}
        with closing(Client(self._base, patience=10.0)) as client:
            return client.request(method, self._path, headers=headers, **parts)


def witness_at(place: str) -> Witness:
    """Return the witness at a place: a URL, or a file's path."""
    return HttpWitness(place) if is_address(place) else FileWitness(Path(place))
