"""What a curator's section of a scenario says about its work: numbers and a learner that fit its sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from common.core.errors import BadData, PolicyRefused
from common.local.hypotheses.hypothesis import hypothesis_kinds, ordinary_kinds
from common.local.records import Records
from common.operations.operation import Operation, parse_operation
from common.protocols.base import demands_of, pattern_of
from common.scenario.resolved import ResolvedScenario
from curator.learners.base import CallSizes, Learner, parse_learner
from curator.sample.base import Sample


def check_features(operation: Operation[Any], dimension: int) -> None:
    """Refuse an operation that looks at features which records lack.

    Raises:
        PolicyRefused: Saying how many it needs.
    """
    if operation.min_features > dimension:
        raise PolicyRefused(f"{operation.kind} needs {operation.min_features} features, records have {dimension}")


@dataclass(frozen=True)
class CuratorPolicy:
    """What the curator agrees to do, for any referee.

    Attributes:
        n: Number of records.
        kappa, eta: Of the weights; see :class:`~curator.weights.reweighing.Reweighing`.
        rounds: Most operations of each kind.
        learner: None where nothing is learned.
        protocol, operations: The protocol that was agreed to, and the kinds of operations that it may ask this curator
            for.
        further: Operations of a kind that it may ask for beyond ``rounds``.
    """

    n: int
    kappa: float | None
    eta: float
    rounds: int
    learner: Learner | None
    protocol: str
    operations: frozenset[str]
    further: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, scenario: ResolvedScenario, sample: Sample, public: Records | None) -> CuratorPolicy:
        """Return the policy in a resolved scenario, which is for this private and this public sample.

        Raises:
            BadScenario: As :meth:`agreed`.
            BadData: If the sample has another size, or holds what is not a number.
        """
        if len(sample) != scenario.curator.n:
            raise BadData(f"the curator's policy is for n = {scenario.curator.n} records, found {len(sample)}")
        sample.check()
        return cls.agreed(scenario, sample.dtype, sample.dimension, public)

    @classmethod
    def agreed(
        cls,
        scenario: ResolvedScenario,
        dtype: np.dtype[Any],
        dimension: int,
        public: Records | None,
        *,
        public_is_read: bool = True,
    ) -> CuratorPolicy:
        """Return the policy in a resolved scenario for samples of this shape, before any record is seen.

        Args:
            dtype, dimension: Of the private sample's features, as learners see them.
            public: The public sample; None where the scenario has none, or it is not read.
            public_is_read: Whether it was read, if there is one: only then what a learner wants of it is checked.

        Raises:
            BadScenario: If the learner cannot learn from such samples.
        """
        section = scenario.curator
        n, kappa, eta, rounds = section.n, section.kappa, section.eta, section.rounds
        learner = None if section.learner is None else parse_learner(section.learner)
        if learner is not None:
            if scenario.problem is None:  # otherwise each operation says which features its learner sees
                for seen in sorted({task.features for task in scenario.tasks} or {dimension}):
                    learner.check(dtype, seen)
            if public_is_read:
                learner.check_public(public)
            learner.check_people(n)
            if public_is_read:
                learner.check_noise(CallSizes(n, 0 if public is None else len(public), dimension, dtype.itemsize))
        protocol, alone = scenario.protocol, scenario.alone
        operations = pattern_of(protocol, alone).kinds("curator")
        name = protocol if alone is None else f"{protocol}, {alone} alone"
        return cls(n, kappa, eta, rounds, learner, name, operations, demands_of(protocol).further)

    def most(self, kind: str) -> int:
        """Return how many operations of a kind it carries out at most."""
        return self.rounds + self.further.get(kind, 0)

    def check_agreed(self, kind: str) -> None:
        """Refuse an operation that the agreed protocol does not use.

        Raises:
            PolicyRefused: Saying which ones it does.
        """
        if kind not in self.operations:
            allowed = " and ".join(map(repr, sorted(self.operations))) or "no operation"
            raise PolicyRefused(
                f"this curator agreed to protocol {self.protocol!r}, which asks it for {allowed}, not for {kind!r}; "
                f"nothing was charged"
            )

    def read(self, wire: Any) -> Operation[Any]:
        """Return the operation that a message holds (JSON).

        Raises:
            PolicyRefused: If its hypothesis is of a kind that is taken only if the policy's own learner gives it, or if
                the agreed protocol does not use it.
            BadMessage: If it is no operation.
        """
        by_choice = frozenset() if self.learner is None else self.learner.by_choice
        for kind in sorted(hypothesis_kinds(wire) - ordinary_kinds() - by_choice):
            # Before it is parsed: parsing is what this curator has not agreed to.
            raise PolicyRefused(f"this curator's learner gives no hypothesis of kind {kind!r}, so it takes none")
        operation = parse_operation(wire)
        self.check_agreed(operation.kind)
        return operation
