"""A host whose disk takes nothing waits, and goes on with the same question: it does not end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import local_agent.cli as command
import local_agent.hosted.questions as answered_module


def test_a_host_whose_disk_is_full_answers_once_there_is_room(bench, monkeypatch):
    monkeypatch.setattr(command, "_AFTER_ERROR", 0.0)
    real, failed = answered_module.write_durably, list[int]()  # type: ignore[attr-defined]

    def full(*arguments: Any, **named: Any) -> None:
        if len(failed) < 3:
            failed.append(bench.population.answered)
            raise OSError(28, "No space left on device")
        real(*arguments, **named)

    monkeypatch.setattr(answered_module, "write_durably", full)
    waiting: Any = SimpleNamespace(pause=0.0)
    bench.meanwhile(lambda: command._answer_until(bench.host, waiting, lambda: bench.host.counts["answered"] > 0))
    assert bench.run()["status"] == "exhausted"
    assert failed == [0, 0, 0]  # nobody counts as asked before it is stored
