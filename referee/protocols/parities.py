"""Tasks with parities, which the curator learns: a threshold beside one, and secrets whose shares the agents have."""

from collections import Counter
from collections.abc import Generator
from typing import Any, Literal

import numpy as np

from common.core.errors import BadScenario
from common.local.hypotheses.composed import Task
from common.local.hypotheses.rules import FeatureSet, FlippedParity, Parity
from common.local.mechanisms.frequency import FrequencyOracle, HadamardResponse
from common.local.mechanisms.mechanism import BitMechanism
from common.local.queries.features import CodeQuery, CoordinateQuery, ItemQuery
from common.local.queries.query import Answers, AskAgents, LossQuery
from common.operations.operation import BlockParities, Learn, LearnParities
from common.protocols.base import AskCurator, AskTogether, Progress
from common.protocols.parities import (
    Both,
    OneOfManyParities,
    ParityAndThreshold,
    ParityChoosesSecret,
    ParityXorThreshold,
    Piecewise,
    Secret,
    WantedParity,
    number_of,
    shape,
    surveyed,
)
from common.scenario.scenario import ResolvedScenario
from common.statistics.cdf import Quantile, estimate_cdf, find_quantile, ladder
from common.statistics.frequency import likeliest_parity, reports, signed_shares
from referee.protocols.asking import (
    EstimatePlan,
    Finding,
    ask,
    ask_coded,
    ask_together,
    at_once,
    estimate_mean,
    learn_parity,
    parity_of,
)
from referee.protocols.base import AS_PLANNED, BY_NORMAL_LAW, PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Script


