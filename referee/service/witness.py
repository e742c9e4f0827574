"""A witness as a service: it keeps heads of curators' ledgers, and checkpoints of referees' runs, one file each.

The files are append-only; each line of a run's file is a checkpoint with the witness's signed statement on it. Writing
requires the witness's token. Anybody can read what it keeps of runs.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, TypeVar

from fastapi import Path as InPath
from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from common.core import canonical
from common.core.durable import append_line, file_name, make_folder
from common.core.errors import BadMessage, BrokenLedger, CannotWrite, Forged, NotFound, RolledBack, Unauthorized
from common.core.values import MAX_PLACE, RUN, Value, run_name
from common.crypto.identity import KEY_PATTERN, Identity, Signed, verify
from common.log.entries import START, Extension
from common.log.receipts import Checkpoint, RunSeen, StoredCheckpoint, Witnessed
from common.log.witness import FileWitness, held_file, last_line
from common.net.app import BearerToken, Service, create_app, read_signed, signed_body
from common.net.monitoring import disk
from common.net.tokens import same

T = TypeVar("T")
NAME = r"^[0-9a-z][0-9a-z-]{0,63}$"  # what a head may be called
HEADS = "heads.d"  # folder of all heads in a witness's state directory; no head can have this name
Name = Annotated[str, InPath(pattern=NAME)]
RefereeKey = Annotated[str, InPath(pattern=KEY_PATTERN)]
RunName = Annotated[str, InPath(pattern=RUN)]
MAX_KEPT = 100  # checkpoints in one answer, at most
Most = Annotated[int, Query(ge=1, le=MAX_KEPT)]
FOR_PAGES = re.compile(rb"GET /v1/(?:witness|runs/[0-9a-f]{64}/[0-9a-zA-Z_-]{1,64})")  # for allowed origins


class WitnessInfo(Value):
    """Who this witness is."""

    key: str


def witness_app(folder: Path, token: str, origins: Sequence[str] = ()) -> Service:
    """Return the service; the token is required to put or get a head, and to put a checkpoint.

    Web pages of these ``origins`` may read what it has seen of a run.
    """
    heads = folder / HEADS
    make_folder(heads, mode=0o700)
    identity = Identity.load_or_create(folder / "identity.key")
    runs = WitnessLog(folder / "runs", identity)
    app = create_app(
        "Tandem witness",
        "Keeps the heads of ledgers and the checkpoints of runs: append-only, nothing but extensions.",
        checks={"disk": lambda: disk(folder)},
    )

    @app.get("/v1/witness", summary="The witness's public key")
    def about() -> WitnessInfo:
        return WitnessInfo(key=identity.public)

    app.allow_origins(origins, FOR_PAGES)
    _add_heads(app, heads, token)
    _add_runs(app, runs, token)
    return app


def _check_token(token: str, bearer: str) -> None:
    if not bearer or not same(bearer, token):
        raise Unauthorized("this needs the witness's token (Authorization: Bearer ...)")


def _add_heads(app: Service, heads: Path, token: str) -> None:
    @app.get("/v1/heads/{name}", summary="The newest head stored under a name")
    def newest(name: Name, bearer: BearerToken) -> Signed:
        _check_token(token, bearer)
        checkpoints = FileWitness(heads / file_name(name)).kept()
        if not checkpoints:
            raise NotFound(f"there is no head under the name {name!r}")
        return checkpoints[-1].checkpoint

    @app.put(
        "/v1/heads/{name}",
        summary="Store a head that extends the newest one; idempotent",
        status_code=204,
        openapi_extra=signed_body(Extension.KIND),
    )
    async def put(name: Name, request: Request, bearer: BearerToken) -> Response:
        _check_token(token, bearer)
        signed = await read_signed(request, Extension.KIND)
        await _have_kept(FileWitness(heads / file_name(name)).keep, signed)
        return Response(status_code=204)


def _add_runs(app: Service, runs: WitnessLog, token: str) -> None:
    @app.get("/v1/runs/{referee}", summary="The runs of a referee that this witness has seen, by name")
    def known(
        referee: RefereeKey, after: Annotated[str, Query(max_length=64)] = "", most: Most = MAX_KEPT
    ) -> list[RunSeen]:
        return runs.runs(referee, after, most)

    @app.get(
        "/v1/runs/{referee}/{run}",
        summary="The checkpoints of a run that this witness has stored, oldest first",
        response_model=list[StoredCheckpoint],
    )
    def seen(
        referee: RefereeKey, run: RunName, after: Annotated[int, Query(ge=0, lt=MAX_PLACE)] = 0, most: Most = MAX_KEPT
    ) -> Response:
        lines = runs.lines(referee, run, after, most)
        return Response(b"[" + b",".join(lines) + b"]", media_type="application/json")

    @app.put(
        "/v1/runs/{referee}/{run}",
        summary="Store a checkpoint that extends the last one of a run, and sign it; idempotent",
        response_model=Signed,
        openapi_extra=signed_body(Checkpoint.KIND),
    )
    async def keep(referee: RefereeKey, run: RunName, request: Request, bearer: BearerToken) -> Signed:
        _check_token(token, bearer)
        signed = await read_signed(request, Checkpoint.KIND)
        if (signed.key, signed.message.get("run")) != (referee, run):
            raise BadMessage("the path and the checkpoint name different referees or runs")
        return await _have_kept(runs.keep, signed)


async def _have_kept(keep: Callable[[Signed], T], signed: Signed) -> T:
    try:
        return await run_in_threadpool(keep, signed)
    except BrokenLedger as error:
        raise CannotWrite(error.detail) from None
    except OSError as error:
        raise CannotWrite(f"the witness cannot write ({error}): make room there; ask again") from None


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
        """Keep a checkpoint and return the witness's signed statement; the same one again gets the same statement."""
        parsed = Checkpoint.parse(verify(signed, Checkpoint.KIND))
        path = self._path(signed.key, parsed.run)
        make_folder(path.parent, mode=0o700)
        with held_file(path) as file:
            end, last = self._last(file, path)
            if last is not None:
                previous = Checkpoint.parse(last.checkpoint.message)
                if previous.model_copy(update={"time": parsed.time}) == parsed:
                    os.fsync(file.fileno())  # the fsync of its writer may have failed
                    return last.witnessed[0]
                if parsed.entries <= previous.entries or parsed.configuration != previous.configuration:
                    raise RolledBack(
                        f"the witness has seen {previous.entries} entries of run {parsed.run!r}, the last with the "
                        f"hash {previous.hash[:12]}..., and is shown {parsed.entries} that end in {parsed.hash[:12]}..."
                        ": another history of the run, or an older one",
                        checkpoint=last.checkpoint.raw().decode(),
                    )
            word = self._word(parsed, last)
            stored = StoredCheckpoint(checkpoint=signed, witnessed=(word,))
            append_line(file.fileno(), end, canonical.encode(stored.wire()))
        return word

    def kept(self, signer: str = "", run: str = "") -> list[StoredCheckpoint]:
        return [StoredCheckpoint.parse(canonical.decode(line)) for line in self.lines(signer, run)]

    def lines(self, referee: str, run: str, after: int = 0, most: int | None = None) -> list[bytes]:
        """Return at most ``most`` of a run's checkpoints after the first ``after``, oldest first; none if unknown.

        Each is a :class:`~common.log.receipts.StoredCheckpoint` in JSON as stored; nothing is parsed, because any party
        may ask.
        """
        path = self._path(referee, run)
        if not path.exists():
            return []
        with path.open("rb") as file:
            stop = None if most is None else after + most
            return [line for line in islice(file, after, stop) if line.endswith(b"\n")]

    def runs(self, referee: str, after: str, most: int) -> list[RunSeen]:
        """Return at most ``most`` runs of a referee whose names come after ``after``, by name."""
        files = self._path(referee, "x").parent.glob("*.jsonl")
        names = sorted(name for path in files if (name := path.stem.partition("+")[0]) > after)
        summaries = []
        for name in names[:most]:
            path = self._path(referee, name)
            with path.open("rb") as file:
                _, last = self._last(file, path)
            if last is not None:
                word = Witnessed.parse(last.witnessed[0].message)
                entries = Checkpoint.parse(last.checkpoint.message).entries
                summaries.append(RunSeen(run=name, entries=entries, time=word.time))
        return summaries

    def _word(self, parsed: Checkpoint, last: StoredCheckpoint | None) -> Signed:
        previous = None if last is None else Witnessed.parse(last.witnessed[0].message)
        word = Witnessed(
            checkpoint=parsed.fingerprint(),
            position=0 if previous is None else previous.position + 1,
            previous=START if previous is None else previous.fingerprint(),
            time=max(int(self._clock()), 0 if previous is None else previous.time),
        )
        return self._identity.sign(word.KIND, word.wire())

    def _last(self, file: IO[bytes], path: Path) -> tuple[int, StoredCheckpoint | None]:
        """Return where a run's file's last whole line ends, and its checkpoint; BrokenLedger if it is not valid."""
        line, end = last_line(file)
        if line is None:
            return end, None
        try:
            checkpoint = StoredCheckpoint.parse(canonical.decode(line))
            verify(checkpoint.witnessed[0], Witnessed.KIND, self._identity.public)
            if Witnessed.parse(checkpoint.witnessed[0].message).checkpoint == checkpoint.verified().fingerprint():
                return end, checkpoint
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
