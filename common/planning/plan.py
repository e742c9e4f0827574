"""The plan of a scenario: every number it needs, by the paper's formulas or by the tighter ones, with its source."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from common.errors import BadInput, BadScenario, BudgetExceeded
from common.planning import evidence, formulas, training
from common.privacy.calibration import sampling_schedule, smallest_n
from common.scenario import Scenario
from common.values import Value

Bounds = Literal["paper", "tight"]

CLEAR_LOSS = 0.5
"""The loss on T at which a plan quotes the sequential test's usual number of answers."""

PAPER = "Kohen & Sheffet, "
ERRATA = "docs/errata.md, "


class Figure(Value):
    """One number of a plan.

    Attributes
    ----------
    value
        What the run uses: the scenario's own number, or the rule's.
    rule
        What the formula asks for; None where it does not apply.
    formula, source
        The formula in ASCII, and where it is proven.
    """

    value: float
    rule: float | None
    formula: str
    source: str


class Plan(Value):
    """Every number of a run; None where it does not apply.

    Attributes
    ----------
    rounds
        T, the most learner calls.
    kappa, eta
        Density and step of multiplicative weights.
    sample
        n that the statistics ask for (Lemma 3.2).
    n
        Curator's sample size: the larger of ``sample`` and what the privacy budget asks for.
    steps, noise
        Gradient descent: R, and sigma/L.
    draws
        Exponential mechanism: m.
    answers, answers_clear
        Answers a round: at most (what is reserved), and about how many if the loss on T is 1/2.
    agents
        Agents to enrol.
    """

    bounds: Bounds
    rounds: Figure
    kappa: Figure | None
    eta: Figure
    sample: Figure
    n: Figure
    steps: Figure | None
    noise: Figure | None
    draws: Figure | None
    answers: Figure
    answers_clear: Figure
    agents: Figure


class Row(Value):
    """One line of the comparison: a name, both values, and where they come from."""

    name: str
    paper: float | None
    tight: float | None
    paper_source: str
    tight_source: str


def plan(scenario: Scenario, bounds: Bounds | None = None) -> Plan:
    """Plan a scenario. What it fixes is kept, what it leaves at ``plan`` follows; the rest is built on both.

    Failure probability: beta each for the sample, the learner's calls, and the tests (1 - 3 beta in all,
    Theorem 4.3).

    Raises
    ------
    BadScenario
        If a number that is left at ``plan`` has no value: no gap, levels that cannot be told apart, a budget
        that nothing fits.
    """
    try:
        return _plan(scenario, (bounds or scenario.bounds) == "paper")
    except (BadInput, BudgetExceeded) as error:
        raise error if isinstance(error, BadScenario) else BadScenario(error.detail) from None


def resolve(scenario: Scenario) -> Scenario:
    """Return the scenario with every ``plan`` replaced by its number; one without any is returned unchanged.

    Raises
    ------
    BadScenario
        As for :func:`plan`.
    """
    curator, agents = scenario.curator, scenario.agents
    open_learner = [key for key, value in curator.learner.items() if value == "plan"]
    open_numbers = "plan" in (curator.n, curator.kappa, curator.eta, curator.rounds, agents.count)
    if not open_learner and not open_numbers:
        return scenario
    found = plan(scenario)
    figures = {"steps": found.steps, "noise": found.noise, "draws": found.draws, "epsilon": None}
    learner: dict[str, Any] = dict(curator.learner)
    for key in open_learner:
        figure = figures.get(key)
        if figure is None and not (key == "epsilon" and learner["name"] == "exponential"):
            raise BadScenario(f"curator.learner.{key} cannot be left at plan for the learner {learner['name']!r}")
        learner[key] = 1.0 if figure is None else figure.value if key == "noise" else int(figure.value)
    return scenario.model_copy(
        update={
            "curator": curator.model_copy(
                update={
                    "n": int(found.n.value),
                    "kappa": None if found.kappa is None else found.kappa.value,
                    "eta": found.eta.value,
                    "rounds": int(found.rounds.value),
                    "learner": learner,
                }
            ),
            "agents": agents.model_copy(update={"count": int(found.agents.value)}),
        }
    )


