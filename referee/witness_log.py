"""What a witness keeps of runs: one file each, append-only; a line is a checkpoint and the witness's word for it."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from common.core import canonical
from common.core.durable import file_name, make_folder, sync_folder
from common.core.errors import BadMessage, BrokenLedger, Forged, RolledBack
from common.core.values import run_name
from common.crypto.identity import KEY_PATTERN, Identity, Signed, verify
from common.log.entries import START
from common.log.receipts import Checkpoint, RunSeen, StoredCheckpoint, Witnessed

_TAIL = 1 << 14
"""Bytes at a file's end in which its last line is: a line is at most some 2,000 bytes long."""


class WitnessLog:
    """The runs that one witness watches.

    Args:
        folder: Where files are kept, one folder a referee.
        identity: Signs what is kept.
        clock: Seconds since 1970.
    """

    def __init__(self, folder: Path, identity: Identity, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._identity = identity
        self._clock = clock

    def keep(self, referee: str, run: str, signed: Signed) -> Signed:
        """Keep a checkpoint, and return the witness's word for it; the same again gets the same word.

        Raises:
            Forged, BadMessage: If it is no checkpoint of this run by this referee.
            RolledBack: If the witness has seen another transcript of the run, or more of it than this says.
        """
        parsed = Checkpoint.parse(verify(signed, Checkpoint.KIND, referee))
        if parsed.run != run:
            raise BadMessage(f"this is a checkpoint of run {parsed.run!r}, not of {run!r}")
        path = self._path(referee, run)
        make_folder(path.parent, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = file.seek(0, os.SEEK_END)
            begin = file.seek(max(0, end - _TAIL))
            tail = file.read()
            whole = tail.rfind(b"\n") + 1
            last = self._last(tail[:whole], path)
            if last is not None:
                known = Checkpoint.parse(last.checkpoint.message)
                if _same(known, parsed):
                    return last.witnessed[0]
                if parsed.entries <= known.entries or parsed.configuration != known.configuration:
                    raise RolledBack(
                        f"the witness has seen {known.entries} entries of run {run!r}, the last with the hash "
                        f"{known.hash[:12]}..., and is shown {parsed.entries} that end in {parsed.hash[:12]}...: "
                        "another history of the run, or an older one",
                        checkpoint=last.checkpoint.raw().decode(),
                    )
            word = self._word(parsed, last)
            file.seek(begin + whole)
            file.truncate()  # a line without an end was cut off: it was never acknowledged
            file.write(canonical.encode(StoredCheckpoint(checkpoint=signed, witnessed=(word,)).wire()) + b"\n")
            file.flush()
            os.fsync(file.fileno())
            if last is None:
                sync_folder(path.parent)
        return word

    def kept(self, referee: str, run: str, after: int, most: int) -> list[bytes]:
        """Return so many of a run's checkpoints after the first ones, oldest first; none of a run that is not known.

        Each is a :class:`~common.log.receipts.StoredCheckpoint` in JSON, as it is stored: any party may ask, so nothing
        is parsed.
        """
        path = self._path(referee, run)
        if not path.exists():
            return []
        with path.open("rb") as file:
            return [line for line in islice(file, after, after + most) if line.endswith(b"\n")]

    def runs(self, referee: str, after: str, most: int) -> list[RunSeen]:
        """Return so many of the runs of a referee, those whose names come after one, by name.

        A referee that has tried several beginnings, each with a beacon that it then knew, has left all of them here.
        """
        names = sorted(map(_run_of, self._path(referee, "x").parent.glob("*.jsonl")))
        found = []
        for name in islice((name for name in names if name > after), most):
            path = self._path(referee, name)
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
                tail = file.read()
            last = self._last(tail[: tail.rfind(b"\n") + 1], path)
            if last is not None:
                word = Witnessed.parse(last.witnessed[0].message)
                entries = Checkpoint.parse(last.checkpoint.message).entries
                found.append(RunSeen(run=name, entries=entries, time=word.time))
        return found

    def _word(self, parsed: Checkpoint, last: StoredCheckpoint | None) -> Signed:
        before = None if last is None else Witnessed.parse(last.witnessed[0].message)
        word = Witnessed(
            checkpoint=parsed.fingerprint(),
            position=0 if before is None else before.position + 1,
            previous=START if before is None else before.fingerprint(),
            time=max(int(self._clock()), 0 if before is None else before.time),
        )
        return self._identity.sign(word.KIND, word.wire())

    def _last(self, lines: bytes, path: Path) -> StoredCheckpoint | None:
        """Return what the last line says, which this witness has signed; None if there is no line."""
        found = lines.splitlines()
        if not found:
            return None
        try:
            kept = StoredCheckpoint.parse(canonical.decode(found[-1]))
            verify(kept.witnessed[0], Witnessed.KIND, self._identity.public)
            verify(kept.checkpoint, Checkpoint.KIND)
            if Witnessed.parse(kept.witnessed[0].message).checkpoint == kept.verified().fingerprint():
                return kept
        except (BadMessage, Forged, IndexError):
            pass
        raise BrokenLedger(
            f"the witness's file {path.parent.name}/{path.name} is not a list of checkpoints: it was edited or "
            "damaged. Put it back from a copy; until then nothing of this run is witnessed here"
        )

    def _path(self, referee: str, run: str) -> Path:
        if re.fullmatch(KEY_PATTERN, referee) is None:
            raise BadMessage("a referee's key has 64 hexadecimal digits")
        return self._folder / referee / f"{file_name(run_name(run))}.jsonl"


def _run_of(path: Path) -> str:
    return path.stem.partition("+")[0]


def _same(known: Checkpoint, parsed: Checkpoint) -> bool:
    return known.model_copy(update={"time": parsed.time}) == parsed
