"""A classifier learned on people who trust the curator, and judged, repaired or reweighed by local agents."""

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import polars

from common.core.arrays import AnyArray
from common.core.errors import BadFit
from common.core.machine import works_after_fork
from common.data.spelling import canonical
from common.scenario.fitting import Advice, diameter, learner_of_classes, of_classes, usual_learner
from tandem.estimators import fitting
from tandem.estimators.base import Sides
from tandem.estimators.classes import MOST_CLASSES, HybridClassifier, SeveralNames


class TransferClassifier(HybridClassifier):
    """A classifier for two classes, or up to ten, that fits a population, learned from a biased private sample.

    ``fit`` runs a protocol in the embedded deployment. The people of X are the curator's: a private learner sees them.
    The people of ``population`` are local agents: each answers at most one question by randomized response, for
    example whether a model errs on their record. The protocol is chosen from the numbers of people and the budgets
    alone, before any record is used (:mod:`common.scenario.fitting`): agents teach a model and judge it; if they are
    too few to judge, they estimate its loss. More than two classes are learned once, by the ``"discriminant"``, and
    taught and judged likewise (``docs/portfolio.md``, "Several classes").

    Args:
        epsilon, delta: For each person of X: (epsilon, delta)-differential privacy of everything the curator releases;
            neighbours replace one record, the number of people is public. Each fit spends this anew. The default delta
            is the largest power of ten that is at most 1/(10 n), for n people of the curator's.
        agent_epsilon: For each person of the population: epsilon-local differential privacy of their answer.
        learner: A learner's name, or a mapping with its ``name`` and settings (``docs/scenarios.md``). None: a suitable
            one, a half-space by ``"full-batch"`` gradients, by the ``"discriminant"`` for very many agents, or by
            ``"sgd"`` if rounds reweigh (``docs/learners.md``). A learner without a guarantee is refused.
        protocol: ``"fit"``: the one that suits the numbers of people. ``"portfolio"`` (``docs/portfolio.md``): agents
            teach the curator's model and judge it. ``"learn-and-test"``: they estimate its loss.
            ``"subsample-test-reweigh"`` (Kohen & Sheffet, ICML 2022, Algorithm 2): from round to round the sample is
            reweighed towards the people on whom the model failed, and the model that does best on the *population* is
            kept.
        bounds: *Public* bounds of the features: a pair for all columns, a pair for each, or a mapping by column. Values
            beyond them are clipped; missing ones (NaN) count as the middle. Never taken from the data.
        schema: A mapping, or the path of a YAML file: ``features`` (numbers with bounds, categories with values), and
            optionally ``label``, ``norm``, ``layout``. Replaces ``bounds``, and allows categories and files. See
            ``docs/estimators.md``.
        random_state: None: noise from the operating system's generator, for real people. Otherwise the fit is
            *simulated*: it can be repeated, and anybody who knows the seed can undo the noise.
        lifetime: (epsilon, delta) that all fits and runs together may cost a real person, on either side; None: each
            person takes part once.
        options: Rarely needed settings, by name:

            * ``rounds``: How often the curator learns; the budget and the agents are divided among the rounds. By
              default 1, or 3 that reweigh.
            * ``costs``: The costs of mistakes, ``{"miss": 10, "false_alarm": 1}``: a person of the second class who is
              predicted as the first, or the other way round. Agents then judge by the mean cost, and the threshold of
              the answer is set for it (``docs/portfolio.md``, "Costs"). By default both cost the same.
            * ``kappa``: In (0, 1]: no person of X ever has more than 1/(kappa n) of all weight; kappa n must be above
              10. By default 1/2, or .3 if rounds reweigh.
            * ``eta``: Step of the reweighing. By default .3.
            * ``alpha``, ``beta``: Accuracy in (0, 1/2), failure probability (.05) of the estimate's interval and of the
              gap. A portfolio aims at an answer that is worse than its rival by alpha at most; its default alpha is
              what so many judges can show, otherwise .1.
            * ``mode``: If rounds reweigh, ``"agnostic"``: use all of them, keep the best. ``"realizable"``: stop at the
              first model whose loss on the population is shown to be below ``4 alpha``.
            * ``norm``: Public bound: longer feature vectors are shortened to this L2 norm. By default the square root
              of their number.
            * ``classes``: The *public* class names, two to ten; of two the second is the positive one. By default those
              of the schema's label, or those in ``y``, which are then treated as public: that each occurs is no secret.
            * ``population_fraction``: Without a population, this share (.5) of the people of X, chosen at random,
              answers as agents instead of giving the curator their records; results then hold for people like those
              of X.
            * ``id_column``: The column of X and of the population, given as frames or files, that identifies people:
              it is used only to recognise them in further fits, instead of by their rows. By default that of the
              schema.

    Attributes:
        classes_: Shape (C,), 2 <= C <= 10.
        hypothesis_: The released model, as data (:class:`common.local.hypotheses.hypothesis.Hypothesis`).
        estimate_: Its loss on the population with an interval at confidence 1 - beta, or None without agents to ask.
        advice_: What suits the numbers of people, and the differences of losses that the agents can detect
            (:class:`common.scenario.fitting.Advice`).
        verdict_: Whether the model is better than what either side has alone: ``verdict_.answer``, and in sentences
            ``verdict_.text`` (:class:`referee.runs.verdict.Verdict`).
        candidates_: What a portfolio judged: name, hypothesis, estimate and number of judges of each; else empty.
        comparison_: The model's loss minus that of its rival, which is presumed to be the best that either side has
            alone, as in the result; None if nothing was compared.
        gap_: By how much the answer's loss may exceed the rival's, with probability 1 - beta; None likewise.
        guarantee_: What all fits of this object may have cost (:class:`~tandem.estimators.guarantee.Guarantee`).
        result_: The run's result document.
        n_features_in_, feature_names_in_: As everywhere in scikit-learn.

    Raises:
        BadFit: From ``fit``: a ValueError. Parameters or data are not acceptable; nothing was spent.
        FitFailed: From ``fit``: the run ended without an answer; ``guarantee_`` counts it as spent.

    Warns:
        CannotHelpWarning: From ``fit`` with ``protocol="fit"``, before anything is spent: so few people cannot add
            anything, or probabilities may be no more informative than the share of the label.

    Examples:
        >>> import numpy as np
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (4000, 2))
        >>> y = X[:, 0] > 0.2
        >>> model = TransferClassifier(epsilon=1.0, random_state=0).fit(X, y)
        >>> model.guarantee_.epsilon, model.guarantee_.delta, model.guarantee_.agent_epsilon
        (1.0, 1e-05, 1.0)
        >>> bool(model.score(X, y) > 0.9)
        True
    """

    _known_options: ClassVar = {
        **dict.fromkeys(("rounds", "kappa", "eta", "alpha", "norm", "classes", "id_column", "costs")),
        "beta": 0.05,
        "mode": "agnostic",
        "population_fraction": 0.5,
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        agent_epsilon: float = 1.0,
        learner: str | Mapping[str, Any] | None = None,
        protocol: str = "fit",
        bounds: Any = (-1.0, 1.0),
        schema: Any = None,
        random_state: Any = None,
        lifetime: tuple[float, float] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(epsilon, delta, agent_epsilon, bounds, schema, random_state, lifetime, options)
        self.learner = learner
        self.protocol = protocol

    @works_after_fork
    def fit(self, X: Any, y: Any = None, *, population: Any = None, public: Any = None, **further: Any) -> Self:
        """Learn from the curator's people, judged by the population's; return self.

        Args:
            X: The curator's people: an array of shape (n, d), a pandas or polars frame, or with a schema the path of a
                CSV or Parquet file.
            y: Their classes, shape (n,); or the name of the column of X that has them; or None if the schema has a
                ``label``.
            population: The agents' people, (X, y) in any of these forms; a frame or path alone if y names a column.
                None: see ``population_fraction``.
            public: Records that everybody may see, without labels, for learners that need some (``model-agnostic``).
        """
        seed = self._checked_seed(further)
        people = self._people(X, y)
        if isinstance(self._classes, SeveralNames):
            self._check_several(self._classes.names, public)
        sides = self._sides(people, seed, X, y, population)
        if isinstance(public, tuple):
            raise BadFit("public records have no labels here: give public=X alone, found a tuple")
        points = None if public is None else self._unlabelled(public)
        tree, advice = self._settled_tree(sides, 0 if points is None else len(points))
        vague = () if advice.probabilities is None else (advice.probabilities,)
        for words in (*advice.warnings, *vague) if self.protocol == fitting.FIT else ():
            warnings.warn(words, fitting.CannotHelpWarning, stacklevel=3)
        self._carry_out(tree, sides, seed, points)
        self.advice_ = advice
        self.candidates_ = self._judged_candidates()
        self.comparison_: dict[str, Any] | None = self.result_.get("comparison")
        self.gap_: float | None = self.result_.get("gap")
        return self

    def _unlabelled(self, public: Any) -> polars.DataFrame:
        # A table must have a label; all records get the same one, which is not used.
        label = self._table_source(fitting.PUBLIC).label
        return self._features(public).with_columns(polars.lit(canonical(label.positive[0])).alias(label.column))

    @property
    def _most(self) -> int:
        learner = dict(self.learner).get("name") if isinstance(self.learner, Mapping) else self.learner
        return MOST_CLASSES if learner in (None, "discriminant") and self.protocol != fitting.REWEIGH else 2

    def _check_several(self, names: AnyArray, public: Any) -> None:
        wrong = {
            "costs are": self._value("costs") is not None,
            "mode is": self._value("mode") != "agnostic",
            "public records are": public is not None,
            "a norm, which would shorten the columns of the classes as well, is": self._schema.norm is not None,
        }
        for what, is_set in wrong.items():
            if is_set:
                only = "for two classes only; leave it out, or put classes together"
                raise BadFit(f"y has {len(names)} classes: {what} {only}")

    def _several(self, sides: Sides, count: int) -> tuple[dict[str, Any], Advice]:
        settings = {} if isinstance(self.learner, str | None) else fitting.plain(dict(self.learner))
        learner = settings | learner_of_classes(self._schema.dimension, count)
        learner["mu"] = settings.get("mu", learner["mu"])
        advice = fitting.advice_for(self._scenario_of(sides, 0, learner, fitting.UNDECIDED))
        choice = fitting.choose_protocol(self.protocol, "agnostic", self._given_numbers(len(sides.population)), advice)
        tree = self._scenario_of(sides, 0, learner, choice)
        return tree | {"protocol": of_classes(choice.protocol)}, advice

    def _settled_tree(self, sides: Sides, public: int) -> tuple[dict[str, Any], Advice]:
        if isinstance(self._classes, SeveralNames):
            return self._several(sides, len(self._classes.names))
        people, numbers, ball = len(sides.curator), self._given_numbers(len(sides.population)), fitting.DIAMETER
        if self.protocol != fitting.REWEIGH:
            ball = diameter(people, self._number("epsilon"), self._delta(people), self._schema.dimension)
        usual = "sgd" if self.protocol == fitting.REWEIGH else usual_learner(len(sides.population))
        settings = fitting.learner_tree(usual if self.learner is None else self.learner)
        draft = fitting.learner_settings(settings, people, public, 1, ball)
        if draft.get("name") == "model-agnostic" and draft.get("protects", "records") == "records" and not public:
            raise BadFit("learner model-agnostic labels public points, and there are none: give fit(..., public=X)")
        advice = fitting.advice_for(self._scenario_of(sides, public, draft, fitting.UNDECIDED))
        counted = draft.get("name") != "model-agnostic"
        choice = fitting.choose_protocol(self.protocol, self._value("mode"), numbers, advice, counted=counted)
        learner = fitting.learner_settings(settings, people, public, choice.rounds, ball)
        tree = self._scenario_of(sides, public, learner, choice)
        if fitting.leaves_votes_open(settings):
            learner["queries"] = self._points(tree, people, learner["queries"])
        return tree, advice

    def _given_numbers(self, agents: int) -> dict[str, float | None]:
        names = ("rounds", "kappa", "eta", "alpha")
        numbers = {name: None if self._value(name) is None else self._number(name) for name in names}
        rounds, kappa = numbers["rounds"], numbers["kappa"]
        if kappa is not None and not 0.0 < kappa <= 1.0:
            raise BadFit(f"kappa must be in (0, 1], found {kappa:g}")
        if rounds is not None and rounds != int(rounds):
            raise BadFit(f"rounds must be a whole number, found {rounds:g}")
        if rounds is not None and agents < rounds:
            raise BadFit(f"the population has {agents} people for {rounds:g} rounds: every round asks at least one")
        return numbers

    def _points(self, tree: dict[str, Any], people: int, public: int) -> int:
        """Return how many public points to label; warn if teachers nevertheless have too few records."""
        learner = tree["curator"]["learner"]
        learner["queries"] = 1
        planned = fitting.resolved_scenario(tree, self.n_features_in_).curator.settings.wire()
        weights = self._schema.dimension + 1
        points, share = fitting.points_to_label(public, planned["chunks"], planned.get("draws") or people, weights)
        if share < weights:
            warnings.warn(
                f"each teacher has {share:.1f} records for {weights} weights, even with {points} points to label: give "
                "more people, fewer rounds or a larger epsilon, or take learner='sgd'",
                fitting.FewForTeachersWarning,
                stacklevel=4,
            )
        return points

    def _scenario_of(
        self, sides: Sides, public: int, learner: dict[str, Any], choice: fitting.Choice
    ) -> dict[str, Any]:
        tree = self._tree(
            sides,
            {"kappa": choice.kappa, "eta": choice.eta, "rounds": choice.rounds, "learner": learner},
            name="transfer-classifier",
            title="A classifier learned from a biased private sample, tested on the population",
            protocol=choice.protocol,
            portfolio=choice.portfolio,
            alpha=choice.alpha,
            beta=self._number("beta"),
            mode=self._value("mode"),
            # Weights beyond 1/kappa are out of reach anyway; where they are at most that, so is their second moment.
            divergence={"chi_squared": 1.0 / choice.kappa},
            vc_dimension=self._schema.dimension + 1,
            public={"table": self._table_source(fitting.PUBLIC).wire(), "labelled": False} if public else None,
        )
        costs = self._value("costs")
        if not isinstance(costs, Mapping | None):
            raise BadFit(f"costs must be a mapping such as {{'miss': 10, 'false_alarm': 1}}, found {costs!r}")
        if costs is not None:
            tree["agents"]["costs"] = fitting.plain(costs)
        return tree
