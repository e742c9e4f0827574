"""One fit: the learner's settings, which protocol runs and how often, and the run itself in the embedded deployment."""

import inspect
import logging
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars
from sklearn.base import BaseEstimator

from common.core.errors import BadFit, BadInput, BudgetExceeded, FitFailed
from common.data.schema import Schema
from common.data.tables import Number
from common.lifetime.charging import Charging, GivenPeople, Side
from common.local.hypotheses.hypothesis import ordinary_kinds
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.scenario.fitting import ESTIMATED, Advice, accuracy, advice, steps
from common.scenario.scenario import ResolvedScenario, Scenario, parse
from curator.learners.base import Learner, parse_learner
from curator.learners.model_agnostic import ModelAgnostic
from curator.startup import referee_in
from deploy.checking import acceptable_of
from deploy.deployment import Embedded, RunOutput
from tandem.estimators.frames import RESPONSE, mapping, share_beyond

FIT, REWEIGH, PORTFOLIO, ONCE = "fit", "subsample-test-reweigh", "portfolio", "learn-and-test"
_REWEIGHED = {"rounds": 3, "kappa": 0.3, "eta": 0.3, "alpha": 0.1}
_LEARNT = {"rounds": 1, "kappa": 0.5, "eta": 0.3, "alpha": ESTIMATED}
DEFAULTS: Mapping[str, Mapping[str, float]] = {REWEIGH: _REWEIGHED, PORTFOLIO: _LEARNT, ONCE: _LEARNT}  # by protocol


class CannotHelpWarning(UserWarning):
    """Too few people to add anything: agents cannot judge, or the model or its probabilities may be noise alone."""


class PrivateClippingWarning(CannotHelpWarning):
    """Most values of a column are beyond its public bounds; only the holder of the records may see this."""


class PrivateConstantWarning(CannotHelpWarning):
    """A column is constant among the curator's people, not in the population; for the holder of the records only."""


MOST = 0.5
"""Share of a column's values beyond its bounds from which on a fit warns: fewer may be tails, clipped by intention."""


@dataclass(frozen=True)
class Choice:
    """The protocol and settings of a fit; ``portfolio`` has settings that differ from the defaults, None: none does."""

    protocol: str
    rounds: int
    kappa: float
    eta: float
    alpha: float
    portfolio: dict[str, Any] | None = None


UNDECIDED = Choice(ONCE, 1, _LEARNT["kappa"], _LEARNT["eta"], _LEARNT["alpha"])
"""Placeholder settings in a scenario whose numbers are read to get the advice."""


def advice_for(tree: Mapping[str, Any], *, response: bool = False) -> Advice:
    """Return the advice for the numbers of a scenario; the protocol that the scenario names has no effect."""
    with as_bad_fit():
        scenario = parse({**tree, "protocol": ONCE, "portfolio": None})
        suggested = advice(scenario, int(scenario.curator.n), int(scenario.agents.count), response=response)
    assert suggested is not None  # noqa: S101 - a classifier's mistakes can always be judged
    return suggested


def choose_protocol(
    protocol: str, mode: str, values: Mapping[str, float | None], advice: Advice, *, counted: bool = True
) -> Choice:
    """Return the protocol and settings of a fit: those given, else the protocol's defaults; BadFit if inconsistent.

    ``values`` are ``rounds``, ``kappa``, ``eta`` and ``alpha``, each a number or None; ``counted``: the learner's
    plan leaves a part of the budget for the count that teaching by agents requires.
    """
    if protocol not in (FIT, *DEFAULTS):
        raise BadFit(f"protocol must be {', '.join((FIT, *DEFAULTS))}, found {protocol!r}")
    name = advice.protocol if protocol == FIT else protocol
    if mode == "realizable" and name != REWEIGH:
        raise BadFit(f"mode='realizable' is for protocol={REWEIGH!r}, found protocol={protocol!r}: give that")
    numbers = {**DEFAULTS[name], **({"alpha": accuracy(advice)} if name == advice.protocol else {})}
    numbers |= {key: value for key, value in values.items() if value is not None}
    rounds = int(numbers["rounds"])
    if rounds > 1 and name != REWEIGH:
        raise BadFit(f"rounds = {rounds}: the curator learns once with protocol={name!r}; give protocol={REWEIGH!r}")
    settings = {"teach": 0.0} if name == PORTFOLIO and not counted else None
    return Choice(name, rounds, numbers["kappa"], numbers["eta"], numbers["alpha"], settings)


