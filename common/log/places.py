"""A witness by its place: a file on another disk, or a witness service."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from common.core.errors import NotFound
from common.net.addresses import base as base_of
from common.net.addresses import is_address
from common.net.client import Client, read_signed_reply
from common.wire.identity import Signed, verify
from common.wire.primitives.chain import Extension, Head
from common.wire.witness import FileWitness, Witness

TOKEN = "TANDEM_WITNESS_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token of a witness service."""

PROMPT = 1.0
"""Seconds in which a service must say that it is ready."""


class HttpWitness:
    """:class:`common.wire.witness.Witness` over HTTP.

    Parameters
    ----------
    url
        Of this ledger's heads: ``http://HOST:PORT/v1/heads/NAME``.

    Raises
    ------
    BadInput
        If it is no address of a service.
    """

    def __init__(self, url: str) -> None:
        self.place = base_of(url)
        base, _, name = self.place.rpartition("/v1/heads/")
        self._base, self._path = base or self.place, f"/v1/heads/{name}"

    def last(self) -> Head | None:
        """Return the newest head."""
        try:
            response = self._request("GET")
        except NotFound:
            return None
        return Extension.parse(verify(read_signed_reply(response), Extension.KIND)).head

    def put(self, signed: Signed) -> None:
        """Keep a head."""
        self._request("PUT", content=signed.model_dump_json())

    def check_writable(self) -> None:
        """See whether the service is ready, without waiting for long."""
        with closing(Client(self._base, patience=0.0, timeout=PROMPT)) as client:
            client.request("GET", "/v1/ready")

    def _request(self, method: str, **parts: Any) -> httpx.Response:
        token = os.environ.get(TOKEN, "")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with closing(Client(self._base, patience=10.0)) as client:
            return client.request(method, self._path, headers=headers, **parts)


def witness_at(place: str) -> Witness:
    """Return the witness at a place: a URL, or a file's path."""
    return HttpWitness(place) if is_address(place) else FileWitness(Path(place))
