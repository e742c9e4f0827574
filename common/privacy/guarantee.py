"""Privacy guarantees: an (epsilon, delta), its neighbours and scope, and the sentence that states it."""

import math
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Literal, Self

from pydantic import Field, model_validator

from common.core.values import Value
from common.privacy.rounding import EXP_BITS, MAX_EPSILON, above, exp_below, stated

Protected = Literal["records", "labels"]  # the protected part of a person's record: all of it, or the label alone
Neighbours = Literal["one row", "one label", "one answer"]
"""The difference of two neighbouring worlds: a row of the curator's file, with n public; the label of a row, with
everything else public; or the record of an agent, with its participation public."""
Scope = Literal["run", "agent", "answers", "run and agent", "fits", "fits and agents", "nothing"]
"""The outputs that a guarantee covers: all releases of the curator in the run, for any requests; the one answer of an
agent in the run, or all its answers; both sides together; the first two in all fits of an estimator; or nothing, as
nothing was released."""


class PrivacyGuarantee(Value):
    """(epsilon, delta)-differential privacy, stated in full.

    For any two neighbouring worlds and every set E of outputs, P(E) <= e^epsilon P'(E) + delta.

    Attributes:
        epsilon, delta: Both null if there is no guarantee.
        neighbours: The difference of the two worlds, always by replacement.
        covers: The outputs that it covers together.
    """

    epsilon: float | None = Field(default=None, ge=0)
    delta: float | None = Field(default=None, ge=0, le=1)
    protects: Protected = "records"
    neighbours: Neighbours = "one row"
    covers: Scope = "run"

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if (self.epsilon is None) != (self.delta is None):
            raise ValueError("a guarantee has an epsilon and a delta, or neither")
        if (self.protects == "labels") != (self.neighbours == "one label"):
            raise ValueError(f"with neighbours that differ in {self.neighbours}, {self.protects} are not protected")
        return self

    @property
    def private(self) -> bool:
        return self.epsilon is not None

    @property
    def pair(self) -> tuple[float, float]:
        """Epsilon and delta; (infinity, 1) if there is no guarantee."""
        return (math.inf, 1.0) if self.epsilon is None or self.delta is None else (self.epsilon, self.delta)

    def __str__(self) -> str:
        if self.covers == "nothing":
            return "nothing was asked of the curator: the run ended without its terms, before any operation"
        if self.epsilon is None or self.delta is None:
            return _NO_PROMISE.get(self.covers, "no guarantee")
        return (
            f"epsilon = {stated(self.epsilon)}, delta = {stated(self.delta)} for {_WHAT[self.protects]}: "
            f"{_HOW[self.neighbours]}; {_SEEN[self.covers]}"
        )


_NO_PROMISE = {
    "run": "no guarantee: the scenario asks for none, and everything about the curator's people may be released",
    "agent": "no guarantee: agents answer without noise",
    "answers": "no guarantee: agents answer without noise",
    "run and agent": "no guarantee: one side protects less than the whole record",
}
_WHAT = {
    "records": "the whole record",
    "labels": "the LABEL ONLY, features are not protected and may be released as they are",
}
_HOW = {
    "one row": "one record of the curator's file is replaced, n is public",
    "one label": "one person's label is replaced, everything else is public",
    "one answer": "the agent's record is replaced, that it takes part is public",
}
_SEEN = {
    "run": "holds for all that the curator releases in this run together, not for other runs",
    "agent": "holds for the one answer that the agent gives in this run, not for other runs",
    "answers": "holds for all answers that the agent gives in this run together, not for other runs",
    "run and agent": "holds for all that the curator releases and all agents answer in this run together",
    "fits": "holds for all that the curators of this object's fits release together, not for other objects",
    "fits and agents": "holds for the answers, one a fit, that a person gives in this object's fits together",
}
NOTHING = PrivacyGuarantee(covers="nothing")  # of a run to which the curator never agreed


def of_curator(pair: tuple[float | None, float | None], protects: Protected, covers: Scope = "run") -> PrivacyGuarantee:
    """Return a curator's guarantee for its cap, which is (None, None), or has an infinite epsilon, if there is none.

    Neighbours differ in a row of the *file*, which changes one record of the sample in its slot
    (:func:`common.data.population.placed`); if labels alone are protected, they differ in one label.
    """
    epsilon, delta = _finite(pair)
    neighbours: Neighbours = "one label" if protects == "labels" else "one row"
    return PrivacyGuarantee(epsilon=epsilon, delta=delta, protects=protects, neighbours=neighbours, covers=covers)


