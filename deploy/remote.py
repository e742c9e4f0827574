"""A deployment that already runs elsewhere: create the run at its referee, watch it, and fetch its output."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from common.core.errors import PeerMisbehaved
from common.core.values import MAX_PLACE, run_name
from common.log.receipts import StoredCheckpoint
from common.log.transcript import SignedEntry
from common.net.client import ANSWER, Client, bearer, json_of
from common.net.edge import SMALL, TINY
from common.net.messages import Configuration
from common.scenario.scenario import ResolvedScenario
from deploy.deployment import OnProgress, RunOutput
from referee.service.referee import public

LOOK = 0.2  # seconds between two checks of a run
PAGE = 1000  # checkpoints requested together
SOON = 15.0  # seconds to wait for the checkpoint of a run's end
ENDING = 600.0  # seconds to wait for the end of a run that was cancelled
TRANSCRIPT = 128 << 20  # most bytes of a transcript
MANY = 1_000_000
"""Most agents of a run that another user has created: this limits its reports, of at most 4 KiB each."""


class RefereeAt(Client):
    """A client of a referee."""

    party = "referee"
    most = ANSWER


class OperatorClient:
    """An operator's requests to a referee that runs elsewhere; BadInput if a header cannot hold the token."""

    def __init__(self, client: Client, token: str) -> None:
        self._client = client
        self._headers = bearer(token, "the operator token")

    @property
    def url(self) -> str:
        return self._client.url

    def runs(self) -> list[dict[str, Any]]:
        listing = json_of(self._client.request("GET", "/v1/runs", headers=self._headers))
        try:
            names = ("run", "scenario", "status", "waits_for", "verdict")
            return [{name: str(line[name]) for name in names} for line in listing]
        except (ValueError, KeyError, TypeError):
            raise PeerMisbehaved(f"what {self.url} answered is no list of runs") from None

    def state(self, run: str, after: int) -> dict[str, Any]:
        """Return the current state of a run, with its progress notes after the first ``after``."""
        state = self._client.document(
            "GET", f"/v1/runs/{run_name(run)}", params={"after": after}, headers=self._headers
        )
        try:
            valid = isinstance(state["result"], dict | None) and all(
                isinstance(note["text"], str) and isinstance(note["numbers"], dict) for note in state["progress"]
            )
        except (KeyError, TypeError):
            valid = False
        if not valid:
            raise PeerMisbehaved(f"what {self.url} says of run {run!r} is not the state of a run")
        return state

    def standing(self, run: str) -> dict[str, Any]:
        return self._client.document("GET", f"/v1/runs/{run_name(run)}/standing", headers=self._headers)

    def configuration(self, run: str) -> Configuration:
        """Return a run's configuration; NotFound if it has not begun."""
        return Configuration.parse(self._client.signed("GET", f"/v1/runs/{run_name(run)}/configuration").message)

    def entries(self, run: str, after: int, most: int) -> list[SignedEntry]:
        path, params = f"/v1/runs/{run_name(run)}/transcript", {"after": after, "most": most}
        return _entries(self._client.request("GET", path, params=params, headers=self._headers, most=TRANSCRIPT).text)

    def ask_to_cancel(self, run: str) -> None:
        self._client.request("PUT", f"/v1/runs/{run_name(run)}/cancellation", headers=self._headers)

    def cancel(self, run: str) -> dict[str, Any]:
        """Cancel a run; return its result, once it has ended.

        PeerMisbehaved if it does not end, or its result is not valid.
        """
        self.ask_to_cancel(run)
        until = time.monotonic() + ENDING
        while (result := self.state(run, 0)["result"]) is None:
            if time.monotonic() > until:
                raise PeerMisbehaved(
                    f"the referee at {self.url} has taken the cancellation of run {run!r}, and has not ended "
                    f"it for {ENDING:,.0f} s: look what it waits for (referee runs), and ask who runs it"
                )
            time.sleep(LOOK)
        return dict(result)

    def log(self, run: str, follow: bool) -> Iterator[tuple[list[SignedEntry], list[str]]]:
        """Yield what is new in a run: entries of its transcript, and its progress notes."""
        entries = notes = 0
        while True:
            state = self.state(run, notes)
            written = self.entries(run, entries, MAX_PLACE)
            yield written, [note["text"] for note in state["progress"]]
            entries, notes = entries + len(written), notes + len(state["progress"])
            if not follow or state["result"] is not None:
                return
            time.sleep(LOOK)


@contextmanager
def operating(url: str, token: str, *, patience: float = 3.0, timeout: float = 60.0) -> Iterator[OperatorClient]:
    """Open a connection to a referee for its operator; requests are retried for ``patience`` seconds."""
    with closing(RefereeAt(url, patience=patience, timeout=timeout)) as client:
        yield OperatorClient(client, token)


