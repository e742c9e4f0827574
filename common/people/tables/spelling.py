"""One number in two spellings: a field ``1.0`` where a description lists ``1`` is a mistake, and not another value.

Fields are compared as text. So a hospital whose export writes ``1.0`` had zeros in all features of a column for which
the other one, and the scenario, write ``1``, and nobody was told. Such a field is refused: which of the two was meant
is for people to decide, who list both spellings as one value (``[["1", "1.0"]]``), or list the text among
``layout.missing``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal, InvalidOperation

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
"""What tables take for a finite number, too; they take a few other spellings, which nobody writes."""
REMEDY = 'write one spelling in the file, or list both as one value, as in [["1", "1.0"]]'


class Respelled:
    """Which texts are the same number as a listed one and are not listed themselves.

    Parameters
    ----------
    listed
        The texts that a description lists.
    missing
        Texts that mean "not known": no spelling of anything.
    """

    def __init__(self, listed: Collection[str], missing: Collection[str]) -> None:
        self._known = {*listed, *missing}
        self._numbers = {number for text in listed if (number := _exactly(text)) is not None}

    @property
    def possible(self) -> bool:
        """Whether any listed text is a number: if none is, no text is another spelling of it."""
        return bool(self._numbers)

    def __contains__(self, text: str) -> bool:
        """Tell whether a text, without spaces around it, is an unlisted spelling of a listed number."""
        return self.possible and text not in self._known and _exactly(text) in self._numbers


def _exactly(text: str) -> Decimal | None:
    """Return the number that a text writes, exactly; None where it writes none."""
    if not NUMBER.fullmatch(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent that no number of this machine has
        return None
