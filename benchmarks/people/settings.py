"""The settings: for each the paper's numbers by formula, and a scenario with far fewer people, to be run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from common.privacy.accountants import Plan, grouped
from common.privacy.budget import sampling_schedule, smallest_n
from common.privacy.events import SubsampledSteps
from common.scenario import loading
from common.scenario.plan import plan, resolve
from common.scenario.scenario import ResolvedScenario, Scenario
from common.statistics import formulas
from common.statistics.formulas import gaussian_moment

EPSILON, DELTA, ALPHA, BETA = 0.5, 1e-4, 0.08, 0.05
PAPER_STEPS, PAPER_ROUNDS = 50_000_000, 1000
"""R and T of Appendix D, private."""
ETA, CENTER = 0.2, 0.002
"""Of Appendix D as it is run: the step of a reweigh, and what is taken off a square."""
SEARCHED = (1500, 1700, 1800, 1900, 2000, 2100)
"""Sample sizes at which Appendix D, private, is run."""


@dataclass(frozen=True)
class Need:
    """People that one set of bounds asks for.

    Attributes:
        people: n, of the curator.
        answers: Most agents a round.
        rounds: Most rounds.
    """

    people: int
    answers: int
    rounds: int


@dataclass(frozen=True)
class Setting:
    """One line of the table.

    Attributes:
        name, title: For files and for people.
        paper: What the paper's formulas ask for.
        tight: The scenario that is run.
    """

    name: str
    title: str
    paper: Need
    tight: Scenario

    @property
    def need(self) -> Need:
        """What the scenario asks for."""
        planned = plan(ready(self.name))
        return Need(int(planned.n.value), int(planned.answers.value), int(planned.rounds.value))


@dataclass(frozen=True)
class Gaussians:
    """Appendix D, private, or a task of its kind: ``close`` of 8 coordinates have another spread in the target."""

    close: int = 2
    sigma_target: float = 0.07
    epsilon: float = EPSILON
    """Of the curator; an agent's answer costs 0.5."""

    @property
    def chi_squared(self) -> float:
        """X."""
        return gaussian_moment(2.0, 0.1, self.sigma_target, self.close)

    @property
    def supremum(self) -> float | None:
        """D_inf, if finite."""
        return (0.1 / self.sigma_target) ** self.close if self.sigma_target <= 0.1 else None

    @property
    def kappa(self) -> float:
        """The largest density that is shown by D_inf or, without one, by the weights' moments."""
        if self.supremum is not None:
            return formulas.density(ALPHA, self.chi_squared, self.supremum).kappa
        moments = {p: gaussian_moment(p, 0.1, self.sigma_target, self.close) for p in (3.0, 4.0)}
        return formulas.density(ALPHA, self.chi_squared, None, moments).kappa

    def paper(self) -> Need:
        """R, T and kappa as in Appendix D, n as in Algorithm 4, N0 as in Algorithm 2."""
        kappa = _paper_kappa(self.chi_squared)
        answers = formulas.paper_answers(ALPHA, BETA, PAPER_ROUNDS, EPSILON, DELTA)
        people = formulas.paper_n_sgd(PAPER_STEPS, PAPER_ROUNDS, kappa, self.epsilon)
        return Need(people, answers, PAPER_ROUNDS)

    def scenario(
        self,
        people: int,
        rounds: int,
        steps: int,
        eta: float,
        center: float,
        diameter: float = 0.6,
        output: str = "suffix",
    ) -> Scenario:
        """Return a scenario of ``people`` people with the least noise that fits their budget.

        The class is the paper's, ellipses with weights in [0, 1]; features are the squares minus ``center``,
        shortened to length 1 with the threshold's feature. These are public constants, tuned on simulated people
        of the same law (not on those of the confirming runs).
        """
        norm = 0.999 * math.sqrt(1.0 - 0.15**2)
        shape = {"close": self.close, "sigma_target": self.sigma_target, "center": center, "scale": 200.0, "norm": norm}
        learner = (
            f"{{name: sgd, loss: perceptron, steps: {steps}, clip: 1.0, noise: plan, diameter: {diameter}, "
            f"domain: box, start: 0.3, intercept: -0.15, output: {output}}}"
        )
        supremum = "null" if self.supremum is None else repr(self.supremum)
        return loading.load(
            "ball",
            [
                *(
                    f"{side}.distribution.{key}={value}"
                    for side in ("source", "target")
                    for key, value in shape.items()
                ),
                f"divergence={{chi_squared: {self.chi_squared!r}, supremum: {supremum}}}",
                f"curator={{n: {people}, epsilon: {self.epsilon}, delta: {DELTA}, kappa: {self.kappa!r}, eta: {eta}, "
                f"rounds: {rounds}, learner: {learner}}}",
                "accuracy={learner: 0.5, reweigh_above: 1.875, halt_below: 2.0}",
                "baselines=[]",
            ],
        )


APPENDIX_D = Gaussians()


def appendix_d(people: int) -> Scenario:
    """Return Appendix D, private, with so many people: one round, and as many steps as noise of about 8 L takes."""
    return APPENDIX_D.scenario(people, 1, round(1.7e6 * (people / 2000) ** 2), ETA, CENTER)


