"""Cheats: what the code of a learner or an operation could ask of its access beyond what it declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from common.learners.model_agnostic import GnMax
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Release
from curator.mechanisms.access import Access, Overdrawn, unchanged
from curator.mechanisms.base import CentralMechanism
from curator.mechanisms.sums import NoisyShares


@dataclass(frozen=True)
class Homemade(CentralMechanism[Any, Any]):
    """A mechanism of the cheat's own, which adds no noise and says that it costs next to nothing."""

    @property
    def price(self) -> Event:
        return Release(epsilon=1e-9)

    def apply(self, values: Iterator[Any], source: RandomSource) -> Any:
        return list(values)


class Honest:
    """Passes on what is asked for, as it is: a twin that does this is the learner itself."""

    def __init__(self, access: Access) -> None:
        self.access = access

    def __getattr__(self, name: str) -> Any:
        asks = name in ("release", "descend", "choose", "shares")
        return partial(self.ask, name) if asks else getattr(self.access, name)

    def through(self, task: Any) -> Any:
        self.access.through(task)
        return self

    def ask(self, name: str, *given: Any, **more: Any) -> Any:
        return getattr(self.access, name)(*given, **more)


class TwiceTheDraws(Honest):
    """Does all of its work twice: twice the draws, twice the steps, two releases."""

    def ask(self, name: str, *given: Any, **more: Any) -> Any:
        super().ask(name, *given, **more)
        return super().ask(name, *given, **more)


class OneMoreDraw(TwiceTheDraws):
    """Draws once more than it declared, or makes one more step; where it draws nothing, releases a second time."""

    def release(self, mechanism: Any, of: Any = unchanged, *, draws: int | None = None) -> Any:
        if draws is None:
            return self.ask("release", mechanism, of)
        return self.access.release(mechanism, of, draws=draws + 1)

    def descend(self, steps: Any, first: Any, of: Any = None) -> Any:
        return self.access.descend(replace(steps, steps=steps.steps + 1), first, of)


class LessNoise(Honest):
    """Adds less noise than it declared, by a part in a thousand."""

    def release(self, mechanism: Any, of: Any = unchanged, *, draws: int | None = None) -> Any:
        return self.access.release(louder(mechanism), of, draws=draws)

    def descend(self, steps: Any, first: Any, of: Any = None) -> Any:
        return self.access.descend(replace(steps, noise=steps.noise / 1.001), first, of)

    def choose(self, candidates: Any, fit: Any, score: Any, held: Any = None) -> Any:
        return self.access.choose(candidates, lambda c, part: fit(c, LessNoise(part)), score, held)

    def shares(self, mu: float, items: int, of: Any) -> Any:
        return self.access.shares(1.001 * mu, items, of)


class LargerClip(LessNoise):
    """Clips later than it declared, at the same noise; where noise follows from the bound, adds less."""

    def descend(self, steps: Any, first: Any, of: Any = None) -> Any:
        return self.access.descend(replace(steps, clip=2.0 * steps.clip, noise=steps.noise / 2.0), first, of)


class Everybody(Honest):
    """Looks at the whole sample where it declared draws; otherwise at its records as they are."""

    def release(self, mechanism: Any, of: Any = unchanged, *, draws: int | None = None) -> Any:
        return self.access.records() if draws is None else self.access.release(mechanism, of)

    def ask(self, name: str, *given: Any, **more: Any) -> Any:
        return self.access.records()


class OwnMechanism(Everybody):
    """Brings a mechanism along."""

    def release(self, mechanism: Any, of: Any = unchanged, *, draws: int | None = None) -> Any:
        return self.access.release(Homemade(), of, draws=draws)

    def shares(self, mu: float, items: int, of: Any) -> Any:
        return self.access.release(Homemade(), of)

    def ask(self, name: str, *given: Any, **more: Any) -> Any:
        return self.access.release(Homemade(), draws=1 if name == "descend" else None)


class Tinkered(Honest):
    """Takes a mechanism that is trusted, and changes what it does."""

    def release(self, mechanism: Any, of: Any = unchanged, *, draws: int | None = None) -> Any:
        kind = type(mechanism)
        twin = type(kind.__name__, (kind,), {"apply": Homemade.apply})
        own = {part.name: getattr(mechanism, part.name) for part in fields(mechanism)}
        return self.access.release(twin(**own), of, draws=draws)

    def descend(self, steps: Any, first: Any, of: Any = None) -> Any:
        twin = type("ClippedSteps", (type(steps),), {"run": lambda self, sampler, source, first: sampler})
        return self.access.descend(twin(**{part.name: getattr(steps, part.name) for part in fields(steps)}), first, of)

    def choose(self, candidates: Any, fit: Any, score: Any, held: Any = None) -> Any:
        return self.access.choose(candidates, lambda c, part: fit(c, Tinkered(part)), score, held)

    def shares(self, mu: float, items: int, of: Any) -> Any:
        light: Any = NoisyShares(mu, items, 1e-9)  # as if nobody weighed anything
        return self.access.release(light, lambda records: (of(records), np.ones(len(records))))


class NoiseInHand(Honest):
    """Asks for the stream that the noise comes from: whoever has it takes the noise away again."""

    def choose(self, candidates: Any, fit: Any, score: Any, held: Any = None) -> Any:
        return self.access.coins("count"), self.access.choose(candidates, fit, score, held)

    def ask(self, name: str, *given: Any, **more: Any) -> Any:
        return self.access.source, super().ask(name, *given, **more)


class Quietly(Honest):
    """Asks for too much, gets nothing, and goes on as if nothing had happened."""

    def ask(self, name: str, *given: Any, **more: Any) -> Any:
        try:
            self.access.records()
        except Overdrawn:
            return super().ask(name, *given, **more)
        raise AssertionError("records were shown")


CHEATS: tuple[type[Honest], ...] = (
    OneMoreDraw, TwiceTheDraws, LessNoise, LargerClip, Everybody, OwnMechanism, Tinkered, NoiseInHand, Quietly
)  # fmt: skip


def louder(mechanism: Any) -> Any:
    for name in ("epsilon", "mu"):
        if hasattr(mechanism, name):
            return replace(mechanism, **{name: getattr(mechanism, name) * 1.001})
    given = mechanism.aggregation
    what = "noise" if isinstance(given, GnMax) and given.noise is not None else "epsilon"
    factor = 1 / 1.001 if what == "noise" else 1.001
    return replace(mechanism, aggregation=given.model_copy(update={what: getattr(given, what) * factor}))