def rows(paper: Plan, tight: Plan) -> tuple[Row, ...]:
    """Put both plans beside each other, one row a number, in the order of the fields."""
    found = []
    for name in Plan.model_fields:
        one, other = getattr(paper, name), getattr(tight, name)
        if isinstance(one, Figure) or isinstance(other, Figure):
            found.append(
                Row(
                    name=name,
                    paper=None if one is None else one.value,
                    tight=None if other is None else other.value,
                    paper_source="" if one is None else f"{one.formula} ({one.source})",
                    tight_source="" if other is None else f"{other.formula} ({other.source})",
                )
            )
    return tuple(found)


def _figure(given: Any, rule: Callable[[], float], formula: str, source: str) -> Figure:
    if given == "plan":
        value = rule()
        return Figure(value=value, rule=value, formula=formula, source=source)
    try:
        return Figure(value=given, rule=rule(), formula=f"given; {formula}", source=source)
    except (BadInput, BudgetExceeded):
        return Figure(value=given, rule=None, formula=f"given; {formula} does not apply", source=source)


def _plan(scenario: Scenario, paper: bool) -> Plan:
    curator = scenario.curator
    rounds = _rounds(scenario, paper)
    calls = int(rounds.value)
    kappa = None if curator.kappa is None else _kappa(scenario, paper)
    eta = _eta(scenario, paper, calls)
    sample = _sample(scenario, paper)
    dense = None if kappa is None else kappa.value
    n_known = None if curator.n == "plan" else int(curator.n)
    learner = training.complete(scenario, calls, dense, eta.value, n_known, paper)
    n = _n(scenario, paper, learner, calls, dense, eta.value, int(sample.value))
    while paper and curator.n == "plan" and curator.learner.get("noise") == "plan":
        # The paper's sigma depends on n, and n on R, and R on sigma: go round until nothing changes.
        again = training.complete(scenario, calls, dense, eta.value, int(n.value), paper)
        if again == learner:
            break
        learner, n = again, _n(scenario, paper, again, calls, dense, eta.value, int(sample.value))
    answers, clear = _answers(scenario, paper, calls)
    return Plan(
        bounds="paper" if paper else "tight",
        rounds=rounds,
        kappa=kappa,
        eta=eta,
        sample=sample,
        n=n,
        **_learning(scenario, paper, learner, calls),
        answers=answers,
        answers_clear=clear,
        agents=_figure(
            scenario.agents.count,
            lambda: formulas.enrolled(calls * int(answers.value), scenario.agents.dropout),
            "T * answers a round, and more for dropout",
            PAPER + "Algorithm 2",
        ),
    )


def _rounds(scenario: Scenario, paper: bool) -> Figure:
    alpha, x = scenario.alpha, scenario.divergence.chi_squared
    if paper:
        text, source = "128 log_2(8 X/alpha)/alpha^2", PAPER + "Algorithm 2"
        return _figure(scenario.curator.rounds, lambda: formulas.paper_rounds(alpha, x), text, source)
    entropy = formulas.entropy(alpha, x, scenario.divergence.supremum)
    return _figure(
        scenario.curator.rounds,
        lambda: formulas.rounds(entropy, _gap(scenario)),
        "floor(K/(2 g^2)) + 1, g = (reweigh_above - learner) alpha - slack",
        ERRATA + "multiplicative weights",
    )


def _gap(scenario: Scenario) -> float:
    alpha, divergence, accuracy = scenario.alpha, scenario.divergence, scenario.accuracy
    _, truncated = formulas.density(alpha, divergence.chi_squared, divergence.supremum)
    return formulas.gap(alpha, accuracy.learner, accuracy.reweigh_above, truncated)


