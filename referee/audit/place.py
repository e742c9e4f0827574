"""Where an audit stands, so that every failure names its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from common.core.errors import AuditFailed, TandemError


class Place:
    """The part of a run that is being checked, in words.

    Parameters
    ----------
    words
        Where it begins.
    """

    def __init__(self, words: str) -> None:
        self.words = words

    def failed(self, why: str) -> AuditFailed:
        """Return the failure to raise."""
        return AuditFailed(f"{self.words}: {why}")

    @contextmanager
    def named_in_failures(self) -> Iterator[None]:
        """Add the place to the message of every failure inside; an honest referee's run has none.

        Raises
        ------
        AuditFailed
            For every error that a run's content can cause.
        """
        try:
            yield
        except AuditFailed:
            raise
        except TandemError as error:
            raise self.failed(error.detail) from None
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise self.failed(f"not what an honest referee writes ({error!r})") from None
