"""A copy of a referee that is made while it serves knows whom it has enrolled, and is the same referee."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from typer.testing import CliRunner

from common.core.errors import BadInput
from referee.cli import app
from referee.service.referee import Referee
from referee.state.store import backup
from tests.support import TOKEN


def test_a_referee_starts_from_a_copy_that_was_made_while_it_served(tmp_path):
    state = tmp_path / "referee"
    port: Any = None
    with closing(Referee(state, port)) as live:
        live.allow("enrolment", TOKEN)
        before = live.identity.public
        backup(state, tmp_path / "copy")  # what is in the write-ahead log is in it
        live.allow("operator", "a-later-operator")
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
    assert (tmp_path / "copy" / "identity.key").stat().st_mode & 0o077 == 0
    with closing(Referee(tmp_path / "copy", port)) as again:
        assert again.identity.public == before
        again.authorize("enrolment", TOKEN)
        assert {purpose for purpose, _ in again.store.tokens()} == {"enrolment"}


def test_a_key_elsewhere_comes_along_and_what_is_no_referee_is_refused(tmp_path):
    key, state = tmp_path / "keys" / "referee.key", tmp_path / "referee"
    port: Any = None
    with closing(Referee(state, port, key=key)) as live:
        public = live.identity.public
    with pytest.raises(BadInput, match="--key"):
        backup(state, tmp_path / "copy")
    outcome = CliRunner().invoke(app, ["backup", str(tmp_path / "copy"), "--state", str(state), "--key", str(key)])
    assert (outcome.exit_code, "state directory to start from" in outcome.output) == (0, True)
    with closing(Referee(tmp_path / "copy", port)) as again:
        assert again.identity.public == public
    with pytest.raises(BadInput, match="is not empty"):
        backup(state, tmp_path / "copy", key)
    with pytest.raises(BadInput, match="pg_dump"):
        backup(tmp_path / "keys", tmp_path / "other")


def test_the_copy_is_of_one_moment(tmp_path):
    state = tmp_path / "referee"
    port: Any = None
    with closing(Referee(state, port)) as live:
        live.allow("enrolment", TOKEN)
        plain = sqlite3.connect(state / "referee.sqlite")
        with closing(plain):
            plain.execute("BEGIN IMMEDIATE")
            plain.execute("DELETE FROM tokens")  # under way, not committed
            backup(state, tmp_path / "copy")
            plain.rollback()
    with closing(sqlite3.connect(tmp_path / "copy" / "referee.sqlite")) as copied:
        assert copied.execute("SELECT purpose FROM tokens").fetchall() == [("enrolment",)]
