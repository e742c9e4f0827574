"""A deployment that already runs somewhere: create the run at its referee, watch, fetch what it leaves."""

from __future__ import annotations

import time
from contextlib import closing

from common.core.errors import AuditFailed, PeerMisbehaved
from common.scenario.resolved import ResolvedScenario
from common.service.client import Client
from common.wire.transcript import Entry, split
from deploy.base import Finished, OnProgress
from referee.service.referee import public


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
        self._client = Client(url, patience=patience)
        self._headers = {"Authorization": f"Bearer {token}"}

    def check(self, scenario: ResolvedScenario) -> None:
        """Leave it to the parties there, who know their machines."""

    def run(self, scenario: ResolvedScenario, seed: int | None, run: str, on_progress: OnProgress) -> Finished:
        """Carry a run to its end."""
        self.create(scenario, seed, run)
        return self.follow(run, on_progress)

    def create(self, scenario: ResolvedScenario, seed: int | None, run: str) -> None:
        """Create a run."""
        with closing(Client(self._client.url, patience=3.0)) as greeter:
            greeter.request("GET", "/v1/health")
        wanted = {"scenario": public(scenario), "seed": seed}
        self._client.request("PUT", f"/v1/runs/{run}", json=wanted, headers=self._headers)

    def follow(self, run: str, on_progress: OnProgress) -> Finished:
        """Watch a run to its end, and fetch what it leaves."""
        path = f"/v1/runs/{run}"
        seen, result = 0, None
        while result is None:
            state = self._client.document("GET", path, params={"after": seen})
            try:
                for note in state["progress"]:
                    on_progress(note["text"], note["numbers"])
                seen += len(state["progress"])
                result = state["result"]
            except (KeyError, TypeError):
                raise PeerMisbehaved(f"what {self._client.url} says of run {run!r} is not the state of a run") from None
            if result is None:
                time.sleep(0.2)
        transcript = self._client.request("GET", f"{path}/transcript").text
        reports = tuple((q, self._reports(run, q)) for q in _questions(transcript))
        participants = self._client.request("GET", f"{path}/participants", headers=self._headers).content
        return Finished(result, transcript, participants, reports)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _reports(self, run: str, question: int) -> bytes:
        return self._client.request("GET", f"/v1/runs/{run}/reports/{question}", headers=self._headers).content


def _questions(transcript: str) -> list[int]:
    try:
        entries = [Entry.model_validate_json(line) for line in split(transcript.encode())]
        return [int(e.body["question"]) for e in entries if e.kind == "question"]
    except (ValueError, KeyError, TypeError, AuditFailed):
        raise PeerMisbehaved("the referee's transcript cannot be read") from None
