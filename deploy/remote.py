"""A deployment that already runs somewhere: create the run at its referee, watch, fetch what it leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from common.core.errors import AuditFailed, PeerMisbehaved
from common.scenario.resolved import ResolvedScenario
from common.service.client import Client
from common.wire.messages import Configuration, run_name
from common.wire.receipts import Kept
from common.wire.transcript import Entry, split
from deploy.base import Finished, OnProgress
from referee.service.referee import public

LOOK = 0.2
"""Seconds between two looks at a run."""
PAGE = 1000
"""Checkpoints that are asked for together."""
SOON = 15.0
"""Seconds to wait for the checkpoint of a run's end."""


class RefereeAt(Client):
    """A client of a referee."""

    party = "referee"


class Operating:
    """What an operator asks of a referee that runs somewhere.

    Parameters
    ----------
    client
        Of the referee.
    token
        Operator token.
    """

    def __init__(self, client: Client, token: str) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {token}"}

    def runs(self) -> list[dict[str, Any]]:
        """Return all runs, oldest first."""
        response = self._client.request("GET", "/v1/runs", headers=self._headers)
        try:
            found = response.json()
            return [{name: str(line[name]) for name in ("run", "scenario", "status", "waits_for")} for line in found]
        except (ValueError, KeyError, TypeError):
            raise PeerMisbehaved(f"what {self._client.url} answered is no list of runs") from None

    @property
    def url(self) -> str:
        """Address of the referee."""
        return self._client.url

    def state(self, run: str, after: int) -> dict[str, Any]:
        """Return a run as it stands, with what it has said of its progress after the first so many notes."""
        return self._client.document("GET", f"/v1/runs/{run_name(run)}", params={"after": after}, headers=self._headers)

    def standing(self, run: str) -> dict[str, Any]:
        """Return what a run waits for, and its agents so far."""
        return self._client.document("GET", f"/v1/runs/{run_name(run)}/standing", headers=self._headers)

    def configuration(self, run: str) -> Configuration:
        """Return a run's configuration.

        Raises
        ------
        NotFound
            If it has not begun.
        """
        return Configuration.parse(self._client.signed("GET", f"/v1/runs/{run_name(run)}/configuration").message)

    def entries(self, run: str, after: int, most: int) -> list[Entry]:
        """Return so many entries of a run's transcript after the first ones."""
        path, wanted = f"/v1/runs/{run_name(run)}/transcript", {"after": after, "most": most}
        return _entries(self._client.request("GET", path, params=wanted, headers=self._headers).text)

    def ask_to_cancel(self, run: str) -> None:
        """Cancel a run, and wait for nothing."""
        self._client.request("PUT", f"/v1/runs/{run_name(run)}/cancellation", headers=self._headers)

    def cancel(self, run: str) -> dict[str, Any]:
        """Cancel a run; return its result, once it has ended."""
        path = f"/v1/runs/{run_name(run)}"
        self.ask_to_cancel(run)
        while (result := self._client.document("GET", path, headers=self._headers).get("result")) is None:
            time.sleep(LOOK)
        if not isinstance(result, dict):
            raise PeerMisbehaved(f"what {self._client.url} says of run {run!r} is not the state of a run")
        return result

    def log(self, run: str, follow: bool) -> Iterator[tuple[list[Entry], list[str]]]:
        """Go through what is new of a run: entries of its transcript, and what it says of its progress."""
        path = f"/v1/runs/{run_name(run)}"
        entries = notes = 0
        while True:
            state = self._client.document("GET", path, params={"after": notes}, headers=self._headers)
            written = _entries(self._client.request("GET", f"{path}/transcript", headers=self._headers).text)
            said = [str(note.get("text")) for note in state.get("progress", [])]
            yield written[entries:], said
            entries, notes = len(written), notes + len(said)
            if not follow or state.get("result") is not None:
                return
            time.sleep(LOOK)


@contextmanager
def operating(url: str, token: str, *, patience: float = 3.0, timeout: float = 60.0) -> Iterator[Operating]:
    """Open a connection to a referee for its operator; it is asked again for as long as the patience lasts."""
    with closing(RefereeAt(url, patience=patience, timeout=timeout)) as client:
        yield Operating(client, token)


