"""Invitation codes: one code, one credential. Only hashes are kept, and no time, so that the file tells nobody who."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update

from common.core.database import alone, open_tables, sqlite_url
from common.core.errors import Conflict, Unauthorized
from common.net.app import invitation, invitation_hash
from issuer import migrations

USING = 1
"""The turn (:func:`common.core.database.alone`) in which codes are made and used."""


class Codes:
    """The codes of one issuer.

    Parameters
    ----------
    folder
        The issuer's state directory.

    Raises
    ------
    BadInput
        If the database in it cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        # No log beside the file: what is committed is in it, and a copy of it is whole.
        self._engine, tables = open_tables(sqlite_url(folder / "codes.sqlite"), migrations.__name__, log=False)
        self._codes = tables["codes"]

    def close(self) -> None:
        """Release the database."""
        self._engine.dispose()

    def invite(self, count: int) -> list[str]:
        """Make so many codes; they are shown this once."""
        made = [invitation() for _ in range(count)]
        rows: list[dict[str, Any]] = [{"sha256": invitation_hash(code)} for code in made]
        with self._engine.begin() as connection:
            alone(connection, USING)
            connection.execute(insert(self._codes), rows)
        return made

    def use(self, code: str, request: bytes) -> None:
        """Use a code for a token request, durably; the same request again changes nothing.

        Raises
        ------
        Unauthorized
            If there is no such code.
        Conflict
            If it was used for another request.
        """
        known, wanted = self._codes.c, hashlib.sha256(request).hexdigest()
        with self._engine.begin() as connection:
            alone(connection, USING)
            found = connection.execute(select(known.request).where(known.sha256 == invitation_hash(code))).first()
            if found is None:
                raise Unauthorized("this issuer knows no such invitation code: look for a mistyped character")
            if found.request is None:
                spend = update(self._codes).where(known.sha256 == bindparam("code")).values(request=wanted)
                connection.execute(spend, {"code": invitation_hash(code)})
            elif found.request != wanted:
                raise Conflict(
                    "this invitation code was used for another request: one code is good for one credential. Whoever "
                    "was invited asks again from the same state directory, or the issuer for another code"
                )

    def counts(self) -> tuple[int, int]:
        """Return how many codes there are, and how many of them were used."""
        with self._engine.connect() as connection:
            row = connection.execute(select(func.count(), func.count(self._codes.c.request))).one()
        return int(row[0]), int(row[1])
