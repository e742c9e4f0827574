"""Exchanges: one honest party's requests, in order, to a peer that is hostile; and what must hold after them.

Each seat is a function: it has the party do what its commands do, by the party's own code and the real clients, and
checks what must hold whatever the peer has answered. A party may end each step with an error of Tandem's, and with
nothing else.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np

from benchmarks.fuzz.campaign import silent
from benchmarks.fuzz.mutation import Mutator
from benchmarks.histories.determined import BEGAN, Clock, determined
from benchmarks.histories.world import RUN, TOKEN, in_memory
from benchmarks.hostile.answers import Answer, Honest, Peer, steps, temper
from benchmarks.hostile.network import Network, Request, Unbounded, connected
from benchmarks.hostile.recorded import Recorded, recorded
from common.core import canonical
from common.core.errors import AlreadyAnswered, BadData, NotFound, RunCancelled, TandemError
from common.core.machine import Schedule
from common.crypto.blindrsa import blind_sign
from common.crypto.identity import Identity, Signed, verify
from common.crypto.vouching import Credential, blinded_in, check_credential
from common.local.records import Records
from common.log.entries import Extension
from common.log.receipts import RunSeen, StoredCheckpoint, check_receipt, receipt_for
from common.log.witness import last_head
from common.net import messages
from common.net.client import HttpWitness, WitnessClient
from common.net.oblivious.binary_http import InnerRequest, InnerResponse
from common.net.oblivious.encapsulation import RESPONSE_TYPE, SIGNED_KEYS, signed_keys
from common.net.transport import DeadlinePassed
from curator.contributions.contributor import RECEIPT, CollectorClient, Contributor
from curator.contributions.messages import Contribution, ContributionReceipt
from deploy import remote
from local_agent.client import IssuerClient, RefereeClient, RelayedClient
from local_agent.host import Host
from local_agent.person import checking
from local_agent.person.agent import Agent
from local_agent.person.checking import HeldReceipt, held_receipts, leaf_of
from local_agent.person.credential import CREDENTIAL, held_credential, obtain
from local_agent.policy import PersonalPolicy
from referee.runs.curator import answered, check_release, check_terms
from referee.service.referee import CuratorClient

T = TypeVar("T")
URL = "http://peer"
STEP = 3600.0
"""Seconds that a step may take, at most: each of its requests has a limit of some minutes."""
OPERATOR = "token-of-the-operator"


@dataclass
class Played:
    """What became of a history: how its steps ended, what does not hold, and all that happened."""

    seed: int
    seat: str
    ends: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


class Exchange:
    """One history of one party and a hostile peer.

    Args:
        seed: Decides what the peer does.
        folder: For the party's state directory.
        played: Where it is recorded what happens.
    """

    def __init__(self, seed: int, folder: Path, played: Played) -> None:
        self.folder, self.found, self.played = folder, recorded(), played
        self.mutator = Mutator(f"hostile {seed}")
        self.random = self.mutator.random
        self.network = Network(Clock())
        self.patience = self.random.choice((0.0, 1.0, 20.0))

    def peer(self, honest: Honest, key: Identity | None = None) -> Peer:
        """Put a hostile peer at :data:`URL`; it may have an honest one's key."""
        peer = Peer(self.mutator, honest, key, self.found.others, **temper(self.mutator))
        self.network.peers["peer"] = peer
        return peer

    def attempt(self, step: Callable[[], T]) -> T | None:
        """Do a step; None if it ended with an error of Tandem's."""
        began = self.network.clock.now
        try:
            value = step()
        except TandemError as error:
            self.played.ends.append(type(error).__name__)
            return None
        finally:
            took = self.network.clock.now - began
            assert took <= STEP, f"a step takes {took:,.0f} s"
        self.played.ends.append("done")
        return value


def _signed(signed: Signed) -> Answer:
    return Answer(body=signed.raw())


def _json(tree: Any) -> Answer:
    return Answer(body=json.dumps(tree).encode())


# Referees, as agents see them ---------------------------------------------------------------------------------------


