"""The curator's ledger: what was charged is on disk before anything runs; what was computed, before anything leaves."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import func, insert, select, update

from common.privacy.events import Event, parse_event
from common.service.database import open_tables
from curator.state import migrations


@dataclass(frozen=True)
class Charge:
    """One operation in the order it was charged; ``result`` is None while it has not finished."""

    operation_id: str
    request: str
    operation: dict[str, Any]
    event: Event
    result: dict[str, Any] | None


@dataclass(frozen=True)
class Holder:
    """The run that holds the budget, the digests of its configuration and policy, and the referee that opened it."""

    run: str
    digest: str
    policy: str
    referee: str


class Ledger:
    """Charges and results of the one run that holds the curator's budget.

    Parameters
    ----------
    url
        SQLAlchemy URL; the schema is brought up to date.
    """

    def __init__(self, url: str) -> None:
        self._engine, tables = open_tables(url, migrations.__name__)
        self._runs, self._operations = tables["runs"], tables["operations"]

    def close(self) -> None:
        """Release every connection."""
        self._engine.dispose()

    def holder(self) -> Holder | None:
        """Return the run that holds the budget, if there is one."""
        with self._engine.connect() as connection:
            row = connection.execute(select(self._runs)).first()
        return None if row is None else Holder(row.run, row.digest, row.policy, row.referee)

    def open_run(self, holder: Holder) -> None:
        """Give the budget to a run."""
        with self._engine.begin() as connection:
            connection.execute(insert(self._runs).values(asdict(holder)))

    def charges(self) -> list[Charge]:
        """Return all charges, oldest first."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(self._operations).order_by(self._operations.c.position)).all()
        return [
            Charge(
                row.operation_id,
                row.request,
                json.loads(row.operation),
                parse_event(json.loads(row.event)),
                None if row.result is None else json.loads(row.result),
            )
            for row in rows
        ]

    def charge(self, run: str, charge: Charge) -> None:
        """Record a charge durably."""
        table = self._operations
        with self._engine.begin() as connection:
            position = int(connection.execute(select(func.coalesce(func.max(table.c.position), 0))).scalar_one()) + 1
            connection.execute(
                insert(table).values(
                    run=run,
                    operation_id=charge.operation_id,
                    position=position,
                    request=charge.request,
                    operation=json.dumps(charge.operation),
                    event=json.dumps(charge.event.wire()),
                )
            )

    def finish(self, run: str, operation_id: str, result: dict[str, Any]) -> None:
        """Store an operation's result, once."""
        table = self._operations
        with self._engine.begin() as connection:
            connection.execute(
                update(table)
                .where(table.c.run == run, table.c.operation_id == operation_id, table.c.result.is_(None))
                .values(result=json.dumps(result))
            )
