"""Whether there is one history of a run: its checkpoints, what witnesses have signed, and receipts that agents hold.

The referee signs a checkpoint of the transcript from time to time, with the time. A witness keeps each checkpoint that
it is shown, and signs it as the next one of one chain for the run. This detects a folder in which a statement of a
witness is missing, and a transcript that does not begin with what a witness's checkpoint covers. A receipt is the
referee's signed statement that it has stored a report: if the report is not under the root that the transcript has for
its question, the referee has left it out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from common.core import canonical
from common.core.errors import AuditFailed, BadData, BadMessage
from common.core.folder import CHECKPOINT, RECEIPT, Kind, documents, names, present
from common.crypto.identity import Signed, verify
from common.log.entries import START
from common.log.merkle import Tree, merkle_root
from common.log.receipts import Checkpoint, Receipt, StoredCheckpoint, Witnessed, closed_of, entries_tree
from common.log.transcript import AnyEntry
from common.net.messages import Configuration
from referee.collection.aggregation import leaf
from referee.runfolder import open_file, read_file, unpack_reports

T = TypeVar("T")


@dataclass(frozen=True)
class WitnessView:
    """What a witness has seen of a run: its last number of entries, and the times of its first and last checkpoint."""

    entries: int
    first: int
    last: int


@dataclass(frozen=True)
class History:
    """What is known of a run's history besides its transcript, which has ``entries`` entries.

    Attributes:
        began, ended: Times of the first checkpoint and of one of the whole transcript, by the referee's clock, in
            seconds since 1970; None where there is none.
        promised: Keys of the witnesses that the transcript names in its first entry, before anybody was asked.
        witnesses: What each witness has seen, by its key.
        receipts: How many receipts were compared with the reports whose roots the transcript has.
        others: Further runs of the referee that a witness has seen, if the audit asked the witness itself.
    """

    entries: int = 0
    began: int | None = None
    ended: int | None = None
    promised: tuple[str, ...] = ()
    witnesses: dict[str, WitnessView] = field(default_factory=dict)
    receipts: int = 0
    others: tuple[str, ...] = ()

    @property
    def unseen(self) -> tuple[str, ...]:
        """Witnesses that the transcript names and that, as far as the folder shows, have not seen its end."""
        complete = {key for key, sight in self.witnesses.items() if sight.entries >= self.entries}
        return tuple(key for key in self.promised if key not in complete)


def kept_in(folder: Path) -> list[StoredCheckpoint]:
    """Return the checkpoints of a run folder, oldest first; none if the folder was written without them."""
    if not present(folder, "checkpoints.jsonl"):
        return []
    *lines, rest = read_file(folder, "checkpoints.jsonl").split(b"\n")
    if rest:
        raise AuditFailed("checkpoints.jsonl ends in the middle of a line: it was cut")
    try:
        return [StoredCheckpoint.parse(canonical.decode(line)) for line in lines]
    except BadMessage as error:
        raise AuditFailed(f"checkpoints.jsonl cannot be read: {error.detail}") from None


def receipts_at(places: Iterable[Path]) -> list[Signed]:
    """Return the receipts in files, or in all files of directories.

    BadData if a file is no receipt, or there is none in a place.
    """
    where = "give a file of an agent's receipts, or their directory"
    return _documents_at(places, RECEIPT, "receipt", Signed.parse, where)


def checkpoints_at(places: Iterable[Path]) -> list[StoredCheckpoint]:
    """Return the checkpoints in files that ``local-agent check`` has written, as :func:`receipts_at` for receipts."""
    where = "local-agent check leaves them in an agent's checkpoints"
    return _documents_at(places, CHECKPOINT, "checkpoint", StoredCheckpoint.parse, where)


def _documents_at(places: Iterable[Path], kind: Kind, what: str, parse: Callable[[Any], T], where: str) -> list[T]:
    values: list[T] = []
    for place in places:
        before = len(values)
        for path, raw in documents(place, kind):
            try:
                values.append(parse(canonical.decode(raw)[what]))
            except (KeyError, TypeError, BadMessage):
                raise BadData(f"{path} is no {what}: it was edited, or is another file") from None
        if len(values) == before:
            raise BadData(f"there is no {what} in {place}: {where}")
    return values


def check_history(
    folder: Path,
    entries: Sequence[AnyEntry],
    configuration: Configuration,
    receipts: Sequence[Signed],
    witness_checkpoints: Sequence[StoredCheckpoint],
    agent_checkpoints: Sequence[StoredCheckpoint] = (),
) -> History:
    """Check that checkpoints, witnesses and receipts are all about this transcript.

    Args:
        receipts: Agents' receipts; those of other runs are left out.
        witness_checkpoints: The checkpoints of the run that a witness shows when asked itself.
        agent_checkpoints: Checkpoints that the referee has shown to agents; those of other runs are left out.
    """
    stored, tree = kept_in(folder), entries_tree(entries)
    checkpoints = [_checked(each, entries, tree, configuration) for each in stored]
    for before, after in pairwise(checkpoints):
        if after.entries <= before.entries or after.time < before.time:
            raise AuditFailed(f"the checkpoint of {after.entries} entries does not follow that of {before.entries}")
    sights = _sights(stored)
    for each in witness_checkpoints:
        _checked(each, entries, tree, configuration, "the witness has seen")
    for key, sight in _sights(witness_checkpoints).items():
        if key not in sights or sights[key].entries <= sight.entries:
            sights[key] = sight
    for each in agent_checkpoints:
        if each.verified(configuration.referee).run == configuration.run:
            _checked(each, entries, tree, configuration, "the referee has shown an agent")
    parsed = [
        Receipt.parse(verify(each, Receipt.KIND, configuration.referee, "whose run this is")) for each in receipts
    ]
    own = [receipt for receipt in parsed if receipt.run == configuration.run]  # hosts keep those of all runs together
    if parsed and not own:
        raise AuditFailed(f"none of the receipts is for this run, {configuration.run!r}: {parsed[0].run!r} is another")
    _check_receipts(own, folder, entries)
    return History(
        entries=len(entries),
        began=checkpoints[0].time if checkpoints else None,
        ended=checkpoints[-1].time if checkpoints and checkpoints[-1].entries == len(entries) else None,
        promised=tuple(str(key) for key in entries[0].body.get("witnesses", ())),
        witnesses=sights,
        receipts=len(own),
    )


def check_reports(folder: Path, entries: Sequence[AnyEntry]) -> None:
    """Check that the folder has reports only on questions that the transcript asks."""
    questions = {str(entry.body.get("question")) for entry in entries if entry.kind == "question"}
    files = names(folder / "reports", ".reports") if present(folder, "reports") else []
    if stray := sorted({name.removesuffix(".reports") for name in files} - questions):
        raise AuditFailed(
            f"reports/{stray[0]}.reports: the transcript asks no question {stray[0]}. Its history was cut short, or "
            "the file is another run's"
        )


def _checked(
    stored: StoredCheckpoint,
    entries: Sequence[AnyEntry],
    tree: Tree,
    configuration: Configuration,
    who: str = "the referee has signed",
) -> Checkpoint:
    checkpoint = stored.verified(configuration.referee)
    if (checkpoint.run, checkpoint.configuration) != (configuration.run, configuration.fingerprint()):
        raise AuditFailed(f"a checkpoint is one of another run, {checkpoint.run!r}, or of another configuration")
    if not checkpoint.covers(entries, tree):
        what = "it is another history of the run" if checkpoint.entries <= len(entries) else "here it is cut short"
        raise AuditFailed(
            f"{who} a transcript of {checkpoint.entries} entries that ends in {checkpoint.hash[:12]}..., and this one "
            f"has {len(entries)}, of which it is not the beginning: {what}"
        )
    over = closed_of([entry.kind for entry in entries[: checkpoint.entries]])
    if checkpoint.closed not in (None, over):
        raise AuditFailed(
            f"{who} that {checkpoint.closed} messages were over after {checkpoint.entries} entries, and {over} were: "
            "agents who asked whether their question was closed were shown that"
        )
    return checkpoint


def _sights(checkpoints: Sequence[StoredCheckpoint]) -> dict[str, WitnessView]:
    """Check that each witness's signed statements are one chain without gaps, and return what it has seen."""
    sights: dict[str, WitnessView] = {}
    last: dict[str, Witnessed] = {}
    for checkpoint in checkpoints:
        entries = checkpoint.verified().entries
        for key, word in checkpoint.seen().items():
            before = last.get(key)
            position, previous = (0, START) if before is None else (before.position + 1, before.fingerprint())
            if (word.position, word.previous) != (position, previous):
                raise AuditFailed(
                    f"witness {key[:16]}... has signed more of this run than is shown: its word number {word.position} "
                    f"is where number {position} should be"
                )
            last[key] = word
            sights[key] = WitnessView(entries, sights[key].first if key in sights else word.time, word.time)
    return sights


