"""What release 0.3.0 left on disk, opened with today's code: it goes on, or is refused with both versions, never half.

``v0.3.0.tar.xz`` was written by the code of the tag v0.3.0 with ``tests/upgrades/make.py``, which says how. It holds
the states of all parties after a run that ended (``ended/``) and of one that the curator has not yet begun
(``waiting/``), and the folder of the run that ended (``run/``).
"""

import hashlib
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from common.core.database import sqlite_url
from common.core.errors import AuditFailed, BadInput, BrokenLedger, TandemError
from common.core.version import release
from common.log.ledger import Journal
from curator.ledger import verify_ledger
from local_agent.hosted.population import open_population
from referee.audit.audit import audit
from referee.cli import app
from referee.service.referee import Referee
from referee.store import RefereeStore, backup
from tests.support import tiny
from tests.tiers import for_each

ARCHIVE = Path(__file__).with_name("v0.3.0.tar.xz")
pytestmark = pytest.mark.slow
SMALL = ("agents.count=150", "agents.batch=50", "curator.n=60", "curator.rounds=1")


@pytest.fixture
def left(tmp_path) -> Path:
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def content(folder: Path) -> dict[str, str]:
    """Return the digest of every file but locks, which hold nothing; of a database, of all that is in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "lock":
            held = path.read_bytes()
            if path.suffix == ".sqlite":
                with closing(sqlite3.connect(path)) as connection:
                    held = "\n".join(connection.iterdump()).encode()
            found[str(path.relative_to(folder))] = hashlib.sha256(held).hexdigest()
    return found


def names_both(error: TandemError) -> None:
    assert "Tandem 0.3.0 or older" in error.detail
    assert f"this is Tandem {release() or 'unreleased'}" in error.detail
    assert "with that version" in error.detail


@for_each("which", ["ended", "waiting"])
def test_a_referees_database_is_refused_whole(left, which):
    folder = left / which / "referee"
    before = content(folder)
    with pytest.raises(BadInput) as refused:
        Referee(folder, curator=None)  # the curator is never reached
    names_both(refused.value)
    assert content(folder) == before
    with pytest.raises(BadInput):
        RefereeStore(sqlite_url(folder / "referee.sqlite"))
    with pytest.raises(BadInput) as refused:
        backup(folder, left / "copy")  # from which no referee of today would start
    names_both(refused.value)
    assert content(folder) == before
    assert not (left / "copy").exists()


@for_each("which", ["ended", "waiting"])
def test_a_curators_ledger_is_refused_whole_and_counts_as_spent(left, which):
    folder = left / which / "curator"
    before = content(folder)
    for opening in (lambda: Journal(folder, {}), lambda: verify_ledger(folder, [])):
        with pytest.raises(BrokenLedger, match="whole budget counts as spent") as refused:
            opening()
        names_both(refused.value)
        assert content(folder) == before


def test_a_hosts_state_is_refused_and_says_nothing_of_a_fresh_one_in_which_people_are_asked_twice(left):
    folder = left / "ended" / "agents"
    before = content(folder)
    with pytest.raises(BadInput, match=r"Tandem 0\.3\.0, and this is Tandem .* Go on with that version") as refused:
        open_population(tiny(*SMALL), folder, 1, "0" * 64, None)
    assert "fresh" not in refused.value.detail
    assert content(folder) == before


def test_a_run_folder_is_refused_by_the_audit_with_both_versions(left):
    with pytest.raises(AuditFailed, match=r"protocol 2 \(Tandem 0\.3\.0\), this side speaks 3 .*that began it"):
        audit(left / "run")
    ended = CliRunner().invoke(app, ["audit", str(left / "run")])
    assert ended.exit_code == 1
    assert len(ended.stderr.splitlines()) == 1