def _as_referee(found: Recorded) -> Honest:
    """Return an honest referee's answers to one individual's agent."""
    [_, assignment], *_ = found.heard["poll"]
    [_, configuration], *_ = found.heard["configuration"]

    def answer(request: Request) -> Answer:
        match request.method, request.path.split("?")[0].split("/")[2]:
            case "GET", "referee":
                return _json({"key": found.referee.public})
            case "GET", "runs":
                return _signed(configuration)
            case "POST", "enrolments":
                participant = canonical.decode(request.body)["key"]
                enrolled = messages.Enrolled(participant=participant, first=3, agents=1)
                return _signed(found.referee.sign(enrolled.KIND, enrolled.wire()))
            case "POST", "polls":
                return _signed(assignment)
            case "POST", "declines":
                return Answer(204)
            case "POST", "proofs":
                since = canonical.decode(request.body)["message"].get("since")
                return _json(found.proofs.get(since, found.proofs[None]))
            case "PUT", "reports":
                report = Signed.parse(canonical.decode(request.body))
                run, question = report.message["run"], report.message["question"]
                return Answer(body=receipt_for(found.referee, run, question, report.signature, int(BEGAN)))
        raise NotFound("there is no such place")

    return answer


def _individual(exchange: Exchange, peers: Sequence[Peer], open_client: Callable[[], RefereeClient]) -> None:
    """Enrol and answer as one person's agent; then meet an honest referee."""
    found, folder = exchange.found, exchange.folder / "agent"
    record = Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))
    schedule = Schedule(lambda: exchange.network.clock.now, lambda seconds: None)

    @contextmanager
    def working() -> Iterator[Host]:
        with (
            closing(Agent(record, PersonalPolicy(found.referee.public, 2.0), folder)) as agent,
            closing(open_client()) as client,
        ):
            yield Host(agent, client, found.referee.public, schedule=schedule)

    with working() as host:
        exchange.attempt(lambda: host.enrol(TOKEN))
        for _ in range(exchange.random.choice((1, 2, 4))):
            exchange.attempt(host.step)
    for each in _receipts(folder):
        check_receipt(each.receipt, each.report, found.referee.public)
    between = all(peer.key is None or not peer.kinds for peer in peers)
    for peer in peers:
        peer.reform()
    with working() as host:
        try:
            host.enrol(TOKEN)
            host.step()
        except AlreadyAnswered:
            assert not between, "the agent has answered what its referee has not signed"
    receipts = _receipts(folder)
    for each in receipts:
        check_receipt(each.receipt, each.report, found.referee.public)
    assert receipts or not between, "the agent does not come to its end once the hostile peer is gone"
    sent = {bytes(request.body) for peer in peers for request in peer.seen if request.path.startswith("/v1/reports")}
    assert len(sent) <= 1, "the agent has answered twice"


def _receipts(folder: Path) -> list[HeldReceipt]:
    """Return the receipts that an agent holds."""
    try:
        return list(held_receipts(folder))
    except BadData:
        return []  # it has none


def agent_of_a_referee(exchange: Exchange) -> None:
    """Do what ``local-agent answer`` does, towards a hostile referee or somebody in between."""
    key = exchange.found.referee if exchange.random.random() < 0.5 else None
    peer = exchange.peer(_as_referee(exchange.found), key)
    _individual(exchange, [peer], lambda: RefereeClient(URL, patience=exchange.patience))


def agent_behind_a_relay(exchange: Exchange) -> None:
    """Answer through a relay: it is hostile, or the referee behind it is, or both."""
    found = exchange.found
    behind = Peer(exchange.mutator, _as_referee(found), found.referee, found.others, **temper(exchange.mutator))
    behind.kinds = tuple(kind for kind in behind.kinds if kind not in _ENDLESS)
    if exchange.random.random() < 0.5:
        behind.reform()

    def honest(request: Request) -> Answer:
        if request.path == SIGNED_KEYS:
            return _signed(signed_keys(found.referee, [found.gateway.configuration]))
        raw, sealing = found.gateway.open(request.body)
        inner = InnerRequest.decode(raw)
        asked = Request(method=inner.method.decode(), path=inner.path.decode(), headers={}, body=inner.content)
        answer = inside(b"".join(part for part in behind.answer(asked) if isinstance(part, bytes)))
        return Answer(body=sealing.seal(answer.encode()), headers=(("Content-Type", RESPONSE_TYPE),))

    relay = exchange.peer(honest)
    public = found.referee.public
    _individual(exchange, [relay, behind], lambda: RelayedClient(URL, public, patience=exchange.patience))


_ENDLESS = frozenset({"too long", "without end", "informs for ever"})
"""Kinds that no gateway can carry: it seals whole answers."""


