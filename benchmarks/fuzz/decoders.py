"""Every decoder of bytes that somebody else wrote, with valid inputs and the errors that it may end with."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import scenarios
from benchmarks.fuzz.contributions import Contributing
from benchmarks.fuzz.corpus import Corpus
from common.core import canonical
from common.core.errors import AuditFailed, BadData, BadMessage, BadScenario, Forged, TandemError
from common.core.values import Value
from common.core.version import check_stated
from common.crypto import identity
from common.crypto.identity import Identity, Signed, verify
from common.data.distributions.base import DISTRIBUTIONS
from common.data.loading import numbered
from common.data.tables import TableSource
from common.learners.base import SETTINGS
from common.local import packing
from common.local.hypotheses.hypothesis import HYPOTHESES
from common.local.mechanisms.mechanism import MECHANISMS
from common.local.queries.query import QUERIES
from common.log import transcript
from common.log.ledger import HEADS, KEY, LEDGER
from common.log.receipts import Checkpoint, Proof, ProofRequest, Receipt, StoredCheckpoint, Witnessed
from common.models.export import load as load_model
from common.net import messages
from common.operations.operation import OPERATIONS
from common.scenario import loading
from common.scenario.scenario import parse, parse_resolved
from curator.ledger import verify_ledger
from local_agent.cli import read_record
from local_agent.person.checking import read_receipt as read_receipt
from referee.collection.roster import Roster
from referee.runfolder import unpack_reports


@dataclass(frozen=True)
class Decoder:
    """What reads bytes.

    Attributes:
        read: Reads an input.
        allowed: What it may raise; anything else is a finding.
        trees: Valid inputs as JSON trees, changed in their tree.
        raws: Valid inputs as bytes, changed in their bytes.
        share: How often it is chosen, compared with others: what takes long is chosen seldom.
    """

    name: str
    read: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...]
    trees: Sequence[Any] = ()
    raws: Sequence[bytes] = ()
    share: float = 1.0


MESSAGES: tuple[type[Value], ...] = (
    messages.Configuration, messages.Terms, messages.Perform, messages.StoredRelease, messages.Acknowledgement,
    messages.Enrolment, messages.Enrolled, messages.Poll, messages.Assignment, messages.MassAssignment, messages.Report,
    messages.PackedReport, messages.Decline, Receipt, Checkpoint, Witnessed, ProofRequest,
)  # fmt: skip
VOCABULARIES: dict[str, Any] = {
    "query": QUERIES,
    "mechanism": MECHANISMS,
    "hypothesis": HYPOTHESES,
    "operation": OPERATIONS,
    "distribution": DISTRIBUTIONS,
}


def decoders(corpus: Corpus, folder: Path) -> list[Decoder]:
    """Return all decoders, with the valid inputs of a real run; those of files work in a folder."""
    return [
        *_messages(corpus),
        *_vocabularies(),
        *_binary(corpus),
        *_scenarios(corpus),
        *_files(corpus, folder),
        *(Decoder(*parts) for parts in Contributing(corpus, folder / "decoding").decoders()),
    ]


def _messages(corpus: Corpus) -> Iterator[Decoder]:
    everything = [signed.wire() for kind in corpus.signed.values() for signed in kind[:5]]
    kinds: Sequence[Any] = MESSAGES
    for kind in kinds:
        known = [signed.message for signed in corpus.signed.get(kind.KIND, [])[:5]]
        if known:
            yield Decoder(f"message {kind.KIND}", partial(_parse, kind), (BadMessage,), known)
    small = [corpus.signed[kind][0].raw() for kind in ("enrolment", "poll", "report")]
    yield Decoder("signed message", _both_ways, (BadMessage, Forged), everything, small, share=4.0)
    kept = [one.wire() for one in corpus.referee.kept("finished")]
    yield Decoder(
        "kept checkpoint", lambda raw: _seen(StoredCheckpoint.parse(canonical.decode(raw))), (BadMessage, Forged), kept
    )
    request = corpus.signed["proof-request"][0]
    proofs = [corpus.referee.proof(request).wire()]
    yield Decoder("proof of a report", partial(_parse, Proof), (BadMessage,), proofs)
    signer, path, body = Identity.create(), "/v1/runs/run", b"{}"
    header = identity.announce_body(signer, "PUT", path, body).encode()
    announced = partial(_announced, path=path, length=len(body), key=signer.public)
    yield Decoder("announcement of a body", announced, (BadMessage, Forged), raws=[header])
    yield Decoder(
        "stated version",
        lambda raw: check_stated(raw.decode("latin-1"), "a peer"),
        (BadMessage,),
        raws=[b"2 tandem/0.3.0"],
    )


def _vocabularies() -> Iterator[Decoder]:
    for name, registry in VOCABULARIES.items():
        trees = [one.wire() for _, entry in registry.items() for one in entry.example()]
        yield Decoder(name, partial(_parse, registry), (BadMessage,), trees, share=2.0)
    trees = [one.wire() for _, entry in SETTINGS.items() if hasattr(entry, "example") for one in entry.example()]
    if trees:
        yield Decoder("learner's settings", partial(_parse, SETTINGS), (BadMessage,), trees)


def _binary(corpus: Corpus) -> Iterator[Decoder]:
    header, body = corpus.bodies[0]
    people = int(header.message["people"])
    for kind in ("bit", "real", 3, 300):
        valid = [bytes(packing.packed_bytes(count, kind)) for count in (20, people)]
        valid += [body] if kind == "bit" else []
        yield Decoder(f"packed answers, {kind}", partial(_packed, people=people, kind=kind), (BadMessage,), raws=valid)
    assignment = corpus.signed["assignment"][0].message
    yield Decoder(
        "agents' numbers",
        lambda raw: messages.unpack_indices(raw.decode("latin-1")),
        (BadMessage,),
        raws=[str(assignment["people"])[:400].encode()],
    )
    yield Decoder(
        "mask of people", lambda raw: packing.decode_mask(raw.decode("latin-1"), 24), (BadMessage,), raws=[b"////"]
    )
    listed = corpus.referee.participants("finished")
    yield Decoder("list of participants", Roster.decode, (BadMessage,), raws=[listed, listed + bytes(39) + b"\x01"])
    yield Decoder(
        "reports of a run folder", lambda raw: list(unpack_reports(raw)), (AuditFailed,), raws=[corpus.reports]
    )


def _scenarios(corpus: Corpus) -> Iterator[Decoder]:
    trees = [yaml.safe_load(scenarios.text(name)) for name in scenarios.names()]
    for tree in trees:
        tree.pop("real", None)
    yield Decoder(
        "resolved scenario",
        lambda raw: parse_resolved(canonical.decode(raw)),
        (BadScenario, BadMessage),
        [corpus.chosen.wire()],
        share=0.5,
    )
    yield Decoder("scenario", lambda raw: parse(_json(raw)), (BadScenario,), trees, share=0.5)


def _files(corpus: Corpus, folder: Path) -> Iterator[Decoder]:
    lines = corpus.transcript
    yield Decoder(
        "transcript",
        lambda raw: transcript.read(io.BytesIO(raw)),
        (AuditFailed,),
        raws=[lines[:40000], lines],
        share=0.3,
    )
    texts = [scenarios.text(name).encode() for name in scenarios.names()]
    yield Decoder(
        "scenario file",
        _through(folder / "s.yaml", lambda path: loading.load(str(path))),
        (BadScenario,),
        raws=texts,
        share=0.1,
    )
    example = HYPOTHESES["linear"].example()[0]
    receipt = {"receipt": corpus.signed["receipt"][0].wire(), "report": corpus.signed["report"][0].wire(), "leaf": ""}
    yield Decoder("receipt file", _through(folder / "r.json", read_receipt), (BadData,), [receipt], share=0.5)
    person = {"features": [0.5, 0.25], "label": 1}
    yield Decoder("record file", _through(folder / "p.json", read_record), (BadData,), [person], share=0.5)
    yield Decoder(
        "model file", _through(folder / "m.json", load_model), (BadData,), [{"hypothesis": example.wire()}], share=0.5
    )
    source = TableSource.parse(
        {
            "files": ["t.csv"],
            "label": {"column": "y", "positive": ["1"], "negative": ["0"]},
            "features": [
                {"kind": "number", "column": "x", "low": 0, "high": 30},
                {"kind": "category", "column": "c", "values": ["a", "b"]},
            ],
        }
    )
    rows = ["x,c,y", *(f"{i},{'ab'[i % 2]},{i % 2}" for i in range(12)), ""]
    tables = ["\n".join(rows).encode(), "\r\n".join(rows).encode()]
    yield Decoder(
        "table",
        _through(folder / "t.csv", lambda path: numbered(path.parent, source)),
        (BadData,),
        raws=tables,
        share=0.1,
    )
    yield Decoder(
        "ledger file",
        partial(_ledger, folder / "ledger", corpus),
        (TandemError,),
        raws=[(corpus.folder / "curator" / LEDGER).read_bytes()],
        share=0.01,
    )


def _parse(kind: Any, raw: bytes) -> object:
    found = kind.parse(canonical.decode(raw))
    return found.fingerprint()


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _both_ways(raw: bytes) -> None:
    """Read a signed message by the pattern and by the parser: both say the same, or both refuse."""
    try:
        usual: Signed | BadMessage = Signed.parse(canonical.decode(raw))
    except BadMessage as error:
        usual = error
    try:
        found = messages.read(raw)
    except BadMessage:
        if isinstance(usual, Signed):
            raise AssertionError("the pattern refuses what the parser reads") from None
        raise
    if isinstance(usual, BadMessage):
        raise AssertionError("the pattern reads what the parser refuses")
    if (found.kind, found.key, found.signature, found.message) != (
        usual.kind,
        usual.key,
        usual.signature,
        usual.message,
    ):
        raise AssertionError("the pattern reads something else than the parser")
    if found.payload != canonical.encode(usual.message):
        raise AssertionError("what was signed is another payload")
    verify(usual, usual.kind)


def _seen(kept: StoredCheckpoint) -> None:
    kept.verified()
    kept.seen()


def _announced(raw: bytes, path: str, length: int, key: str) -> str:
    return identity.check_announcement(raw.decode("latin-1"), "PUT", path, length, key)


def _packed(raw: bytes, people: int, kind: Any) -> None:
    """Read packed answers in every way: all ways agree on whether they are some."""
    for count in (20, people):
        outcomes = []
        for way in (packing.unpack_answers, packing.count_answers, lambda *a: list(packing.unpack_answered(*a)[1])):
            try:
                way(raw, count, kind)
                outcomes.append(True)
            except BadMessage:
                outcomes.append(False)
        if len(set(outcomes)) > 1:
            raise AssertionError(f"one way reads what another one refuses: {outcomes}")
    packing.unpack_answers(raw, 20 if len(raw) == packing.packed_bytes(20, kind) else people, kind)


def _through(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def decode(raw: bytes) -> object:
        path.write_bytes(raw)
        return read(path)

    return decode


def _ledger(folder: Path, corpus: Corpus, raw: bytes) -> object:
    folder.mkdir(exist_ok=True)
    for name in (KEY, HEADS):
        (folder / name).write_bytes((corpus.folder / "curator" / name).read_bytes())
    for left in folder.glob(f"{LEDGER}*"):
        left.unlink()
    (folder / LEDGER).write_bytes(raw)
    return verify_ledger(folder)