def warn_of_clipping(
    sides: Mapping[str, polars.DataFrame], schema: Schema, response: tuple[float, float] | None = None
) -> None:
    """Warn, before anything is spent, about columns of which the public bounds clip :data:`MOST` of the values or more.

    The shares are computed from people's records without any noise. So the warning is only for the holder of the
    records, in the process that has them, and no file or message of a run contains it. ``sides`` are people by the
    side's name in a sentence; ``response`` are the bounds of the response, if it is a number.
    """
    bounds: dict[str, tuple[float, float]] = {} if response is None else {RESPONSE: response}
    for feature in schema.features:
        if isinstance(feature, Number):
            low, high = bounds.get(feature.column, (-math.inf, math.inf))
            bounds[feature.column] = max(low, feature.low), min(high, feature.high)
    clipped = []
    for side, frame in sides.items():
        for column, (low, high) in bounds.items():
            share = share_beyond(frame[column], low, high, schema.layout)
            if share >= MOST:
                what = "y" if column == RESPONSE else repr(column)
                sentence = f"{share:.1%} of the {side}'s values of {what} are beyond {low:g} .. {high:g}"
                clipped.append((share, sentence))
    if clipped:
        more = f", and at least {MOST:.0%} of {len(clipped) - 1} further columns" if len(clipped) > 1 else ""
        bounds_of = "bounds=" if response is None else "bounds= and response_bounds="
        warnings.warn(
            f"{max(clipped)[1]}{more}: they are clipped to their bounds, so that people differ little. Give "
            f"{bounds_of} in the units of the columns, from what is publicly known. This share is private: it is for "
            "the keeper of the records alone, so neither pass it on nor choose bounds by it",
            PrivateClippingWarning,
            stacklevel=5,
        )


def warn_of_constants(sides: Mapping[str, polars.DataFrame], schema: Schema) -> None:
    """Warn, before anything is spent, about columns that are constant for the curator's people, not in the population.

    Nothing is learned about such a column: its weight, a small one, is noise, which changes the scores of all people
    with another value. As for :func:`warn_of_clipping`, the warning is only for the holder of the records. ``sides``
    are the curator's people, then the population if that is a separate one.
    """
    curators, *frames = sides.values()
    columns = dict.fromkeys(feature.column for feature in schema.features)
    fixed = [column for column in columns if len(curators) > 1 and curators[column].n_unique() == 1]
    pairs = [(column, other) for column in fixed for other in frames if other[column].dtype == curators[column].dtype]
    varying = list(dict.fromkeys(column for column, other in pairs if (other[column] != curators[column][0]).any()))
    if varying:
        more = f", and of {len(varying) - 1} further columns" if len(varying) > 1 else ""
        warnings.warn(
            f"all of the curator's people have the same value of {varying[0]!r}{more}, and the population has others: "
            "nothing is learned of it, and what noise leaves of its weight moves the scores of everybody with another "
            "value. Leave it out, if that is publicly known. Otherwise it is private: it is for the keeper of the "
            "records alone",
            PrivateConstantWarning,
            stacklevel=5,
        )


DIAMETER = 30.0
RECORDS_A_WEIGHT = 2  # records, or draws, that a teacher should have for each weight of a half-space
POINTS_A_WEIGHT = 4  # least labelled points of a student for each weight of a half-space, if there are so many
_TRIAL = 200  # artificial records on which a student is tried


