"""Private domain adaptation, with few private people and a public sample of another domain: CnvxAdap and NCnvxAdap."""

import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import polars

from common.core.errors import BadFit
from common.core.machine import works_after_fork
from common.learners.adaptation import MAX_SCORES
from tandem.estimators import frames
from tandem.estimators.base import HybridEstimator
from tandem.estimators.classes import HybridClassifier
from tandem.estimators.fitting import PUBLIC, plain
from tandem.estimators.regression import BoundedRegressor

CHOICE = {"law": {"name": "negative-binomial", "eta": 1.0, "gamma": 0.25, "most": 16}, "validation": 0.2}
"""The default search of a grid: four runs on average, sixteen executed."""
MAX_RADIUS = 64.0
"""Default radius of half-spaces: logistic regressions without privacy have no longer weights on any data set of
docs/adaptation-tables.md, so the adapters search a region that contains those.
"""


class Adapter(HybridEstimator):
    """The common base of both adapters; not an estimator itself."""

    _shortens = False
    _known_options: ClassVar[Mapping[str, Any]] = {"population_fraction": 0.3, "id_column": None, "choice": None}
    _learner: ClassVar[str]
    _loss: ClassVar[str]
    _defaults: ClassVar[Mapping[str, Any]]
    """Default settings of the learner. Every ``output`` costs the same: these are best in practice."""

    public_clipped_: dict[str, float]

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        agent_epsilon: float = 1.0,
        bounds: Any = "public",
        schema: Any = None,
        settings: Mapping[str, Any] | None = None,
        grid: Mapping[str, Any] | None = None,
        random_state: Any = None,
        lifetime: tuple[float, float] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(epsilon, delta, agent_epsilon, bounds, schema, random_state, lifetime, options)
        self.settings = settings
        self.grid = grid

    @works_after_fork
    def fit(self, X: Any, y: Any = None, *, public: Any = None, population: Any = None, **further: Any) -> Self:
        """Adapt to the curator's people, helped by the public ones, tested by the population's; return self.

        Args:
            X, y: The curator's people, and their classes or responses: as for
                :meth:`TransferClassifier.fit <tandem.estimators.transfer.TransferClassifier.fit>`.
            public: The public sample of the other domain, (X, y) in any of these forms; a frame or path alone if y
                names a column, or the schema a label. Required.
            population: The agents' people of the target, in the same forms. None: see ``population_fraction``.
        """
        if public is None:
            raise BadFit(f"{type(self).__name__} adapts from a public sample of another domain: give public=(X, y)")
        if population is None and self._settings()["private"] == "source":
            raise BadFit("private: source has no people of the target to test on: give population=(X, y)")
        seed = self._checked_seed(further)
        self._open = frames.labelled(public, y, "public")[0]
        people = self._people(X, y)
        del self._open
        sample = self._read_sample(public, y, "public")
        self._settle(sample)
        self.public_clipped_ = frames.clipped_shares(sample, self._table_source(PUBLIC))
        text = frames.warning_text(self.public_clipped_, self._response_cost(sample))
        if text:
            warnings.warn(text, frames.PublicClippingWarning, stacklevel=3)
        sides = self._sides(people, seed, X, y, population)
        tree = self._tree(
            sides,
            {"kappa": None, "learner": self._learning()},
            name="domain-adapter",
            title="A model adapted from a public sample to a private one, tested on the population",
            protocol="learn-and-test",
            alpha=0.1,
            public={"table": self._table_source(PUBLIC).wire()},
        )
        tree["agents"]["loss"] = self._loss
        self._carry_out(tree, sides, seed, sample)
        return self

    def _public_bounds(self, columns: list[str]) -> Any:
        return frames.public_pairs(self._open, columns) if self._by_public else self.bounds

    @property
    def _by_public(self) -> bool:
        return isinstance(self.bounds, str) and self.bounds == "public"

    def _settle(self, sample: polars.DataFrame) -> None: ...

    def _response_cost(self, sample: polars.DataFrame) -> float:
        return 0.0

    def _columns(self) -> dict[str, int]:
        return {"features": self._schema.dimension}

    def _settings(self) -> dict[str, Any]:
        return {"private": "target", **plain(frames.mapping(self.settings, "settings"))}

    def _learning(self) -> dict[str, Any]:
        settings = self._settings()
        norm = settings.setdefault("norm", 1.0 if self._by_public else 0.5 * math.sqrt(self._schema.dimension))
        # A norm that is not a number is refused when the scenario is parsed.
        most = MAX_SCORES / math.hypot(norm, 1.0) if isinstance(norm, int | float) else MAX_RADIUS
        learner = {
            "name": self._learner,
            **self._columns(),
            "alpha": 0.5,
            "radius": min(MAX_RADIUS, most),
            "iterations": 500,
            "start": "public",
            "whitening": "public" if self._by_public else "none",
            **self._defaults,
            **settings,
        }
        if self.grid is None:
            return {"mu": "plan", **learner}
        judges = "public" if settings["private"] == "source" else "held-out"
        grid = {name: list(values) for name, values in frames.mapping(self.grid, "grid").items()}
        search = {"name": "chosen", "learner": learner, "grid": grid, "loss": self._loss, "judges": judges}
        return {"mu": "plan", **search, **CHOICE, **frames.mapping(self._value("choice"), "choice")}

    def _assumptions(self) -> tuple[str, ...]:
        return (*super()._assumptions(), "every record of the public sample")


