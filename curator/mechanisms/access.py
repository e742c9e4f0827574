"""The access of a learner or an operation to people's records: only what the charged event pays for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices
from common.local.hypotheses.composed import Task
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import (
    Event,
    Gaussian,
    NoEvent,
    NonPrivate,
    PrivateSelection,
    Release,
    SubsampledRelease,
    SubsampledSteps,
    parts_of,
)
from curator.mechanisms.base import CENTRAL, CentralMechanism, ItemOfPerson, NoValue, is_own, person_by_person
from curator.mechanisms.gradient_steps import ClippedSteps
from curator.mechanisms.selection import choose
from curator.mechanisms.sums import NoisyShares
from curator.sample.reweighing import Distinct, Reweighing, Sampler


class Overdrawn(RuntimeError):
    """Code asked its access for more than the charged event pays for. Nothing of the operation is released."""


class Meter:
    """The remainder of what one charged event pays for; a request for more raises :class:`Overdrawn`.

    Mechanisms on the same data compose by addition: epsilons and deltas of (epsilon, delta)-DP mechanisms (basic
    composition), mu^2 of Gaussian ones (Dong, Roth and Su 2022, Corollary 2). Sums are exact fractions, so rounding
    cannot let a request through. A refused call takes nothing, and the meter remembers it.

    After a refused call, or after a mechanism failed half-way, the meter is ``spoilt``: nothing may be released.
    """

    def __init__(self, event: Event) -> None:
        self.event = event
        self.spoilt = False
        self._draws = event.draws if isinstance(event, SubsampledRelease) else 0
        self._step_event = next((part for part in parts_of(event) if isinstance(part, SubsampledSteps)), None)
        self._steps = 0 if self._step_event is None else self._step_event.count
        self._selections = int(isinstance(event, PrivateSelection))
        self._epsilon = self._delta = self._square = Fraction(0)
        if isinstance(event, Release | SubsampledRelease):
            self._epsilon, self._delta = Fraction(event.epsilon), Fraction(event.delta)
        gaussian = [part for part in parts_of(event) if isinstance(part, Gaussian)]
        self._has_gaussian = bool(gaussian)
        self._square = sum((part.count * Fraction(part.mu) ** 2 for part in gaussian), Fraction(0))

    @property
    def free(self) -> bool:
        return isinstance(self.event, NonPrivate)

    def refuse(self, what: str) -> Overdrawn:
        self.spoilt = True
        return Overdrawn(f"the event {self.event.wire()} does not pay for {what}")

    def everybody(self) -> None:
        """Pay for a mechanism's access to the whole sample."""
        drawn = isinstance(self.event, SubsampledRelease) and self.event.tv_bound == 1.0
        if not (self.free or drawn or self._has_gaussian or isinstance(self.event, Release | PrivateSelection)):
            raise self.refuse("a mechanism on the sample itself")

    def draws(self, count: int) -> None:
        if not self.free:
            if not 1 <= count <= self._draws:
                raise self.refuse(f"{count} draws: {self._draws} are left")
            self._draws -= count

    def steps(self, count: int, ratio: Fraction) -> None:
        """Pay for ``count`` noisy steps, whose clipped gradients lie in a ball of diameter ``ratio`` times sigma."""
        if self.free:
            return
        if self._step_event is None:
            raise self.refuse("noisy steps")
        if not 1 <= count <= self._steps:
            raise self.refuse(f"{count} steps: {self._steps} are left")
        if ratio > Fraction(self._step_event.ratio):
            raise self.refuse(f"a clip of {float(ratio / 2):.6g} standard deviations of the noise")
        self._steps -= count

    def selection(self) -> None:
        if not self._selections:
            raise self.refuse("a private selection")
        self._selections -= 1

    def mechanism(self, price: Event) -> None:
        """Pay for a mechanism with this guarantee for its input."""
        if self.free:
            return
        if isinstance(price, Release) and isinstance(self.event, Release | SubsampledRelease):
            epsilon, delta = self._epsilon - Fraction(price.epsilon), self._delta - Fraction(price.delta)
            if epsilon < 0 or delta < 0:
                raise self.refuse(
                    f"epsilon {price.epsilon:g} and delta {price.delta:g}: "
                    f"{float(self._epsilon):g} and {float(self._delta):g} are left"
                )
            self._epsilon, self._delta = epsilon, delta
        elif isinstance(price, Gaussian) and self._has_gaussian:
            square = self._square - price.count * Fraction(price.mu) ** 2
            if square < 0:
                raise self.refuse(f"{price.count} times {price.mu:g}-GDP: mu^2 = {float(self._square):g} is left")
            self._square = square
        else:
            raise self.refuse(f"a mechanism that costs {price.wire()}")