def learner_tree(learner: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a learner that was given by its name only, or as a mapping."""
    return {"name": learner} if isinstance(learner, str) else plain(mapping(learner, "learner"))


def learner_settings(
    settings: dict[str, Any], people: int, public: int, rounds: int, diameter: float = DIAMETER
) -> dict[str, Any]:
    """Return a learner's settings; those not given follow from its name and from public numbers alone.

    ``full-batch`` and the ``discriminant`` take the least noise that the budget allows. ``sgd`` takes 1,000 steps per
    person (10,000 to 2,000,000 in all) with the least noise that the budget allows, and half-spaces whose weights, with
    the intercept, have length at most ``diameter``/2. ``model-agnostic`` labels all ``public`` points by the noisy
    votes of as many logistic regressions as the noise requires: trained on all people in a single round, or on a tenth
    as many draws in each of several rounds. (:func:`points_to_label` returns how many points are labelled.)
    """
    if settings.get("name") in ("full-batch", "discriminant"):
        return {"mu": "plan", **settings}
    if settings.get("name") == "sgd":
        return {"steps": steps(people), "noise": "plan", "diameter": diameter, **settings}
    if settings.get("name") == "model-agnostic":
        repeated = rounds > 1
        aggregation = {"name": "gnmax", **({"epsilon": "plan", "delta": "plan"} if repeated else {"noise": "plan"})}
        regression = {"classifier": "LogisticRegression", "parameters": {"C": 100.0}}
        models = {"teacher": regression, "student": regression}
        votes = {"queries": max(1, public), "chunks": "plan", "aggregation": aggregation}
        return {"draws": max(2, people // 10) if repeated else None, **models, **votes, **settings}
    return settings


class FewForTeachersWarning(UserWarning):
    """Teachers have fewer records than a half-space has weights, so their votes carry little information."""


def leaves_votes_open(learner: Mapping[str, Any]) -> bool:
    """Return whether the learner is model-agnostic, without given teachers, draws or queries."""
    return learner.get("name") == "model-agnostic" and not {"queries", "chunks", "draws", "aggregation"} & set(learner)


def points_to_label(queries: int, single: int, records: int, weights: int) -> tuple[int, float]:
    """Return how many points to label so that each teacher has enough records, and how many records it then has.

    The noise of GNMax grows with the square root of the number of answers, and the number of teachers with the noise.
    So a quarter of the points needs half of the teachers, with twice the records each. ``queries`` are public points,
    ``single`` the teachers that one answer needs, ``records`` those, or draws, for teaching, and ``weights`` the
    number of weights of a half-space, d + 1.
    """
    enough = (records / (single * RECORDS_A_WEIGHT * weights)) ** 2
    fewer = min(queries, max(POINTS_A_WEIGHT * weights, math.floor(enough)))
    fewer = max(1, min(fewer, math.floor(0.9 * (records / single) ** 2)))  # a teacher has at least one record
    return fewer, records / (single * math.sqrt(fewer))


def check_model(learner: Learner, dimension: int) -> None:
    """Refuse a student whose model real people's agents do not accept: a graph."""
    if not isinstance(learner, ModelAgnostic):
        return
    source = RandomSource.seeded(0, "trial")
    features = source.derive("features").uniforms(_TRIAL * dimension).reshape(_TRIAL, dimension).astype(np.float32)
    labels = (2 * source.derive("labels").integers(2, _TRIAL) - 1).astype(np.int8)
    model = learner.student.train(Records(features, labels), source)
    if model.kind not in ordinary_kinds():
        raise BadFit(
            f"the student's model would be of kind {model.kind!r}, which real people's agents do not accept: take one "
            "whose model is a half-space or trees"
        )


def plain(value: Any) -> Any:
    """Return a setting in a scenario's form: classifiers as their names and the parameters that are not default."""
    if isinstance(value, BaseEstimator):
        defaults = inspect.signature(type(value)).parameters
        parameters = value.get_params(deep=False).items()
        changed = {name: plain(parameter) for name, parameter in parameters if parameter is not defaults[name].default}
        return {"classifier": type(value).__name__, "parameters": changed}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


SOURCE, TARGET, PUBLIC = "source.parquet", "target.parquet", "public.parquet"
"""Files of the curator's people, of the population's, and of those whose records are public."""
_WHOSE = {SOURCE: "the curator's people", TARGET: "the population", PUBLIC: "the public sample"}

_MEMORY = Path("/dev/shm")  # noqa: S108  # the folder made in it is private to its owner
_ROOM = 64 << 20  # bytes that the parties' states may need beside the records

log = logging.getLogger("tandem")


@contextmanager
def as_bad_fit() -> Iterator[None]:
    """Translate the project's errors about input into :class:`BadFit`, which is a ValueError."""
    try:
        yield
    except BadFit:
        raise
    except (BadInput, BudgetExceeded) as error:
        detail = error.detail
        for file, who in _WHOSE.items():
            detail = detail.replace(f"{file}: line ", f"{who}, row ")
        raise BadFit(detail) from None


def resolved_scenario(tree: Mapping[str, Any], features: int) -> ResolvedScenario:
    """Return the resolved scenario for so many columns, after all checks that need no record.

    BadFit if a value is wrong, the learner guarantees nothing, or no noise fits the budget.
    """
    with as_bad_fit():
        n = int(parse(dict(tree)).curator.n)

        def with_people(people: int) -> Scenario:
            return parse({**tree, "curator": {**tree["curator"], "n": people}})

        too_few = f"n_samples={n} (n_features={features}) for the curator is too few"
        resolved = acceptable_of(with_people, n, too_few)
        if resolved.people == "real":
            check_model(parse_learner(resolved.curator.settings), resolved.source.dimension)
    return resolved


def run(
    resolved: ResolvedScenario,
    tables: Mapping[str, polars.DataFrame],
    seed: int | None,
    given_people: Mapping[Side, GivenPeople] = MappingProxyType({}),
) -> RunOutput:
    """Run a resolved scenario on the tables that it names, given by file name.

    ``given_people`` are those of each side in the form in which ``fit`` got them, by which other runs recognise them.
    BadFit if a record is not acceptable, found before any operation; FitFailed if the run ended without an answer.
    """
    size = sum(int(frame.estimated_size()) for frame in tables.values())
    with tempfile.TemporaryDirectory(prefix="tandem-fit-", dir=_place(size)) as folder:
        for name, frame in tables.items():
            frame.write_parquet(Path(folder) / name)
        with as_bad_fit():
            with_data = resolved.model_copy(update={"data": folder})
            charging = Charging(frames=given_people)
            embedded = Embedded(Path(folder) / "state", charging)
            try:
                output = embedded.run(with_data, seed, "fit", lambda text, _: log.info("%s", text))
            except (BadInput, BudgetExceeded) as error:
                if referee_in(Path(folder) / "state" / "curator") is None:
                    raise
                raise FitFailed(f"the run had begun, and what it may cost counts as spent: {error.detail}") from None
    if output.result["answer"] is None:
        raise FitFailed(f"the run was {output.result['status']}: {output.result['reason']}")
    return output


def _place(size: int) -> Path | None:
    try:
        roomy = shutil.disk_usage(_MEMORY).free > 4 * size + _ROOM
    except OSError:
        return None
    return _MEMORY if roomy and os.access(_MEMORY, os.W_OK) else None
