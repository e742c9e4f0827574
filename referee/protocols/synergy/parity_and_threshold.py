"""Parity and threshold: the direct sum of a task for the curator and one for the agents."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

import numpy as np

from common.core.errors import BadScenario
from common.scenario.problems.parity_and_threshold import Both, ParityAndThreshold
from common.scenario.scenario import Scenario
from common.statistics.cdf import estimate_cdf
from common.statistics.cdf_levels import ladder
from common.statistics.codes import likeliest_parity
from common.statistics.frequency import reports
from common.statistics.quantiles import find_quantile
from common.vocabulary.hypotheses.parity import Parity
from common.vocabulary.mechanisms.base import BitMechanism
from common.vocabulary.mechanisms.hadamard import HadamardResponse
from common.vocabulary.operations import Learn
from common.vocabulary.queries.coordinate import CoordinateQuery
from common.vocabulary.queries.item import ItemQuery
from common.vocabulary.steps import Answers, AskAgents, AskCurator, Progress, Together
from common.vocabulary.tasks import Task
from referee.protocols.asking import ask_codes, at_once
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script, learned_parity
from referee.protocols.examples import small_problem
from referee.protocols.patterns import Pattern, agents, curator, many, sequence, some, together


@PROTOCOLS.register("parity-and-threshold")
class ParityAndThresholdProtocol(Protocol):
    """Appendix A of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator learns the parity (KLNRS, pure epsilon); no message to it depends on an agent, nor the other way round.
    The agents learn the threshold in rounds. As a threshold function is 1 from t on, it is 0 for exactly the share
    F(t) of people: a first batch says how many that are, and fresh agents find the quantile of y at that share by noisy
    binary search. (The paper's protocol finds all quantiles and then the first bin of ones, which takes 4/alpha
    searches.)

    *Without interaction* (``problem.interactive=false``): three questions leave at once, for the parity, for the
    distribution function of y at all thresholds, and for that share; the quantile is read off.

    *The curator alone* learns the parity, for which it spends its privacy, and says half of the range: pure privacy
    takes of order b/(alpha epsilon) further people for a threshold of b bits. *The agents alone*: half of them search
    for the parity, which takes 2^c times as many.
    """

    title = "Parity and threshold"
    problem = "parity-and-threshold"
    pattern = sequence(together(curator("learn"), agents("coordinate")), many(agents("threshold"))) | together(
        curator("learn"), agents("item"), agents("item")
    )
    patterns_alone: ClassVar[dict[str, Pattern]] = {
        "curator": curator("learn"),
        "agents": sequence(some(agents("code")), agents("coordinate"), many(agents("threshold"))),
    }

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return its shipped scenario made small."""
        return (
            small_problem(
                "parity-and-threshold",
                {"name": "parity-and-threshold", "c": 4, "b": 6, "secret": [1, 2], "threshold": 20},
                "problem.c=4",
                "problem.b=6",
                "alpha=0.4",
                "agents.mechanism.epsilon=2",
            ),
        )

    def script(self, scenario: Scenario, public: int) -> Script:
        """Learn the parity, and at the same time how many are below the threshold; then search for it."""
        problem, count = scenario.problem, int(scenario.agents.count)
        if not isinstance(problem, ParityAndThreshold):
            raise BadScenario("parity-and-threshold needs its problem")
        learn = AskCurator(Learn(round=1, task=Task(features=problem.c)))
        if scenario.alone == "curator":
            release = yield learn
            return _outcome(learned_parity(release, problem.c), 1 << (problem.b - 1), "the threshold is a guess")
        if not problem.interactive:
            return (yield from _all_at_once(scenario, problem, learn, public))
        mechanism, tolerance = scenario.agents.bit_mechanism, scenario.alpha / 4.0
        if scenario.alone == "agents":
            search = yield from ask_codes(count // 2, first=0, bits=min(problem.c, 63), sign="label", public=public)
            found, width = likeliest_parity(search), min(problem.c, 63)
            parity: Parity | None = Parity(features=tuple(i for i in range(width) if found >> (width - 1 - i) & 1))
        survey = AskAgents(CoordinateQuery(first=problem.c + problem.b), _surveyed(problem, mechanism, scenario))
        if scenario.alone == "agents":
            told: Answers = yield survey
        else:
            release, told = yield Together((learn, survey))
            parity = learned_parity(release, problem.c)
        below = 1.0 - float(mechanism.unbias(told.values).mean()) if len(told.values) else 0.5
        edge = 1.01 * tolerance
        share = min(max(below, edge), 1.0 - edge)
        yield Progress(f"{share:.3f} of people are below the threshold", {})
        quantile = yield from find_quantile(
            mechanism, problem.b, share, tolerance, scenario.beta / 4.0, feature=problem.c
        )
        reason = f"{told.asked + quantile.asked:,} agents were asked about {quantile.thresholds} thresholds"
        return _outcome(parity, quantile.first, reason)


def _all_at_once(
    scenario: Scenario, problem: ParityAndThreshold, learn: AskCurator, public: int
) -> Generator[Together, Any, Outcome]:
    """Ask for everything in one step."""
    oracle, count = scenario.agents.mechanism, int(scenario.agents.count)
    if not isinstance(oracle, HadamardResponse) or scenario.alone is not None:
        raise BadScenario("without interaction: both sides are asked, agents with the mechanism hadamard")
    values = ItemQuery(first=problem.c, bits=problem.b, prefixes=ladder(problem.b), public=public)
    above = ItemQuery(first=problem.c + problem.b, bits=1, public=public + 1)
    surveyed = problem.surveyed(1.0 / (2.0 * oracle.truth - 1.0), scenario.alpha / 4.0, scenario.beta)
    release, told, ones = yield Together(
        (learn, AskAgents(values, at_once(count - surveyed)), AskAgents(above, surveyed))
    )
    cuts = problem.cuts(scenario.alpha)
    found = estimate_cdf(values, oracle, told, cuts).cuts
    reports_above = reports(above, ones)
    supports = reports_above.supports(oracle, np.zeros(1, dtype=np.uint64))
    below = float(oracle.shares(supports, len(reports_above), above.domain)[0])
    place = min(max(round(below * (cuts + 1)) - 1, 0), cuts - 1)
    reason = f"{told.asked + ones.asked:,} agents were asked at once"
    return _outcome(learned_parity(release, problem.c), int(found[place]), reason)


def _surveyed(problem: ParityAndThreshold, mechanism: BitMechanism, scenario: Scenario) -> int:
    return problem.surveyed(1.0 / (2.0 * mechanism.truth - 1.0), scenario.alpha / 4.0, scenario.beta)


def _outcome(parity: Parity | None, threshold: int, reason: str) -> Outcome:
    if parity is None:
        return Outcome(
            "exhausted", 1, Both(features=None, threshold=threshold), None, "no block of the curator answered"
        )
    return Outcome("done", 1, Both(features=parity.features, threshold=threshold), None, reason)
