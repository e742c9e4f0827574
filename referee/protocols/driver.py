"""Drive a protocol: feed its generator, hold it to its message pattern. The same loop runs live, resumes and audits.

It is the one border at which a curator's release becomes the result of the operation that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common.core.errors import BadMessage, PeerMisbehaved
from common.local.answers import AskAgents
from common.protocols.patterns import Party, Pattern
from common.protocols.steps import AskCurator, Progress, Together
from referee.protocols.base import Outcome, Script

Exchange = Callable[[int, AskCurator | AskAgents], Any]
"""Carry out the exchange with a number: live, from the store, or from a transcript.

The reply is :class:`common.local.answers.Answers`, or the JSON form of a curator's release.
"""


def drive(script: Script, pattern: Pattern, exchange: Exchange, on_progress: Callable[[Progress], None]) -> Outcome:
    """Run a protocol to its end.

    Parameters
    ----------
    script
        A fresh generator of the protocol.
    pattern
        The protocol's declared message pattern.
    exchange
        Called with 0, 1, 2, ... and the message; returns the reply. Called only for legal messages.
    on_progress
        Called with each progress message.

    Raises
    ------
    PatternViolation
        If the protocol sends, or ends, out of turn; nothing was sent then.
    PeerMisbehaved
        If the curator released something else than the result that was asked for.
    """
    number, reply = 0, None
    while True:
        try:
            step = script.send(reply)
        except StopIteration as end:
            pattern.end()
            outcome: Outcome = end.value
            return outcome
        if isinstance(step, Progress):
            on_progress(step)
            reply = None
            continue
        steps = step.steps if isinstance(step, Together) else (step,)
        pattern = pattern.after_all(*map(_message, steps))
        replies = [exchange(number + place, single) for place, single in enumerate(steps)]
        replies = [_read(single, replied) for single, replied in zip(steps, replies, strict=True)]
        reply = replies if isinstance(step, Together) else replies[0]
        number += len(steps)


def _message(step: AskCurator | AskAgents) -> tuple[Party, str]:
    return ("curator", step.operation.kind) if isinstance(step, AskCurator) else ("agents", step.query.kind)


def _read(step: AskCurator | AskAgents, reply: Any) -> Any:
    """Return what a script gets: agents' answers as they are, the curator's release as the operation's result."""
    if isinstance(step, AskAgents):
        return reply
    try:
        return step.operation.read(reply)
    except BadMessage as error:
        raise PeerMisbehaved(
            f"the curator released nothing acceptable for {step.operation.kind!r}: {error.detail}"
        ) from None
