"""Drive a protocol: feed its generator, hold it to its message pattern. The same loop runs live, resumes and audits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from referee.patterns import Pattern
from referee.protocols.base import AskAgents, AskCurator, Note, Outcome, Script

Exchange = Callable[[int, AskCurator | AskAgents], Any]
"""Carry out the exchange with a number: live, from the store, or from a transcript."""


def drive(script: Script, pattern: Pattern, exchange: Exchange, watch: Callable[[Note], None]) -> Outcome:
    """Run a protocol to its end.

    Parameters
    ----------
    script
        A fresh generator of the protocol.
    pattern
        The protocol's declared message pattern.
    exchange
        Called with 0, 1, 2, ... and the message; returns the reply. Called only for legal messages.
    watch
        Told of progress.

    Raises
    ------
    PatternViolation
        If the protocol sends, or ends, out of turn; nothing was sent then.
    """
    number, reply = 0, None
    while True:
        try:
            step = script.send(reply)
        except StopIteration as end:
            pattern.end()
            outcome: Outcome = end.value
            return outcome
        if isinstance(step, Note):
            watch(step)
            reply = None
            continue
        if isinstance(step, AskCurator):
            pattern = pattern.after("curator", step.operation.kind)
        else:
            pattern = pattern.after("agents", step.query.kind)
        reply = exchange(number, step)
        number += 1