def _check_receipts(receipts: Sequence[Receipt], folder: Path, entries: Sequence[AnyEntry]) -> None:
    """Check that each receipt's report is under the root that the transcript has for its question.

    The files in ``reports`` are no evidence by themselves: only their roots are in the transcript.
    """
    signed = [entry for entry in entries if entry.kind == "answers"]
    for question in sorted({receipt.question for receipt in receipts}):
        expected = {receipt.report: receipt for receipt in receipts if receipt.question == question}
        entry = next((each for each in signed if each.body.get("question") == question), None)
        first = next(iter(expected.values()))
        if entry is None:
            raise _not_counted(
                first,
                f"the transcript, which ends after {len(entries)} entries, counts no answers to this question: the run "
                "ended before, or its history was cut short",
            )
        name, missing = f"reports/{question}.reports", dict(expected)
        with open_file(folder, name) as file:
            root = merkle_root(_leaves(file, missing))
        for receipt in missing.values():
            raise _not_counted(receipt, "it is not among the reports that the transcript counts")
        if root != entry.body.get("root"):
            raise _not_counted(first, f"{name} does not hold the reports that entry {entry.index} counts")


def _leaves(raw: BufferedIOBase, missing: dict[str, Receipt]) -> Iterator[bytes]:
    for report in unpack_reports(raw):
        missing.pop(report.signature.hex(), None)
        yield leaf(report)


def _not_counted(receipt: Receipt, why: str) -> AuditFailed:
    return AuditFailed(
        f"a report on question {receipt.question} is left out: the referee has signed at {receipt.time} that it has "
        f"stored it (receipt for signature {receipt.report[:16]}...), and {why}"
    )
