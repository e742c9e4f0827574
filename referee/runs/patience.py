"""How a run asks the curator, and for how long it waits for one answer, however the curator lets it wait.

A curator may answer nothing, say that it is still at work for ever, or send one byte a minute. None of that may hold a
run, or its operator's word that ends it: whoever may stall is asked beside the run, which looks up now and then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from common.core.errors import BadMessage, CannotWrite, Forged, PeerMisbehaved, PeerUnavailable
from common.vocabulary.steps import Progress
from common.wire.identity import Signed

T = TypeVar("T")

CURATOR_PATIENCE = 86_400.0
"""Seconds for which a run waits for one answer of its curator, at most."""
LOOK = 0.5
"""Seconds between two looks at whether the run goes on."""
PAUSE = 2.0
"""Seconds before a curator that is away, or cannot write, is asked again."""
DOUBTS = 2
"""How often a curator is asked again whose reply, or whose view of the request, is not what was signed."""
DOUBT = 0.2
"""Seconds before that."""


class Stalled(Exception):
    """The curator has kept a request open for longer than the referee has patience: this ends the run."""


def may_stall(ask: Callable[[Signed], Signed]) -> bool:
    """Tell whether who is asked is another process: one in this process works in the thread of the run."""
    return bool(getattr(getattr(ask, "__self__", None), "may_stall", False))


def within(patience: float, ask: Callable[[Signed], Signed], signed: Signed, look: Callable[[], None]) -> Signed:
    """Return the curator's answer, if it is there in time; one that cannot stall is waited for as it is.

    Parameters
    ----------
    patience
        Seconds.
    look
        Called at least every :data:`LOOK` seconds; ends the wait by raising.

    Raises
    ------
    Stalled
        If it is not. Whoever asks for it is then left behind, and what comes later is heard by nobody.
    """
    if not may_stall(ask):
        return ask(signed)
    answer: Future[Signed] = Future()

    def aside() -> None:
        try:
            answer.set_result(ask(signed))
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
            answer.set_exception(error)

    threading.Thread(target=aside, name="asking-the-curator", daemon=True).start()
    until = time.monotonic() + patience
    while True:
        try:
            return answer.result(min(LOOK, max(0.0, until - time.monotonic())))
        except TimeoutError:
            if answer.done():
                raise
        look()
        if time.monotonic() >= until:
            raise Stalled(
                f"the curator has not answered for {patience:,.0f} s, the patience that this referee has with it "
                "(--curator-patience): the run ends, and what it has released stays released"
            )


def answered(
    ask: Callable[[Signed], Signed],
    signed: Signed,
    check: Callable[[Signed], T],
    patience: float,
    *,
    agreed: bool,
    look: Callable[[], None],
    told: Callable[[Progress], None],
) -> tuple[Signed, T]:
    """Return the curator's answer and what ``check`` makes of it; ask again as long as that may help.

    The same request is the same operation, so to repeat it costs nothing. A curator that cannot store what it must
    store first is asked again, and one that is away, once it has agreed to the run: an end would be for good. Before
    that nobody has spent anything, and the same run can be asked for once more. What does not pass ``check``, or is
    called forged or malformed there, is asked for again, too: a bit may have changed on the way. A curator that says
    so again and again means it.

    Parameters
    ----------
    patience
        Seconds to wait for one answer (:func:`within`).
    agreed
        Whether the curator has agreed to the run.
    look
        Called before and after each pause, and while an answer is waited for; ends the wait by raising.
    told
        Hears that the run waits, and why.

    Raises
    ------
    PeerUnavailable
        If it is away before it has agreed, or has kept one request open for longer than the patience.
    Forged, BadMessage, PeerMisbehaved
        What it means.
    """
    said, doubts = False, 0
    while True:
        try:
            reply = within(patience, ask, signed, look)
            return reply, check(reply)
        except Stalled as stalled:
            raise PeerUnavailable(str(stalled)) from None
        except (CannotWrite, PeerUnavailable) as error:
            if isinstance(error, PeerUnavailable) and not agreed:
                raise
            if not said:
                told(Progress(f"the run waits for the curator: {error.detail}", {}))
            said = True
            look()
            time.sleep(PAUSE)
            look()
        except (Forged, BadMessage, PeerMisbehaved) as error:
            doubts += 1
            if doubts > DOUBTS:
                raise
            told(Progress(f"the curator is asked again: {error.detail}", {}))
            time.sleep(DOUBT)
