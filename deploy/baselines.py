"""Ground truth of experiments: the true loss of an answer on the target, and the results of baseline methods."""

from __future__ import annotations

import math
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.special import expit
from sqlalchemy.exc import OperationalError

from common.core.arrays import Floats
from common.core.errors import BadScenario, TandemError
from common.core.machine import on_one_thread
from common.data.population import RecordSource, open_records
from common.lifetime.charging import USERS_OWN, Charging
from common.local.hypotheses.hypothesis import Hypothesis, Linear, parse_hypothesis
from common.local.hypotheses.rules import Parity
from common.local.losses import UNIT, Costs, Loss, evaluate
from common.local.records import Records
from common.numerics.randomness import RandomSource, subseed
from common.protocols.base import demands_of
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario, Scenario, data_folder, parse, settled
from curator.mechanisms.parities import Equations
from deploy.deployment import Embedded, OnProgress
from referee.protocols.base import halts

MAX_PEOPLE = 1 << 21  # fresh simulated people on whom a hypothesis is evaluated: standard error below 0.00035
MAX_NUMBERS = 1 << 27  # most feature values drawn for that: fewer people if they have many features
_BLOCK = 1 << 18


def can_judge(scenario: Scenario) -> bool:
    """Return whether the true loss on T may be computed, and T's people are available (an operator may lack them)."""
    if scenario.people == "real" and not scenario.experiment:
        return False
    if scenario.target.distribution is not None:
        return True
    try:
        return data_folder(scenario) is not None
    except BadScenario:
        return False


