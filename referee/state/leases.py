"""Which process drives the runs: a lease that expires, with a token that only ever grows.

Any number of processes may work on one database. One of them drives. It renews its lease; when it does not any more,
another one takes the lease over and with it a greater token. Each transaction of a driver checks its token in the
database (:meth:`referee.state.tables.Tables._driving`): one that was stopped for a while, and goes on without knowing
that it was replaced, writes nothing (a fencing token; Kleppmann 2016, "How to do distributed locking").
"""

from __future__ import annotations

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from referee.state.tables import DRIVER, LEASING, Tables

FAR = 100.0
"""A lease that lasts longer than so many of one's own is of a clock that was put back: nobody waits for it."""


class LeaseQueries(Tables):
    """The lease of the driver, and whose database this is."""

    def take_lease(self, holder: str, seconds: float, *, again: bool = False) -> bool:
        """Become the driver if nobody is; return whether this process is.

        Whoever drove before and lost the lease begins anew with a new token: what it held in memory is worth nothing.

        Parameters
        ----------
        holder
            The name of this process.
        seconds
            How long the lease lasts if it is not renewed.
        again
            Whether a lease under this name may be taken over although it lasts: its process is known to have ended.
        """
        leases = self._table("leases")
        mine = leases.c.name == DRIVER
        with self._alone(LEASING) as connection:
            row = connection.execute(select(leases).where(mine).with_for_update()).first()
            now = self._now(connection)
            free = row is None or not now < row.expires <= now + FAR * seconds or (again and row.holder == holder)
            token = 0 if row is None else int(row.token)
            if row is not None and token == self.fence:
                return True
            if free:
                token += 1
                lease = {"holder": holder, "token": token, "expires": now + seconds}
                connection.execute(
                    insert(leases).values(name=DRIVER, **lease)
                    if row is None
                    else update(leases).where(mine).values(lease)
                )
        self.fence = token if free else None
        return free

    def renew_lease(self, seconds: float) -> None:
        """Let the lease last from now on, if this process holds it; it is never taken here."""
        leases, fence = self._table("leases"), self.fence
        with self._alone(LEASING) as connection:
            held = update(leases).where(leases.c.name == DRIVER, leases.c.token == fence)
            if not connection.execute(held.values(expires=self._now(connection) + seconds)).rowcount:
                self.fence = None

    def release_lease(self) -> None:
        """Drive no more, and let another process begin at once."""
        fence, self.fence = self.fence, None
        if fence is not None:
            leases = self._table("leases")
            with self._alone(LEASING) as connection:
                connection.execute(
                    update(leases).where(leases.c.name == DRIVER, leases.c.token == fence).values(expires=0.0)
                )

    def lease_left(self) -> float | None:
        """Return for how many seconds the lease lasts, whoever has it; negative once it has run out, None: never taken.

        A driver that has let go of it on purpose leaves a lease that ran out long ago.
        """
        leases = self._table("leases")
        with self._engine.connect() as connection:
            expires = connection.execute(select(leases.c.expires).where(leases.c.name == DRIVER)).scalar()
            return None if expires is None else float(expires) - self._now(connection)

    def owner(self, key: str) -> str:
        """Return the key of the referee to whom the database belongs: this one's, if it belongs to nobody yet."""
        identity = self._table("identity")
        known = select(identity.c.key)
        try:
            with self._engine.begin() as connection:
                found = connection.execute(known).scalar()
                if found is None:
                    connection.execute(insert(identity).values(name="referee", key=key))
                return found or key
        except IntegrityError:  # another process was quicker
            with self._engine.connect() as connection:
                return str(connection.execute(known).scalar_one())
