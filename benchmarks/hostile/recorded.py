"""What honest parties have said in one small run: what hostile players change, repeat and put in the wrong place."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

from benchmarks.fuzz.contributions import Contributing
from benchmarks.histories.faults import Faults
from benchmarks.histories.world import RUN, scenario, world
from common.crypto.identity import Identity, Signed
from common.crypto.vouching import IssuerKey
from common.log.receipts import ProofRequest, StoredCheckpoint
from common.net.oblivious.encapsulation import GatewayKey
from common.net.oblivious.gateway import PURPOSE
from common.scenario.scenario import ResolvedScenario
from issuer.issuer import Keys
from referee.runfolder import pack_reports
from referee.service.witness import WitnessLog

AGENT = "agent-0"
"""Whose exchange with the referee is recorded."""


@dataclass
class Recorded:
    """Keys of honest parties, and what they have said.

    Attributes:
        heard: By the name of a method: its arguments and the answer, in order; of one individual, and of the curator.
        kept: Checkpoints of the run, with a witness's words.
        proofs: That the individual's report is in the transcript, by what they go on from.
    """

    referee: Identity
    curator: Identity
    witness: Identity
    agent: Identity
    gateway: GatewayKey
    issuer: Any
    issuer_key: IssuerKey
    collecting: Identity
    offer: Signed
    record: dict[str, str]
    heard: dict[str, list[tuple[tuple[Any, ...], Any]]] = field(default_factory=dict)
    kept: list[StoredCheckpoint] = field(default_factory=list)
    proofs: dict[int | None, dict[str, Any]] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    transcript: bytes = b""
    reports: dict[int, bytes] = field(default_factory=dict)
    participants: bytes = b""

    @property
    def chosen(self) -> ResolvedScenario:
        """The scenario of the run."""
        return scenario()

    @property
    def others(self) -> list[bytes]:
        """Bodies of valid answers of all kinds."""
        signed = [reply.raw() for heard in self.heard.values() for _, reply in heard[:3] if isinstance(reply, Signed)]
        lists = [json.dumps([kept.wire() for kept in self.kept]).encode()]
        return [*signed, *lists, *(json.dumps(proof).encode() for proof in self.proofs.values()), self.transcript]


@cache
def recorded() -> Recorded:
    """Carry one run of the real parties to its end, without faults, and return what they have said."""
    with TemporaryDirectory() as place:
        issuing, collecting = Keys(Path(place) / "issuer"), _collecting(Path(place))
        with world(Faults(0, 0.0, 0.0, 0.0)) as opened:
            result = opened.run()
            referee, host = opened.referee, opened.hosts[AGENT]
            witness = WitnessLog(Path(place) / "witness", key := Identity.load_or_create(Path(place) / "witness.key"))
            agent = host._answerer.identity
            found = Recorded(
                referee=referee.identity,
                curator=opened.curator._journal.identity,
                witness=key,
                agent=agent,
                gateway=GatewayKey.derived(referee.identity.derived(PURPOSE)),
                issuer=issuing.tokens,
                issuer_key=issuing.public,
                collecting=collecting.collection._identity,
                offer=collecting.collection.offer,
                record=collecting.record,
            )
            for channel in (opened.channels[AGENT], opened.to_curator):
                for method, arguments, reply in channel.heard:
                    found.heard.setdefault(method, []).append((arguments, reply))
            found.heard["poll"] = [heard for heard in found.heard["poll"] if heard[1] is not None]
            for kept in referee.kept(RUN):
                word = witness.keep(kept.checkpoint)
                found.kept.append(StoredCheckpoint(checkpoint=kept.checkpoint, witnessed=(word,)))
            question = found.heard["report"][0][0][0].message["question"]
            for since in (None, found.kept[-1].verified().entries):
                request = ProofRequest(participant=agent.public, run=RUN, question=question, since=since)
                found.proofs[since] = referee.proof(agent.sign(request.KIND, request.wire())).wire()
            found.result = json.loads(json.dumps(result))
            found.transcript = "".join(line + "\n" for line in referee.store.entries(RUN)).encode()
            store = referee.store
            found.reports = {q.question: pack_reports(store.reports(q)) for q in store.questions(RUN)}
            found.participants = referee.participants(RUN)
    return found


def _collecting(folder: Path) -> Contributing:
    return Contributing(cast(Any, SimpleNamespace(chosen=scenario())), folder)