def of_agent(pair: tuple[float, float], covers: Scope = "agent") -> PrivacyGuarantee:
    """Return the guarantee of an agent's randomizer for its answer, or for all its answers in a run.

    The cost of all runs to a person is counted by an individual's own agent (a lifetime budget that it never exceeds),
    or by the ledger of people if a host answers for the people of a table.
    """
    epsilon, delta = _finite(pair)
    return PrivacyGuarantee(epsilon=epsilon, delta=delta, neighbours="one answer", covers=covers)


def repeated(pair: tuple[float, float], answers: int) -> tuple[float, float]:
    """Return the (epsilon, delta) of several answers of one agent together, each with the given one; rounded up.

    Basic composition also holds if each question is chosen after all earlier answers, that is, for the whole transcript
    of an agent (Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy",
    Definition 2.3).
    """
    epsilon, delta = (above(answers * Fraction(each)) if math.isfinite(each) else each for each in pair)
    return epsilon, min(1.0, delta)


def together(curator: PrivacyGuarantee, agent: PrivacyGuarantee) -> PrivacyGuarantee:
    """Return the guarantee for a row of a file that both sides read, if both protect whole records.

    A changed row changes at most one record of the curator's and one agent's: it may leave one side and join the other.
    So the epsilons and the deltas add up (basic composition); sums are exact and then rounded up. If the curator
    protects labels alone, there is no guarantee for a row.
    """
    if curator.protects == "labels" or not curator.private or not agent.private:
        return PrivacyGuarantee(covers="run and agent")
    epsilon, delta = (
        above(Fraction(first) + Fraction(second)) for first, second in zip(curator.pair, agent.pair, strict=True)
    )
    return PrivacyGuarantee(epsilon=epsilon, delta=delta, covers="run and agent")


def _finite(pair: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    epsilon, delta = pair
    return (None, None) if epsilon is None or not math.isfinite(epsilon) else (epsilon, delta)


def formula(guarantee: PrivacyGuarantee) -> str:
    """Return a guarantee as a formula, "(0.5, 0.0001)-differential privacy", with numbers rounded up."""
    if guarantee.covers == "nothing":
        return "nothing released"
    if guarantee.epsilon is None or guarantee.delta is None:
        return "no guarantee"
    return f"({stated(guarantee.epsilon)}, {stated(guarantee.delta)})-differential privacy"


_TWO_DIGITS = Context(prec=2, rounding=ROUND_CEILING)


def in_words(guarantee: PrivacyGuarantee) -> str:
    """Return a guarantee in plain words; all its numbers are rounded up."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if guarantee.covers == "nothing":
        return "Nothing was released."
    if epsilon is None or delta is None:
        return "Nothing is promised."
    factor = -(-100 * exp_below(min(epsilon, MAX_EPSILON)) >> EXP_BITS) / 100
    times = f"{factor:,.2f}" if factor < 1e6 else f"{float(_TWO_DIGITS.create_decimal(factor)):.1e}"
    changed = "label" if guarantee.protects == "labels" else "record"
    end = f", apart from a probability of {stated(delta)} (delta)." if delta else "; there is no delta."
    return (
        f"If one person's {changed} were another, no outcome would be more than {times} times as likely "
        f"(e to the epsilon = {stated(epsilon)}){end}"
    )


def best_guess(epsilon: float, delta: float) -> float:
    """Bound the probability of a correct guess between two records with equal priors, given an outcome.

    For two laws P and P' with P(E) <= e^epsilon P'(E) + delta for every E, and the same with P and P' exchanged, a
    guess is right with probability at most 1/2 + TV/2, and TV <= (e^epsilon - 1 + 2 delta)/(e^epsilon + 1) (Kairouz, Oh
    and Viswanath 2015, Theorem 3.4 with its region's corner). Together this is (e^epsilon + delta)/(e^epsilon + 1),
    rounded up to four decimals and never above 1.
    """
    # Divided by e^epsilon, so that a large epsilon does not overflow.
    small = math.exp(-min(epsilon, MAX_EPSILON))
    bound = (1.0 + delta * small) / (1.0 + small)
    return min(1.0, math.ceil(bound * 1e4 * (1.0 + 1e-14)) / 1e4)
