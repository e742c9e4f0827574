"""Readiness: made at most once a second, public words only, and a check that hangs is a check that failed."""

from __future__ import annotations

import threading

import httpx
import pytest

from common.core.errors import NotReady
from common.net import monitoring
from common.net.app import create_app
from common.net.monitoring import CHECK_PATIENCE, FRESH, MIN_FREE, Readiness, disk, require
from tests.curator.requests import full_disk
from tests.support import served


def test_checks_are_made_at_most_once_a_second():
    made: list[float] = []
    now = [100.0]
    ready = Readiness({"one": lambda: made.append(now[0])}, lambda: now[0])
    assert ready.known() is None
    assert ready.check() == ready.known() == ready.check() == {}
    assert made == [100.0]
    now[0] += FRESH
    assert ready.known() is None
    ready.check()
    assert made == [100.0, 100.0 + FRESH]


def test_what_a_check_raises_is_not_told():
    def broken() -> str | None:
        raise OSError("/private/path, key 2b44")

    wrong = Readiness({"one": broken, "two": lambda: "is gone", "three": lambda: None}).check()
    with pytest.raises(NotReady) as refused:
        require(wrong)
    assert refused.value.detail == "one: cannot be used; two: is gone; the service's log says more"
    assert refused.value.members == {"not_ready": "one, two"}


def test_a_check_that_hangs_counts_as_failed_for_whoever_asks_meanwhile():
    now, began, end = [100.0], threading.Event(), threading.Event()

    def hangs() -> str | None:
        began.set()
        end.wait(60)
        return None

    ready = Readiness({"one": hangs}, lambda: now[0])
    first = threading.Thread(target=ready.check)
    first.start()
    assert began.wait(60)
    now[0] += CHECK_PATIENCE + 0.1
    assert ready.known() == {"checks": "have not ended for 3 seconds"}
    end.set()
    first.join(30)
    assert ready.known() == {}


def test_a_full_disk_and_a_missing_one_are_said(tmp_path, monkeypatch):
    assert disk(tmp_path) is None
    with full_disk():
        assert disk(tmp_path) in ("cannot be written", "is full")
    assert list(tmp_path.iterdir()) == []
    assert disk(tmp_path / "gone") == "cannot be written"
    monkeypatch.setattr(monitoring, "free_bytes", lambda folder: MIN_FREE - 1)
    assert disk(tmp_path) == "less than 64 MiB are free"


def test_alive_without_being_ready():
    app = create_app("a", "b", checks={"one": lambda: "is gone"})
    with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
        alive, reply = client.get("/v1/health"), client.get("/v1/ready")
    assert (alive.status_code, alive.json()) == (200, {"status": "alive"})
    assert (reply.status_code, reply.headers["content-type"]) == (503, "application/problem+json")
    assert reply.json()["not_ready"] == "one"
