"""The issuer over HTTP: the issuance protocol of RFC 9578 for tokens of type 2, for whoever has an invitation code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.exc import SQLAlchemyError

from common.core.errors import CannotWrite, Unauthorized
from common.crypto.vouching import IssuerKey
from common.net.app import Service, create_app
from common.net.edge import TINY
from common.net.readiness import disk
from issuer.issuer import Issuer

REQUEST, RESPONSE = "application/private-token-request", "application/private-token-response"
"""Media types of RFC 9578, section 9.2."""
Code = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]
_BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}


def issuer_app(issuer: Issuer, folder: Path) -> Service:
    """Return the service of an issuer whose state directory is ``folder``."""
    app = create_app(
        "Tandem issuer",
        "Vouches for people: signs blinded tokens for holders of an invitation code.",
        limits={"/v1/token-requests": TINY},
        checks={"disk": lambda: disk(folder)},
    )

    @app.get("/v1/issuer", summary="The issuer's public keys")
    def about() -> IssuerKey:
        return issuer.public

    @app.post(
        "/v1/token-requests",
        summary="Sign a blinded token, once for each invitation code (Authorization: Bearer CODE)",
        response_class=Response,
        responses={200: {"content": {RESPONSE: _BYTES}}},
        openapi_extra={
            "requestBody": {
                "required": True,
                "description": "A TokenRequest of type 2 (RFC 9578, section 6.1)",
                "content": {REQUEST: _BYTES},
            }
        },
    )
    async def issue(request: Request, code: Code) -> Response:
        if code is None:
            raise Unauthorized("this needs an invitation code (Authorization: Bearer ...)")
        body = await request.body()
        try:
            signature = await run_in_threadpool(issuer.issue, code.credentials, body)
        except (SQLAlchemyError, OSError):
            raise CannotWrite("the issuer cannot write: make room there; ask again") from None
        return Response(signature, media_type=RESPONSE)

    return app
