"""The cheats, one function each: it plays one, and yields what was done and the audits that are made of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.cheats.parties import Parties, entries_of, scenario, serving, write_entries
from common.crypto.identity import Signed
from common.local.mechanisms.mechanism import BitMechanism
from common.log.receipts import StoredCheckpoint, signed_checkpoint
from common.log.transcript import append
from curator.curator import Curator
from local_agent.answers import answer_together


@dataclass
class Played:
    """What came of a cheat.

    Attributes:
        done: What was done, in a sentence.
        run: The run folder that is published.
        audits: Options of the audits, by what they are called.
    """

    done: str
    run: Path
    audits: dict[str, tuple[str, ...]] = field(default_factory=dict)


Play = Callable[[Path, ExitStack], Played]
CHEATS: dict[str, Play] = {}
"""All cheats by name, in the order in which they are shown."""


def cheat(name: str) -> Callable[[Play], Play]:
    """Register a cheat."""

    def register(play: Play) -> Play:
        CHEATS[name] = play
        return play

    return register


def _usual(parties: Parties) -> dict[str, tuple[str, ...]]:
    return {"audit": (), "audit --strict, keys given": ("--strict", *parties.keys)}


@cheat("an honest run")
def honest(folder: Path, opened: ExitStack) -> Played:
    """Nobody cheats."""
    with Parties(folder / "all", scenario()) as parties:
        run = parties.run()
    receipts = ("--receipt", str(folder / "all" / "host0" / "receipts"))
    url = opened.enter_context(serving(folder / "all" / "witness"))
    return Played(
        "Nobody cheats.", run, {**_usual(parties), "with receipts and witness": ("--witness", url, *receipts)}
    )


@cheat("invented people")
def invented(folder: Path, opened: ExitStack) -> Played:
    """Enrol a host of the referee's own, for 6,000 people who say that the answer is right, with honest noise."""
    mechanism = scenario().agents.mechanism
    assert isinstance(mechanism, BitMechanism)
    truth = mechanism.truth

    def perfect(*asked: Any) -> Any:
        bits = answer_together(*asked)
        return (np.random.default_rng(1).random(len(bits)) > truth).astype(bits.dtype)

    with (
        mock.patch("local_agent.hosted.population.answer_together", perfect),
        Parties(folder / "all", scenario()) as parties,
    ):
        run = parties.run()
        result = json.loads((run / "result.json").read_bytes())
        loss, found = parties.true_loss(result["answer"]), result["estimate"]
    return Played(
        "The referee's operator enrols 6,000 inventions, who all say that the answer is right, with the noise of "
        f"honest agents. Published: {result['status']}, loss in [{found['low']:.3f}, {found['high']:.3f}]; "
        f"true: {loss:.3f}.",
        run,
        _usual(parties),
    )


@cheat("dropped reports")
def dropped(folder: Path, opened: ExitStack) -> Played:
    """Ten hosts answer; the referee acknowledges the reports of three, and stores none of them."""
    with Parties(folder / "all", scenario(), hosts=(600,) * 10) as parties:
        honest, referee = parties.referee.report_packed, parties.referee
        keys = {population.identity.public for population in parties.populations[:3]}

        def forgets(signed: Signed, body: bytes) -> Signed:
            if signed.key not in keys:
                return honest(signed, body)
            said = {"run": "run", "question": signed.message["question"], "report": signed.signature, "time": 0}
            return referee.identity.sign("receipt", said)

        with mock.patch.object(referee, "report_packed", forgets):
            run = parties.run()
    receipts = ("--receipt", str(folder / "all" / "host0" / "receipts"))
    return Played(
        "Ten hosts of 600 people each answer. The referee gives all of them receipts, and throws the reports of three "
        "away before it counts.",
        run,
        {**_usual(parties), "with a receipt": receipts},
    )


@cheat("early closing")
def early(folder: Path, opened: ExitStack) -> Played:
    """Ten hosts of 600; the referee does not hear seven of them, and says that they were silent."""
    with Parties(folder / "all", scenario(), hosts=(600,) * 10) as parties:
        parties.silent = set(range(3, 10))
        run = parties.run()
    return Played(
        "Ten hosts of 600 people each are asked. The referee closes the question when it has heard three of them.",
        run,
        _usual(parties),
    )


