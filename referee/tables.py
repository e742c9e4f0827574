"""The referee's database: what it remembers, as values and as tables, and who may write what when."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from common.core.database import DatabaseSchema, alone, count_commits, database_bytes, ending, open_database
from common.core.errors import Superseded
from common.log.transcript import SignedEntry


@dataclass(frozen=True)
class Participant:
    """An enrolled agent or hosted population: agents ``first`` .. ``first + agents - 1`` answer under ``key``."""

    key: str
    first: int
    agents: int


@dataclass(frozen=True)
class Cohort:
    """Agents that were enrolled together when a run began; ``used`` of them, in the order of ``seed``, were asked."""

    first: int
    agents: int
    seed: str
    used: int


@dataclass(frozen=True)
class Part:
    """Positions ``start`` .. ``stop - 1`` of the order of the cohort that begins at agent ``cohort``."""

    cohort: int
    start: int
    stop: int


@dataclass(frozen=True)
class StoredQuestion:
    """A question to a batch of agents; ``key`` is its number among all of the referee's, 0 before it is stored.

    ``again`` is the question of the run that these agents have been asked first, if they have.
    """

    run: str
    question: int
    query: dict[str, Any]
    parts: tuple[Part, ...]
    asked: int
    open: bool
    key: int = 0
    again: int | None = None


class ReportRef(NamedTuple):
    """That a report is stored: its number, the key of its question, and the slot that it is from."""

    number: int
    question: int
    slot: int


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report as it was accepted, without what its question says already.

    ``message`` is what was signed, in canonical JSON, if it is written in another way than it is rebuilt; else empty.
    """

    slot: int
    individual: bool
    report_id: bytes
    answered: int
    signature: bytes
    body: bytes
    message: bytes = b""


@dataclass(frozen=True)
class StoredRun:
    """A run as it stands."""

    run: str
    request: str
    scenario: dict[str, Any]
    seed: int | None
    status: str
    configuration: dict[str, Any] | None
    result: dict[str, Any] | None


# Turns (common.core.database.alone): each is had by one process at a time. Nobody takes a second in one transaction.
ENROLLING, REPORTING, LEASING = 1, 2, 3
DRIVER = "driver"  # the name of the lease: its holder drives all runs

TABLES = sa.MetaData()


def _key(name: str, kind: Any = sa.BigInteger, *constraints: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, *constraints, primary_key=True, autoincrement=False)


def _table(name: str, *columns: Any, **required: Any) -> sa.Table:
    return sa.Table(name, TABLES, *columns, *(sa.Column(name, kind, nullable=False) for name, kind in required.items()))


TOKENS = _table("tokens", _key("purpose", sa.String(16)), _key("sha256", sa.String(64)))
PARTICIPANTS = _table("participants", _key("first"), key=sa.LargeBinary(32), agents=sa.BigInteger)
INVITATIONS = _table("invitations", _key("sha256", sa.String(64)), sa.Column("key", sa.LargeBinary(32)))
"""Hashes of invitation codes, and the first key that has enrolled with each."""
VOUCHERS = _table("vouchers", _key("first"), voucher=sa.LargeBinary)
POLICIES = _table("policies", _key("first"), policy=sa.Text)
COHORTS = _table("cohorts", _key("first"), agents=sa.BigInteger, seed=sa.Text, used=sa.BigInteger)
RUNS = _table(
    "runs",
    _key("run", sa.String(64)),
    sa.Column("position", sa.Integer, nullable=False, unique=True),
    sa.Column("seed", sa.BigInteger),
    sa.Column("configuration", sa.Text),
    sa.Column("result", sa.Text),
    request=sa.String(64),
    scenario=sa.Text,
    status=sa.String(16),
)
QUESTIONS = _table(
    "questions",
    sa.Column("key", sa.Integer, primary_key=True),
    sa.Column("run", sa.String(64), sa.ForeignKey("runs.run"), nullable=False),
    sa.Column("question", sa.Integer, nullable=False),
    sa.Column("open", sa.Boolean, nullable=False, index=True),
    sa.UniqueConstraint("run", "question"),
    query=sa.Text,
    parts=sa.Text,
    asked=sa.BigInteger,
    answered=sa.BigInteger,
)
REPORTS = _table(
    "reports",
    _key("number", sa.BigInteger().with_variant(sa.Integer, "sqlite")),
    sa.Column("question", sa.Integer, nullable=False, index=True),
    slot=sa.BigInteger,
    individual=sa.Boolean,
    report_id=sa.LargeBinary(16),
    answered=sa.BigInteger,
    signature=sa.LargeBinary(64),
    body=sa.LargeBinary,
    message=sa.LargeBinary,
)
ENTRIES = _table(
    "entries",
    _key("run", sa.String(64), sa.ForeignKey("runs.run")),
    _key("index", sa.Integer),
    sa.Column("step", sa.Integer),
    kind=sa.String(32),
    line=sa.Text,
)
CHECKPOINTS = _table("checkpoints", _key("run", sa.String(64)), _key("entries", sa.Integer), kept=sa.Text)
IDENTITY = _table("identity", _key("name", sa.String(16)), key=sa.String(64))
LEASES = _table("leases", _key("name", sa.String(16)), holder=sa.String(64), token=sa.BigInteger, expires=sa.Double)
REJECTIONS = _table("rejections", _key("process", sa.String(64)), _key("reason", sa.String(32)), count=sa.BigInteger)
SCHEMA = DatabaseSchema(
    "the referee's database",
    TABLES,
    version=2,
    remedy="End its runs and audit them with that version, or begin with a new state directory, in which agents that "
    "have answered refuse to answer again",
)


