"""The plan of a scenario: every number it needs, by the paper's formulas or by tighter ones, with its source."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from common.core.errors import BadInput, BadScenario, BudgetExceeded
from common.core.values import PLAN, Value
from common.learners.base import LearnerSettings, PlanRequest, PlanTask
from common.operations.operation import LEAST_MU
from common.protocols import portfolio
from common.protocols.base import Problem, demands_of
from common.protocols.portfolio import Portfolio, Roles
from common.scenario import forecasting
from common.scenario.scenario import ResolvedScenario, Scenario, filled, settled
from common.statistics import evidence, finalists, formulas
from common.statistics.formulas import CORRECTIONS, PAPER, PlannedValue, fixed, follow

Bounds = Literal["paper", "tight"]
TANDEM = "referee/protocols"
_EXACT = "docs/statistics.md"
DISCREPANCY = "docs/discrepancy.md"
RIVALS = 3  # what agents alone learn, and both constants

CLEAR_LOSS = 0.5  # the loss on T at which a plan quotes the sequential test's usual number of answers


class Plan(Value):
    """Every number of a run; None where it does not apply.

    Attributes:
        rounds: T, the largest number of learner calls.
        kappa, eta: Density and step of multiplicative weights.
        sample: The n that the accuracy requires (Lemma 3.2, or the learner's own).
        n: Curator's sample size: the larger of ``sample`` and what the privacy budget requires.
        learner: The learner's settings, without any ``plan``.
        settings: The planned ones among them, by name.
        answers, answers_clear: Answers per round: at most (reserved), and about how many if the loss on T is 1/2.
        agents: Agents to enrol.
    """

    bounds: Bounds
    rounds: PlannedValue
    kappa: PlannedValue | None
    eta: PlannedValue
    sample: PlannedValue
    n: PlannedValue
    learner: dict[str, Any]
    settings: dict[str, PlannedValue]
    answers: PlannedValue
    answers_clear: PlannedValue
    agents: PlannedValue

    @property
    def numbers(self) -> dict[str, PlannedValue]:
        """All of them by name, in the order of the fields, including the planned settings."""
        numbers: dict[str, PlannedValue] = {}
        for name, value in self:
            numbers |= {name: value} if isinstance(value, PlannedValue) else self.settings if name == "settings" else {}
        return numbers


class PlanRow(Value):
    """One row of the comparison: a name, both values, and their sources."""

    name: str
    paper: float | None
    tight: float | None
    paper_source: str
    tight_source: str


def plan(scenario: Scenario, bounds: Bounds | None = None) -> Plan:
    """Plan a scenario: keep the numbers that it gives, and derive those that it leaves at ``plan``.

    Failure probability: beta each for the sample, the learner's calls, and the tests (1 - 3 beta in all, Theorem 4.3).
    BadScenario if a number left at ``plan`` has no value: no gap, levels that no test separates, a budget that nothing
    fits.
    """
    with _refusing():
        return _plan(scenario, (bounds or scenario.bounds) == "paper")


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (BadInput, BudgetExceeded) as error:
        raise error if isinstance(error, BadScenario) else BadScenario(error.detail) from None
    except ArithmeticError:
        raise BadScenario("a number of the scenario is so small, or so large, that what follows is no double") from None


def resolve(scenario: Scenario, figures: Plan | None = None) -> ResolvedScenario:
    """Return the scenario with every ``plan`` replaced by its number; errors are those of :func:`plan`.

    ``figures`` is what :func:`plan` returns for the scenario, if known: computing it is slow.
    """
    if not scenario.anything_open:
        return settled(scenario)
    if scenario.problem is not None:
        return _resolve_problem(scenario, scenario.problem)
    figures = figures or plan(scenario)
    return filled(
        scenario,
        n=int(figures.n.value),
        kappa=None if figures.kappa is None else figures.kappa.value,
        eta=figures.eta.value,
        rounds=int(figures.rounds.value),
        learner=figures.learner,
        agents=int(figures.agents.value),
    )


def rows(paper: dict[str, PlannedValue], tight: dict[str, PlannedValue]) -> tuple[PlanRow, ...]:
    """Pair the numbers of both plans, one row per number, in their order."""

    def cells(figure: PlannedValue | None) -> tuple[float | None, str]:
        return (None, "") if figure is None else (figure.value, f"{figure.formula} ({figure.source})")

    pairs = [(name, *cells(paper.get(name)), *cells(tight.get(name))) for name in paper | tight]
    return tuple(
        PlanRow(name=name, paper=paper_value, tight=tight_value, paper_source=paper_source, tight_source=tight_source)
        for name, paper_value, paper_source, tight_value, tight_source in pairs
    )


def _plan(scenario: Scenario, paper: bool) -> Plan:
    settings, request, demands = scenario.curator.settings, _request(scenario, paper), demands_of(scenario.protocol)
    usual = _rounds(scenario, paper) if demands.reweighs else _one_round(scenario.curator.rounds)
    rounds = settings.planned_rounds(request) or usual
    calls = int(rounds.value)
    kappa, eta = _weights(scenario, paper, calls)
    sample = settings.planned_sample(request) or (
        _lemma(scenario, paper)
        if demands.reweighs
        else fixed(1, "any: the agents tell what the answer is worth", TANDEM)
    )
    task = PlanTask(
        **vars(request),
        rounds=calls,
        kappa=None if kappa is None else kappa.value,
        eta=eta.value,
        sample=int(sample.value),
        before=len(scenario.handed_over),
        beside=[(event, 1) for event in scenario.planned_margins],
    )
    learner, n = settings.plan(task)
    if scenario.curator.n == PLAN and n.value < 2:
        raise BadScenario(
            f"curator.n: give it: a call of the learner {learner.name!r} costs each person the same whatever n is, and "
            "no theorem says how many people its model takes"
        )
    values = learner.planned_values(task, settings)
    if scenario.agents.tests_convex:
        values["bound"] = _bound(scenario, learner)
    if (alone := _alone(scenario, paper)) is not None:
        values["alone"] = alone
    if demands.portfolio:
        check_portfolio(scenario, calls)
        answers, agents, values["gap"] = _portfolio_sizes(scenario)
        clear = None
    else:
        answers, clear = _answers(scenario, paper, calls)
        agents = follow(
            scenario.agents.count,
            lambda: formulas.enrolled(calls * int(answers.value), scenario.agents.dropout),
            "T * answers a round, and more for dropout",
            PAPER + "Algorithm 2",
        )
    return Plan(
        bounds="paper" if paper else "tight",
        rounds=rounds,
        kappa=kappa,
        eta=eta,
        sample=sample,
        n=n,
        learner=learner.as_written,
        settings=values,
        answers=answers,
        answers_clear=clear or answers,
        agents=agents,
    )


def _bound(scenario: Scenario, learner: LearnerSettings) -> PlannedValue:
    """Return the bound of the tested loss, beside the least bound on the losses of the learner's class."""
    norm = max(scenario.source.norm, scenario.target.norm)
    least = learner.greatest_loss(norm, scenario.source.dimension)
    rule = least if math.isfinite(least) else None
    text = f"given; losses of the learner's class on records of norm {norm:g}, what is above counts as the bound"
    return PlannedValue(value=scenario.agents.bound, rule=rule, formula=text, source=CORRECTIONS + "K1")


def _alone(scenario: Scenario, paper: bool) -> PlannedValue | None:
    """Return how many people the curator alone needs for the same accuracy on T; None if no class is known.

    A model that errs on at most a of S errs on at most :func:`common.statistics.formulas.largest_loss_on_target` of T.
    Without privacy so many people of S suffice to learn within a, if some model of the class never errs on S.
    """
    demands, size = demands_of(scenario.protocol), scenario.vc_dimension or scenario.hypotheses
    if not (demands.reweighs and demands.claims) or scenario.mode != "realizable" or not size:
        return None
    x, supremum = scenario.divergence.chi_squared, scenario.divergence.supremum or math.inf
    level = scenario.alpha * (1.0 if paper else scenario.accuracy.halt_below)
    if paper:
        error, text = max(level / supremum, level**2 / x), "max(alpha/D_inf, alpha^2/X)"
    else:
        error, text = formulas.loss_on_source(level, x, supremum), "the largest that is below the level on T"
    if scenario.vc_dimension:
        people = formulas.consistent_sample(error, scenario.beta, scenario.vc_dimension)
    else:
        people = math.ceil(math.log(size / scenario.beta) / error)
    return fixed(people, f"err_S <= {error:.3g} = {text}; realizable, without privacy", PAPER + "Section 1")


def _request(scenario: Scenario, paper: bool) -> PlanRequest:
    curator, divergence, convex = scenario.curator, scenario.divergence, scenario.agents.tests_convex
    return PlanRequest(
        paper=paper,
        alpha=scenario.alpha,
        beta=scenario.beta,
        accuracy=scenario.accuracy.learner * scenario.alpha * (scenario.agents.bound if convex else 1.0),
        dimension=scenario.source.dimension,
        chi_squared=divergence.chi_squared,
        supremum=divergence.supremum,
        vc_dimension=scenario.vc_dimension,
        hypotheses=scenario.hypotheses,
        epsilon=curator.epsilon,
        delta=curator.delta,
        given_n=curator.n,
        given_rounds=curator.rounds,
        agnostic=scenario.mode == "agnostic",
    )


def _lemma(scenario: Scenario, paper: bool) -> PlannedValue:
    # The n of Lemma 3.2: the weights concentrate, and no hypothesis is understated by more than alpha/4.
    alpha, beta, x = scenario.alpha, scenario.beta, scenario.divergence.chi_squared
    dimension, hypotheses = scenario.vc_dimension, scenario.hypotheses
    if paper:
        size = dimension or (math.log2(hypotheses) if hypotheses and hypotheses > 1 else 1.0)
        text = "max(150 X ln(4/beta), 800 X ln(1/alpha) (d ln(400 d/alpha^3) + ln(8/beta)))/alpha^2"
        return fixed(formulas.paper_sample(alpha, beta, x, size), text, PAPER + "Lemma 3.2")
    value, text = formulas.sample_weights(alpha, beta, x), "150 X ln(6/beta)/alpha^2"
    bounds = []
    if hypotheses:
        bounds.append((formulas.sample_finite(alpha, beta, x, hypotheses), "32 X ln(2|H|/beta)/alpha^2"))
    if dimension:
        uniform = formulas.sample_uniform(alpha, beta, x, dimension)
        bounds.append((uniform, "(4/alpha'^2)(p ln(2en/p) + ln(8/beta))"))
    if bounds:
        least, name = min(bounds)
        value, text = max(value, least), f"max({text}, {name})"
    else:
        text += " only: neither vc_dimension nor hypotheses is given"
    return fixed(value, text, CORRECTIONS + "sample size")


def _weights(scenario: Scenario, paper: bool, calls: int) -> tuple[PlannedValue | None, PlannedValue]:
    demands, curator = demands_of(scenario.protocol), scenario.curator
    if demands.portfolio:
        text = "the sample is not reweighed"
        return follow(curator.kappa or PLAN, lambda: 1.0, text, portfolio.SOURCE), _one_round(curator.eta)
    eta = _eta(scenario, paper, calls) if demands.reweighs else _one_round(curator.eta)
    return None if curator.kappa is None else _kappa(scenario, paper), eta


def _one_round(setting: Any) -> PlannedValue:
    return follow(setting, lambda: 1, "the curator learns once, nothing is reweighed", TANDEM)


def _rounds(scenario: Scenario, paper: bool) -> PlannedValue:
    alpha, x = scenario.alpha, scenario.divergence.chi_squared
    further = max(0, len(scenario.tasks) - 1)  # a task that starts from earlier weights: docs/hand-over.md
    if paper:
        text, source = "128 log_2(8 X/alpha)/alpha^2", PAPER + "Algorithm 2"
        return follow(scenario.curator.rounds, lambda: formulas.paper_rounds(alpha, x) + further, text, source)
    entropy = formulas.entropy(alpha, *scenario.divergence.known)
    rounded = " - 1/1024, as losses are rounded" if scenario.rounding else ""
    pairs = demands_of(scenario.protocol).pairs
    g = f"g = (reweigh_above - learner) alpha - slack{rounded}"
    if pairs:
        g = "g = ((reweigh_above - learner) alpha - both slacks)/2"
    return follow(
        scenario.curator.rounds,
        lambda: formulas.rounds(entropy, _gap(scenario)) + further,
        f"floor(K/(2 g^2)) + {1 + further}, {g}",
        DISCREPANCY if pairs else CORRECTIONS + "multiplicative weights",
    )


def _gap(scenario: Scenario) -> float:
    alpha, accuracy = scenario.alpha, scenario.accuracy
    truncated = formulas.density(alpha, *scenario.divergence.known).truncated
    if demands_of(scenario.protocol).pairs:
        return formulas.pair_gap(alpha, accuracy.learner, accuracy.reweigh_above, truncated)
    return formulas.gap(alpha, accuracy.learner, accuracy.reweigh_above, truncated) - scenario.rounding


def _kappa(scenario: Scenario, paper: bool) -> PlannedValue:
    alpha, divergence, kappa = scenario.alpha, scenario.divergence, scenario.curator.kappa
    if paper:
        text, source = "alpha/(8 X)", PAPER + "Algorithm 2"
        return follow(kappa, lambda: alpha / (8.0 * divergence.chi_squared), text, source)
    dense = formulas.density(alpha, *divergence.known)
    texts = {2.0: "(1 - 3 alpha/8) alpha/X", math.inf: "(1 - alpha/8)/D_inf"}
    if dense.order in texts:
        return follow(kappa, lambda: dense.kappa, texts[dense.order], CORRECTIONS + "multiplicative weights")
    return follow(kappa, lambda: dense.kappa, f"(1 - 3 alpha/8)/tau_{dense.order:g}", "common/statistics/formulas.py")


def _eta(scenario: Scenario, paper: bool, rounds: int) -> PlannedValue:
    alpha, eta = scenario.alpha, scenario.curator.eta
    if paper:
        return follow(eta, lambda: alpha / 8.0, "alpha/8", PAPER + "Algorithm 2")
    source = CORRECTIONS + "multiplicative weights"
    if not scenario.halts and scenario.curator.rounds != PLAN:
        entropy = formulas.entropy(alpha, *scenario.divergence.known)
        return follow(eta, lambda: math.sqrt(8.0 * entropy / rounds), "sqrt(8 K/T), best for T rounds", source)

    def rule() -> float:
        formulas.rounds(0.0, _gap(scenario))  # refuses a gap that is not positive
        return 4.0 * _gap(scenario)

    return follow(eta, rule, "4 g", source)


def _answers(scenario: Scenario, paper: bool, rounds: int) -> tuple[PlannedValue, PlannedValue | None]:
    """Return the answers per round: at most, and about how many if the loss on T is 1/2 (None: as many)."""
    once = not demands_of(scenario.protocol).reweighs
    mechanism, alpha, beta = scenario.agents.value_mechanism, scenario.alpha, scenario.beta / rounds
    epsilon, mechanism_delta = mechanism.guarantee
    delta = mechanism_delta or scenario.curator.delta
    if not scenario.halts or once:
        error, text = (alpha, "alpha") if once else (alpha / 2.0, "alpha/2")
        if not paper:
            answers = forecasting.answers_within(mechanism, error, beta)
            return fixed(answers, f"half the interval of one look is {text} at most, at a loss of 1/2", _EXACT), None
        rate = evidence.best_rate(mechanism, error)
        gain = rate * error - mechanism.log_mgf(rate)
        return fixed(math.ceil(math.log(2.0 / beta) / gain), f"ln(2T/beta)/psi*({text})", "Chernoff; no test"), None
    if paper and delta and math.isfinite(epsilon):
        n0 = formulas.paper_answers(alpha, scenario.beta, rounds, epsilon, delta)
        return fixed(n0, "4 ln(2/delta) ln(8T/beta)/(eps alpha)^2", PAPER + "Algorithm 2"), None
    low, high = scenario.levels
    if demands_of(scenario.protocol).pairs:
        low, high, beta = (1.0 + low) / 2.0, (1.0 + high) / 2.0, beta / RIVALS
        most = RIVALS * evidence.worst_case(mechanism, low, high, beta)
        text = f"{RIVALS} rivals: (ln({RIVALS} T/beta) + ln(1/w_m))/kl(m, q_low) each, of (1 + difference)/2"
        clear = RIVALS * evidence.typical(mechanism, low, high, beta, CLEAR_LOSS)
        return fixed(most, text, DISCREPANCY), fixed(clear, "about, if no loss differs", DISCREPANCY)
    if scenario.agents.test == "fixed":
        return fixed(evidence.fixed_size(mechanism, low, high, beta), "ln(T/beta)/kl(m, q_low)", "Chernoff"), None
    source = CORRECTIONS + "sequential test"
    return (
        fixed(evidence.worst_case(mechanism, low, high, beta), "(ln(T/beta) + ln(1/w_m))/kl(m, q_low)", source),
        fixed(evidence.typical(mechanism, low, high, beta, CLEAR_LOSS), "about, if the loss on T is 1/2", source),
    )


def planned_values(scenario: Scenario, problem: Problem, paper: bool) -> dict[str, PlannedValue]:
    """Return the problem's plan; BadScenario says why if there is none."""
    with _refusing():
        return problem.plan(scenario.plan_inputs, paper)


def _resolve_problem(scenario: Scenario, problem: Problem) -> ResolvedScenario:
    """Fill in the numbers of a problem's plan; refuse a setting that cannot be planned.

    A side that is left out has one agent, or the planned sample; it is never asked.
    """
    curator = scenario.curator
    learner = None if curator.learner is None else curator.learner.as_written
    open_keys = [key for key, value in (learner or {}).items() if value == PLAN]
    figures = planned_values(scenario, problem, scenario.bounds == "paper")
    for key in open_keys:
        if key not in figures:
            raise BadScenario(f"curator.learner.{key} cannot be left at plan for the problem {problem.name}")
    releases = problem.releases.get(scenario.alone, 1)
    return filled(
        scenario,
        n=int(figures["n"].value),
        kappa=None if curator.kappa == PLAN else curator.kappa,
        eta=1.0 if curator.eta == PLAN else curator.eta,
        rounds=releases if curator.rounds == PLAN else curator.rounds,
        learner=None if learner is None else learner | {key: _plain_number(figures[key].value) for key in open_keys},
        agents=1 if scenario.alone == "curator" else int(figures["agents"].value),
    )


def _plain_number(value: float) -> float:
    return int(value) if value.is_integer() else value


def shortfalls(scenario: Scenario, problem: Problem) -> list[str]:
    """Return which of the scenario's numbers are below what the guarantee requires; a side left out may be any size."""
    absent = {"curator": "agents", "agents": "n"}.get(scenario.alone or "")
    return [
        f"accuracy: {name} = {figure.value:g} is below the {figure.rule:g} of {figure.formula.removeprefix('given; ')}"
        for name, figure in planned_values(scenario, problem, scenario.bounds == "paper").items()
        if name != absent and figure.rule is not None and figure.value < figure.rule
    ]


def check_portfolio(scenario: Scenario, calls: int) -> None:
    """Refuse a portfolio with several learner calls, or with hardly any budget for counting the curator's people."""
    if calls > 1:
        raise BadScenario(
            f"curator.rounds: a portfolio has one model, with the whole budget; found {calls}: set it to 1"
        )
    if scenario.planned_margins and scenario.margins_mu < LEAST_MU:
        raise BadScenario(
            f"portfolio.margins: the count of the curator's people has mu = {scenario.margins_mu:g}, none can have "
            f"less than {LEAST_MU:g}: raise margins or curator.epsilon"
        )


def _portfolio_sizes(scenario: Scenario) -> tuple[PlannedValue, PlannedValue, PlannedValue]:
    """Plan the answers of a portfolio's judges, how many agents are enrolled, and the gap that can be stated."""
    settings, agents, mechanism = scenario.portfolio or Portfolio(), scenario.agents, scenario.agents.bit_mechanism
    surveys = demands_of(scenario.protocol).counts
    needed = finalists.judges_needed(mechanism, scenario.alpha, scenario.beta)
    enrolled = follow(
        agents.count,
        lambda: formulas.enrolled(portfolio.enrolled(needed, settings, surveys=surveys), agents.dropout),
        "those who judge and those who teach, and more for dropout",
        portfolio.SOURCE,
    )
    roles = Roles.of(int(enrolled.value), settings)
    answering = math.floor((roles if surveys else roles.unsurveyed).judges * (1.0 - agents.dropout))
    return (
        fixed(needed, "no gap above alpha, unless the rival's estimate is better, if all answer", portfolio.SOURCE),
        enrolled,
        fixed(
            finalists.sure_width(mechanism, answering, scenario.beta),
            "the widest gap, unless the rival's estimate is better, if all answer",
            portfolio.SOURCE,
        ),
    )