class Remote:
    """A deployment at a URL.

    Parameters
    ----------
    url
        Address of the referee.
    token
        Operator token.
    patience
        Seconds to keep trying while the referee is away.
    """

    def __init__(self, url: str, token: str, *, patience: float = 60.0) -> None:
        self._client = RefereeAt(url, patience=patience)
        self._headers = {"Authorization": f"Bearer {token}"}

    def check(self, scenario: ResolvedScenario) -> None:
        """Leave it to the parties there, who know their machines."""

    def run(
        self,
        scenario: ResolvedScenario,
        seed: int | None,
        run: str,
        on_progress: OnProgress,
        look: Callable[[], None] = lambda: None,
    ) -> Finished:
        """Carry a run to its end; ``look`` is called at each look at it, and may end the waiting by what it raises."""
        self.create(scenario, seed, run)
        return self.follow(run, on_progress, look)

    def create(self, scenario: ResolvedScenario, seed: int | None, run: str) -> None:
        """Create a run."""
        with closing(RefereeAt(self._client.url, patience=3.0)) as greeter:
            greeter.request("GET", "/v1/health")
        wanted = {"scenario": public(scenario), "seed": seed}
        self._client.request("PUT", f"/v1/runs/{run}", json=wanted, headers=self._headers)

    def follow(self, run: str, on_progress: OnProgress, look: Callable[[], None] = lambda: None) -> Finished:
        """Watch a run to its end, and fetch what it leaves."""
        path = f"/v1/runs/{run}"
        seen, result = 0, None
        while result is None:
            look()
            state = self._client.document("GET", path, params={"after": seen}, headers=self._headers)
            try:
                for note in state["progress"]:
                    on_progress(note["text"], note["numbers"])
                seen += len(state["progress"])
                result = state["result"]
            except (KeyError, TypeError):
                raise PeerMisbehaved(f"what {self._client.url} says of run {run!r} is not the state of a run") from None
            if result is None:
                time.sleep(LOOK)
        transcript = self._client.request("GET", f"{path}/transcript", headers=self._headers).text
        reports = tuple((q, self._reports(run, q)) for q in _questions(transcript))
        participants = self._client.request("GET", f"{path}/participants", headers=self._headers).content
        entries = _entries(transcript)
        vouchers = b""
        if entries and "vouchers" in entries[0].body:
            vouchers = self._client.request("GET", f"{path}/vouchers", headers=self._headers).content
        return Finished(result, transcript, participants, reports, self._checkpoints(run, entries), vouchers)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _checkpoints(self, run: str, entries: list[Entry]) -> tuple[Kept, ...]:
        """Return the run's checkpoints, once the last one covers its end and all witnesses have it, if that is soon."""
        until = time.monotonic() + SOON
        wanted = len(entries[0].body.get("witnesses", ())) if entries else 0
        while True:
            kept: list[Kept] = []
            while len(page := self._page(run, len(kept))) == PAGE:
                kept += page
            kept += page
            whole = kept and kept[-1].said().entries == len(entries) and len(kept[-1].witnessed) >= wanted
            if whole or not entries or time.monotonic() > until:
                return tuple(kept)
            time.sleep(LOOK)

    def _page(self, run: str, after: int) -> list[Kept]:
        wanted = {"after": after, "most": PAGE}
        response = self._client.request("GET", f"/v1/runs/{run}/checkpoints", params=wanted, headers=self._headers)
        try:
            return [Kept.parse(line) for line in response.json()]
        except (ValueError, TypeError):
            raise PeerMisbehaved(f"what {self._client.url} answered is no list of checkpoints") from None

    def _reports(self, run: str, question: int) -> bytes:
        return self._client.request("GET", f"/v1/runs/{run}/reports/{question}", headers=self._headers).content


def _entries(transcript: str) -> list[Entry]:
    try:
        return [Entry.model_validate_json(line) for line in split(transcript.encode())]
    except (ValueError, AuditFailed):
        raise PeerMisbehaved("the referee's transcript cannot be read") from None


def _questions(transcript: str) -> list[int]:
    try:
        return [int(e.body["question"]) for e in _entries(transcript) if e.kind == "question"]
    except (ValueError, KeyError, TypeError):
        raise PeerMisbehaved("the referee's transcript cannot be read") from None
