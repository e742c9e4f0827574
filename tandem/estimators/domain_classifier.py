"""NCnvxAdap as a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from common.core.machine import works_after_fork
from tandem.estimators.adaptation import Adapter
from tandem.estimators.binary import BinaryClassifier


class DomainAdapter(BinaryClassifier, Adapter):
    """A classifier for a target domain with few private people, helped by a public sample of a source domain.

    ``fit`` runs NCnvxAdap (Bassily, Cortes, Mao & Mohri, 2024, Algorithm 2) in the embedded deployment: the people of X
    are the curator's, and the private target; ``public`` is the source, open to everybody. It learns a half-space and
    at once how much each record of both samples should weigh, with noise for the private ones. What comes out is tested
    by the people of ``population``, each by one randomized answer.

    Parameters
    ----------
    epsilon, delta
        Of each person of X: (epsilon, delta)-differential privacy of everything the curator releases; neighbours
        replace one record, the numbers of people are public. Each fit spends this anew.
    agent_epsilon
        Of each person of the population: epsilon-local differential privacy of their answer.
    alpha
        In (0, 1): what the source weighs beside the target, before weights are learned.
    private
        ``"target"``: X is the target. ``"source"``: X is the source, ``public`` the target (the paper's Section 7);
        then a population of the target must be given.
    radius
        Lambda: the greatest length of the weights, of features scaled as ``bounds`` says and a constant. None: 64, or
        512 over ``norm`` if that is less; logistic regressions of ordinary data are shorter.
    iterations
        T.
    bounds
        ``"public"``: the least and the greatest value of each column in the public sample, and features whitened by
        its moments while learning (``docs/adaptation.md``); nothing is taken from anybody private. Otherwise as of
        :class:`~tandem.estimators.transfer.TransferClassifier`, of both domains, and features scaled to [-1/2, 1/2].
        Values beyond are clipped; where values of the *public* sample are, a ``PublicClippingWarning`` says so.
    schema
        As of :class:`~tandem.estimators.transfer.TransferClassifier`, of both domains: then it has the bounds, and
        ``bounds="public"`` asks for whitening alone.
    norm
        Public bound: longer vectors of the scaled features are shortened to it while learning. None: 1 where they are
        whitened, within which three quarters of the public sample are; else half the square root of their number,
        which no vector exceeds.
    settings
        Further settings of the learner (``kappa_1``, ``discrepancy_share``, ``output``, ...: ``docs/adaptation.md``).
        If not given, ``start`` is ``public``: learning begins at the fit of the public sample, and noise alone raises
        the loss there by a quarter at most. ``output`` is ``average``: all iterates cost the same, and it varies less
        than a random one.
    grid
        Public values to try, by the learner's setting (``alpha``, ``kappa_1``, ``radius``, ...): the best of several
        runs on part of X, by a private score on the rest, all within epsilon and delta (``docs/hyperparameters.md``).
        Which setting was best is not told. None: one run with the settings given.
    choice
        Of the search: ``law`` of the number of runs, share for ``validation``, ``cut`` of losses.
    classes, population_fraction, random_state
        As of :class:`~tandem.estimators.transfer.TransferClassifier`.
    lifetime
        (epsilon, delta) that all fits and runs may cost a real person together, whichever side they are on; None: they
        take part once.
    id_column
        The column of X and of the population, given as frames or files, that says who is who: by it people are
        recognised in further fits, instead of by their rows. Nothing else is done with it. None: that of the schema.

    Attributes
    ----------
    public_clipped_
        Share of the public sample's values beyond their bounds, by column; columns without any are left out.
    classes_, hypothesis_, estimate_, guarantee_, result_, n_features_in_, feature_names_in_
        As of :class:`~tandem.estimators.transfer.TransferClassifier`.

    Raises
    ------
    BadFit
        From ``fit``: a ValueError. Parameters or data are not acceptable; nothing was spent.
    FitFailed
        From ``fit``: the run ended without an answer; ``guarantee_`` counts it as spent.
    """

    _learner = "ncnvx-adap"
    _loss = "zero-one"
    _output = "average"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        agent_epsilon: float = 1.0,
        alpha: float = 0.5,
        private: Literal["target", "source"] = "target",
        radius: float | None = None,
        iterations: int = 500,
        bounds: Any = "public",
        schema: Any = None,
        norm: float | None = None,
        classes: Any = None,
        settings: Mapping[str, Any] | None = None,
        grid: Mapping[str, Any] | None = None,
        choice: Mapping[str, Any] | None = None,
        population_fraction: float = 0.3,
        random_state: Any = None,
        lifetime: tuple[float, float] | None = None,
        id_column: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.agent_epsilon = agent_epsilon
        self.alpha = alpha
        self.private = private
        self.radius = radius
        self.iterations = iterations
        self.bounds = bounds
        self.schema = schema
        self.norm = norm
        self.classes = classes
        self.settings = settings
        self.grid = grid
        self.choice = choice
        self.population_fraction = population_fraction
        self.random_state = random_state
        self.lifetime = lifetime
        self.id_column = id_column

    @works_after_fork
    def fit(self, X: Any, y: Any = None, *, public: Any = None, population: Any = None) -> Self:
        """Adapt to the curator's people, helped by the public ones, tested by the population's.

        Parameters
        ----------
        X, y
            The curator's people and their classes, as :meth:`TransferClassifier.fit` takes them.
        public
            The public sample of the other domain, (X, y) in any of these forms; a frame or path alone if y names a
            column, or the schema a label. Required.
        population
            The agents' people of the target, in the same forms. None: see ``population_fraction``.

        Returns
        -------
        self
        """
        self._adapt(X, y, public, population)
        self.classes_ = self._classes.names
        return self
