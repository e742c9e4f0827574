"""A witness as a service: it keeps heads of curators' ledgers, and checkpoints of referees' runs, one file each.

Only whoever has its token makes it keep something. What it keeps of runs is for everybody to read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import Depends, Query, Request, Response
from fastapi import Path as InPath
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from common.core.durable import file_name, make_folder
from common.core.errors import BadMessage, BrokenLedger, CannotWrite, NotFound, Unauthorized
from common.core.values import MAX_PLACE, RUN, Value
from common.crypto.identity import KEY_PATTERN, Identity, Signed
from common.log.entries import Extension
from common.log.receipts import Checkpoint, RunSeen, StoredCheckpoint
from common.log.witness import FileWitness
from common.net.app import Service, create_app, read_signed, same, signed_body
from common.net.monitoring import disk
from referee.witness_log import WitnessLog

NAME = r"^[0-9a-z][0-9a-z-]{0,63}$"  # what a head may be called
HEADS = "heads.d"  # folder of all heads in a witness's state directory: itself no name of a head
Name = Annotated[str, InPath(pattern=NAME)]
RefereeKey = Annotated[str, InPath(pattern=KEY_PATTERN)]
RunName = Annotated[str, InPath(pattern=RUN)]
MAX_KEPT = 100  # checkpoints in one answer, at most
Most = Annotated[int, Query(ge=1, le=MAX_KEPT)]
Token = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


class WitnessInfo(Value):
    """Who this witness is."""

    key: str


def witness_app(folder: Path, token: str) -> Service:
    """Return the service; the token admits who puts a head or asks for one, and who puts a checkpoint."""
    heads = folder / HEADS
    make_folder(heads, mode=0o700)
    identity = Identity.load_or_create(folder / "identity.key")
    runs = WitnessLog(folder / "runs", identity)
    app = create_app(
        "Tandem witness",
        "Keeps the heads of ledgers and the checkpoints of runs: append-only, nothing but extensions.",
        checks={"disk": lambda: disk(folder)},
    )

    @app.get("/v1/witness", summary="Who is this witness?")
    def about() -> WitnessInfo:
        return WitnessInfo(key=identity.public)

    _add_heads(app, heads, token)
    _add_runs(app, runs, token)
    return app


def _check_token(token: str, given: HTTPAuthorizationCredentials | None) -> None:
    if given is None or not same(given.credentials, token):
        raise Unauthorized("this needs the witness's token (Authorization: Bearer ...)")


def _add_heads(app: Service, heads: Path, token: str) -> None:
    """Add heads of curators' ledgers: only extensions are stored."""

    @app.get("/v1/heads/{name}", summary="The newest head under a name")
    def newest(name: Name, given: Token) -> Signed:
        _check_token(token, given)
        kept = FileWitness(heads / file_name(name)).kept()
        if not kept:
            raise NotFound(f"there is no head under the name {name!r}")
        return kept[-1].checkpoint

    @app.put(
        "/v1/heads/{name}",
        summary="Keep a head that extends the newest; the same again changes nothing",
        status_code=204,
        openapi_extra=signed_body(Extension.KIND),
    )
    async def put(name: Name, request: Request, given: Token) -> Response:
        _check_token(token, given)
        signed = await read_signed(request, Extension.KIND)
        try:
            await run_in_threadpool(FileWitness(heads / file_name(name)).keep, signed)
        except (OSError, BrokenLedger) as error:
            raise _cannot_write(error) from None
        return Response(status_code=204)


def _add_runs(app: Service, runs: WitnessLog, token: str) -> None:
    """Add checkpoints of referees' runs: only those that go further are stored; anybody may read them."""

    @app.get("/v1/runs/{referee}", summary="The runs of a referee that this witness has seen, by name")
    def known(
        referee: RefereeKey, after: Annotated[str, Query(max_length=64)] = "", most: Most = MAX_KEPT
    ) -> list[RunSeen]:
        return runs.runs(referee, after, most)

    @app.get(
        "/v1/runs/{referee}/{run}",
        summary="What this witness has seen of a run, oldest first",
        response_model=list[StoredCheckpoint],
    )
    def seen(
        referee: RefereeKey, run: RunName, after: Annotated[int, Query(ge=0, lt=MAX_PLACE)] = 0, most: Most = MAX_KEPT
    ) -> Response:
        lines = runs.lines(referee, run, after, most)
        return Response(b"[" + b",".join(lines) + b"]", media_type="application/json")

    @app.put(
        "/v1/runs/{referee}/{run}",
        summary="Keep a checkpoint of a run that goes further than the last; the same again gets the same word",
        response_model=Signed,
        openapi_extra=signed_body(Checkpoint.KIND),
    )
    async def keep(referee: RefereeKey, run: RunName, request: Request, given: Token) -> Signed:
        _check_token(token, given)
        signed = await read_signed(request, Checkpoint.KIND)
        if (signed.key, signed.message.get("run")) != (referee, run):
            raise BadMessage("the path and the checkpoint name different referees or runs")
        try:
            return await run_in_threadpool(runs.keep, signed)
        except (OSError, BrokenLedger) as error:
            raise _cannot_write(error) from None


def _cannot_write(error: OSError | BrokenLedger) -> CannotWrite:
    if isinstance(error, BrokenLedger):
        return CannotWrite(error.detail)
    return CannotWrite(f"the witness cannot write ({error}): make room there; ask again")