def _kappa(scenario: Scenario, paper: bool) -> Figure:
    alpha, x, supremum = scenario.alpha, scenario.divergence.chi_squared, scenario.divergence.supremum
    if paper:
        text, source = "alpha/(8 X)", PAPER + "Algorithm 2"
        return _figure(scenario.curator.kappa, lambda: formulas.paper_kappa(alpha, x), text, source)
    kappa, truncated = formulas.density(alpha, x, supremum)
    text = "(1 - 3 alpha/8) alpha/X" if truncated else "(1 - alpha/8)/D_inf"
    return _figure(scenario.curator.kappa, lambda: kappa, text, ERRATA + "multiplicative weights")


def _eta(scenario: Scenario, paper: bool, rounds: int) -> Figure:
    alpha, divergence, given = scenario.alpha, scenario.divergence, scenario.curator.eta
    if paper:
        return _figure(given, lambda: formulas.paper_eta(alpha), "alpha/8", PAPER + "Algorithm 2")
    source = ERRATA + "multiplicative weights"
    if scenario.mode == "agnostic" and scenario.curator.rounds != "plan":
        entropy = formulas.entropy(alpha, divergence.chi_squared, divergence.supremum)
        return _figure(given, lambda: math.sqrt(8.0 * entropy / rounds), "sqrt(8 K/T), best for T rounds", source)

    def rule() -> float:
        formulas.rounds(0.0, _gap(scenario))  # refuses a gap that is not positive
        return formulas.eta(_gap(scenario))

    return _figure(given, rule, "4 g", source)


def _sample(scenario: Scenario, paper: bool) -> Figure:
    alpha, beta, x = scenario.alpha, scenario.beta, scenario.divergence.chi_squared
    dimension, hypotheses = scenario.vc_dimension, scenario.hypotheses
    if paper:
        size = dimension or (math.log2(hypotheses) if hypotheses and hypotheses > 1 else 1.0)
        value = formulas.paper_sample(alpha, beta, x, size)
        text = "max(150 X ln(4/beta), 800 X ln(1/alpha) (d ln(400 d/alpha^3) + ln(8/beta)))/alpha^2"
        return Figure(value=value, rule=value, formula=text, source=PAPER + "Lemma 3.2")
    value, text = formulas.sample_weights(alpha, beta, x), "150 X ln(6/beta)/alpha^2"
    uniform = [
        (formulas.sample_finite(alpha, beta, x, hypotheses), "32 X ln(2|H|/beta)/alpha^2") if hypotheses else None,
        (formulas.sample_uniform(alpha, beta, x, dimension), "(4/alpha'^2)(p ln(2en/p) + ln(8/beta))")
        if dimension
        else None,
    ]
    known = [entry for entry in uniform if entry is not None]
    if known:
        least, name = min(known)
        value, text = max(value, least), f"max({text}, {name})"
    else:
        text += " only: neither vc_dimension nor hypotheses is given"
    return Figure(value=value, rule=value, formula=text, source=ERRATA + "sample size")


def _n(
    scenario: Scenario, paper: bool, learner: dict[str, Any], rounds: int, kappa: float | None, eta: float, sample: int
) -> Figure:
    epsilon, delta = scenario.curator.epsilon, scenario.curator.delta
    if epsilon is None or delta is None or kappa is None:
        return _figure(scenario.curator.n, lambda: sample, "n of the statistics (no privacy)", PAPER + "Lemma 3.2")
    if paper and learner["name"] == "sgd":
        return _figure(
            scenario.curator.n,
            lambda: max(sample, formulas.paper_n_sgd(int(learner["steps"]), rounds, kappa, epsilon)),
            "max(n of the statistics, sqrt(Y ln Y)), Y = 52 R T/(8 kappa^2 eps)",
            PAPER + "Algorithm 4",
        )
    if paper and learner["name"] == "exponential":
        return _figure(
            scenario.curator.n,
            lambda: max(sample, formulas.paper_n_release(int(learner["draws"]), rounds, kappa, epsilon, delta)),
            "max(n of the statistics, m sqrt(288 T ln(2/delta))/(eps kappa))",
            PAPER + "Theorem 4.2",
        )

    def events(size: int) -> Any:
        return training.price(learner, sampling_schedule(size, kappa, eta, rounds)) or []

    return _figure(
        scenario.curator.n,
        lambda: max(sample, smallest_n(epsilon, delta, kappa, events)),
        "max(n of the statistics, least n whose rounds cost at most epsilon)",
        ERRATA + "curator",
    )


