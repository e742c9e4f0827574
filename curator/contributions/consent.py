"""What a person reads before a record leaves: to whom it goes, what exactly, what for, and what is promised."""

from __future__ import annotations

from common.core.plain import in_columns
from common.privacy.guarantee import best_guess, formula, in_words
from curator.contributions.fields import Fields
from curator.contributions.messages import Offer


def described(offer: Offer, texts: Fields, curator: str, address: str) -> str:
    """Return an offer, and what would be given for it, in plain words."""
    guarantee = offer.guarantee
    epsilon, delta = guarantee.pair
    whole = guarantee.private and guarantee.protects == "records"
    guess = (
        f" Somebody who held two records for equally likely to be yours, and sees all that is released, guesses right "
        f"with probability {best_guess(epsilon, delta):.4g} at most (without it: 0.5)."
        if whole
        else ""
    )
    return in_columns(
        {
            "Who gets it": f"the curator with the key {curator}, at {address}. The record leaves this device sealed to "
            f"that curator: whoever carries it cannot read it, nor change it unnoticed. The curator can read it: you "
            f"trust whoever runs it to use it for this alone",
            "What is sent": f"these {len(texts)} fields, and no other",
            **{f"  {name}": text or "not known" for name, text in texts.items()},
            "What for": f"{offer.title} (scenario {offer.scenario!r}), a run about {offer.people} people",
            "What is promised": f"{formula(guarantee)}. {in_words(guarantee)}{guess}",
            "Until it begins": "you can have the record deleted (curator contribute --withdraw). From then on it is "
            "part of the run",
            "Please note": "that you take part is not hidden from the curator or from who carries the message. Decide "
            "by who asks and what is promised, not by what your record holds.",
        }
    )
