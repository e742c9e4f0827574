"""Parity chooses secret: the curator finds out which secret is wanted, the agents have its shares."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from common.core.errors import BadScenario
from common.core.values import Value
from common.data.distributions.base import Distribution
from common.data.distributions.shared_secrets import ParityChoosesSecret as People
from common.scenario.problems.base import PROBLEMS, Problem


class Secret(Value):
    """The answer: which secret is wanted, and what it is."""

    kind: Literal["secret"] = "secret"
    which: int = Field(ge=0)
    bit: int = Field(ge=0, le=1)


@PROBLEMS.register("parity-chooses-secret")
class ParityChoosesSecret(Problem):
    """Definition 5.1: find s_r = s_{r,1} + ... + s_{r,m+1}, where <x, r> is everybody's label.

    Attributes
    ----------
    c
        Length of x and r, 1 to 16.
    shares
        m + 1. More than the curator has people, so that it misses one.
    """

    name: Literal["parity-chooses-secret"] = "parity-chooses-secret"
    c: int = Field(ge=1, le=16)
    shares: int = Field(ge=2, le=1 << 16)

    @property
    def share_bits(self) -> int:
        """Length of t."""
        return (self.shares - 1).bit_length()

    @property
    def dimension(self) -> int:
        """Features of a record: x, t, and a share of each of 2^c secrets."""
        return self.c + self.share_bits + (1 << self.c)

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        """Return the secret that was wanted."""
        told = Secret.parse(answer)
        if not isinstance(people, People):
            raise BadScenario(f"the truth of this problem is known of parity-chooses-secret, found {people.name}")
        which = number_of(people.secret, self.c)
        bit = people.bit(which)
        return {"correct": told.which == which and told.bit == bit, "which": which, "bit": bit}


def number_of(features: tuple[int, ...], c: int) -> int:
    """Return a set of features of x as an integer of c bits, the first feature the most significant."""
    return sum(1 << (c - 1 - feature) for feature in features)