@PROTOCOLS.register("parity-and-threshold")
class ParityAndThresholdProtocol(ProblemProtocol[ParityAndThreshold]):
    """Learn a parity and a threshold, one on each side: Appendix A of "The power of synergy" (Beimel et al. 2019).

    The curator learns the parity (KLNRS, pure epsilon); no message to it depends on an agent, nor the other way round.
    The agents learn the threshold in rounds. As a threshold function is 1 from t on, it is 0 for exactly the share F(t)
    of people: a first batch estimates that share, and fresh agents find the quantile of y at that share by noisy binary
    search. (The paper's protocol finds all quantiles and then the first bin of ones, which takes 4/alpha searches.)

    *Without interaction* (``problem.interactive=false``): three questions leave at once, for the parity, for the
    distribution function of y at all thresholds, and for that share; the quantile is read off.
    """

    done = (
        "a parity and a threshold; with probability {sure} at least the parity is right and the threshold is off by a "
        f"share of {{alpha}} at most, {AS_PLANNED}"
    )
    kind = ParityAndThreshold
    small = (
        {"name": "parity-and-threshold", "c": 4, "b": 6, "secret": [1, 2], "threshold": 20},
        "problem.c=4",
        "problem.b=6",
        "alpha=0.4",
        "agents.mechanism.epsilon=2",
    )

    def asks(self, scenario: ResolvedScenario) -> frozenset[str]:
        return frozenset({"coordinate", "threshold"} if self.plan(scenario).problem.interactive else {"item"})

    def both_sides(self, plan: ProblemPlan[ParityAndThreshold], public: int) -> Script:
        problem = plan.problem
        if not problem.interactive:
            return (yield from _all_at_once(plan, public))
        learned, (survey_answers,) = yield from ask_together(_learn_one(problem), _survey_threshold(plan))
        return (yield from _find_threshold(plan, parity_of(learned, problem.c), survey_answers))

    def curator_alone(self, plan: ProblemPlan[ParityAndThreshold], public: int) -> Script:
        """Have the curator spend its budget on learning the parity; the threshold is guessed as half of the range.

        With pure privacy, a threshold of b bits takes of order b/(alpha epsilon) further people.
        """
        problem = plan.problem
        parity = yield from learn_parity(Task(features=problem.c))
        return _end_with_both(parity, 1 << (problem.b - 1), "the threshold is a guess")

    def agents_alone(self, plan: ProblemPlan[ParityAndThreshold], public: int) -> Script:
        problem = plan.problem
        if not problem.interactive:
            raise BadScenario("without interaction: both sides are asked, leave out alone")
        question = _survey_threshold(plan)
        parity = yield from _search_parity(problem.c, plan.count // 2, public)
        survey_answers: Answers = yield question
        return (yield from _find_threshold(plan, parity, survey_answers))


def _search_parity(
    c: int, count: int, public: int, sign: int | Literal["label"] = "label"
) -> Generator[AskAgents, Answers, Parity]:
    """Search with ``count`` agents for the parity of x that most often equals ``sign``; of 63 features at most."""
    width = min(c, 63)
    search = yield from ask_coded(CodeQuery(first=0, bits=width, sign=sign, public=public), count)
    number = likeliest_parity(search)
    return Parity(features=tuple(i for i in range(width) if number >> (width - 1 - i) & 1))


def _learn_one(problem: ParityAndThreshold) -> Learn:
    return Learn(round=1, task=Task(features=problem.c))


def _survey_threshold(plan: ProblemPlan[ParityAndThreshold]) -> AskAgents:
    problem = plan.problem
    count = surveyed(plan.bits.truth, plan.alpha, plan.beta)
    return AskAgents(CoordinateQuery(first=problem.c + problem.b), count)


def _find_threshold(plan: ProblemPlan[ParityAndThreshold], parity: Parity | None, survey_answers: Answers) -> Script:
    quantile = yield from _search_threshold(plan, plan.beta, survey_answers)
    asked = survey_answers.asked + quantile.asked
    reason = f"{asked:,} agents were asked about {quantile.thresholds} thresholds"
    return _end_with_both(parity, quantile.first, reason)


def _search_threshold(
    plan: ProblemPlan[ParityAndThreshold] | ProblemPlan[ParityXorThreshold], beta: float, survey_answers: Answers
) -> Generator[AskAgents | Progress, Any, Quantile]:
    """Return the quantile of y at the share of people below the threshold, as the survey estimates it."""
    mechanism, tolerance = plan.bits, plan.alpha / 4.0
    below = 1.0 - float(mechanism.unbias(survey_answers.values).mean()) if len(survey_answers.values) else 0.5
    edge = 1.01 * tolerance
    share = min(max(below, edge), 1.0 - edge)
    yield Progress(f"{share:.3f} of people are below the threshold", {})
    c, b = plan.problem.c, plan.problem.b
    return (yield from find_quantile(mechanism, b, share, tolerance, beta / 4.0, feature=c))


def _end_with_both(parity: Parity | None, threshold: int, reason: str) -> Outcome:
    if parity is None:
        answer = Both(features=None, threshold=threshold)
        return Outcome("exhausted", 1, answer, None, "no block of the curator answered")
    return Outcome("done", 1, Both(features=parity.features, threshold=threshold), None, reason)


def _all_at_once(plan: ProblemPlan[ParityAndThreshold], public: int) -> Generator[AskTogether, Any, Outcome]:
    problem = plan.problem
    oracle, count = plan.mechanism, plan.count
    if not isinstance(oracle, HadamardResponse):
        raise BadScenario("without interaction: agents are asked with the mechanism hadamard")
    values = ItemQuery(first=problem.c, bits=problem.b, prefixes=ladder(problem.b), public=public)
    above = ItemQuery(first=problem.c + problem.b, bits=1, public=public + 1)
    first = surveyed(oracle.truth, plan.alpha, plan.beta)
    learned, (survey_answers, ones) = yield from ask_together(
        _learn_one(problem), AskAgents(values, at_once(count - first)), AskAgents(above, first)
    )
    cuts = problem.cuts(plan.alpha)
    quantiles = estimate_cdf(values, oracle, survey_answers, cuts).cuts
    reports_above = reports(above, ones)
    supports = reports_above.supports(oracle, np.zeros(1, dtype=np.uint64))
    below = float(oracle.shares(supports, len(reports_above), above.domain)[0])
    place = min(max(round(below * (cuts + 1)) - 1, 0), cuts - 1)
    reason = f"{survey_answers.asked + ones.asked:,} agents were asked at once"
    return _end_with_both(parity_of(learned, problem.c), int(quantiles[place]), reason)


Pieces = tuple[FeatureSet | None, ...]  # the parity of each block, None where no part answered


@PROTOCOLS.register("parity-xor-threshold")
class ParityXorThresholdProtocol(ProblemProtocol[ParityXorThreshold]):
    """Learn the sum of a parity and a threshold: Lemma 3.3 of "The power of synergy" (Beimel et al. 2019).

    There is one step, in which every message leaves before any arrives. The curator sorts its people by y, divides them
    into K blocks, and learns a parity of (x, 1) in each (KLNRS at epsilon/K): on all blocks but the one with the
    threshold the threshold is constant, and the label a parity of (x, 1). The agents report prefixes of y through a
    frequency oracle; from these the referee estimates the K - 1 quantiles of y, at which the blocks end.

    *With interaction* (``problem.interactive``; Section 1.1): two blocks. Given the parity of x that is right in one
    half of the people, the sum of an agent's label and that parity depends on the threshold alone: agents search for it
    in rounds. If both halves have a parity, both are tried, and the one with less loss among fresh agents is kept.
    """

    done = (
        "parities between thresholds; with probability {sure} at least they err on a share of {alpha} at most, "
        + AS_PLANNED
    )
    kind = ParityXorThreshold
    small = (
        {"name": "parity-xor-threshold", "c": 4, "b": 6, "secret": [1, 2], "threshold": 20},
        "problem.c=4",
        "problem.b=6",
        "problem.blocks=4",
        "alpha=0.45",
        "agents.mechanism.epsilon=5",
    )

    def asks(self, scenario: ResolvedScenario) -> frozenset[str]:
        return frozenset({"loss", "threshold"} if self.plan(scenario).problem.interactive else {"item"})

    def both_sides(self, plan: ProblemPlan[ParityXorThreshold], public: int) -> Script:
        if plan.problem.interactive:
            parities = [piece for piece in _voted((yield from ask(_learn_blocks(plan)))) if piece is not None]
            return (yield from _try_parities(plan, parities))
        problem, oracle = plan.problem, plan.oracle("hadamard")
        query = _prefixes(problem, public)
        question = AskAgents(query, at_once(plan.count))
        learned, (answers,) = yield from ask_together(_learn_blocks(plan), question)
        return _pieced_together(problem, _voted(learned), query, oracle, answers)

    def curator_alone(self, plan: ProblemPlan[ParityXorThreshold], public: int) -> Script:
        problem = plan.problem
        pieces = _voted((yield from ask(_learn_blocks(plan))))
        cuts = tuple((number << problem.b) // problem.blocks for number in range(1, problem.blocks))
        return Outcome("done", 1, Piecewise(cuts=cuts, pieces=pieces), None, "the agents are left out")

    def agents_alone(self, plan: ProblemPlan[ParityXorThreshold], public: int) -> Script:
        if plan.problem.interactive:
            parity = yield from _search_parity(plan.problem.c, plan.count // 2, public)
            return (yield from _try_parities(plan, [parity.features]))
        problem, oracle = plan.problem, plan.oracle("hadamard")
        query = _prefixes(problem, public)
        answers: Answers = yield AskAgents(query, at_once(plan.count))
        return _pieced_together(problem, ((problem.c,),) * problem.blocks, query, oracle, answers)


def _try_parities(plan: ProblemPlan[ParityXorThreshold], parities: list[FeatureSet]) -> Script:
    """End with the better of some parities of (x, 1), each of which flips at the threshold that a search finds for it.

    A survey estimates how many people's label is not the parity of x, the search finds where y has that quantile, and
    fresh agents estimate how often the result is wrong.
    """
    problem, beta = plan.problem, plan.beta / 2.0
    count = at_once(surveyed(plan.bits.truth, plan.alpha, beta), alike=True)
    different = dict.fromkeys(tuple(feature for feature in parity if feature < problem.c) for parity in parities)
    candidates: list[tuple[FlippedParity, Finding]] = []
    for features in different:
        answers: Answers = yield AskAgents(LossQuery(hypothesis=Parity(features=features)), count)
        quantile = yield from _search_threshold(plan, beta, answers)
        flipped = FlippedParity(features=features, first=problem.c, bits=problem.b, threshold=quantile.first)
        loss, answering = LossQuery(hypothesis=flipped), EstimatePlan(plan.bits, plan.beta)
        tested = yield from estimate_mean(loss, answering, count, len(different))
        candidates.append((flipped, tested))
        yield Progress(f"a parity of {len(features)} features errs on {tested.estimate.value:.3f}", {})
    if not candidates:
        return Outcome("exhausted", 1, Piecewise(cuts=(), pieces=(None,)), None, "no block of the curator answered")
    best, finding = min(candidates, key=lambda pair: pair[1].estimate.value)
    # Below the threshold it is the parity, and from there on the parity and the constant.
    answer = Piecewise(cuts=(best.threshold,), pieces=(best.features, (*best.features, best.first)))
    return Outcome("done", 1, answer, finding.estimate, f"parities of halves that were tried: {len(candidates)}")


def _learn_blocks(plan: ProblemPlan[ParityXorThreshold]) -> LearnParities:
    problem, epsilon = plan.problem, plan.share
    parts, _ = shape(problem, epsilon, plan.beta / 2.0)
    return LearnParities(
        features=problem.c,
        first=problem.c,
        bits=problem.b,
        blocks=problem.blocks,
        parts=parts,
        epsilon=epsilon,
        rule=problem.rule,
    )


def _voted(learned: BlockParities) -> Pieces:
    """Return the most frequent answer of each block, the earliest one if several are as frequent."""
    votes = [Counter(answer for answer in block if answer is not None) for block in zip(*learned.parities, strict=True)]
    return tuple(vote.most_common(1)[0][0] if vote else None for vote in votes)


def _prefixes(problem: ParityXorThreshold, public: int) -> ItemQuery:
    return ItemQuery(first=problem.c, bits=problem.b, prefixes=ladder(problem.b), public=public)


def _pieced_together(
    problem: ParityXorThreshold, pieces: Pieces, query: ItemQuery, oracle: FrequencyOracle, answers: Answers
) -> Outcome:
    """End with a parity between any two quantiles of y, which are estimated from reports of its prefixes."""
    cuts = np.sort(estimate_cdf(query, oracle, answers, problem.blocks - 1).cuts).tolist()
    reason = f"{answers.asked:,} agents say where the blocks end"
    return Outcome("done", 1, Piecewise(cuts=tuple(cuts), pieces=pieces), None, reason)


@PROTOCOLS.register("parity-chooses-secret")
class ParityChoosesSecretProtocol(ProblemProtocol[ParityChoosesSecret]):
    """Find the secret that a parity names: Lemma 5.2 of "The power of synergy" (Beimel et al. 2019).

    The curator learns r from x and <x, r> (KLNRS, pure epsilon); the referee passes it on; each agent then reports one
    randomized bit about its share s_{r,t} of the secret that r names: <row, t> + s_{r,t}, Hadamard response with a
    sign. From these the referee decides every share, and adds the shares up. An agent's answer is epsilon-DP whatever r
    the referee sends, so also if the referee is malicious.
    """

    done = f"a secret; {BY_NORMAL_LAW}it is right with a probability of about {{sure}} {AS_PLANNED}"
    kind = ParityChoosesSecret
    small = (
        {"name": "parity-chooses-secret", "c": 3, "shares": 5, "secret": [0, 2]},
        "problem.c=3",
        "problem.shares=5",
    )

    def both_sides(self, plan: ProblemPlan[ParityChoosesSecret], public: int) -> Script:
        which = yield from _find_secret(plan.problem)
        if which is None:
            return _none_answered(public)
        return (yield from _release_secret(plan.problem, plan.bits, which, plan.count, public))

    def curator_alone(self, plan: ProblemPlan[ParityChoosesSecret], public: int) -> Script:
        """Have the curator learn r, and guess the answer.

        It has fewer people than there are shares: it knows nothing about the secret, even without privacy.
        """
        which = yield from _find_secret(plan.problem)
        if which is None:
            return _none_answered(public)
        return Outcome("done", 1, Secret(which=which, bit=public & 1), None, "guessed: a share is missing")

    def agents_alone(self, plan: ProblemPlan[ParityChoosesSecret], public: int) -> Script:
        """Search for r with half of the agents, which takes 2^c times as many (Lemma 5.2's lower bound).

        The other half reports the shares of the secret that was found.
        """
        problem, count = plan.problem, plan.count
        search = yield from ask_coded(CodeQuery(first=0, bits=problem.c, sign="label", public=public), count // 2)
        which = likeliest_parity(search)
        yield Progress(f"secret {which} is wanted", {})
        return (yield from _release_secret(problem, plan.bits, which, count - count // 2, public))


def _find_secret(problem: ParityChoosesSecret) -> Generator[AskCurator | Progress, Any, int | None]:
    parity = yield from learn_parity(Task(features=problem.c))
    if parity is None:
        return None
    which = number_of(parity.features, problem.c)
    yield Progress(f"secret {which} is wanted", {})
    return which


def _release_secret(
    problem: ParityChoosesSecret, mechanism: BitMechanism, which: int, count: int, public: int
) -> Generator[AskAgents, Any, Outcome]:
    sign = problem.c + problem.share_bits + which
    asked = yield from ask_coded(CodeQuery(first=problem.c, bits=problem.share_bits, sign=sign, public=public), count)
    shares = signed_shares(asked, mechanism)[: problem.shares]
    bit = int(np.count_nonzero(shares < 0.0) & 1)
    reason = f"{problem.shares} shares from {sum(answers.asked for _, answers in asked):,} agents"
    return Outcome("done", 1, Secret(which=which, bit=bit), None, reason)


def _none_answered(public: int) -> Outcome:
    return Outcome("exhausted", 1, Secret(which=0, bit=public & 1), None, "no block of the curator answered")


@PROTOCOLS.register("one-of-many-parities")
class OneOfManyParitiesProtocol(ProblemProtocol[OneOfManyParities]):
    """Find the parity that a secret names: Lemma 4.2 of "The power of synergy" (Beimel et al. 2019).

    Each agent reports one randomized bit about (t, s_t), by Hadamard response; those who hold no share answer with a
    fair coin, randomized like any other. For every t the referee takes the s with the largest estimate, adds these up,
    and asks the curator to learn the parity with that number (KLNRS, pure epsilon): records of shares give 0 = 0.
    """

    done = f"a parity; {BY_NORMAL_LAW}it is the wanted one with a probability of about {{sure}} {AS_PLANNED}"
    kind = OneOfManyParities
    small = (
        {"name": "one-of-many-parities", "c": 4, "d": 2, "shares": 5},
        "problem.c=4",
        "problem.d=2",
        "problem.shares=5",
    )

    def both_sides(self, plan: ProblemPlan[OneOfManyParities], public: int) -> Script:
        which = yield from find_wanted(plan, plan.count, public)
        return (yield from _learn_wanted(plan.problem, which))

    def curator_alone(self, plan: ProblemPlan[OneOfManyParities], public: int) -> Script:
        """Have the curator learn one parity at random.

        It has fewer people than there are shares, so it knows nothing about which parity is wanted, even without
        privacy, and its privacy budget does not suffice to learn all parities.
        """
        return (yield from _learn_wanted(plan.problem, public % (1 << plan.problem.d)))

    def agents_alone(self, plan: ProblemPlan[OneOfManyParities], public: int) -> Script:
        problem, count = plan.problem, plan.count
        which = yield from find_wanted(plan, count // 2, public)
        parity = yield from _search_parity(problem.c, count - count // 2, public, problem.c + which)
        answer = WantedParity(which=which, features=parity.features)
        return Outcome("done", 1, answer, None, "searched by the agents")


def find_wanted(
    plan: ProblemPlan[OneOfManyParities], count: int, public: int
) -> Generator[AskAgents | Progress, Any, int]:
    """Ask ``count`` agents for the shares of the wanted parity's number, and add up the likeliest values."""
    problem = plan.problem
    begin = problem.c + (1 << problem.d)
    bits = problem.share_bits + problem.d
    asked = yield from ask_coded(CodeQuery(first=begin + 1, bits=bits, present=begin, public=public), count)
    shares = signed_shares(asked, plan.bits).reshape(-1, 1 << problem.d)[: problem.shares]
    which = int(np.bitwise_xor.reduce(np.argmax(shares, axis=1)))
    count_asked = sum(answers.asked for _, answers in asked)
    yield Progress(f"{count_asked:,} agents say that parity {which} is wanted", {})
    return which


def _learn_wanted(problem: OneOfManyParities, which: int) -> Generator[AskCurator, Any, Outcome]:
    parity = yield from learn_parity(Task(features=problem.c, label=problem.c + which))
    answer = WantedParity(which=which, features=None if parity is None else parity.features)
    if parity is None:
        return Outcome("exhausted", 1, answer, None, "no block of the curator answered")
    return Outcome("done", 1, answer, None, f"parity {which} was learned")
