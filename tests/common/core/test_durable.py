"""State directories: whole files, one purpose, one process."""

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from common.core.durable import claim, hold, make_folder, user_state, write_durably
from common.core.errors import BadInput
from common.numerics.randomness import durable_secret
from local_agent.person.consent import ActivityLog
from tests.tiers import for_each


def test_a_cut_off_write_leaves_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_durably(path, b"old", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600

    def dies(*arguments: object) -> None:
        raise KeyboardInterrupt

    for step in ("fsync", "replace"):
        monkeypatch.setattr(os, step, dies)
        with pytest.raises(KeyboardInterrupt):
            write_durably(path, b"new and longer")
        monkeypatch.undo()
        assert path.read_bytes() == b"old"
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_claim_stands(tmp_path):
    folder = tmp_path / "deep" / "state"
    assert claim(folder, {"a": 1, "seed": None}) == {"a": 1, "seed": None}
    assert claim(folder, {"a": 1}) == {"a": 1, "seed": None}
    with pytest.raises(BadInput, match="belongs to another a"):
        claim(folder, {"a": 2})
    with pytest.raises(BadInput, match="belongs to another seed"):
        claim(folder, {"seed": 4})


def test_a_directory_is_held_by_one_until_it_lets_go_or_dies(tmp_path):
    with hold(tmp_path), pytest.raises(BadInput, match="in use by another process"):
        hold(tmp_path)
    code = f"from pathlib import Path; from common.core.durable import hold; held = hold(Path({str(tmp_path)!r}))\n"
    command = [sys.executable, "-c", code + "print(1, flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"1\n"
        with pytest.raises(BadInput, match="in use"):
            hold(tmp_path)
        other.kill()
    hold(tmp_path).close()


def test_a_place_where_no_directory_can_be_is_named(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadInput) as refused:
            hold(place)
        assert refused.value.detail.startswith(f"the state directory {place} cannot be written (")
        assert "XDG_STATE_HOME" in refused.value.detail


@for_each(
    ("given", "home", "expected"),
    [
        ("/given", None, Path("/given/tandem")),
        ("relative", "/home/me", Path("/home/me/.local/state/tandem")),
        ("", "relative", None),
        (None, "relative", None),
    ],
)
def test_the_users_directory_is_absolute_or_refused(monkeypatch, given, home, expected):
    for name, value in (("XDG_STATE_HOME", given), ("HOME", home)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with nullcontext() if expected else pytest.raises(BadInput, match="no home directory"):
        assert user_state() == expected


def test_a_secret_is_drawn_once(tmp_path):
    first = durable_secret(tmp_path / "secret").words(4)
    assert (first == durable_secret(tmp_path / "secret").words(4)).all()
    assert (first != durable_secret(tmp_path / "other").words(4)).any()
    assert not durable_secret(tmp_path / "secret").simulated


def _synced(monkeypatch) -> list[str]:
    """Return the names of what is synchronised from here on, as it is."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return synced


@for_each("opened", [lambda place: hold(place).close(), lambda place: claim(place, {}), make_folder])
def test_a_power_cut_does_not_take_a_folder_that_was_made(tmp_path, monkeypatch, opened):
    synced = _synced(monkeypatch)
    opened(tmp_path / "made" / "below" / "state")
    made = tmp_path / "made"
    assert {str(tmp_path), str(made), str(made / "below"), str(made / "below" / "state")} <= set(synced)
    synced.clear()
    opened(made / "below" / "state")  # one that exists again: its maker, and whoever put a file into it, may be cut off
    assert {str(made / "below"), str(made / "below" / "state")} <= set(synced)


def test_a_new_file_is_in_its_folder_before_anybody_relies_on_it(tmp_path, monkeypatch):
    synced = _synced(monkeypatch)
    ActivityLog(tmp_path).write("asked")
    assert synced == [str(tmp_path / "log.jsonl"), str(tmp_path)]
    ActivityLog(tmp_path).write("answered")
    assert synced[2:] == [str(tmp_path / "log.jsonl")]
