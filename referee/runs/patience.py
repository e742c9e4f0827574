"""How a run asks the curator, and for how long it waits for one answer, however the curator lets it wait.

A curator may answer nothing, say that it is still at work for ever, or send one byte a minute. None of that may hold a
run, or its operator's word that ends it: while a request waits, the run looks up now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from common.core.errors import BadMessage, CannotWrite, Forged, PeerMisbehaved, PeerUnavailable
from common.crypto.identity import Signed
from common.net.client import Client
from common.net.transport import Overdue, time_limit
from common.protocols.steps import Progress

T = TypeVar("T")

CURATOR_PATIENCE = 86_400.0
"""Seconds for which a run waits for one answer of its curator, at most."""
PAUSE = 2.0
"""Seconds before a curator that is away, or cannot write, is asked again."""
DOUBTS = 2
"""How often a curator is asked again whose reply, or whose view of the request, is not what was signed."""
DOUBT = 0.2
"""Seconds before that."""


def within(patience: float, ask: Callable[[Signed], T], signed: Signed, look: Callable[[], None]) -> T:
    """Return the curator's answer, if it is there in time.

    Parameters
    ----------
    patience
        Seconds. A curator in this process works in the thread of the run, and is waited for as it is.
    look
        Called now and then while another process is waited for; ends the wait by raising.

    Raises
    ------
    Overdue
        If it is not.
    """
    if not isinstance(getattr(ask, "__self__", None), Client):
        return ask(signed)
    try:
        with time_limit(patience, look):
            return ask(signed)
    except Overdue:
        raise Overdue(
            f"the curator has not answered for {patience:,.0f} s, the patience that this referee has with it "
            "(--curator-patience): the run ends, and what it has released stays released"
        ) from None


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
        except Overdue as overdue:
            raise PeerUnavailable(str(overdue)) from None
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