def inside(raw: bytes) -> InnerResponse:
    """Return an answer as it is sealed: what is no HTTP is the body of a success."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    code = first.split(b" ")[1] if first.startswith(b"HTTP/1.1 ") else b""
    status = int(code) if code.isdigit() else 200
    pairs = [line.partition(b": ") for line in lines[:20]]
    fields = tuple((name.lower(), value[:200]) for name, _, value in pairs if name and value)
    return InnerResponse(max(status, 200), fields, body[:100_000])


def checking_agent(exchange: Exchange) -> None:
    """Do what ``local-agent check`` does, with a hostile referee, or a hostile witness, or both."""
    found = exchange.found
    [arguments, receipt], *_ = found.heard["report"]
    report = arguments[0]
    sent = BEGAN - exchange.random.choice((0.0, 1e6))
    one = HeldReceipt(
        Path("receipt.json"), receipt, report, leaf_of(report, bytes.fromhex(found.proofs[None]["body"])).hex(), sent
    )
    peer = exchange.peer(_as_referee(found), found.referee)
    witness = Peer(exchange.mutator, _as_witness(found), found.witness, found.others, **temper(exchange.mutator))
    exchange.network.peers["witness"] = witness
    if exchange.random.random() < 0.3:
        exchange.random.choice((peer, witness)).reform()
    with (
        closing(RefereeClient(URL, patience=exchange.patience)) as port,
        closing(WitnessClient("http://witness", patience=exchange.patience)) as watching,
    ):
        seen = checking.CachedWitness(watching) if exchange.random.random() < 0.7 else None
        finding = exchange.attempt(lambda: checking.check(one, found.agent, port, found.referee.public, seen))
    if finding is not None:
        exchange.played.ends[-1] = finding.status
        checking.in_words(finding, checking.WITHIN)
        if finding.status == checking.INCLUDED:
            assert finding.checkpoint is not None, "a report is included in nothing"
            assert finding.checkpoint.checkpoint.verified(found.referee.public).run == RUN


# Others -------------------------------------------------------------------------------------------------------------


def _as_witness(found: Recorded) -> Honest:
    words = {kept.checkpoint.signature: kept.witnessed[0] for kept in found.kept}
    head = found.witness.sign(Extension.KIND, found.heard["perform"][0][1].message["ledger"])

    def answer(request: Request) -> Answer:
        place, _, query = request.path.partition("?")
        match request.method, place.split("/")[2:]:
            case "GET", ["witness"]:
                return _json({"key": found.witness.public})
            case "GET", ["ready"]:
                return _json({})
            case "GET", ["runs", _]:
                return _json([{"run": RUN, "entries": 9, "at": int(BEGAN)}] if query.startswith("after=&") else [])
            case "GET", ["runs", _, _]:
                return _json([kept.wire() for kept in found.kept] if query.startswith("after=0&") else [])
            case "PUT", ["runs", *_]:
                return _signed(words[Signed.parse(canonical.decode(request.body)).signature])
            case "GET", ["heads", _]:
                return _signed(head)
            case "PUT", ["heads", _]:
                return Answer(204)
        raise NotFound("there is no such place")

    return answer


def witnessed_referee(exchange: Exchange) -> None:
    """Have checkpoints witnessed as a referee does, and look at what the witness has seen as an auditor does."""
    found = exchange.found
    exchange.peer(_as_witness(found), found.witness if exchange.random.random() < 0.5 else None)
    public = found.referee.public
    with closing(WitnessClient(URL, "token", patience=exchange.patience)) as witness:
        exchange.attempt(witness.key)
        for kept in found.kept[: exchange.random.choice((1, 2, 3))]:
            word = exchange.attempt(partial(_kept, witness, kept.checkpoint))
            if word is not None:
                assert word.verified(public).entries == kept.verified(public).entries
                assert len(word.seen()) == 1, "a word of a witness is kept that is none"
                verify(word.witnessed[0], word.witnessed[0].kind, witness._pinned)
        for each in exchange.attempt(lambda: witness.kept(public, RUN)) or ():
            assert isinstance(each, StoredCheckpoint)
            exchange.attempt(partial(each.verified, public))
            exchange.attempt(each.seen)
        assert all(isinstance(one, RunSeen) for one in exchange.attempt(lambda: witness.runs(public)) or ())


def _kept(witness: WitnessClient, checkpoint: Signed) -> StoredCheckpoint:
    """Do what :meth:`referee.runs.checkpoints.RunCheckpoints.make` does with a witness's word."""
    kept = StoredCheckpoint(checkpoint=checkpoint, witnessed=(witness.keep(checkpoint),))
    kept.seen()
    return kept


