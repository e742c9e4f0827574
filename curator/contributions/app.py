"""Contributions over HTTP: the offer for everybody, and what contributors sign."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from common.core.errors import Unauthorized
from common.crypto.identity import Signed
from common.net.app import Service, create_app, read_signed, signed_body
from common.net.edge import TINY, Admitted, Guarded, Opening
from curator.contributions.collection import Collection
from curator.contributions.messages import Contribution, Withdrawal

Token = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


def collecting_app(collection: Collection) -> Service:
    """Return the service of a curator that collects, before its run."""
    app = create_app(
        "Tandem curator, collecting",
        "Takes records that are sealed to it, until its run begins.",
        checks=collection.readiness_checks(),
    )
    add_contributions(app, collection)
    return app


def add_contributions(app: Service, collection: Collection) -> None:
    """Give a service the resources of contributors. No body of a contribution is read before the token is."""

    async def check(token: str) -> str:
        admitted = await run_in_threadpool(collection.admits, token)
        if admitted is None:
            raise Unauthorized(
                "this needs the contribution token or an invitation code (Authorization: Bearer ...), as the curator "
                "hands it out"
            )
        return admitted

    async def announced(opening: Opening) -> Admitted:
        await check(opening.token)
        return Admitted(collection.largest)

    app.edge.bodies.limits |= {"/v1/contributions": Guarded(collection.largest, announced), "/v1/withdrawals": TINY}

    @app.get("/v1/contributions/offer", summary="What is taken, sealed with, and promised", response_model=Signed)
    def offer() -> Signed:
        return collection.offer

    @app.post(
        "/v1/contributions",
        summary="Give a sealed record, once; the same again gets the same receipt",
        response_model=Signed,
        openapi_extra=signed_body(Contribution.KIND),
    )
    async def contribute(request: Request, token: Token) -> Signed:
        code = await check(token.credentials if token else "")
        signed = await read_signed(request, Contribution.KIND)
        return await run_in_threadpool(collection.accept, signed, code)

    @app.post(
        "/v1/withdrawals",
        summary="Delete one's record, until the run begins; the same again gets the same receipt",
        response_model=Signed,
        openapi_extra=signed_body(Withdrawal.KIND),
    )
    async def withdraw(request: Request) -> Signed:
        signed = await read_signed(request, Withdrawal.KIND)
        return await run_in_threadpool(collection.withdraw, signed)