A = TypeVar("A")
T = TypeVar("T")
Candidate = TypeVar("Candidate")
Output = TypeVar("Output")

Stream = Literal["coins", "student"]
PUBLIC_STREAMS: tuple[Stream, ...] = get_args(Stream)
"""Streams of randomness for work on released or public values; no mechanism draws from them."""


def unchanged(records: Records) -> Any:
    """Return the records unchanged, for a mechanism that takes records."""
    return records


class Access:
    """Access to records within one charged event. The engine makes one for each operation, from the event it charged.

    Records stay behind it. Each method is first paid from the event (:class:`Meter`); a call that the event does not
    pay for raises :class:`Overdrawn`. Then nothing of the operation is released, whatever its code does with that
    error, and the charge stays. Records themselves are shown only by an event without a guarantee (NonPrivate).

    A function of another package gets one record at a time, so that each person's value depends on that person's record
    alone, and the value is clipped as a whole (:mod:`curator.mechanisms.base`). Its limit: ``of`` sees records. No
    object in the same process can stop Python code that stores records there and puts them into a later answer, or that
    reaches into private attributes. Nothing here checks that a run of a private choice forgets earlier runs
    (docs/security.md, "Code inside the curator").

    Args:
        event: The event that was charged.
        sampler: Draws from mu, and the sample itself; None if neither may be used.
        visible: How many features, from the first on, are public, for :meth:`features`; 0 unless labels alone are
            protected; None for all.
    """

    def __init__(self, event: Event, sampler: Sampler | None, source: RandomSource, visible: int | None = 0) -> None:
        self._meter = Meter(event)
        self._sampler_or_none = sampler
        self._source = source
        self._visible = visible
        self._releases = 0
        self._open = True
        self._parts: list[Access] = []

    @property
    def people(self) -> int:
        return len(self._sampler)

    @property
    def dimension(self) -> int:
        return self._sampler.dimension

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._sampler.dtype

    def coins(self, stream: Stream) -> RandomSource:
        """Return randomness for work on public or released values; no noise is drawn from it."""
        if stream not in PUBLIC_STREAMS:
            raise self._meter.refuse(f"randomness of the stream {stream!r}")
        return self._source.derive(stream)

    def through(self, task: Task) -> Access:
        """Transform all records by a public task from now on; return this access."""
        self._sampler_or_none = self._sampler.through(task)
        return self

    def release(
        self, mechanism: CentralMechanism[T, A], of: Callable[[Records], T] = unchanged, *, draws: int | None = None
    ) -> A:
        """Apply a central mechanism to ``draws`` fresh draws from mu, or to the whole sample; return its release.

        ``of`` maps a record to the value that the mechanism takes from a person. A function of another package is
        called with one record at a time (:mod:`curator.mechanisms.base`), one of the curator's own with blocks of them.
        """
        if type(mechanism) not in CENTRAL:
            raise self._meter.refuse(f"a {type(mechanism).__name__}, which is no central mechanism")
        if draws is None:
            self._meter.everybody()
        else:
            self._meter.draws(draws)
        self._meter.mechanism(mechanism.price)
        source = self._next_source()
        blocks = self._sampler.everybody() if draws is None else self._draw_block(draws, source)
        with self._spoil_on_failure():
            convert = of if is_own(of) else person_by_person(of, mechanism, self.dimension, self.dtype)
            return mechanism.apply(map(convert, blocks), source)

    def shares(self, mu: float, items: int, of: Callable[[Records], Indices]) -> tuple[Indices, int]:
        """Return the share of every item under the sample's weights, in whole units with noise, and the units in 1.

        It is a mu-GDP :class:`~curator.mechanisms.sums.NoisyShares`; ``of`` maps records to items.
        """
        mechanism = NoisyShares(mu, items, self._sampler.share_bound)
        self._meter.everybody()
        self._meter.mechanism(mechanism.price)
        with self._spoil_on_failure():
            convert = of if is_own(of) else person_by_person(of, ItemOfPerson(), self.dimension, self.dtype)
            values = ((convert(records), weights) for records, weights in self._sampler.weighted())
            return mechanism.apply(values, self._next_source()), mechanism.whole

    @contextmanager
    def _spoil_on_failure(self) -> Iterator[None]:
        try:
            yield
        except NoValue as error:
            raise self._meter.refuse(str(error)) from None
        except Exception:
            self._meter.spoilt = True  # whether ``of`` fails may depend on a record: catching it must not help
            raise

    def descend(self, steps: ClippedSteps, first: Floats, of: Callable[[Records], Records] | None = None) -> Floats:
        """Make noisy gradient steps from the public point ``first``; return ``steps.output``, shape (width,).

        ``of``, a function of the curator's own, maps each drawn record to another one with as many features.
        """
        if type(steps) is not ClippedSteps:
            raise self._meter.refuse(f"a {type(steps).__name__}")
        if of is not None and not is_own(of):
            raise self._meter.refuse("steps on what a function of another package makes of records")
        if not self._meter.free:
            if not steps.noise > 0.0:
                raise self._meter.refuse("steps without noise")
            self._meter.steps(steps.steps, steps.ratio)
        return steps.run(self._sampler, self._next_source(), first, of)

    def choose(
        self,
        candidates: Sequence[Candidate],
        fit: Callable[[Candidate, Access], Output],
        score: Callable[[Output, Access], float],
        held: Callable[[int], AnyArray] | None = None,
    ) -> Output:
        """Return the best of a secret number of runs (:func:`curator.mechanisms.selection.choose`).

        A run fits a candidate on the people for training and scores its output on those held out. ``held`` returns
        which of n places are held out; None means none, and scores are functions of public values. Both parts get an
        access that pays for one mu-GDP release, with the declared mu; the law of the number of runs is also declared.
        """
        self._meter.selection()
        event = self._meter.event
        if not isinstance(event, PrivateSelection):
            raise AssertionError("only a private selection pays for one")
        records, validation = Records.joined(list(self._sampler.everybody())), None
        if held is not None:
            mask = np.asarray(held(len(records)), dtype=np.bool_)
            validation = _uniform(records.take(np.flatnonzero(mask)))
            records = records.take(np.flatnonzero(~mask))
        training, price = _uniform(records), Gaussian(count=1, mu=event.mu)

        def train(settings: Mapping[str, Any], source: RandomSource) -> Output:
            return fit(settings["candidate"], self._sub_access(price, training, source))

        def rate(output: Output, source: RandomSource) -> float:
            return score(output, self._sub_access(NoEvent() if validation is None else price, validation, source))

        return choose(train, rate, {"candidate": list(candidates)}, event.law, self._next_source()).output

    def features(self, first: int, count: int) -> AnyArray:
        """Return features of ``count`` people from place ``first`` on; they are public if only labels are protected."""
        if self._visible == 0:
            raise self._meter.refuse("features: records are protected, not labels only")
        return Records.joined(list(self._sampler.everybody())).features[first : first + count, : self._visible]

    def records(self, draws: int | None = None) -> Records:
        """Return ``draws`` draws from mu without noise, or the whole sample; for a NonPrivate event only."""
        self._check_nonprivate()
        blocks = self._sampler.everybody() if draws is None else self._draw_block(draws, self._source)
        return Records.joined(list(blocks))

    def distinct(self, draws: int) -> Distinct:
        """Return the distinct records among ``draws`` draws from mu, without noise; for a NonPrivate event only."""
        self._check_nonprivate()
        return self._sampler.distinct(draws, self._source.derive("draws"))

    @property
    def source(self) -> RandomSource:
        self._check_nonprivate()
        return self._source

    def close(self) -> None:
        """Close the access for further calls; raises Overdrawn if a call was refused before or a mechanism failed."""
        self._open = False
        for part in self._parts:
            part.close()
        if self._meter.spoilt:
            raise Overdrawn(
                f"more was asked for than the event {self._meter.event.wire()} pays for, or a mechanism failed"
            )

    @property
    def _sampler(self) -> Sampler:
        if not self._open:
            raise self._meter.refuse("anything after the operation has ended")
        if self._sampler_or_none is None or isinstance(self._meter.event, NoEvent):
            raise self._meter.refuse("a look at the sample")
        return self._sampler_or_none

    def _check_nonprivate(self) -> None:
        if not self._meter.free:
            raise self._meter.refuse("records as they are")

    def _next_source(self) -> RandomSource:
        self._releases += 1
        return self._source if self._releases == 1 else self._source.derive("release", self._releases)

    def _draw_block(self, draws: int, source: RandomSource) -> Iterator[Records]:
        yield self._sampler.draws(draws, source.derive("draws"))

    def _sub_access(self, event: Event, sampler: Sampler | None, source: RandomSource) -> Access:
        part = Access(event, sampler, source)
        self._parts.append(part)
        return part


def _uniform(records: Records) -> Sampler:
    return Reweighing(len(records), None, 1.0).sampler(records)
