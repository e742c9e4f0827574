"""Subsample-Test-Reweigh as a classifier: learned on people who trust the curator, tested on everybody's devices."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal, Self

from common.core.errors import BadFit
from tandem.estimators.base import Sides
from tandem.estimators.binary import BinaryClassifier
from tandem.estimators.learners import (
    FewForTeachersWarning,
    check_public,
    learner_settings,
    leaves_votes_open,
    suffice,
)
from tandem.estimators.running import PUBLIC, SOURCE, TARGET, settled


class TransferClassifier(BinaryClassifier):
    """A classifier for two classes that fits a population, learned from a biased private sample.

    ``fit`` runs Subsample-Test-Reweigh (Kohen & Sheffet, ICML 2022, Algorithm 2) in the embedded deployment. The people
    of X are the curator's: a private learner sees them. The people of ``population`` are local agents: each answers at
    most one question, whether the model errs on their record, by randomized response. From round to round the sample
    is reweighed towards the people on whom the model failed, and the model that does best on the *population* is kept.

    Parameters
    ----------
    epsilon, delta
        Of each person of X: (epsilon, delta)-differential privacy of everything the curator releases; neighbours
        replace one record, the number of people is public. Each fit spends this anew.
    agent_epsilon
        Of each person of the population: epsilon-local differential privacy of their answer.
    learner
        ``"sgd"`` (a half-space), another learner's name, or a mapping with its ``name`` and settings
        (``docs/scenarios.md``). One that guarantees nothing is refused.
    rounds
        T, at least 1; the budget and the agents are shared out among them.
    kappa
        In (0, 1]: no person of X ever has more than 1/(kappa n) of all weight. kappa n must be above 10.
    eta
        Step of the reweighing.
    alpha, beta
        Accuracy in (0, 1/2), failure probability of the estimate's interval.
    mode
        ``"agnostic"``: use all rounds, keep the best. ``"realizable"``: stop at the first model whose loss on the
        population is shown to be below ``4 alpha``.
    bounds
        *Public* bounds of the features: a pair for all columns, a pair for each, or a mapping by column. Values
        beyond are clipped to them; missing ones (NaN) count as the middle. Never taken from the data.
    schema
        A mapping, or the path of a YAML file: ``features`` (numbers with bounds, categories with values), and where
        given ``label``, ``norm``, ``layout``. Replaces ``bounds``, and allows categories and files. See
        ``docs/estimators.md``.
    norm
        Public bound: longer feature vectors are shortened to this L2 norm. None: the square root of their number.
    classes
        The two *public* class names; the second is the positive one. None: those of the schema's label, or read off
        ``y``, which treats them as public: that both occur is then no secret.
    population_fraction
        Without a population, this share of the people of X, chosen by chance, answers as agents instead of giving the
        curator their records; what is found then holds for people like those of X.
    random_state
        None: noise from the operating system's generator, for real people. Otherwise the fit is *simulated*: it can be
        repeated, and whoever knows the seed can undo the noise.
    lifetime
        (epsilon, delta) that all fits and runs of the same real people may cost them together; None: they take part
        once.

    Attributes
    ----------
    classes_
        Shape (2,).
    hypothesis_
        The released model, as data (:class:`common.vocabulary.hypotheses.base.Hypothesis`).
    estimate_
        Its loss on the population with an interval at confidence 1 - beta, or None if nobody could be asked.
    guarantee_
        What all fits of this object may have cost (:class:`~tandem.estimators.guarantee.Guarantee`).
    result_
        The run's result document.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Raises
    ------
    BadFit
        From ``fit``: a ValueError. Parameters or data are not acceptable; nothing was spent.
    FitFailed
        From ``fit``: the run ended without an answer; ``guarantee_`` counts it as spent.

    Examples
    --------
    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> X = generator.uniform(-1, 1, (4000, 2))
    >>> y = X[:, 0] > 0.2
    >>> model = TransferClassifier(epsilon=1.0, population_fraction=0.5, random_state=0).fit(X, y)
    >>> model.guarantee_.epsilon, model.guarantee_.delta, model.guarantee_.agent_epsilon
    (1.0, 1e-06, 1.0)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        agent_epsilon: float = 1.0,
        learner: str | Mapping[str, Any] = "sgd",
        rounds: int = 3,
        kappa: float = 0.3,
        eta: float = 0.3,
        alpha: float = 0.1,
        beta: float = 0.05,
        mode: Literal["agnostic", "realizable"] = "agnostic",
        bounds: Any = (-1.0, 1.0),
        schema: Any = None,
        norm: float | None = None,
        classes: Any = None,
        population_fraction: float = 0.5,
        random_state: Any = None,
        lifetime: tuple[float, float] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.agent_epsilon = agent_epsilon
        self.learner = learner
        self.rounds = rounds
        self.kappa = kappa
        self.eta = eta
        self.alpha = alpha
        self.beta = beta
        self.mode = mode
        self.bounds = bounds
        self.schema = schema
        self.norm = norm
        self.classes = classes
        self.population_fraction = population_fraction
        self.random_state = random_state
        self.lifetime = lifetime

    def fit(self, X: Any, y: Any = None, *, population: Any = None, public: Any = None) -> Self:
        """Learn from the curator's people, tested by the population's.

        Parameters
        ----------
        X
            The curator's people: an array of shape (n, d), a pandas or polars frame, or with a schema the path of a
            CSV or Parquet file.
        y
            Their classes, shape (n,); or the name of the column of X that has them; or None where the schema has a
            ``label``.
        population
            The agents' people, (X, y) in any of these forms; a frame or path alone if y names a column. None: see
            ``population_fraction``.
        public
            Records that everybody may see, without labels, for learners that want some (``model-agnostic``).

        Returns
        -------
        self
        """
        seed = self._seed()
        people = self._people(X, y)
        sides = self._sides(people, None if population is None else self._others(population, y), seed)
        points = None if public is None else self._classes.unmarked(self._features(public))
        self._carry_out(self._tree(sides, 0 if points is None else len(points)), sides, seed, points)
        self.classes_ = self._classes.names
        return self

    def _tree(self, sides: Sides, public: int) -> dict[str, Any]:
        """Return the scenario of a fit."""
        people, agents = len(sides.curator), len(sides.population)
        kappa, rounds = self._number("kappa"), self._whole("rounds")
        if not 0.0 < kappa <= 1.0:
            raise BadFit(f"kappa must be in (0, 1], found {kappa:g}")
        if agents < rounds:
            raise BadFit(f"the population has {agents} people for {rounds} rounds: every round asks at least one")
        learner = learner_settings(self.learner, people, public, rounds)
        check_public(learner, public)
        tree = self._scenario_of(sides, public, learner)
        if leaves_votes_open(self.learner):
            learner["queries"] = self._points(tree, people, learner["queries"])
        return tree

    def _points(self, tree: dict[str, Any], people: int, public: int) -> int:
        """Return how many public points are labelled; warn if teachers have too few records all the same."""
        learner = tree["curator"]["learner"]
        learner["queries"] = 1
        planned = settled(tree).curator.settings.wire()
        weights = self._schema.dimension + 1
        points, each = suffice(public, planned["chunks"], planned.get("draws") or people, weights)
        if each < weights:
            warnings.warn(
                f"each teacher has {each:.1f} records for {weights} weights, even with {points} points to label: give "
                "more people, fewer rounds or a larger epsilon, or take learner='sgd'",
                FewForTeachersWarning,
                stacklevel=4,
            )
        return points

    def _scenario_of(self, sides: Sides, public: int, learner: dict[str, Any]) -> dict[str, Any]:
        people, agents = len(sides.curator), len(sides.population)
        return {
            "name": "transfer-classifier",
            "title": "A classifier learned from a biased private sample, tested on the population",
            "alpha": self._number("alpha"),
            "beta": self._number("beta"),
            "mode": self.mode,
            "people": "real" if self.random_state is None else "simulated",
            # Weights beyond 1/kappa are out of reach anyway; where they are at most that, so is their second moment.
            "divergence": {"chi_squared": 1.0 / self._number("kappa")},
            "vc_dimension": self._schema.dimension + 1,
            "source": {"table": self._described(SOURCE).wire()},
            "target": {"table": self._described(TARGET).wire()},
            "public": {"table": self._described(PUBLIC).wire(), "labelled": False} if public else None,
            "curator": {
                "n": people,
                "epsilon": self._number("epsilon"),
                "delta": self._number("delta"),
                "kappa": self._number("kappa"),
                "eta": self._number("eta"),
                "rounds": self._whole("rounds"),
                "lifetime": self._lifetime(),
                "learner": learner,
            },
            "agents": {"count": agents, "mechanism": {"name": "warner", "epsilon": self._number("agent_epsilon")}},
        }
