"""Whole runs of the real parties, of whom one is hostile: the others go on as if it were away."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.fuzz.campaign import silent
from benchmarks.fuzz.mutation import Mutator
from benchmarks.histories import history
from benchmarks.histories.determined import Clock
from benchmarks.histories.disk import Disk
from benchmarks.histories.faults import Faults
from benchmarks.histories.world import HOSTED, RUN, World
from benchmarks.hostile.answers import Answer, Peer, steps, temper
from benchmarks.hostile.exchanges import Played, inside, where
from benchmarks.hostile.network import Network, Request, Unbounded, connected
from common.core import canonical
from common.crypto.identity import Identity, Signed
from common.net.client import WitnessClient
from common.net.oblivious.binary_http import InnerRequest
from common.net.oblivious.encapsulation import RESPONSE_TYPE, SIGNED_KEYS, GatewayKey, signed_keys
from common.net.oblivious.gateway import PURPOSE
from local_agent.client import RelayedClient
from referee.service.referee import CuratorClient
from referee.service.witness import WitnessLog

SEATS = ("curator", "witness", "relay")
AGENT = "agent-0"
"""Who asks through the hostile relay."""
PATIENT = 300
"""Waits, or sleeps, after which the operator cancels a run that its hostile curator or witness holds."""


class HostileWorld(World):
    """The parties of a run, of whom one is hostile.

    Args:
        seat: Who.
    """

    def __init__(self, seat: str, folder: Path, faults: Faults, clock: Clock, disk: Disk) -> None:
        self.seat, self.network = seat, Network(clock)
        self._mutator = Mutator(f"hostile run {faults.seed}")
        self._log = WitnessLog(folder / "witness", Identity.load_or_create(folder / "witness.key"))
        self.slept = 0
        honest = {"curator": self._curator, "witness": self._witness, "relay": self._relay}[seat]
        self.peer = Peer(self._mutator, honest, **temper(self._mutator))
        self.network.peers[seat] = self.peer
        super().__init__(folder, faults, clock, disk)
        if seat == "curator":
            self.peer.key = self.curator._journal.identity
        if seat == "witness":
            self.peer.key = self._log._identity
        self._gateway = GatewayKey.derived(self.referee.identity.derived(PURPOSE))

    @property
    def pinned(self) -> str | None:
        """None where the curator is hostile: another key may have agreed to the run, and the audit would say so."""
        return None if self.seat == "curator" else super().pinned

    def curator_port(self) -> Any:
        """Return how the referee reaches the curator."""
        return CuratorClient("http://curator", patience=5.0) if self.seat == "curator" else self.to_curator

    def referee_port(self, name: str) -> Any:
        """Return how an agent reaches the referee."""
        if (self.seat, name) == ("relay", AGENT):
            return RelayedClient("http://relay", self.key, patience=1.0)
        return self.channels[name]

    def witnesses(self) -> Sequence[Any]:
        """Return who keeps checkpoints of the run."""
        return [WitnessClient("http://witness", "token")] if self.seat == "witness" else []

    def run(self) -> dict[str, Any]:
        """Carry the run to its end."""
        with connected(self.network, self.moved):
            return super().run()

    def wait(self, name: str, seconds: float) -> None:
        """Let everybody work, or time pass."""
        self.moved(0.0)
        super().wait(name, seconds)

    def _step(self, name: str) -> bool:
        """Let an agent work; while one waits for its hostile relay, no time passes for the others."""
        before = self._clock.now
        busy = super()._step(name)
        if (self.seat, name) == ("relay", AGENT):
            self._away[name], self._clock.now = self._clock.now, before
        return busy

    def moved(self, seconds: float) -> None:
        """Sleep; the operator cancels a run that has waited for very long."""
        self.network.pass_time(seconds)
        self.slept += 1
        if self.slept == PATIENT:
            self.referee.store.cancel(RUN)

    # What an honest player answers ----------------------------------------------------------------------------------

    def _curator(self, request: Request) -> Answer:
        signed = Signed.parse(canonical.decode(request.body))
        tail = request.path.split("/")[4:]
        method = {"share": "open_share", "operations": "perform", "acknowledgement": "acknowledge"}
        reply = getattr(self.to_curator, method[tail[0]] if tail else "open_run")(signed)
        return Answer(204) if reply is None else Answer(body=reply.raw())

    def _witness(self, request: Request) -> Answer:
        if request.method == "GET":
            return Answer(body=json.dumps({"key": self._log._identity.public}).encode())
        signed = Signed.parse(canonical.decode(request.body))
        return Answer(body=self._log.keep(signed).raw())

    def _relay(self, request: Request) -> Answer:
        if request.path == SIGNED_KEYS:
            return Answer(body=signed_keys(self.referee.identity, [self._gateway.configuration]).raw())
        raw, sealing = self._gateway.open(request.body)
        inner = InnerRequest.decode(raw)
        reply = self._asked(inner.path.decode().split("/")[2], inner)
        answer = Answer(204) if reply is None else Answer(body=reply.raw())
        return Answer(body=sealing.seal(inside(answer.raw()).encode()), headers=(("Content-Type", RESPONSE_TYPE),))

    def _asked(self, what: str, inner: InnerRequest) -> Signed | None:
        channel = self.channels[AGENT]
        if what == "runs":
            return channel.configuration(RUN)  # type: ignore[no-any-return]  # a channel has its port's methods by name
        signed = Signed.parse(canonical.decode(inner.content))
        return getattr(channel, {"polls": "poll", "reports": "report", "declines": "decline"}[what])(signed)  # type: ignore[no-any-return]  # by name


def play(seed: int) -> Played:
    """Play one run with a hostile player, whose seat and deeds follow from the seed."""
    seat = SEATS[seed % len(SEATS)]
    played = Played(seed, f"run with a hostile {seat}")
    opened: list[HostileWorld] = []

    def kind(folder: Path, faults: Faults, clock: Clock, disk: Disk) -> World:
        opened.append(HostileWorld(seat, folder, faults, clock, disk))
        return opened[0]

    try:
        with silent():
            found = history.play(seed, kind, message_rate=0.0, step_rate=0.0, pause_rate=0.0)
    except Unbounded as error:
        played.broken.append(f"{played.seat}: {where(error)}")
        return played
    played.ends.append(found.status or "no end")
    played.broken += [f"{played.seat}: {what}" for what in found.broken]
    # An agent may poll after its question has closed: so it is in 4 of 300 runs without any hostile player, too.
    if (seat == "relay" or found.status == "exhausted") and found.answered < HOSTED:
        played.broken.append(f"{played.seat}: the others do not answer: {found.status}, {found.answered}")
    if seat == "relay" and found.status != "exhausted":
        played.broken.append(f"{played.seat}: the run ends {found.status}")
    played.log = [*steps(opened[0].peer.log), f"{found.status}: {found.reason}"]
    return played
