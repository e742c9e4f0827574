"""Hand-over: one task after the other on the same people, each from the weights that the one before it left.

The open problem of R. Kohen and O. Sheffet, "Transfer Learning in Differential Privacy's Hybrid-Model", ICML 2022:
"person A applied the paradigm until she finds a good hypothesis, then hands over her last set of weights to Person B
who uses it for learning a different hypothesis". docs/hand-over.md has the proofs in full.
"""

from __future__ import annotations

from common.protocols.steps import Progress
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.vocabulary.demands.base import pattern_of
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script
from referee.protocols.examples import small_ball
from referee.protocols.transfer.subsample_test_reweigh import run_rounds


@PROTOCOLS.register("hand-over")
class HandOver(Protocol):
    """Subsample-Test-Reweigh for each of the scenario's tasks in turn; the curator's weights are never reset.

    *Privacy.* All tasks' learner calls are made on the same people, so they share the curator's budget and its
    ``rounds``: the guarantee of the whole run holds for each person with all their labels. Every call is charged at the
    number of reweighs that came before it, whatever task they were for. That is sound: the log-weight of a record,
    -eta sum_r (1 - loss_r(record)), is a function of the record and of public messages, so replacing one record changes
    one weight; after t reweighs two weights differ by a factor of e^{eta t} at most; and so the sampling bound
    s_t = min(e^{eta t}/(n - 1 + e^{eta t}), 1/(kappa n)) holds for any sequence of public hypotheses about any labels.

    *Rounds.* Let u be the good distribution on the sample (w = dT/dS, cut off and normalized: it knows no labels), W_t
    the weights after t reweighs, normalized, and mu_t their projection. The potential KL(u || W_t) - KL(mu_t || W_t)
    is never negative, is K at the start, and falls by 2 g^2 or more with each reweigh by a hypothesis whose loss on T
    is above the level while the learner kept its accuracy on mu (step eta = 4 g). So there are at most K/(2 g^2)
    reweighs *in all tasks together*: m tasks take floor(K/(2 g^2)) + m rounds, where m separate runs may take m times
    floor(K/(2 g^2)) + 1. With probability 1 - 3 beta, if Lemma 3.2's uniform convergence holds for all tasks' losses
    (``vc_dimension`` is that of their union). Where a learner misses its accuracy, reweighing may move mu away from T,
    and then the potential that a task takes over may be larger than the K of a fresh start.

    A task's accepted hypothesis is not reweighed by, as Algorithm 2 does not. A task that runs out of rounds or agents
    ends the run: later ones are not begun. Agnostic (no theorem): each task gets an equal share of the rounds.
    """

    title = "Hand-over"
    tests_level = True
    done = (
        "for each task the agents' test has rejected that the loss on T is {level} or more among those who answer; "
        "with probability {beta} at most a run rejects this although it is true, over all its tasks and rounds"
    )
    pattern = pattern_of("hand-over")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return a small scenario about a ball."""
        return (small_ball("protocol=hand-over"),)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """For each task, Algorithm 2 from the weights of the last one, in the rounds that are left."""
        tasks, rounds = scenario.tasks or (None,), scenario.curator.rounds
        ended: list[Outcome] = []
        used = 0
        for number, task in enumerate(tasks, start=1):
            if used == rounds or (ended and scenario.mode == "realizable" and ended[-1].status != "done"):
                break
            last = rounds if scenario.mode == "realizable" else max(used + 1, rounds * number // len(tasks))
            outcome = yield from run_rounds(scenario, task, used + 1, last)
            ended.append(outcome.ended(outcome.iterations - used, outcome.reason))
            used = outcome.iterations
            yield Progress(f"task {number} of {len(tasks)}: {outcome.status}, {outcome.reason}", {})
        final = ended[-1]
        if len(ended) < len(tasks) and final.status == "done":
            reason = f"all {rounds} rounds were used before task {len(ended) + 1}"
            return Outcome("exhausted", used, final.answer, final.estimate, reason, tuple(ended))
        return Outcome(final.status, used, final.answer, final.estimate, final.reason, tuple(ended))
