"""What leaves the curator of an operation that failed: one sentence, the same for every reason."""

from __future__ import annotations

import logging
import traceback
from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager

from common.core.errors import OperationFailed

ENDING = (SystemExit, GeneratorExit, CancelledError)
"""What is no Exception and may come out of an operation's code; a person's interrupt is none of these."""
LOGGER = logging.getLogger(__name__)


@contextmanager
def constant_failure(kind: str) -> Iterator[None]:
    """Turn whatever an operation's code raises into one constant problem; log its type and its line, never its text.

    The text of an exception may quote a record, and which exception it is may depend on one. That there was a failure
    cannot be hidden from whoever waits for a release; so no learner of ours fails for some samples and not for others,
    unless its settings are to blame (:meth:`curator.learners.base.Learner.check`).

    Raises
    ------
    OperationFailed
        For every Exception, and for what would end a thread: code that exits has failed as well.
    """
    try:
        yield
    except (Exception, *ENDING) as error:  # noqa: BLE001 - which one it is may depend on a record
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].name}, line {frames[-1].lineno}" if frames else "nowhere"
        LOGGER.error("operation %s failed: %s in %s", kind, type(error).__name__, where)
        raise OperationFailed(
            f"the operation {kind!r} failed inside the curator and released nothing; its charge stays. "
            f"The curator's operator finds the reason in its log: without a change there, it will fail again"
        ) from None
