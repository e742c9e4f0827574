"""The referee's durable memory: every table behind small methods, one transaction each.

What a method has returned from is on disk. Nothing here decides anything.
"""

from __future__ import annotations

from referee.state.agents import AgentQueries
from referee.state.checkpoints import CheckpointQueries
from referee.state.leases import LeaseQueries
from referee.state.questions import QuestionQueries
from referee.state.runs import RunQueries


class Store(AgentQueries, RunQueries, QuestionQueries, CheckpointQueries, LeaseQueries):
    """The referee's database: all its queries together.

    Parameters
    ----------
    url
        SQLAlchemy URL; the schema is brought up to date.
    """
