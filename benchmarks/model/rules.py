"""How large a model is, and the rules of the protocol: each can be broken, to see that an invariant notices."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Size:
    """How much there is of everything.

    Attributes:
        processes: Processes of the referee on one database.
        agents: Individuals; question k asks those whose number is k modulo the number of questions.
        operations, questions: What the protocol does, in this order: all operations of the curator, then all questions.
        crashes: How often each process, the curator and each agent may crash.
        pauses: How often a driver stands still until its lease has run out.
        rogue: Whether somebody also asks agents a question that is not one of the run's.
    """

    processes: int = 2
    agents: int = 2
    operations: int = 1
    questions: int = 1
    crashes: int = 1
    pauses: int = 1
    rogue: bool = True

    @property
    def steps(self) -> int:
        """How many replies a whole run has."""
        return self.operations + self.questions


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol; the real code has all of them.

    Attributes:
        fenced: A driver writes only while the database has its token.
        fenced_inside: It looks at the token in the transaction that writes.
        lease_ends: A lease runs out, and its holder may take it again after a crash.
        in_a_turn: Between reading what is stored and storing a report nobody else writes.
        numbered: A report gets the number after the newest that its process knows, and no number is given twice.
        learns: Before it stores reports, a process takes over who else has reported.
        looks_whether_open: A process looks in the database whether a question still takes answers.
        stored_before_receipt: A receipt leaves after the report is stored.
        counts_what_is_stored: Answers are counted in the database, and not in the driver's memory.
        charged_before_release: A release leaves after its operation is charged.
        stored_before_release: A release leaves after it is stored.
        charged_once: A repeated request is not charged again.
        released_once: A repeated request gets what was stored.
        carried_on: An operation that was charged, and cut off, is carried out when it is asked for again.
        stored_before_report: A report leaves after the agent has stored it.
        remembers: What an agent has answered survives a crash.
        answers_once: An agent that has answered a question answers no other.
    """

    fenced: bool = True
    fenced_inside: bool = True
    lease_ends: bool = True
    in_a_turn: bool = True
    numbered: bool = True
    learns: bool = True
    looks_whether_open: bool = True
    stored_before_receipt: bool = True
    counts_what_is_stored: bool = True
    charged_before_release: bool = True
    stored_before_release: bool = True
    charged_once: bool = True
    released_once: bool = True
    carried_on: bool = True
    stored_before_report: bool = True
    remembers: bool = True
    answers_once: bool = True

    def without(self, *rules: str) -> Rules:
        """Return these rules with some of them broken."""
        return replace(self, **dict.fromkeys(rules, False))


SOUND = Rules()
