"""A witness of runs over HTTP, as referees, agents and auditors see it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import httpx

from common.core.errors import BadMessage, NotFound, PeerMisbehaved, RolledBack
from common.crypto.identity import Signed, verify
from common.log.entries import Extension, Head
from common.log.receipts import RunSeen, StoredCheckpoint, Witnessed, check_contradiction
from common.log.witness import FileWitness, Witness
from common.net.addresses import base as base_of
from common.net.addresses import is_address
from common.net.client import Client, json_of, read_signed_reply

T = TypeVar("T")

TOKEN = "TANDEM_WITNESS_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token of a witness service."""
PATIENCE = 2.0
"""Seconds for which a referee keeps trying: what it cannot have witnessed now it can later."""
_PAGE = 100
"""Checkpoints that are asked for together."""
_BYTES = 32 << 20
"""Bytes of all pages together, at most."""


class WitnessClient(Client):
    """:class:`referee.runs.checkpoints.RunWitness` over HTTP.

    Args:
        url: Address of the witness.
        token: What admits those who put checkpoints; whoever only reads needs none.
        patience: Seconds to keep trying while it does not answer.
    """

    party = "witness"
    most = 4 << 20

    def __init__(self, url: str, token: str = "", *, patience: float = PATIENCE) -> None:
        super().__init__(url, patience=patience, timeout=max(patience, PATIENCE))
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._pinned: str | None = None

    @property
    def place(self) -> str:
        """Its address."""
        return self.url

    def key(self) -> str:
        """Return its public key: what its words are verified by from now on."""
        self._pinned = str(self.document("GET", "/v1/witness").get("key"))
        return self._pinned

    def keep(self, signed: Signed) -> Signed:
        """Keep a checkpoint; return the witness's word.

        Raises:
            RolledBack: If it has seen another history of the run, and shows one that the same referee has signed.
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

    def kept(self, referee: str, run: str) -> list[StoredCheckpoint]:
        """Return all that it has seen of a run, oldest first.

        Raises:
            PeerMisbehaved: If its pages have no end.
        """
        return self._pages(f"/v1/runs/{referee}/{run}", StoredCheckpoint.parse, len)

    def runs(self, referee: str) -> list[RunSeen]:
        """Return the runs of a referee that it has seen, by name.

        Raises:
            PeerMisbehaved: If its pages have no end.
        """
        return self._pages(f"/v1/runs/{referee}", RunSeen.parse, lambda found: found[-1].run if found else "")

    def _pages(self, path: str, parse: Callable[[Any], T], after: Callable[[list[T]], int | str]) -> list[T]:
        """Return a whole list; ``after`` tells where its next page begins, given what has come."""
        found: list[T] = []
        begin, read, before = after(found), 0, None
        while True:
            response = self.request("GET", path, params={"after": begin, "most": _PAGE})
            page = json_of(response)
            if not isinstance(page, list) or len(page) > _PAGE or (page and page == before):
                raise PeerMisbehaved(f"{self._peer} answers {path} with no list of at most {_PAGE} further lines")
            read += len(response.content)
            if read > _BYTES:
                raise PeerMisbehaved(
                    f"the witness at {self.url} answers {path} with pages of more than {_BYTES >> 20} MiB together: "
                    "they are not used. Name another witness, or ask who runs it"
                )
            try:
                found += map(parse, page)
            except BadMessage as error:
                raise PeerMisbehaved(f"{self._peer} answers {path} with what is no such list: {error.detail}") from None
            before = page
            if len(page) < _PAGE or (next_one := after(found)) == begin:
                return found
            begin = next_one


"""Environment variable with the token of a witness service."""

PROMPT = 1.0
"""Seconds in which a service must say that it is ready."""


class HttpWitness:
    """:class:`common.log.witness.Witness` over HTTP.

    Args:
        url: Of this ledger's heads: ``http://HOST:PORT/v1/heads/NAME``.

    Raises:
        BadInput: If it is no address of a service.
    """

    def __init__(self, url: str) -> None:
        self.place = base_of(url)
        base, _, name = self.place.rpartition("/v1/heads/")
        self._base, self._path = base or self.place, f"/v1/heads/{name}"

    def last(self) -> Head | None:
        """Return the newest head."""
        try:
            response = self._request("GET")
        except NotFound:
            return None
        return Extension.parse(verify(read_signed_reply(response), Extension.KIND)).head

    def put(self, signed: Signed) -> None:
        """Keep a head."""
        self._request("PUT", content=signed.model_dump_json())

    def check_writable(self) -> None:
        """See whether the service is ready, without waiting for long."""
        with closing(Client(self._base, patience=0.0, timeout=PROMPT)) as client:
            client.request("GET", "/v1/ready")

    def _request(self, method: str, **parts: Any) -> httpx.Response:
        token = os.environ.get(TOKEN, "")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with closing(Client(self._base, patience=10.0)) as client:
            return client.request(method, self._path, headers=headers, **parts)


def witness_at(place: str) -> Witness:
    """Return the witness at a place: a URL, or a file's path."""
    return HttpWitness(place) if is_address(place) else FileWitness(Path(place))
