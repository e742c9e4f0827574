"""A witness as a service: it keeps heads of ledgers for others, one file a name, and shows the newest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request, Response
from fastapi import Path as InPath
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from common.core.errors import CannotWrite, NotFound, Unauthorized
from common.service.app import Service, create_app, read_signed, same, signed_body
from common.wire.chain import Extension
from common.wire.identity import Signed
from common.wire.witness import FileWitness

Name = Annotated[str, InPath(pattern=r"^[0-9a-z][0-9a-z-]{0,63}$")]
Token = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


def witness_app(folder: Path, token: str) -> Service:
    """Return the service.

    Parameters
    ----------
    folder
        Where heads are kept.
    token
        What whoever puts or asks must say; a name belongs to the key that signs its first head.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    app = create_app("Tandem witness", "Keeps the heads of ledgers: append-only, and nothing but extensions.")

    def admitted(given: HTTPAuthorizationCredentials | None) -> None:
        if given is None or not same(given.credentials, token):
            raise Unauthorized("this needs the witness's token (Authorization: Bearer ...)")

    @app.get("/v1/heads/{name}", summary="The newest head under a name")
    def newest(name: Name, given: Token) -> Signed:
        admitted(given)
        signed = FileWitness(folder / name).newest()
        if signed is None:
            raise NotFound(f"there is no head under the name {name!r}")
        return signed

    @app.put(
        "/v1/heads/{name}",
        summary="Keep a head that extends the newest; the same again changes nothing",
        status_code=204,
        openapi_extra=signed_body(Extension.KIND),
    )
    async def put(name: Name, request: Request, given: Token) -> Response:
        admitted(given)
        signed = await read_signed(request, Extension.KIND)
        try:
            await run_in_threadpool(FileWitness(folder / name).put, signed)
        except OSError as error:
            raise CannotWrite(f"the witness cannot write ({error}): make room there; ask again") from None
        return Response(status_code=204)

    return app
