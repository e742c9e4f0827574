"""A witness of runs over HTTP, as referees, agents and auditors see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from common.core.errors import PeerMisbehaved
from common.service.client import Client, read_signed_reply
from common.wire.identity import Signed, verify
from common.wire.receipts import Kept, RunSeen, Witnessed

TOKEN = "TANDEM_WITNESS_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token of a witness service."""
PATIENCE = 2.0
"""Seconds for which a referee keeps trying: what it cannot have witnessed now it can later."""
_PAGE = 100
"""Checkpoints that are asked for together."""


class WitnessClient(Client):
    """:class:`referee.runs.checkpoints.RunWitness` over HTTP.

    Parameters
    ----------
    url
        Address of the witness.
    token
        What admits those who put checkpoints; whoever only reads needs none.
    patience
        Seconds to keep trying while it does not answer.
    """

    party = "witness"
    most = 16 << 20

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
        """Keep a checkpoint; return the witness's word."""
        path = f"/v1/runs/{signed.key}/{signed.message['run']}"
        word = read_signed_reply(self.request("PUT", path, content=signed.raw(), headers=self._headers))
        verify(word, Witnessed.KIND, self._pinned, "the witness that answers there")
        return word

    def kept(self, referee: str, run: str) -> list[Kept]:
        """Return all that it has seen of a run, oldest first."""
        return list(self._pages(f"/v1/runs/{referee}/{run}"))

    def runs(self, referee: str) -> list[RunSeen]:
        """Return the runs of a referee that it has seen, by name."""
        found: list[RunSeen] = []
        while True:
            after = found[-1].run if found else ""
            response = self.request("GET", f"/v1/runs/{referee}", params={"after": after, "most": _PAGE})
            page = [RunSeen.parse(line) for line in _list(response.json, self.url)]
            found += [seen for seen in page if seen.run > after]
            if len(page) < _PAGE or found[-1].run == after:
                return found

    def _pages(self, path: str) -> Iterator[Kept]:
        after = 0
        while True:
            response = self.request("GET", path, params={"after": after, "most": _PAGE})
            lines = _list(response.json, self.url)
            yield from (Kept.parse(line) for line in lines)
            after += len(lines)
            if len(lines) < _PAGE:
                return


def _list(read: Callable[[], Any], url: str) -> list[Any]:
    try:
        return list(read())
    except (ValueError, TypeError):
        raise PeerMisbehaved(f"what {url} answered is no list") from None
