"""Whether the answers to a question to very many agents fit into memory: said before anybody is asked."""

from __future__ import annotations

from common.core.errors import PolicyRefused
from common.core.machine import check_memory
from common.local.mechanisms.mechanism import LocalRandomizer
from common.local.packing import answer_type
from common.wire.messages import MAX_LISTED


def needed(enrolled: int, asked: int, mechanism: LocalRandomizer) -> int:
    """Return how many bytes of memory a question takes at most, of a mechanism whose questions ask everybody the same.

    Who is asked, as a mask, whole and cut into the hosts' (a quarter of a byte for everybody who is enrolled); what was
    answered (:func:`common.local.packing.answer_type` for each), once in the packed reports of one host, once
    unpacked, once as the protocol gets it; and who answered (an eighth of a byte).
    """
    try:
        width = answer_type(mechanism.answer_kind(None)).itemsize
    except PolicyRefused:  # it randomizes items: no question asks everybody the same
        return 0
    return enrolled // 4 + asked * (3 * width) + asked // 4


def check_room(enrolled: int, asked: int, mechanism: LocalRandomizer) -> None:
    """Refuse a question that would not fit into memory; what is listed fits.

    Raises
    ------
    BadScenario
        With what it takes and what there is.
    """
    if asked > MAX_LISTED:
        remedy = "ask fewer (agents.count), or give the referee more memory"
        check_memory(f"a question to {asked:,} agents", needed(enrolled, asked, mechanism), remedy)
