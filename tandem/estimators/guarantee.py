"""The privacy cost of an estimator's fits for a person, in numbers and in words."""

import math

from pydantic import Field

from common.core.values import Value
from common.net.messages import Spent
from common.privacy.guarantee import PrivacyGuarantee as Promise
from common.privacy.guarantee import Protected, of_agent, of_curator
from common.privacy.rounding import up
from referee.view.pages import promises
from tandem.runs import Drawing, of_epsilons


class Spending(Value):
    """The privacy cost of one fit for a person, by the person's role in it.

    Attributes:
        epsilon, delta: For a person of the curator's sample: (epsilon, delta)-differential privacy of everything the
            curator releases.
        agent_epsilon: For a person who answers as an agent: epsilon-local differential privacy of the one answer (delta
            is 0).
        protects: The part of a curator's person's record that epsilon and delta protect.
        people, agents: How many there are of each; public.
        drawn: Whether roles are random, because no population was given.
    """

    epsilon: float
    delta: float
    agent_epsilon: float
    protects: Protected = "records"
    people: int
    agents: int
    drawn: bool = False


class Guarantee(Value):
    """The privacy guarantee of all fits of one estimator object; ``str`` of it states it in full.

    Costs add up by basic composition: (sum of epsilon, sum of delta), rounded up, for a person whose record is in every
    fit. Other objects (clones, the candidates of a grid search, the folds of a cross-validation) that saw the same
    people are counted in ``all_runs`` only.

    Attributes:
        fits: The cost of each fit, in order. A fit that failed after its start counts.
        simulated: Whether the randomness of some fit came from ``random_state``. Anybody who knows or guesses that seed
            can undo the noise, so then nothing here is guaranteed to real people.
        assumptions: What some fit assumes to be public, and so does not protect.
        all_runs: By side, what all fits and runs of this user have cost those people of the last fit who have spent
            most, as far as the ledger of people has recognised them; empty if people are simulated.
    """

    fits: tuple[Spending, ...]
    simulated: bool
    assumptions: tuple[str, ...] = ()
    all_runs: dict[str, Spent] = Field(default_factory=dict)

    @property
    def epsilon(self) -> float:
        """The epsilon for a person of the curator's sample, over all fits."""
        return _sum([fit.epsilon for fit in self.fits])

    @property
    def delta(self) -> float:
        return _sum([fit.delta for fit in self.fits])

    @property
    def agent_epsilon(self) -> float:
        """The epsilon for a person of the population, over all fits."""
        return _sum([fit.agent_epsilon for fit in self.fits])

    @property
    def protects(self) -> Protected:
        """The part of a record of the curator's people that is protected in every fit."""
        return "labels" if any(fit.protects == "labels" for fit in self.fits) else "records"

    @property
    def curator(self) -> Promise:
        return of_curator((self.epsilon, self.delta), self.protects, "fits")

    @property
    def agent(self) -> Promise:
        return of_agent((self.agent_epsilon, 0.0), "fits and agents")

    def __str__(self) -> str:
        fits = f"in {len(self.fits)} fit{'s' if len(self.fits) > 1 else ''}"
        seeded = "SIMULATED, the seed is enough to undo all of it; " if self.simulated else ""
        public = f"; taken for public: {'; '.join(self.assumptions)}" if self.assumptions else ""
        over_all_runs = "".join(f"; OVER ALL RUNS, {who}: {spent}" for who, spent in self.all_runs.items())
        return (
            f"{fits}: {seeded}each of the curator's people has {self.curator}; "
            f"each of the population's {self.agent}{public}{over_all_runs}"
        )

    def plot(self) -> Drawing:
        """Draw the epsilons of both sides, over all fits; a smaller one protects more."""
        return of_epsilons({"curator": self.curator.epsilon, "agent": self.agent.epsilon})

    def _repr_html_(self) -> str:
        assumed = "; ".join(self.assumptions)
        seeded = "SIMULATED: the seed is enough to undo all of it. " if self.simulated else ""
        public = f"Taken for public: {assumed}." if assumed else ""
        return promises({"curator": self.curator.wire(), "agent": self.agent.wire()}, f"{seeded}{public}".strip())


def _sum(values: list[float]) -> float:
    return values[0] if len(values) == 1 else up(math.fsum(values))
