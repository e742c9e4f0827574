"""What would not fit is refused with both numbers."""

from __future__ import annotations

import pytest

from common.core import machine as capacity
from common.core.errors import BadScenario


def test_there_is_some_memory_and_some_disk(tmp_path):
    assert 1 << 20 < capacity.available_memory() < 1 << 50
    assert 1 << 20 < capacity.available_disk(tmp_path / "not" / "there") < 1 << 60


def test_a_control_group_with_less_memory_than_the_machine_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(capacity, "_GROUP", tmp_path)
    machine = capacity.available_memory()
    (tmp_path / "memory.max").write_text(str(64 << 20))
    (tmp_path / "memory.current").write_text(str(60 << 20))
    (tmp_path / "memory.stat").write_text(f"anon {20 << 20}\ninactive_file {40 << 20}\n")
    assert capacity.available_memory() == 44 << 20
    (tmp_path / "memory.max").write_text("max")
    assert capacity.available_memory() == pytest.approx(machine, rel=0.5)


def test_what_does_not_fit_is_refused_with_both_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(capacity, "available_memory", lambda: 3 << 30)
    monkeypatch.setattr(capacity, "available_disk", lambda folder: 700 << 20)
    capacity.check_memory("a sample", 2 << 30, "take fewer")
    with pytest.raises(BadScenario, match=r"a sample needs 3\.0 GiB of memory, 3\.0 GiB are available: take fewer"):
        capacity.check_memory("a sample", (3 << 30) - capacity.SPARE + 1, "take fewer")
    with pytest.raises(BadScenario, match=r"a sample needs 756 MiB of disk at .*, 700 MiB are available: take fewer"):
        capacity.check_disk("a sample", 500 << 20, tmp_path, "take fewer")
