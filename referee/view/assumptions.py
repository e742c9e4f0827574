"""Whether the agents' answers contradict what a scenario assumes of S and T."""

import math
from collections.abc import Mapping
from typing import Any

from common.protocols.base import demands_of
from common.scenario.accepting import violations
from common.scenario.scenario import ResolvedScenario
from common.statistics.formulas import largest_loss_on_target
from common.statistics.intervals import certainty
from referee.protocols.base import BUT, all_used
from referee.runs.percents import four_digits


def contradictions(scenario: ResolvedScenario, result: Mapping[str, Any]) -> list[str]:
    """Return which of a run's assumptions its answers contradict, in words; empty if none, or nothing is assumed.

    *Theorem.* Let a model err on at most a of S, let D = sup dT/dS and X = chi^2(T||S) + 1. Then it errs on at most

        min(D a, a + sqrt((X - 1) a (1 - a)))

    of T: the first by the densities' ratio, the second by Cauchy and Schwarz on (dT/dS - 1)(mistake - a) under S. The
    first round's model was learned on unweighted S, unless weights were handed over: then this check says nothing. The
    same holds for a loss in [0, 1] with mean a on S, whose variance is at most a (1 - a); alpha_H is added to the loss
    that the learner is assumed to reach. So if the agents show that the model errs on more of T, either it errs on more
    than a of S, or D and X are larger than assumed. As for every interval, this is about the agents that answer.

    If the plan violates no bound, all rounds are used with probability at most 3 beta (Theorem 4.3 with the rules of
    docs/corrections.md): a run that uses all of them contradicts the assumptions taken together.
    """
    rounds, demands = result.get("rounds") or [], demands_of(scenario.protocol)
    if not (rounds and demands.reweighs and demands.claims) or scenario.mode != "realizable" or scenario.handed_over:
        return []
    if scenario.agents.loss != "zero-one" and not scenario.agents.tests_convex:
        return []  # the assumptions are about mistakes, the answers are not
    if BUT in str(result["reason"]):
        return []  # answers are missing, or not such as honest agents give
    sentences = [_first_round(scenario, float(rounds[0]["low"]))] if rounds[0]["round"] == 1.0 else []
    last = scenario.curator.rounds
    best = scenario.accuracy.best
    perfect = f"that loses {best:g} at most on any dense part of S" if best else "without any mistake"
    rejected = str(result["reason"]).startswith(all_used(last))  # else agents ran out, and the last test was undecided
    used_up = rejected and result["status"] == "exhausted" and result["iterations"] == last == len(rounds)
    if used_up and not any(sentence.startswith("accuracy") for sentence in violations(scenario)):
        sentences.append(
            f"{all_used(last)}, which happens with probability {3.0 * scenario.beta:g} at most if the "
            f"divergence, accuracy.learner and a model {perfect} are as assumed, and those who answer are like all"
        )
    return [sentence for sentence in sentences if sentence]


def _first_round(scenario: ResolvedScenario, low: float) -> str:
    accuracy, x = scenario.accuracy, scenario.divergence.chi_squared
    assumed = (accuracy.best or 0.0) + accuracy.learner * scenario.alpha
    supremum = scenario.divergence.supremum or math.inf
    by_ratio, by_spread = min(1.0, supremum * assumed), largest_loss_on_target(assumed, x)
    if low <= min(by_ratio, by_spread):
        return ""
    ratio, spread = low / assumed, 1.0 + (low - assumed) ** 2 / (assumed * (1.0 - assumed))
    reasons = [f"D_inf is at least {four_digits(ratio, up=False)}, assumed as {supremum:g}"] if low > by_ratio else []
    if low > by_spread:
        reasons.append(f"chi^2 + 1 is at least {four_digits(spread, up=False)}, assumed as {x:g}")
    lower, upper = four_digits(low, up=False), four_digits(min(by_ratio, by_spread), up=True)
    return (
        f"among those who answer, with {certainty(1.0 - scenario.beta)} confidence, the first model errs on at least "
        f"{lower} of T, and one that errs on {assumed:g} of S, as accuracy.learner assumes, errs on {upper} of T at "
        f"most: either it errs on more of S, or {' and '.join(reasons)}"
    )
