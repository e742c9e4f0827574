"""The empirical privacy audit: of functions with a privacy claim, and of twins that violate the claim on purpose.

:func:`cases` has a case for every registered mechanism, plug-ins' too: one answer, and a twin with twice the epsilon.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import BadInput
from common.local.mechanisms.frequency import FrequencyOracle, public_words
from common.local.mechanisms.mechanism import MECHANISMS, LocalRandomizer, Mechanism, parse_mechanism
from common.numerics.randomness import RandomSource
from common.privacy.auditing import AuditFinding, Subject, audit, exceeds

Safeguard = tuple[object, str]  # the place of a safeguard: a module or class, and the name in it


def without(safeguard: Safeguard, replacement: Any, subject: Subject) -> Subject:
    """Return the subject with a safeguard replaced by ``replacement``."""
    place, name = safeguard

    def broken(value: Any, runs: int, source: RandomSource) -> AnyArray:
        with patch.object(place, name, replacement):
            return subject(value, runs, source)

    return broken


FAILURE = 1e-6  # probability that the bound of one audit is too large (Clopper-Pearson, both sides together)


@dataclass(frozen=True)
class Case:
    """The privacy claim of a subject on a pair of neighbouring inputs, and the twins that the audit must catch.

    Attributes:
        epsilon, delta: The claim, as the accountant or the mechanism states it.
        honest: The shipped code.
        twins: The same code with one safeguard removed, by the name of the safeguard.
        runs: Runs on each input, for the search and again for the bound.
        least: A bound that the honest subject must reach, so that the audit is shown to have power; 0 where its leak
            cannot be measured in so few runs.
    """

    name: str
    epsilon: float
    inputs: tuple[Any, Any]
    honest: Subject
    runs: int
    delta: float = 0.0
    twins: Mapping[str, Subject] = field(default_factory=dict)
    least: float = 0.0

    def measure(self, subject: Subject, *, scale: float = 1.0) -> AuditFinding:
        """Audit the honest subject or a twin, with ``scale`` times the runs; the seed is fixed."""
        source = RandomSource.seeded(1, "audit", self.name)
        runs = round(scale * self.runs)
        return audit(subject, self.inputs, source, runs=runs, delta=self.delta, failure=FAILURE)

    def catches(self, twin: Subject) -> bool:
        """Return whether a twin is shown to violate the claim, with as few runs as needed and at most ``runs``."""
        source = RandomSource.seeded(1, "audit", self.name)
        return exceeds(
            twin, self.inputs, source, epsilon=self.epsilon, runs=self.runs, delta=self.delta, failure=FAILURE
        )


@dataclass(frozen=True)
class AuditRow:
    """One audit: of the shipped code (``without`` is empty), or of a twin without a safeguard.

    The claim is (claimed, delta)-DP; ``measured`` is a lower bound on epsilon at that delta, and ``runs`` the trials on
    each of the two inputs, for the search and again for the bound.
    """

    case: str
    without: str
    runs: int
    delta: float
    claimed: float
    measured: float
    seconds: float

    @property
    def exceeds(self) -> bool:
        return self.measured > self.claimed

    @property
    def expected(self) -> bool:
        """Whether the result is as expected: shipped code does not exceed its claim, and a twin does."""
        return self.exceeds == bool(self.without)

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "exceeds": self.exceeds, "expected": self.expected}


def rows(cases: Iterable[Case], scale: float) -> Iterator[AuditRow]:
    """Audit every case and its twins, with ``scale`` times the trials; a twin gets at least those of its case."""
    for case in cases:
        subjects: dict[str, Subject] = {"": case.honest, **case.twins}
        for without, subject in subjects.items():
            began = time.perf_counter()
            finding = case.measure(subject, scale=max(1.0, scale) if without else scale)
            took = time.perf_counter() - began
            yield AuditRow(case.name, without, finding.runs, case.delta, case.epsilon, finding.epsilon, took)


def report(cases: Sequence[Case], *, only: str, scale: float, write: Callable[[str], None] | None) -> list[AuditRow]:
    """Audit the cases with ``only`` in their name, and write a line for each row as soon as it is finished.

    BadInput if no case has ``only`` in its name.
    """
    chosen = [case for case in cases if only in case.name]
    if not chosen:
        raise BadInput(f"no case has {only!r} in its name; there are {', '.join(case.name for case in cases)}")
    write = write or (lambda line: None)
    write(f"{'what':<34} {'twin':<40} {'trials':>8} {'delta':>7} {'claimed':>8} {'measured':>8}  verdict")
    written = []
    for row in rows(chosen, scale):
        written.append(row)
        verdict = ("caught" if row.exceeds else "NOT CAUGHT") if row.without else ("BROKEN" if row.exceeds else "holds")
        numbers = f"{row.runs:8d} {row.delta:7.4f} {row.claimed:8.3f} {row.measured:8.3f}"
        write(f"{row.case:<34} {row.without or '-':<40} {numbers}  {verdict}")
    write(f"Each lower bound is too high with probability at most {FAILURE:g}.")
    return written


EPSILON, DELTA, RUNS = 1.0, 0.01, 100_000
DOMAIN = 4


def mechanism_with(name: str, epsilon: float) -> LocalRandomizer:
    """Return the mechanism of that name with this epsilon; if it has no such setting, return an example of it.

    For epsilon up to 1 that is the example with the most noise, above 1 the one with the least.
    """
    kind = MECHANISMS[name]
    settings: dict[str, Any] = {"name": name, "epsilon": epsilon, "delta": DELTA, "calibration": "analytic"}
    fields = {key: value for key, value in settings.items() if key in kind.model_fields}
    if "epsilon" in fields:
        return parse_mechanism(fields)
    examples = sorted(kind.example(), key=lambda mechanism: mechanism.guarantee)
    return examples[0 if epsilon <= EPSILON else -1]


def subject_of(mechanism: LocalRandomizer) -> Subject:
    """Return the subject that gives one answer per run, for a value in [0, 1] or an item."""

    def subject(value: float, runs: int, source: RandomSource) -> AnyArray:
        if isinstance(mechanism, Mechanism):
            return mechanism.randomize(np.full(runs, value), source)
        if not isinstance(mechanism, FrequencyOracle):
            raise BadInput(f"there is no question to audit {mechanism.name} with")
        word = public_words(separating(mechanism), np.zeros(1, dtype=np.int64))
        items = np.full(runs, value, dtype=np.uint64)
        return mechanism.randomize(items, DOMAIN, np.repeat(word, runs), source)

    return subject


def separating(oracle: FrequencyOracle) -> int:
    """Return the ``public`` of a question for which slot 0's answers best distinguish items 2 and 1 of four."""
    answers = [np.array([answer], dtype=np.uint8) for answer in range(oracle.symbols(DOMAIN))]
    for public in range(100):
        word = public_words(public, np.zeros(1, dtype=np.int64))
        supports = [oracle.supports(answer, DOMAIN, word, np.array([1, 2], dtype=np.uint64)) for answer in answers]
        if any(one != other for one, other in supports):
            return public
    raise AssertionError("no public word separates the items")


def case(name: str) -> Case:
    """Return the case of a registered mechanism that claims privacy."""
    mechanism, twin = mechanism_with(name, EPSILON), mechanism_with(name, 2.0 * EPSILON)
    epsilon, delta = mechanism.guarantee
    inputs = (2, 1) if isinstance(mechanism, FrequencyOracle) else (1.0, 0.0)
    twins = {} if twin == mechanism else {"twice the epsilon": subject_of(twin)}
    least = 0.0 if delta else 0.8 * epsilon
    return Case(f"mechanism {name}", epsilon, inputs, subject_of(mechanism), RUNS, delta, twins, least)


def cases() -> list[Case]:
    """Return a case for every registered mechanism with a guarantee."""
    return [case(name) for name in MECHANISMS.names() if math.isfinite(mechanism_with(name, EPSILON).guarantee[0])]