class DomainAdapter(HybridClassifier, Adapter):
    """A classifier for a target domain with few private people, helped by a public sample of a source domain.

    ``fit`` runs NCnvxAdap (Bassily, Cortes, Mao & Mohri, 2024, Algorithm 2) in the embedded deployment: the people of X
    are the curator's and form the private target; ``public`` is the source, which everybody may see. It learns jointly
    a half-space and the weight of each record of both samples, with noise for the private ones. The people of
    ``population`` test the result, each with one randomized answer.

    Args:
        epsilon, delta: For each person of X: (epsilon, delta)-differential privacy of everything the curator releases;
            neighbours replace one record, the numbers of people are public. Each fit spends this anew. The default
            delta is the largest power of ten that is at most 1/(10 n), for n people of the curator's.
        agent_epsilon: For each person of the population: epsilon-local differential privacy of their answer.
        bounds: ``"public"``: the minimum and maximum of each column in the public sample, and features whitened by its
            moments while learning (``docs/adaptation.md``); no private record is used for that. Otherwise as for
            :class:`~tandem.estimators.transfer.TransferClassifier`, for both domains, with features scaled to
            [-1/2, 1/2]. Values beyond the bounds are clipped; if that concerns values of the *public* sample, there is
            a ``PublicClippingWarning``.
        schema: As for :class:`~tandem.estimators.transfer.TransferClassifier`, for both domains: then it has the
            bounds, and ``bounds="public"`` only requests whitening.
        settings: The learner's settings, by their names in a scenario (``docs/adaptation.md``). Among them are
            ``private`` (``"target"``, or ``"source"``: X is the source, ``public`` the target, the paper's Section 7;
            then a population of the target must be given), ``alpha`` (.5; in (0, 1): the weight of the source relative
            to the target, before weights are learned), ``iterations`` (500), ``radius`` (the maximum length of the
            weights, for scaled features and a constant; 64, or 512 over ``norm`` if that is less) and ``norm`` (longer
            vectors of scaled features are shortened to it while learning; 1 if they are whitened, which holds for three
            quarters of the public sample, else half the square root of their number). ``start`` is ``public``:
            learning begins at the fit of the public sample, where noise alone raises the loss by at most a quarter.
            ``output`` is ``average``: all iterates cost the same, and the average varies less than a random one.
        grid: Public values to try, by the learner's setting (``alpha``, ``kappa_1``, ``radius``, ...): selects the best
            of several runs on part of X, by a private score on the rest, all within epsilon and delta
            (``docs/hyperparameters.md``). The selected setting is not released. None: one run with the settings given.
        random_state, lifetime: As for :class:`~tandem.estimators.transfer.TransferClassifier`.
        options: ``classes``, ``population_fraction`` (.3) and ``id_column``, as for
            :class:`~tandem.estimators.transfer.TransferClassifier`; ``choice``: for the grid search, the ``law`` of the
            number of runs, the share for ``validation``, the ``cut`` of losses.

    Attributes:
        public_clipped_: Share of the public sample's values beyond their bounds, by column; columns without any are
            left out.
        classes_, hypothesis_, estimate_, guarantee_, result_, n_features_in_, feature_names_in_: As for
            :class:`~tandem.estimators.transfer.TransferClassifier`, whose errors ``fit`` raises.
    """

    _known_options: ClassVar = {**Adapter._known_options, "classes": None}
    _learner = "ncnvx-adap"
    _loss = "zero-one"
    _defaults: ClassVar = {"output": "average"}


class DomainAdapterRegressor(BoundedRegressor, Adapter):
    """A linear regression for a target domain with few private people, helped by a public sample of a source domain.

    ``fit`` runs CnvxAdap (Bassily, Cortes, Mao & Mohri, 2024, Algorithm 1) in the embedded deployment, as
    :class:`~tandem.estimators.adaptation.DomainAdapter` runs NCnvxAdap. Agents answer with their squared error,
    in [0, 1] by the public bounds of the response, rounded to a bit by chance and randomized.

    Args:
        epsilon, delta, agent_epsilon, bounds, schema, settings, grid, random_state, lifetime: As for
            :class:`~tandem.estimators.adaptation.DomainAdapter`. If not given, ``radius`` is 1, ``output`` is
            ``suffix``, and ``residual_clip`` is ``public``: noise is calibrated to the size of residuals of the public
            sample's fit.
        options: As there, without classes, and ``response_bounds``: *public* bounds (low, high) of the response, or
            ``"public"``: the minimum and maximum response of the public sample. Responses beyond them are clipped, in
            learning and in the agents' answers, so ``estimate_`` is the error for clipped responses.

    Attributes:
        estimate_: The mean squared error on the population, in the square of the response's units, with an interval,
            for responses clipped to ``response_bounds``.
        public_clipped_: As for :class:`~tandem.estimators.adaptation.DomainAdapter`; the response's share is under
            ``"response"``.
        hypothesis_, guarantee_, result_, n_features_in_, feature_names_in_: As for
            :class:`~tandem.estimators.transfer.TransferClassifier`, whose errors ``fit`` raises.
    """

    _known_options: ClassVar = {**Adapter._known_options, "response_bounds": "public"}
    _learner = "cnvx-adap"
    _loss = "squared"
    _defaults: ClassVar = {"radius": 1.0, "output": "suffix", "residual_clip": "public"}

    def _settle(self, sample: polars.DataFrame) -> None:
        bounds = self._value("response_bounds")
        if isinstance(bounds, str) and bounds == "public":
            low, high = frames.finite_range(sample[frames.RESPONSE].to_numpy())
            self._range = frames.check_pair((low, high), "the public sample's least and greatest response")
        else:
            self._range = frames.check_pair(bounds, "response_bounds")

    def _response_cost(self, sample: polars.DataFrame) -> float:
        return frames.response_cost(sample[frames.RESPONSE].to_numpy(), *self._range)

    def _columns(self) -> dict[str, int]:
        return {**super()._columns(), "response": self._schema.dimension}
