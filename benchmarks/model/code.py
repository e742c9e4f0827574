"""Which function of the parties carries out which action of the model (docs/model.md)."""

from __future__ import annotations

CODE: dict[str, tuple[tuple[str, str], ...]] = {
    "take the lease": (("referee/store.py", "LeaseQueries.take_lease"),),
    "learn of the replacement": (
        ("referee/tables.py", "Tables._driving"),
        ("referee/tables.py", "Tables.check_driving"),
    ),
    "ask the curator": (
        ("referee/runs/execution.py", "Execution._ask_curator"),
        ("referee/runs/curator.py", "operation_request"),
    ),
    "store the release": (
        ("referee/runs/execution.py", "Execution._record"),
        ("referee/store.py", "RunQueries.add_entry"),
    ),
    "open the question": (
        ("referee/collection/collection.py", "ReportCollection._ask"),
        ("referee/store.py", "QuestionQueries.open_question"),
    ),
    "close the question": (
        ("referee/collection/collection.py", "ReportCollection._close"),
        ("referee/store.py", "QuestionQueries.close_question"),
    ),
    "store the answers": (
        ("referee/runs/execution.py", "Execution._ask_agents"),
        ("referee/collection/aggregation.py", "add_up"),
    ),
    "end the run": (
        ("referee/runs/execution.py", "Execution._end"),
        ("referee/store.py", "RunQueries.finish"),
    ),
    "take a report": (
        ("referee/collection/judging.py", "judge"),
        ("referee/collection/collection.py", "ReportCollection._keep"),
        ("referee/store.py", "QuestionQueries.add_reports"),
    ),
    "refresh": (
        ("referee/collection/questions.py", "OpenQuestions.refresh"),
        ("referee/collection/questions.py", "OpenQuestions.learn"),
    ),
    "crash of a process": (
        ("referee/collection/questions.py", "OpenQuestions.find"),
        ("referee/service/referee.py", "Referee.drive"),
    ),
    "charge": (
        ("curator/curator.py", "Curator._perform_once"),
        ("curator/ledger.py", "Ledger.charge"),
    ),
    "take up the charge": (("curator/ledger.py", "Ledger.unfinished"),),
    "carry out": (
        ("curator/curator.py", "Curator._carry_out"),
        ("curator/ledger.py", "Ledger.finish"),
    ),
    "repeat the release": (
        ("curator/curator.py", "Curator.perform"),
        ("curator/ledger.py", "Ledger.find"),
    ),
    "crash of the curator": (("curator/curator.py", "Curator._rebuild_engine"),),
    "answer": (
        ("local_agent/person/agent.py", "Agent.answer"),
        ("common/core/durable.py", "write_durably"),
    ),
    "send the report": (("local_agent/host.py", "Host._hand_in"),),
}
"""By the name of the action: file and function. Of a crash, what reads the disk when it is started again."""
NOBODYS = ("the lease runs out", "the driver stands still", "crash of an agent")
"""Actions of no code: time, and a crash of an agent, which has nothing in memory that is not on its disk."""