class Remote(OperatorClient):
    """A deployment at a URL; while the referee is unavailable, requests are retried for ``patience`` seconds.

    A run that has ``ended`` is only fetched: a referee restored to an earlier state would start it anew.
    """

    def __init__(self, url: str, token: str, *, patience: float = 60.0, ended: bool = False) -> None:
        super().__init__(RefereeAt(url, patience=patience), token)
        self._ended = ended
        self._agents = MANY

    def check(self, scenario: ResolvedScenario) -> None:
        """Check that the referee is available and accepts the token; the remote parties check the scenario."""
        with closing(RefereeAt(self.url, patience=3.0)) as greeter:
            greeter.request("GET", "/v1/runs", headers=self._headers)

    def run(
        self,
        scenario: ResolvedScenario,
        seed: int | None,
        run: str,
        on_progress: OnProgress,
        look: Callable[[], None] = lambda: None,
    ) -> RunOutput:
        """Execute a run to its end; ``look`` is called at each check and ends the wait by raising."""
        if not self._ended:
            self.create(scenario, seed, run)
        return self.follow(run, on_progress, look)

    def create(self, scenario: ResolvedScenario, seed: int | None, run: str) -> None:
        body = {"scenario": public(scenario), "seed": seed}
        self._client.request("PUT", f"/v1/runs/{run}", json=body, headers=self._headers)
        self._agents = scenario.agents.count

    def follow(self, run: str, on_progress: OnProgress, look: Callable[[], None] = lambda: None) -> RunOutput:
        """Watch a run to its end, and fetch its output."""
        notes = 0
        while True:
            look()
            state = self.state(run, notes)
            for note in state["progress"]:
                on_progress(note["text"], note["numbers"])
            notes += len(state["progress"])
            if state["result"] is not None:
                break
            time.sleep(LOOK)
        path, limit = f"/v1/runs/{run}", SMALL + TINY * self._agents
        transcript = self._content(f"{path}/transcript", TRANSCRIPT).decode(errors="replace")
        entries = _entries(transcript)
        reports = tuple((number, self._content(f"{path}/reports/{number}", limit)) for number in _questions(entries))
        participants = self._content(f"{path}/participants", limit)
        has_vouchers = entries and "vouchers" in entries[0].body
        vouchers = self._content(f"{path}/vouchers", limit) if has_vouchers else b""
        checkpoints = self._checkpoints(run, entries)
        return RunOutput(state["result"], transcript, participants, reports, checkpoints, vouchers)

    def close(self) -> None:
        self._client.close()

    def _checkpoints(self, run: str, entries: list[SignedEntry]) -> tuple[StoredCheckpoint, ...]:
        """Return the run's checkpoints; wait briefly until the last covers its end and all witnesses have it."""
        until = time.monotonic() + SOON
        witnesses = len(entries[0].body.get("witnesses", ())) if entries else 0
        while True:
            checkpoints: list[StoredCheckpoint] = []
            while len(page := self._page(run, len(checkpoints))) == PAGE:
                checkpoints += page
                if len(checkpoints) > PAGE * (len(entries) + 1):
                    raise PeerMisbehaved(
                        f"the referee at {self.url} shows {len(checkpoints):,} checkpoints of {len(entries):,} "
                        "entries: their list has no end"
                    )
            checkpoints += page
            complete = (
                checkpoints
                and checkpoints[-1].verified().entries == len(entries)
                and len(checkpoints[-1].witnessed) >= witnesses
            )
            if complete or not entries or time.monotonic() > until:
                return tuple(checkpoints)
            time.sleep(LOOK)

    def _page(self, run: str, after: int) -> list[StoredCheckpoint]:
        params = {"after": after, "most": PAGE}
        response = self._client.request("GET", f"/v1/runs/{run}/checkpoints", params=params, headers=self._headers)
        try:
            return [StoredCheckpoint.parse(line) for line in json_of(response)]
        except (ValueError, TypeError):
            raise PeerMisbehaved(f"what {self.url} answered is no list of checkpoints") from None

    def _content(self, path: str, most: int) -> bytes:
        return self._client.request("GET", path, headers=self._headers, most=most).content


def _entries(transcript: str) -> list[SignedEntry]:
    try:
        *lines, rest = transcript.split("\n")
        if rest:
            raise ValueError("cut off")
        return [SignedEntry.model_validate_json(line) for line in lines]
    except ValueError:
        raise PeerMisbehaved("the referee's transcript cannot be read") from None


def _questions(entries: list[SignedEntry]) -> list[int]:
    try:
        numbers: list[Any] = [entry.body["question"] for entry in entries if entry.kind == "question"]
    except (KeyError, TypeError, ValueError):
        numbers = [None]
    if not all(type(number) is int and 0 <= number < MAX_PLACE for number in numbers):
        raise PeerMisbehaved("the referee's transcript cannot be read: a question has no number, which names its file")
    return numbers
