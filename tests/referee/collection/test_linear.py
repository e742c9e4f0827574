"""What a question costs the referee does not grow with the number of questions before it."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import text

from referee.state import questions
from tests.support import Bench, tiny


def read_in_a_run(tmp_path, monkeypatch, rounds: int) -> tuple[int, int]:
    """Return how many questions a run asks, and how many it reads from its database."""
    calls: Counter[str] = Counter()
    real = questions._question

    def counted(row):
        calls["read"] += 1
        return real(row)

    monkeypatch.setattr(questions, "_question", counted)
    chosen = tiny(f"curator.rounds={rounds}", "agents.count=4000", "alpha=0.001")
    with Bench(tmp_path / f"bench-{rounds}", chosen) as bench:
        bench.run()
        read = calls["read"]
        return len(bench.referee.store.questions("run")), read


def test_a_question_is_read_a_few_times_however_many_there_are(tmp_path, monkeypatch):
    asked, read = read_in_a_run(tmp_path, monkeypatch, 8)
    assert asked >= 5
    assert read <= 3 * asked  # once to take answers, once at the end for the orders in use, once for the run folder


def test_open_questions_are_found_without_going_through_the_others(tmp_path):
    with Bench(tmp_path / "bench") as bench, bench.referee.store._engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            plan = connection.execute(text("EXPLAIN QUERY PLAN SELECT key FROM questions WHERE open = 1")).all()
            assert "ix_questions_open" in str(plan)