def evaluation_source(scenario: Scenario, seed: int) -> RecordSource:
    """Return people of T for evaluation: fresh ones that no party has seen if simulated, else the whole table."""
    simulated = scenario.target.distribution is not None
    size = min(MAX_PEOPLE, MAX_NUMBERS // scenario.target.dimension) if simulated else None
    return open_records(scenario.target, data_folder(scenario), subseed(seed, "truth"), size)


@dataclass(frozen=True)
class Judgement:
    """The error rate of a hypothesis overall, and for label -1 and +1 (None if no person has that label).

    If one label is rare, a small overall loss means little: a constant prediction reaches it, too.
    """

    loss: float
    on_negative: float | None
    on_positive: float | None


def judge(hypothesis: Hypothesis, population: RecordSource) -> Judgement:
    """Return the losses of a hypothesis on the people of a record source."""
    people, wrong = {-1: 0, 1: 0}, {-1: 0, 1: 0}
    for records in _blocks(population):
        mistakes, labels = hypothesis.mistakes(records), hypothesis.labels(records)
        for label in people:
            holders = labels == label
            people[label] += int(np.count_nonzero(holders))
            wrong[label] += int(np.count_nonzero(mistakes[holders]))
    shares = {label: wrong[label] / people[label] if people[label] else None for label in people}
    return Judgement(sum(wrong.values()) / len(population), shares[-1], shares[1])


def loss(
    hypothesis: Hypothesis,
    population: RecordSource,
    kind: Loss = "zero-one",
    bound: float = UNIT,
    costs: Costs | None = None,
) -> float:
    """Return the mean loss of a hypothesis, as a fraction of its bound, on the people of a record source."""
    blocks = _blocks(population)
    return sum(float(evaluate(kind, hypothesis, records, bound, costs).sum()) for records in blocks) / len(population)


def _blocks(population: RecordSource) -> Iterator[Records]:
    for begin in range(0, len(population), _BLOCK):
        yield population.records(np.arange(begin, min(begin + _BLOCK, len(population))))


Finding = tuple[float, str]


_Place = tuple[Path, Charging]  # a baseline's folder, and where it is charged
_OPTIMUM_PEOPLE = 200_000
_FOLDS = 5
_PENALTY = 1e-4
_STOPPING = {"maxiter": 2000, "gtol": 1e-4, "ftol": 64 * float(np.finfo(float).eps), "maxls": 50}
"""Stopping criteria of a fit, the same as scikit-learn's."""


def run_baselines(
    asked: Scenario,
    result: dict[str, Any],
    seed: int | None,
    folder: Path,
    attempts: Attempts,
    on_progress: OnProgress,
    charging: Charging = USERS_OWN,
) -> dict[str, dict[str, float | str]]:
    """Run the baselines that a scenario names.

    Args:
        asked: The requested scenario, before planning: a baseline with one round needs its own plan.
        result: The hybrid run's result: the agents-only baseline gets as many agents as that run asked.
        seed: The run's seed; baselines draw other people.
        folder: The run's folder: a baseline works in its own directory below it, because there is room for a run there.
            (The directory for temporary files is often in memory.)
        attempts: Keeps the reason for each baseline that cannot run or gives no answer; those are left out.
        charging: The ledger in which the people whose records they use are charged.
    """
    methods: dict[str, Callable[[Scenario, dict[str, Any], int, _Place], Finding]] = {
        "curator-only": _curator_only,
        "agents-only": partial(_local, protocol="local-gradient-descent", words="local gradient descent"),
        "agents-once": partial(_local, protocol="local-averages", words="a discriminant from averages, asked once,"),
        "optimum": _optimum,
    }
    baselines: dict[str, dict[str, float | str]] = {}
    for name in asked.baselines:
        on_progress(f"baseline {name}", {})
        own = subseed(seed or 0, f"baseline {name}") % (1 << 31)
        work = partial(methods[name], asked, result, own, (folder, charging))
        finding = attempts.attempt(name, f"baseline {name}", work)
        if finding is not None:
            baselines[name] = {"loss_on_target": finding[0], "note": finding[1]}
    return baselines


def _curator_only(asked: Scenario, result: dict[str, Any], seed: int, place: _Place) -> Finding:
    # Even a portfolio of one round is repaired and judged by agents; here the curator only learns.
    demands = demands_of(asked.protocol)
    once = {"protocol": "learn-and-test", "portfolio": None} if demands.portfolio or demands.pairs else {}
    alone = resolve(_changed(asked, {"curator": {"rounds": 1}, "handed_over": [], **once}))
    note = "one round on the curator's sample, nothing reweighed"
    if asked.curator.epsilon is not None:
        note += "; planned noise spends the whole budget on it"
    return _loss_of(alone, seed, place), note


def _local(asked: Scenario, result: dict[str, Any], seed: int, place: _Place, protocol: str, words: str) -> Finding:
    count = max(2, int(result["agents"].get("people", result["agents"]["asked"])))
    chosen = resolve(asked)
    learner = {"name": "sgd", "loss": "logistic", "steps": 1, "noise": 1e5, "diameter": 1.0}
    # The curator does not take part: it holds a tiny sample, is never asked, and its people are charged its cap.
    idle = {"n": 16, "epsilon": 1e-3, "delta": 1e-9, "kappa": None, "eta": 1.0, "rounds": 1, "learner": learner}
    agents = {"count": count, "answers": 1, "loss": "zero-one", "bound": UNIT, "costs": None}
    alone = _changed(chosen, {"protocol": protocol, "curator": idle, "agents": agents, "handed_over": []})
    epsilon = chosen.agents.mechanism.guarantee[0]
    privacy = f"epsilon {epsilon:g}" if math.isfinite(epsilon) else "no privacy"
    return _loss_of(settled(alone), seed, place), f"{words} with {count:,} agents ({privacy}), no curator"


def _optimum(asked: Scenario, result: dict[str, Any], seed: int, place: _Place) -> Finding:
    if asked.target.table is not None:
        population = evaluation_source(asked, seed)
        words = "logistic regression on T itself, no privacy, 5-fold cross-validated"
        return cross_validated(population.records(np.arange(len(population)))), words
    sample = open_records(asked.target, None, subseed(seed, "optimum"), _OPTIMUM_PEOPLE)
    records = sample.records(np.arange(_OPTIMUM_PEOPLE))
    model: Hypothesis
    if asked.curator.settings.finds_parities:
        model, words = _parity(records), "equations solved"
    else:
        model, words = half_space(records), "logistic regression"
    return loss(model, evaluation_source(asked, seed)), f"{words} on {_OPTIMUM_PEOPLE:,} people of T, no privacy"


def cross_validated(records: Records) -> float:
    """Return the error rate in 5-fold cross-validation: each record is predicted by a fit of the other folds."""
    folds = np.array_split(np.random.default_rng(0).permutation(len(records)), _FOLDS)
    wrong = 0
    for i, fold in enumerate(folds):
        model = half_space(records.take(np.concatenate([*folds[:i], *folds[i + 1 :]])))
        wrong += int(np.count_nonzero(model.mistakes(records.take(fold))))
    return wrong / len(records)


def half_space(records: Records) -> Linear:
    """Return a weakly regularized logistic regression of the labels: minimizes mean loss plus 1e-4/(2n) ||w||^2.

    Uses L-BFGS like scikit-learn, which would take a second to import.
    """
    from scipy.optimize import minimize  # imported here: it takes a fifth of a second, and few runs need it

    features, labels = records.features.astype(np.float32, copy=False), records.labels.astype(np.float64)
    n = len(records)

    def value_and_slope(model: Floats) -> tuple[float, Floats]:
        weights, intercept = model[:-1], model[-1]
        margins = labels * (features @ weights.astype(np.float32) + intercept)
        pull = -labels * expit(-margins) / n
        value = np.logaddexp(0.0, -margins).mean() + _PENALTY / (2 * n) * (weights @ weights)
        slope = features.T @ pull.astype(np.float32) + _PENALTY / n * weights
        return float(value), np.append(slope, pull.sum())

    start = np.zeros(records.dimension + 1)
    with on_one_thread():
        solution = minimize(value_and_slope, start, jac=True, method="L-BFGS-B", options=_STOPPING).x
    return Linear(weights=tuple(solution[:-1].tolist()), threshold=-float(solution[-1]))


def _parity(records: Records) -> Parity:
    equations = Equations(records.dimension)
    equations.add(records.features, (records.labels > 0).view(np.uint8))
    solution = equations.point(RandomSource.seeded(0, "optimum"))
    return Parity(features=tuple(np.flatnonzero(solution).tolist()))


def _loss_of(scenario: ResolvedScenario, seed: int, place: _Place) -> float:
    folder, charging = place
    seeded = seed if scenario.people == "simulated" else None
    with tempfile.TemporaryDirectory(prefix="baseline-", dir=folder) as state:
        finished = Embedded(Path(state), charging).run(scenario, seeded, "baseline", lambda text, numbers: None)
    answer = finished.result["answer"]
    if answer is None:
        raise NoAnswer(f"{finished.result['status']}, {finished.result['reason']}")
    return loss(parse_hypothesis(answer), evaluation_source(scenario, seed))


def _changed(scenario: Scenario, changes: dict[str, Any]) -> Scenario:
    tree = scenario.wire()
    for key, value in changes.items():
        tree[key] = {**tree[key], **value} if isinstance(value, dict) and isinstance(tree[key], dict) else value
    return parse(tree)


T = TypeVar("T")


class NoAnswer(Exception):
    """A comparison ran and gave no answer; the message is the reason."""


class Attempts:
    """Comparisons that are attempted one after the other; a failure of one does not end a run that has its answer.

    A comparison is left out for errors that a scenario or a machine can cause: a sample without room, missing data, a
    full disk, too little memory, a refusal, a run without an answer. ``left_out`` has the reasons by name. Bugs raise.
    """

    def __init__(self, on_progress: OnProgress) -> None:
        self._watch = on_progress
        self.left_out: dict[str, str] = {}

    def attempt(self, name: str, words: str, work: Callable[[], T]) -> T | None:
        """Return the result of ``work``, or None if it cannot be done; ``words`` describe it to users."""
        try:
            return work()
        except (NoAnswer, TandemError, OSError, OperationalError, MemoryError) as error:
            self.left_out[name] = " ".join(str(error).split()) or type(error).__name__
            self._watch(f"{words} is left out: {self.left_out[name]}", {})
            return None


_OPTIMUM = "what was fitted to people of T without privacy"
NOTICEABLE = 0.005  # a smaller difference in loss is reported as none


def reading(
    asked: Scenario, result: dict[str, Any], hybrid: float, baselines: dict[str, dict[str, float | str]]
) -> str:
    """Return a sentence that compares the run's true loss, ``hybrid``, with those of its baselines, without reasons."""
    losses = {name: float(baseline["loss_on_target"]) for name, baseline in baselines.items()}
    alone, best = losses.get("curator-only"), losses.get("optimum")
    if alone is None:
        return ""
    if result["iterations"] == 1 and "candidates" not in result:
        passed = halts(asked) and result["status"] == "done"
        what = "the first hypothesis passed the agents' test" if passed else "there was one round"
        return f"{what}: nothing was reweighed"
    gain = alone - hybrid
    if gain > NOTICEABLE:
        left = "" if best is None else f", {abs(hybrid - best):.3f} {'above' if hybrid >= best else 'below'} {_OPTIMUM}"
        return f"the loss of the answer is {gain:.3f} below that of the curator alone{left}"
    if best is not None and alone - best <= 2 * NOTICEABLE:
        return f"no gain ({gain:+.3f}): the curator alone is {alone - best:+.3f} from {_OPTIMUM}, little is to repair"
    return f"no gain here ({gain:+.3f})"


def complete(
    result: dict[str, Any],
    asked: Scenario,
    seed: int | None,
    folder: Path,
    on_progress: OnProgress,
    charging: Charging = USERS_OWN,
) -> dict[str, Any]:
    """Return the result with truth, peak memory and the run folder's path.

    Parts of the truth and baselines that cannot be computed are left out, with their reasons in the truth's
    ``left_out``: a run that has its answer returns it, even if comparisons fail.

    Args:
        asked: The requested scenario, before planning. If its people are not available, truth is null.
    """
    truth: dict[str, Any] | None = None
    attempts, problem, people = Attempts(on_progress), asked.problem, asked.target.distribution
    if result["answer"] is not None and problem is not None and people is not None:
        check = partial(problem.judge, result["answer"], asked.alpha, people)
        truth = attempts.attempt("correct", "the truth", check) or {}
    elif result["answer"] is not None and problem is None and can_judge(asked):
        truth = attempts.attempt("loss_on_target", "the true loss", lambda: _losses(result, asked, seed or 0)) or {}
        if asked.baselines:
            truth["baselines"] = run_baselines(asked, result, seed, folder, attempts, on_progress, charging)
            if "loss_on_target" in truth:
                truth["reading"] = reading(asked, result, truth["loss_on_target"], truth["baselines"])
    if attempts.left_out:
        truth = {**(truth or {}), "left_out": attempts.left_out}
    used = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    unit = 1 if sys.platform == "darwin" else 1024
    return {**result, "truth": truth, "peak_memory_bytes": unit * used, "run": str(folder)}


def _losses(result: dict[str, Any], asked: Scenario, seed: int) -> dict[str, Any]:
    population, answer = evaluation_source(asked, seed), parse_hypothesis(result["answer"])
    losses = judge(answer, population)
    truth: dict[str, Any] = {
        "loss_on_target": losses.loss,
        "loss_on_negative": losses.on_negative,
        "loss_on_positive": losses.on_positive,
        "people": len(population),
    }
    agents = asked.agents
    if agents.loss == "squared":
        truth["mean_squared_error"] = loss(answer, population, "squared")
    if agents.bound != UNIT or agents.costs or agents.loss not in ("zero-one", "squared"):
        truth["tested_loss"] = loss(answer, population, agents.loss, agents.bound, agents.costs)
    if "tasks" in result:
        truth["tasks"] = [loss(parse_hypothesis(task["answer"]), population) for task in result["tasks"]]
    if asked.people == "real":
        truth["note"] = "found out from the people's own records: outside every guarantee"
    return truth