# Made once: to make a statement takes longer than to carry it out. The shared lock on the row lets nobody take the
# lease before the transaction of its holder has ended.
_HELD = sa.select(LEASES.c.token).where(LEASES.c.name == DRIVER).with_for_update(read=True)
_HELD_ON_SERVER = _HELD.add_columns(ending())  # whoever stands still holds the lock no longer
_ADD_ENTRY = sa.insert(ENTRIES)
_ROWS = 10_000  # rows that are read at a time


class Tables:
    """The tables of a database, which are made where there are none.

    ``fence`` is the fencing token of this process while it drives the runs; ``commits`` returns how many transactions
    it has committed.
    """

    def __init__(self, url: str) -> None:
        self._engine = open_database(url, SCHEMA)
        self.fence: int | None = None
        self._ends: dict[str, tuple[int | None, SignedEntry, int | None]] = {}
        """Of the run that wrote last: fencing token, newest entry, and the last step that has a reply, if known."""
        self.commits = count_commits(self._engine)

    def bytes(self) -> int:
        return database_bytes(self._engine.url.render_as_string(hide_password=False))

    def close(self) -> None:
        self._engine.dispose()

    def _all(self, query: sa.Select[Any], params: Mapping[str, Any] | None = None) -> Sequence[Any]:
        with self._engine.connect() as connection:
            return connection.execute(query, params).all()

    def _value(self, query: sa.Select[Any], params: Mapping[str, Any] | None = None) -> Any:
        with self._engine.connect() as connection:
            return connection.execute(query, params).scalar()

    def _stream(self, query: sa.Select[Any], params: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Go through rows that need not fit into memory."""
        with self._engine.connect().execution_options(yield_per=_ROWS) as connection:
            yield from connection.execute(query, params)

    @contextmanager
    def _alone(self, turn: int) -> Iterator[sa.Connection]:
        with self._engine.begin() as connection:
            alone(connection, turn)
            yield connection

    @contextmanager
    def _driving(self, turn: int = LEASING) -> Iterator[sa.Connection]:
        """Begin a transaction of the driver, which holds the lease until it has ended; else write nothing."""
        with self._engine.begin() as connection:
            if turn != LEASING or connection.dialect.name == "sqlite":
                alone(connection, turn)
            query = _HELD if connection.dialect.name == "sqlite" else _HELD_ON_SERVER
            if connection.execute(query).scalar() != self.fence:
                self.fence = None
            self.check_driving()
            yield connection

    def check_driving(self) -> None:
        """Stop a driver that waits for others, if it has learned that it does not drive any more."""
        if self.fence is None:
            raise Superseded("another process drives the runs of this referee: this one writes nothing")

    def _now(self, connection: sa.Connection) -> float:
        if connection.dialect.name == "sqlite":
            return time.time()
        return float(connection.execute(sa.text("SELECT EXTRACT(EPOCH FROM clock_timestamp())")).scalar_one())

    def check_writable(self) -> None:
        """Begin to write, and take it back; raises SQLAlchemyError if the database cannot be written at present."""
        with self._engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.execute(sa.update(IDENTITY).values(key=IDENTITY.c.key))
            connection.rollback()

    def _insert_all(
        self, connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Insert many rows, without what SQLAlchemy does for each value."""
        if not rows:
            return
        names = ", ".join(f'"{name}"' for name in columns)
        into = f"INSERT INTO {table.name} ({names})"
        if connection.dialect.name == "sqlite":
            marks = ", ".join("?" * len(columns))
            connection.exec_driver_sql(f"{into} VALUES ({marks})", list(rows))
            return
        types = [table.c[name].type.compile(connection.dialect) for name in columns]
        arrays = ", ".join(f"%b::{kind}[]" for kind in types)  # binary: a fifth of the time that text takes
        columnwise = tuple(list(column) for column in zip(*rows, strict=True))
        connection.exec_driver_sql(f"{into} SELECT * FROM unnest({arrays})", columnwise)  # noqa: S608 - our own names

    def _insert_entry(
        self, connection: sa.Connection, run: str, entry: SignedEntry, step: int | None = None
    ) -> int | None:
        """Add an entry to the driver's transaction, and return the fencing token that it is written under."""
        self._ends.pop(run, None)  # until it is known that the transaction was committed
        row = {"run": run, "index": entry.index, "step": step, "kind": entry.kind, "line": entry.line()}
        connection.execute(_ADD_ENTRY, row)
        return self.fence
