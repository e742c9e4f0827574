"""Whether a scenario can be carried out, as far as public numbers show: every party checks this before it begins."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from common.core.errors import BadInput, BadScenario
from common.core.values import explain
from common.learners.base import SETTINGS, Calls
from common.privacy.budget import MIN_SUPPORT
from common.protocols.base import demands_of, pattern_of
from common.scenario.plan import Plan, check_portfolio, plan, resolve, shortfalls
from common.scenario.scenario import ResolvedScenario, Scenario
from common.statistics import formulas


def accepted(scenario: Scenario) -> ResolvedScenario:
    """Return the resolved scenario if every party can carry out its part, whatever the people's records are.

    What only one party knows (the curator's learners, the referee's protocols) that party checks by itself before it
    begins; :func:`deploy.checking.checked` asks all of them. Every function here refuses by a BadScenario.
    """
    try:
        pattern_of(scenario.protocol, scenario.alone)
    except BadInput as error:
        raise BadScenario(error.detail) from None
    check_real(scenario)
    check_answers(scenario)
    with in_range():
        if scenario.problem is not None and (short := shortfalls(scenario, scenario.problem)):
            raise BadScenario(
                f"{'; '.join(short)}: the guarantee does not hold; take the plan's number or a larger beta"
            )
        resolved = resolve(scenario)
    if demands_of(resolved.protocol).portfolio:
        check_portfolio(resolved, resolved.curator.rounds)
    return resolved


@contextmanager
def in_range() -> Iterator[None]:
    """Refuse a scenario from which an event, a query or an operation with numbers out of its range follows."""
    try:
        yield
    except ValidationError as error:
        raise BadScenario(f"what follows from these numbers is out of range: {error.title}.{explain(error)}") from None


def check_real(scenario: Scenario) -> None:
    """Refuse to ask real people, or to learn from them, without privacy."""
    curator, agents = scenario.curator, scenario.agents
    if scenario.people == "simulated":
        return
    if curator.epsilon is None:
        raise BadScenario("people are real: the curator needs an epsilon and a delta")
    if not math.isfinite(agents.mechanism.guarantee[0]):
        raise BadScenario(f"people are real: mechanism {agents.mechanism.name!r} gives them no privacy")
    if agents.dropout > 0:
        raise BadScenario("dropout is for simulated people only")


def check_answers(scenario: Scenario) -> None:
    """Refuse a mechanism that cannot randomize what the protocol asks agents for, or more answers than it can ask."""
    kind, repeats = demands_of(scenario.protocol).answers, demands_of(scenario.protocol).repeats
    if scenario.agents.answers > 1 and not repeats:
        raise BadScenario(f"agents.answers: the protocol {scenario.protocol!r} asks each agent once: leave it out")
    if kind == "bit":
        _ = scenario.agents.bit_mechanism
    elif kind == "value":
        _ = scenario.agents.value_mechanism


def violations(scenario: Scenario, figures: Plan | None = None) -> list[str]:
    """Return which numbers of the scenario break a bound it relies on, and what to change; empty if none does.

    Each sentence begins with what is affected: ``privacy``, ``accuracy`` or ``agents``. ``figures`` is the scenario's
    plan, if known.
    """
    try:
        if scenario.problem is not None:
            return shortfalls(scenario, scenario.problem)
        figures = figures or plan(scenario)
        resolved = resolve(scenario, figures)
    except BadScenario as error:
        return [f"accuracy: {error.detail}"]
    claimed = demands_of(scenario.protocol).claims and scenario.mode == "realizable"
    theorem = _theorem(scenario, figures) if claimed else []
    if scenario.handed_over:
        theorem.append(
            "accuracy: the run begins with weights of another run: its number of rounds is proven for the same people "
            "and eta, together with those of that run; leave handed_over out for a bound of its own"
        )
    return [*_privacy(resolved), *theorem, *_agents(scenario, figures), *_losses(resolved), *_range(scenario, figures)]


def _privacy(scenario: ResolvedScenario) -> list[str]:
    curator = scenario.curator
    if curator.epsilon is None or curator.delta is None:
        return []
    n, rounds, kappa = curator.n, curator.rounds, curator.kappa
    if kappa is None and curator.settings.reweighs:
        return ["privacy: kappa is null, so one record can have all the weight: give kappa a number or plan"]
    if kappa is not None and not kappa * n > MIN_SUPPORT:
        return [f"privacy: kappa n must be above {MIN_SUPPORT:g}, found {kappa * n:g}: enlarge n or kappa"]
    counts = [(event, 1) for event in scenario.planned_margins]
    calls = Calls(n, kappa, curator.eta, rounds, len(scenario.handed_over))
    if counts and calls.affordable(curator.settings, curator.epsilon, curator.delta, beside=counts):
        return []
    requested = calls.spent(curator.settings, curator.delta)
    if math.isinf(requested):
        return [
            f"privacy: planning knows no guarantee of the learner {curator.settings.name!r} with these settings that "
            f"has a finite epsilon at delta = {curator.delta:g}, and the budget is {curator.epsilon:g}: add noise, "
            f"enlarge n, or lower rounds, steps or draws"
        ]
    if requested <= curator.epsilon:
        if not counts:
            return []
        return [
            f"privacy: {rounds} rounds and {len(counts)} counts of the curator's people cost more together than "
            f"epsilon = {curator.epsilon:g} at delta = {curator.delta:g}: enlarge n, add noise, or lower "
            "portfolio.margins"
        ]
    return [
        f"privacy: {rounds} rounds cost epsilon = {requested:.4g} at delta = {curator.delta:g}, the budget is "
        f"{curator.epsilon:g}: enlarge n, add noise, or lower rounds, steps or draws"
    ]


def _theorem(scenario: Scenario, figures: Plan) -> list[str]:
    broken = []
    if figures.n.value < figures.sample.value:
        broken.append(
            f"accuracy: n = {figures.n.value:g} is below the {figures.sample.value:g} that {figures.sample.formula} "
            "asks for: the good distribution may not exist on this sample; enlarge n or alpha"
        )
    if figures.kappa is not None and figures.kappa.rule is not None and figures.kappa.value > figures.kappa.rule:
        broken.append(
            f"accuracy: kappa = {figures.kappa.value:g} is above {figures.kappa.formula.removeprefix('given; ')} = "
            f"{figures.kappa.rule:g}: the good distribution may be out of reach; lower kappa"
        )
    least = scenario.curator.settings.least
    for name, figure in (("rounds", figures.rounds), *((name, figures.settings[name]) for name in least)):
        if figure.rule is None and name != "rounds":
            broken.append(
                f"accuracy: {name} = {figure.value:g} cannot be checked, {figure.formula.removeprefix('given; ')}"
            )
        elif figure.rule is None:
            broken.append(
                f"accuracy: no number of rounds suffices, {figure.formula.removeprefix('given; ')}: raise "
                "accuracy.reweigh_above or lower accuracy.learner, so that the gap is positive"
            )
        elif figure.value < figure.rule:
            broken.append(
                f"accuracy: {name} = {figure.value:g} is below {figure.formula.removeprefix('given; ')} = "
                f"{figure.rule:g}: enlarge {name} or alpha"
            )
    return broken


def _agents(scenario: Scenario, figures: Plan) -> list[str]:
    if figures.agents.rule is None or figures.agents.value >= figures.agents.rule:
        return []
    demands = demands_of(scenario.protocol)
    if demands.portfolio:
        purpose = "bring the stated gap to alpha unless the rival seems better: the run may state a wider gap"
    elif not demands.reweighs:
        purpose = "tell a loss to within alpha: its interval is wider"
    elif not scenario.halts:
        purpose = "tell every round's loss to within alpha/2: their intervals are wider"
    else:
        purpose = "all rounds may ask in the worst case: the run may end before a level is shown"
    return [
        f"agents: count = {figures.agents.value:g} is below the {figures.agents.rule:g} that {purpose}; enlarge count "
        "or the agents' epsilon"
    ]


def _losses(scenario: ResolvedScenario) -> list[str]:
    agents, learner, demands = scenario.agents, scenario.curator.settings, demands_of(scenario.protocol)
    if agents.loss == "zero-one" or not demands.reweighs or demands.portfolio:
        return []
    if not agents.tests_convex:
        return [
            f"accuracy: agents test the {agents.loss} loss, reweighing goes by mistakes (zero-one), and alpha, "
            "rounds and halt_below are about mistakes: no bound speaks of what is tested; take agents.loss: zero-one, "
            "or agents.reweigh: tested"
        ]
    if learner.surrogate_loss != agents.loss:
        other = learner.surrogate_loss or "no loss that is known"
        return [
            f"accuracy: agents test the {agents.loss} loss, the learner {learner.name} minimises {other}: no bound "
            f"says that it reaches alpha of what is tested; take a learner of the {agents.loss} loss"
        ]
    norm = scenario.source.norm
    steepest = learner.steepest(norm, scenario.source.dimension)
    if steepest <= learner.clipped * (1.0 + 1e-12):
        return []
    long = f"up to {math.ceil(steepest * 1e3) / 1e3:g}" if math.isfinite(steepest) else "any length"
    return [
        f"accuracy: gradients on records of norm {norm:g} are {long} long and clipped to {learner.clipped:g}: the "
        "bound on the learner's loss is for gradients that are not; raise clip"
    ]


def _range(scenario: Scenario, figures: Plan) -> list[str]:
    # The ranges that the paper's own theorems assume.
    if scenario.bounds != "paper":
        return []
    broken = []
    if scenario.alpha > 0.125 or scenario.beta > 0.125:
        broken.append("accuracy: Theorem 4.3 assumes alpha, beta <= 1/8: take bounds: tight, or smaller ones")
    epsilon, delta = scenario.agents.mechanism.guarantee
    delta = delta or scenario.curator.delta or 0.0
    rounds = int(figures.rounds.value)
    if delta and math.isfinite(epsilon) and not formulas.paper_answers_valid(scenario.beta, rounds, epsilon, delta):
        broken.append(
            f"accuracy: the paper's N0 needs (eps^2/2) ln(2T/beta) <= 4 ln(2/delta) ln 4, which is false at "
            f"eps = {epsilon:g}, T = {rounds} (docs/corrections.md, K7): take bounds: tight, or a smaller epsilon"
        )
    theorem, budget = SETTINGS[figures.learner["name"]].paper_limit, scenario.curator.epsilon
    if theorem is not None and budget is not None and budget >= theorem[1]:
        broken.append(
            f"privacy: {theorem[0]} is proven for epsilon < {theorem[1]:g}, found {budget:g}: take bounds: tight"
        )
    return broken
