"""A protocol: learn an interval, ask both sides how many people it holds, and test it."""

from __future__ import annotations

from tandem.extend import (
    PROTOCOLS,
    EstimatePlan,
    Learn,
    LossQuery,
    Outcome,
    PeerMisbehaved,
    Progress,
    Protocol,
    Scenario,
    Script,
    ask,
    estimate_mean,
    parse,
)
from tandem_example_plugins.agreement import PATTERN
from tandem_example_plugins.count_inside import CountInside
from tandem_example_plugins.inside import InsideQuery
from tandem_example_plugins.interval import Interval

EXAMPLE = {
    "name": "example-bands",
    "title": "A band that people of T are in less often than people of S",
    "protocol": "example-compare",
    "alpha": 0.1,
    "divergence": {"chi_squared": 2.0},
    "source": {"distribution": {"name": "example-band", "side": "source", "d": 3}},
    "target": {"distribution": {"name": "example-band", "side": "target", "d": 3}},
    "curator": {
        "n": 2000,
        "epsilon": 4.0,
        "delta": 1e-6,
        "kappa": 0.2,
        "eta": 0.1,
        "rounds": 2,
        "learner": {"name": "example-histogram", "epsilon": 2.0, "low": 0.0},
    },
    "agents": {"count": 6000, "mechanism": {"name": "example-die", "sides": 10}, "deadline": 5},
}


@PROTOCOLS.register("example-compare")
class Compare(Protocol):
    """Two releases of the curator, each at half of its epsilon, and two questions to the agents, half of them each.

    The status is ``done`` if all agents that were wanted could be asked, else ``exhausted``.
    """

    pattern = PATTERN

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return one with so few people that it runs in a fraction of a second."""
        return (parse(EXAMPLE),)

    def script(self, scenario: Scenario, public: int) -> Script:
        """Learn, count in S, ask T, test on T."""
        interval = (yield from ask(Learn(round=1))).hypothesis
        if not isinstance(interval, Interval):
            raise PeerMisbehaved(f"the curator released no interval, but a {interval.kind}")
        what = {"feature": interval.feature, "low": interval.low, "high": interval.high}
        counted = yield from ask(CountInside(**what, epsilon=scenario.curator.share))
        in_source = counted.count / int(scenario.curator.n)
        half = int(scenario.agents.count) // 2
        answers = EstimatePlan.of(scenario)
        told = yield from estimate_mean(InsideQuery(**what), answers, half, 2)
        yield Progress("compared", {"in_source": in_source, "in_target": told.estimate.value})
        tested = yield from estimate_mean(LossQuery(hypothesis=interval), answers, half, 2)
        everybody = told.asked == tested.asked == half
        shares = f"{in_source:.1%} of S and {told.estimate.value:.1%} of T are inside"
        return Outcome("done" if everybody else "exhausted", 1, interval, tested.estimate, shares)