def _learning(scenario: Scenario, paper: bool, learner: dict[str, Any], rounds: int) -> dict[str, Figure | None]:
    asked, where = scenario.curator.learner, PAPER + "Algorithm 3" if paper else ERRATA + "item 4"
    steps = noise = draws = None
    if learner["name"] == "sgd":
        tail = "8 D^2 L^2 ln(2/beta)" if paper else "32 D^2 L^2 ln(2T/beta)"
        text = f"max(9 D^2 (L^2 + sigma^2 d), {tail})/alpha^2"
        steps = _figure(
            asked["steps"],
            lambda: training.enough_steps(scenario, rounds, float(learner["noise"]), paper),
            text,
            where,
        )
        noise = Figure(
            value=learner["noise"],
            rule=learner["noise"] if asked["noise"] == "plan" else None,
            formula="sigma/L: sqrt(20), or the least that the accountant admits for a given n",
            source=PAPER + "Algorithm 4" if paper else ERRATA + "curator, SGD steps",
        )
    if learner["name"] == "exponential":
        draws = _figure(
            asked["draws"],
            lambda: training.enough_draws(scenario, rounds, float(learner["epsilon"])),
            "max(4/eps, 8) ln(2T|H|/beta)/(learner alpha)",
            "McSherry and Talwar 2007; Chernoff",
        )
    return {"steps": steps, "noise": noise, "draws": draws}


def _answers(scenario: Scenario, paper: bool, rounds: int) -> tuple[Figure, Figure]:
    mechanism, alpha, beta = scenario.agents.mechanism, scenario.alpha, scenario.beta / rounds
    epsilon, mechanism_delta = mechanism.guarantee
    delta = mechanism_delta or scenario.curator.delta
    if scenario.mode == "agnostic":
        rate = evidence.best_rate(mechanism, alpha / 2.0)
        gain = rate * alpha / 2.0 - mechanism.log_mgf(rate)
        figure = _number(math.ceil(math.log(2.0 / beta) / gain), "ln(2T/beta)/psi*(alpha/2)", "Chernoff; no test")
        return figure, figure
    if paper and delta and math.isfinite(epsilon):
        n0 = formulas.paper_answers(alpha, scenario.beta, rounds, epsilon, delta)
        figure = _number(n0, "4 ln(2/delta) ln(8T/beta)/(eps alpha)^2", PAPER + "Algorithm 2")
        return figure, figure
    low, high = scenario.accuracy.reweigh_above * alpha, scenario.accuracy.halt_below * alpha
    if scenario.agents.test == "fixed":
        size = evidence.fixed_size(mechanism, low, high, beta)
        figure = _number(size, "ln(T/beta)/kl(m, q_low)", "Chernoff")
        return figure, figure
    source = ERRATA + "sequential test"
    return (
        _number(evidence.worst_case(mechanism, low, high, beta), "(ln(T/beta) + ln(1/w_m))/kl(m, q_low)", source),
        _number(evidence.typical(mechanism, low, high, beta, CLEAR_LOSS), "about, if the loss on T is 1/2", source),
    )


def _number(value: float, formula: str, source: str) -> Figure:
    return Figure(value=value, rule=value, formula=formula, source=source)
