"""The checkpoints of runs' transcripts, with what witnesses have signed of them."""

from __future__ import annotations

import json

from sqlalchemy import delete, insert, select

from common.core import canonical
from common.log.receipts import StoredCheckpoint
from referee.state.tables import Tables


class CheckpointQueries(Tables):
    """Checkpoints by run and number of entries."""

    def keep_checkpoint(self, run: str, entries: int, kept: StoredCheckpoint) -> None:
        """Store a checkpoint, in the place of what was stored of it before."""
        table = self._table("checkpoints")
        with self._driving() as connection:
            connection.execute(delete(table).where(table.c.run == run, table.c.entries == entries))
            line = canonical.encode(kept.wire()).decode()
            connection.execute(insert(table).values(run=run, entries=entries, kept=line))

    def checkpoints(self, run: str, after: int = 0, most: int = 1 << 31) -> list[StoredCheckpoint]:
        """Return so many of a run's checkpoints after the first ones, oldest first."""
        table = self._table("checkpoints")
        with self._engine.connect() as connection:
            query = select(table.c.kept).where(table.c.run == run).order_by(table.c.entries).offset(after).limit(most)
            return [StoredCheckpoint.parse(json.loads(line)) for line in connection.execute(query).scalars()]

    def last_checkpoint(self, run: str) -> StoredCheckpoint | None:
        """Return a run's newest checkpoint."""
        table = self._table("checkpoints")
        with self._engine.connect() as connection:
            query = select(table.c.kept).where(table.c.run == run).order_by(table.c.entries.desc()).limit(1)
            line = connection.execute(query).scalar()
        return None if line is None else StoredCheckpoint.parse(json.loads(line))