def _forked(parties: Parties, run: Path, *, cut: bool) -> None:
    """Put another end in the place of the run's, and one checkpoint of it; all is signed with the referee's key."""
    entries, signer = entries_of(run), parties.referee.identity
    body = json.loads(json.dumps(entries[-1].body))
    if cut:
        body["result"].update(
            status="failed", reason="power cut", answer=None, estimate=None, rounds=[], iterations=0, order={}
        )
        del body["result"]["order"]
        body["order"] = {}
        body["result"]["agents"].update(asked=0, answered=0)
        body["result"]["lost"] = {"silent": 0, "declined": {}}
    else:
        body["order"]["600000"] = "00" * 32
    left = entries[:2] if cut else entries[:-1]
    other = [*left, append(left[-1], "result", body, signer)]
    write_entries(run, other)
    result = json.loads((run / "result.json").read_bytes())
    (run / "result.json").write_text(json.dumps({**result, **body["result"]}))
    said = StoredCheckpoint.parse(json.loads((run / "checkpoints.jsonl").read_text().splitlines()[0])).verified()
    twin = StoredCheckpoint(checkpoint=signed_checkpoint(signer, "run", said.configuration, other, said.time))
    (run / "checkpoints.jsonl").write_text(json.dumps(twin.wire(), sort_keys=True) + "\n")


@cheat("a fork")
def fork(folder: Path, opened: ExitStack) -> Played:
    """Show another history of the run, with checkpoints of its own."""
    with Parties(folder / "all", scenario()) as parties:
        run = parties.run()
        _forked(parties, run, cut=False)
    url = opened.enter_context(serving(folder / "all" / "witness"))
    return Played(
        "The referee signs a second history of the run, which ends in another entry, and new checkpoints for it.",
        run,
        {**_usual(parties), "with the witness": ("--witness", url)},
    )


@cheat("cut short")
def cut(folder: Path, opened: ExitStack) -> Played:
    """Call a run failed whose result the referee does not like."""
    with Parties(folder / "all", scenario()) as parties:
        run = parties.run()
        _forked(parties, run, cut=True)
        shutil.rmtree(run / "reports")
    url = opened.enter_context(serving(folder / "all" / "witness"))
    receipts = ("--receipt", str(folder / "all" / "host0" / "receipts"))
    return Played(
        "The referee does not like the result, cuts the run after the curator's terms, and calls it failed.",
        run,
        {**_usual(parties), "with the witness": ("--witness", url), "with a receipt": receipts},
    )


@cheat("liars")
def liars(folder: Path, opened: ExitStack) -> Played:
    """Have a tenth of the agents say that the answer errs on them."""

    def lie(*asked: Any) -> Any:
        bits = answer_together(*asked)
        bits[asked[4] % 10 == 0] = 1
        return bits

    with (
        mock.patch("local_agent.hosted.population.answer_together", lie),
        Parties(folder / "all", scenario()) as parties,
    ):
        run = parties.run()
    return Played("A tenth of the agents say 1 whatever they are asked.", run, _usual(parties))


class _OutsideItsClass:
    """A curator that releases a constant in the place of what its learner found."""

    def __init__(self, curator: Curator) -> None:
        self.open_run, self.open_share, self.acknowledge = curator.open_run, curator.open_share, curator.acknowledge
        self._curator = curator

    def perform(self, signed: Signed) -> Signed:
        """Sign another hypothesis with the curator's own key."""
        release = self._curator.perform(signed)
        message = {**release.message, "result": {**release.message["result"], "hypothesis": {**CONSTANT}}}
        return self._curator._journal.identity.sign(release.kind, message)


CONSTANT = {"kind": "constant", "label": 1}


@cheat("a curator outside its class")
def outside(folder: Path, opened: ExitStack) -> Played:
    """Release another hypothesis than the learner can give."""
    with Parties(folder / "all", scenario(), curator=_OutsideItsClass) as parties:
        run = parties.run()
    return Played(
        "The curator, whose learner gives half-spaces, releases a constant. No agent is asked about it.",
        run,
        _usual(parties),
    )