def curator_of_a_witness(exchange: Exchange) -> None:
    """Put and get the heads of a ledger, as a curator does."""
    found = exchange.found
    exchange.peer(_as_witness(found), found.witness)
    witness = HttpWitness(f"{URL}/v1/heads/name")
    head = found.curator.sign(Extension.KIND, found.heard["perform"][0][1].message["ledger"])
    exchange.attempt(witness.check_writable)
    exchange.attempt(lambda: last_head(witness))
    exchange.attempt(lambda: witness.keep(head))


def referee_of_a_curator(exchange: Exchange) -> None:
    """Ask a curator as a run does, for as long as its patience lasts, and check what it has signed."""
    found = exchange.found
    calls = [call for method in ("open_run", "open_share", "perform") for call in found.heard.get(method, ())]
    replies = {arguments[0].signature: reply for arguments, reply in calls}

    def honest(request: Request) -> Answer:
        reply = replies.get(Signed.parse(canonical.decode(request.body)).signature)
        return Answer(204) if reply is None else _signed(reply)

    exchange.peer(honest, found.curator if exchange.random.random() < 0.5 else None)
    looks = iter(range(exchange.random.choice((5, 200))))

    def look() -> None:
        if next(looks, None) is None:
            raise RunCancelled("by the operator")

    [opening, _], *_ = found.heard["open_run"]
    configuration = messages.Configuration.parse(opening[0].message)
    with closing(CuratorClient(URL, patience=exchange.patience)) as client:

        def ask(method: Callable[[Signed], Signed], signed: Signed, check: Callable[[Signed], Any]) -> None:
            told = exchange.random.choice((10.0, 1000.0))
            found = exchange.attempt(
                lambda: answered(method, signed, check, told, agreed=True, look=look, say=lambda text: None)
            )
            if found is not None:
                check(found[0])

        ask(client.open_run, opening[0], lambda signed: check_terms(signed, configuration))
        for arguments, _ in found.heard["perform"][:2]:
            request, key = messages.Perform.parse(arguments[0].message), found.curator.public
            check = partial(check_release, request=request, digest=arguments[0].digest, key=key)
            ask(client.perform, arguments[0], check)
        exchange.attempt(lambda: client.acknowledge(opening[0]))


def invited(exchange: Exchange) -> None:
    """Get a credential of an issuer."""
    found, folder = exchange.found, exchange.folder / "agent"
    identity = Identity.load_or_create(folder / "identity.key")

    def honest(request: Request) -> Answer:
        if request.method == "GET":
            return _json(found.issuer_key.wire())
        return Answer(body=blind_sign(found.issuer, blinded_in(found.issuer_key, request.body)))

    peer = exchange.peer(honest)
    with closing(IssuerClient(URL, patience=exchange.patience)) as issuer:

        def get() -> Credential:
            return obtain(folder, identity, issuer, "code", found.issuer_key)

        exchange.attempt(get)
        asked = {request.body for request in peer.seen if request.method == "POST"}
        if not (folder / CREDENTIAL).exists():
            peer.reform()
            get()
    credential = held_credential(folder)
    assert credential is not None
    check_credential(credential, identity.public, [found.issuer_key])
    assert len(asked | {request.body for request in peer.seen if request.method == "POST"}) == 1, "two were asked for"