def literal() -> Scenario:
    """Return Appendix D, private, with the paper's own learner: its map, L = .1, sigma^2 = .2, R = 50M, D = 1."""
    people = accounted(APPENDIX_D.kappa, ETA, 1)
    learner = (
        f"{{name: sgd, loss: perceptron, steps: {PAPER_STEPS}, clip: 0.1, noise: {formulas.PAPER_NOISE!r}, "
        f"diameter: 1.0, domain: box, start: 1.0, intercept: {-math.sqrt(0.004)!r}}}"
    )
    shape = {"center": 0.0, "scale": 1.0, "norm": math.sqrt(0.006)}
    places = [f"{side}.distribution.{key}={value}" for side in ("source", "target") for key, value in shape.items()]
    chosen = [f"curator.n={people}", "curator.eta=0.2", "curator.rounds=1", f"curator.learner={learner}"]
    return loading.load("ball", [*places, *chosen, "accuracy.reweigh_above=1.875", "baselines=[]"])


def ladder(smallest: int) -> list[tuple[str, int]]:
    """Return n of Appendix D, private, as one thing after the other is made tight.

    Args:
        smallest: The last rung: what was found by running.
    """
    kappa = _paper_kappa(APPENDIX_D.chi_squared)
    return [
        ("the paper: R = 50M, T = 1000", APPENDIX_D.paper().people),
        ("tight accountant", accounted(kappa, 20.0, PAPER_ROUNDS)),
        ("kappa from D_inf", accounted(APPENDIX_D.kappa, 20.0, PAPER_ROUNDS)),
        ("T = 87 by the tight theorem, s_t by round", accounted(APPENDIX_D.kappa, ETA, 87)),
        ("T = 5, as many as such runs take", accounted(APPENDIX_D.kappa, ETA, 5)),
        ("T = 1: this learner needs no reweighing", accounted(APPENDIX_D.kappa, ETA, 1)),
        ("another learner: noise 8 L, fewer steps", smallest),
    ]


@cache
def settings() -> tuple[Setting, ...]:
    """Return all lines of the table but Appendix D's own, whose n is searched."""
    far, wide, tenth = Gaussians(4, 0.05), Gaussians(2, 0.11), Gaussians(epsilon=0.1)
    exact = ["curator.learner.draws=plan", "curator.learner.epsilon=1.0"]
    careful = ["accuracy={learner: 0.5, reweigh_above: 1.0, halt_below: 2.0}", "baselines=[]"]
    sparse = plan(loading.load("sparse", exact), "paper")
    parity = plan(loading.load("parity"), "paper")
    return (
        Setting(
            "parity",
            "PARITY, d = 64 (Appendix B)",
            Need(int(parity.n.value), formulas.paper_answers(0.1, BETA, 1, 1.0, DELTA), 1),
            loading.load("parity", ["baselines=[]"]),
        ),
        Setting(
            "sparse",
            "two of 1000 features (Section 4)",
            Need(int(sparse.n.value), int(sparse.answers.value), int(sparse.rounds.value)),
            loading.load(
                "sparse",
                [
                    *careful,
                    "curator={n: plan, epsilon: 1.0, delta: 1.0e-6, kappa: plan, eta: plan, rounds: 1, learner: "
                    "{name: exponential, hypotheses: conjunctions, draws: 1200, epsilon: 0.5}}",
                    "curator.n=800",
                ],
            ),
        ),
        Setting(
            "tenth",
            "Appendix D, private, epsilon = 0.1",
            tenth.paper(),
            tenth.scenario(10_000, 1, 1_800_000, 0.2, 0.002),
        ),
        Setting(
            "far",
            "four close coordinates, D_inf = 16",
            far.paper(),
            far.scenario(16_000, 2, 3_400_000, 2.0, 0.0015, 0.8),
        ),
        Setting("wide", "a wider target, D_inf infinite", wide.paper(), wide.scenario(4000, 20, 170_000, 0.1, 0.005)),
    )


def _paper_kappa(chi_squared: float) -> float:
    """Return alpha/(4 X), with X in two digits as Appendix D has it."""
    return ALPHA / (4.0 * round(chi_squared, 2))


def accounted(
    kappa: float, eta: float, rounds: int, steps: int = PAPER_STEPS, noise: float = formulas.PAPER_NOISE
) -> int:
    """Return the least n for so many steps a round with a noise: by default the paper's."""
    ratio = math.nextafter(2.0 / noise, math.inf)

    def plan(n: int) -> Plan:
        bounds = sampling_schedule(n, kappa, eta, rounds)
        return grouped(SubsampledSteps(count=steps, tv_bound=bound, ratio=ratio) for bound in bounds)

    return smallest_n(EPSILON, DELTA, kappa, plan)


@cache
def ready(point: str) -> ResolvedScenario:
    """Return the scenario of a point, every number filled in; the privacy of all its rounds was checked on the way."""
    if point.startswith("appendix-d/"):
        return resolve(appendix_d(int(point.partition("/")[2])))
    if point == "literal":
        return resolve(literal())
    return resolve(next(setting for setting in settings() if setting.name == point).tight)
