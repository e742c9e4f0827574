"""What a witness keeps of runs: one file each, append-only; a line is a checkpoint and the witness's word for it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import IO

from common.core import canonical
from common.core.durable import file_name, make_folder
from common.core.errors import BadMessage, BrokenLedger, Forged, RolledBack
from common.core.values import run_name
from common.crypto.identity import KEY_PATTERN, Identity, Signed, verify
from common.log.entries import START
from common.log.receipts import Checkpoint, RunSeen, StoredCheckpoint, Witnessed
from common.log.witness import append_line, held_file

_TAIL = 1 << 14  # bytes at a file's end in which its last line is: a line is at most some 2,000 bytes long


class WitnessLog:
    """The runs that one witness watches: a :class:`~common.log.witness.Witness` of any referees."""

    def __init__(self, folder: Path, identity: Identity, clock: Callable[[], float] = time.time) -> None:
        self.place = str(folder)
        self._folder, self._identity, self._clock = folder, identity, clock

    def key(self) -> str:
        return self._identity.public

    def check_writable(self) -> None:
        place = self._folder if self._folder.exists() else self._folder.parent
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(f"{place} cannot be written")

    def keep(self, signed: Signed) -> Signed:
        """Keep a checkpoint, and return the witness's word for it; the same again gets the same word."""
        parsed = Checkpoint.parse(verify(signed, Checkpoint.KIND))
        path = self._path(signed.key, parsed.run)
        make_folder(path.parent, mode=0o700)
        with held_file(path) as file:
            end, last = self._last(file, path)
            if last is not None:
                known = Checkpoint.parse(last.checkpoint.message)
                if known.model_copy(update={"time": parsed.time}) == parsed:
                    return last.witnessed[0]
                if parsed.entries <= known.entries or parsed.configuration != known.configuration:
                    raise RolledBack(
                        f"the witness has seen {known.entries} entries of run {parsed.run!r}, the last with the hash "
                        f"{known.hash[:12]}..., and is shown {parsed.entries} that end in {parsed.hash[:12]}...: "
                        "another history of the run, or an older one",
                        checkpoint=last.checkpoint.raw().decode(),
                    )
            word = self._word(parsed, last)
            kept = StoredCheckpoint(checkpoint=signed, witnessed=(word,))
            append_line(file, end, canonical.encode(kept.wire()))
        return word

    def kept(self, signer: str = "", run: str = "") -> list[StoredCheckpoint]:
        return [StoredCheckpoint.parse(canonical.decode(line)) for line in self.lines(signer, run)]

    def lines(self, referee: str, run: str, after: int = 0, most: int | None = None) -> list[bytes]:
        """Return so many of a run's checkpoints after the first ones, oldest first; none of a run that is not known.

        Each is a :class:`~common.log.receipts.StoredCheckpoint` in JSON, as it is stored: any party may ask, so nothing
        is parsed.
        """
        path = self._path(referee, run)
        if not path.exists():
            return []
        with path.open("rb") as file:
            stop = None if most is None else after + most
            return [line for line in islice(file, after, stop) if line.endswith(b"\n")]

    def runs(self, referee: str, after: str, most: int) -> list[RunSeen]:
        """Return so many of the runs of a referee, those whose names come after one, by name."""
        files = self._path(referee, "x").parent.glob("*.jsonl")
        names = sorted(name for path in files if (name := path.stem.partition("+")[0]) > after)
        found = []
        for name in names[:most]:
            path = self._path(referee, name)
            with path.open("rb") as file:
                _, last = self._last(file, path)
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

    def _last(self, file: IO[bytes], path: Path) -> tuple[int, StoredCheckpoint | None]:
        """Return where the last whole line of a run's file ends, and what is in it; BrokenLedger if that is none."""
        begin = file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        tail = file.read()
        whole = tail.rfind(b"\n") + 1
        found = tail[:whole].splitlines()
        if not found:
            return begin + whole, None
        try:
            kept = StoredCheckpoint.parse(canonical.decode(found[-1]))
            verify(kept.witnessed[0], Witnessed.KIND, self._identity.public)
            if Witnessed.parse(kept.witnessed[0].message).checkpoint == kept.verified().fingerprint():
                return begin + whole, kept
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