def contributor(exchange: Exchange) -> None:
    """Give a record to a curator that collects, and have it deleted."""
    found, folder = exchange.found, exchange.folder / "person"

    def honest(request: Request) -> Answer:
        if request.method == "GET":
            return _signed(found.offer)
        sent = Signed.parse(canonical.decode(request.body))
        status = "kept" if sent.kind == Contribution.KIND else "withdrawn"
        said = ContributionReceipt(
            offer=sent.message["offer"],
            contributor=sent.key,
            contribution=sent.message["contribution"],
            status=status,
            time=int(BEGAN),
        )
        return _signed(found.collecting.sign(said.KIND, said.wire()))

    peer = exchange.peer(honest, found.collecting if exchange.random.random() < 0.3 else None)
    person = Contributor(folder, found.collecting.public)
    with closing(CollectorClient(URL, patience=exchange.patience)) as client:

        def give() -> Signed:
            return person.contribute(found.record, client, "token", lambda offer, texts: True)

        receipt = exchange.attempt(give)
        if receipt is not None:
            exchange.attempt(lambda: person.withdraw(client, "token"))
        elif peer.key is None:
            peer.reform()
            give()
    if (folder / RECEIPT).exists():
        verify(
            Signed.parse(canonical.decode((folder / RECEIPT).read_bytes())), ContributionReceipt.KIND, person.curator
        )
    sent = {request.body for request in peer.seen if request.path == "/v1/contributions"}
    assert len(sent) <= 1, "a record was sealed twice"


def operator(exchange: Exchange) -> None:
    """Create, watch and fetch a run at a hostile referee, as ``referee run --referee`` and ``referee runs`` do."""
    found = exchange.found
    exchange.peer(_as_operated(found), found.referee)
    looks = iter(range(20))

    def look() -> None:
        if next(looks, None) is None:
            raise RunCancelled("by the operator")

    with (
        remote.operating(URL, OPERATOR, patience=exchange.patience) as operating,
        closing(remote.Remote(URL, OPERATOR, patience=exchange.patience)) as at,
        patch.object(remote, "ENDING", 5.0),
    ):
        steps: list[Callable[[], Any]] = [
            operating.runs,
            lambda: operating.state(RUN, 0),
            lambda: operating.standing(RUN),
            lambda: operating.configuration(RUN),
            lambda: operating.entries(RUN, 0, 100),
            lambda: operating.cancel(RUN),
            lambda: list(operating.log(RUN, follow=False)),
            lambda: at.run(found.chosen, 1, RUN, lambda text, numbers: None, look),
        ]
        for step in exchange.random.sample(steps, 3):
            exchange.attempt(step)


def _as_operated(found: Recorded) -> Honest:
    state = {"run": RUN, "progress": [{"text": "x", "numbers": {"round": 1}}], "result": found.result}

    def answer(request: Request) -> Answer:
        match request.method, request.path.split("?")[0].split("/")[3:]:
            case "GET", []:
                return _json([{"run": RUN, "scenario": "x", "status": "running", "waits_for": "agents"}])
            case "GET", [_]:
                return _json(state)
            case "GET", [_, "standing"]:
                return _json({"waits_for": "", "agents": {}})
            case "GET", [_, "configuration"]:
                return _signed(found.heard["configuration"][0][1])
            case "GET", [_, "transcript"]:
                return Answer(body=found.transcript)
            case "GET", [_, "reports", question]:
                return Answer(body=found.reports[int(question)])
            case "GET", [_, "participants"]:
                return Answer(body=found.participants)
            case "GET", [_, "checkpoints"]:
                return _json([kept.wire() for kept in found.kept] if "after=0" in request.path else [])
        return Answer(204)

    return answer


SEATS: dict[str, Callable[[Exchange], None]] = {
    "agent and referee": agent_of_a_referee,
    "agent and relay": agent_behind_a_relay,
    "agent that checks": checking_agent,
    "referee and witness": witnessed_referee,
    "curator and witness": curator_of_a_witness,
    "referee and curator": referee_of_a_curator,
    "agent and issuer": invited,
    "contributor and curator": contributor,
    "operator and referee": operator,
}
"""Who asks a hostile peer."""


def play(seed: int) -> Played:
    """Play one exchange: its seat and all that its peer does follow from the seed."""
    names = sorted(SEATS)
    played = Played(seed, names[seed % len(names)])
    with TemporaryDirectory(dir=in_memory()) as place:
        exchange = Exchange(seed, Path(place), played)
        try:
            clock = exchange.network.clock
            with determined(seed, clock), connected(exchange.network), silent():
                SEATS[played.seat](exchange)
        except (Exception, Unbounded, DeadlinePassed) as error:  # noqa: BLE001 - whatever a party lets through is a finding
            played.broken.append(f"{played.seat}: {where(error)}")
        for peer in exchange.network.peers.values():
            played.log += steps(peer.log)
    return played


def where(error: BaseException) -> str:
    """Return what an error is and where it came from, in one line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:300]!r} at {Path(frame.filename).name}:{frame.lineno}"
