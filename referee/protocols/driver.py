"""Drive a protocol: feed its generator, enforce its message pattern. The same loop runs live, resumes and audits."""

import math
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np

from common.core.errors import BadMessage, BadScenario, PatternViolation, PeerMisbehaved, PolicyRefused
from common.local.mechanisms.mechanism import BitMechanism, LocalRandomizer
from common.local.queries.query import Answers, AskAgents, Query
from common.operations.operation import Learn, Learned, Operation
from common.protocols.base import AskCurator, AskTogether, Progress, demands_of
from common.protocols.patterns import Party, Pattern
from common.scenario.accepting import in_range
from common.scenario.plan import plan
from common.scenario.scenario import ResolvedScenario
from common.statistics.evidence import implausible
from common.statistics.intervals import VAGUE, Estimate
from common.statistics.robustness import most_adversarial, silence_bound
from referee.protocols.base import BUT, Nonresponse, Outcome, Protocol, Script, Step, level_of, protocol_of

Exchange = Callable[[int, AskCurator | AskAgents], Any]
"""Carry out the exchange with a number; the reply is :class:`Answers`, or the JSON form of a curator's release."""


def drive(script: Script, pattern: Pattern, exchange: Exchange, on_progress: Callable[[Progress], None]) -> Outcome:
    """Run a protocol to its end.

    ``exchange`` is called with 0, 1, 2, ... and the message, only for legal messages, and returns the reply.
    PatternViolation if the protocol sends, or ends, out of turn; nothing was sent then. PeerMisbehaved if the curator
    released something other than the requested result.
    """
    number, reply = 0, None
    first: dict[int, int] = {}
    while True:
        try:
            step = script.send(reply)
        except StopIteration as end:
            pattern.end()
            outcome: Outcome = end.value
            return outcome
        if isinstance(step, Progress):
            on_progress(step)
            reply = None
            continue
        steps = step.steps if isinstance(step, AskTogether) else (step,)
        pattern = pattern.after(*map(_message, steps))
        steps = tuple(_grouped(number + place, single, first) for place, single in enumerate(steps))
        replies = [exchange(number + place, single) for place, single in enumerate(steps)]
        replies = [_read(single, replied) for single, replied in zip(steps, replies, strict=True)]
        reply = replies if isinstance(step, AskTogether) else replies[0]
        number += len(steps)


def _grouped(number: int, step: AskCurator | AskAgents, first: dict[int, int]) -> AskCurator | AskAgents:
    """Set ``again`` of a step to the number of its group's first question; ``first`` has that number of each group."""
    if not isinstance(step, AskAgents) or step.group is None or first.setdefault(step.group, number) == number:
        return step
    return replace(step, again=first[step.group])


def _message(step: AskCurator | AskAgents) -> tuple[Party, str]:
    return ("curator", step.operation.kind) if isinstance(step, AskCurator) else ("agents", step.query.kind)


def _read(step: AskCurator | AskAgents, reply: Any) -> Any:
    if isinstance(step, AskAgents):
        return reply
    try:
        return step.operation.read(reply)
    except BadMessage as error:
        what = f"nothing acceptable for {step.operation.kind!r}"
        raise PeerMisbehaved(f"the curator released {what}: {error.detail}") from None


_SIGMAS = 5.0  # standard deviations by which fewer may answer than the mean number that a scenario's dropout leaves


def begun(protocol: Protocol, scenario: ResolvedScenario, public: int) -> Script:
    """Start a protocol, as :meth:`~referee.protocols.base.Protocol.script` does, and check outcome and answers.

    ``done`` with fewer answers than :func:`needed` becomes ``exhausted``, with both numbers. A search that ends early
    asks fewer agents than were planned: then the number needed is that of those asked, less the scenario's dropout.
    With a problem each question needs its part of that number. A run also ends ``exhausted`` on answers that the
    agents' mechanism hardly ever gives (:mod:`common.statistics.evidence`), to one question or to all together: someone
    left out answers because of what they say, or many agents lie. Its estimates then state nothing. A hypothesis that
    the curator's learner cannot have given ends the run (:func:`check_learned`). Where agents were asked and did not
    answer, the outcome states what they could change (:func:`_with_silent`).
    """
    tally = _AnswerTally(scenario.agents.mechanism, scenario.agents.liars)
    outcome = yield from _counted(protocol.script(scenario, public), tally, scenario)
    least = min(needed(scenario), _expected(tally.asked, scenario)) if outcome.status == "done" else 0
    if tally.wrong is not None:
        outcome = _unknown(outcome, tally.wrong)
    elif tally.answered < least:
        outcome = _exhausted(
            outcome,
            f"{tally.answered:,} of {tally.asked:,} agents answered, and the guarantee takes {least:,}{_ENROL}",
        )
    elif scenario.problem is not None and least and (short := tally.short_of(least / tally.asked)):
        outcome = _exhausted(outcome, short)
    return _with_silent(outcome, list(tally.about.values()), scenario)


_ENROL = ": enrol more agents, or give them a longer agents.deadline"


def _exhausted(outcome: Outcome, why: str) -> Outcome:
    return replace(outcome, status="exhausted", reason=f"{outcome.reason}{BUT}{why}")


def check_beginning(scenario: ResolvedScenario) -> tuple[Operation[Any], ...]:
    """Refuse what a protocol refuses before its first messages; return the operations that these ask of the curator.

    Nothing is sent. BadScenario: the protocol refuses the scenario, or agents cannot randomize its first question.
    """
    script = begun(protocol_of(scenario), scenario, 0)
    try:
        with in_range():
            step = next(script)
            while isinstance(step, Progress):
                step = script.send(None)
    except StopIteration:
        return ()
    finally:
        script.close()
    steps = step.steps if isinstance(step, AskTogether) else (step,)
    for single in steps:
        if isinstance(single, AskAgents):
            try:
                scenario.agents.mechanism.answer_kind(single.query.domain)
            except PolicyRefused as error:
                raise BadScenario(error.detail) from None
    return tuple(single.operation for single in steps if isinstance(single, AskCurator))


class _AnswerTally:
    """Counts of the agents' answers so far; ``about`` maps each query's digest to how many were asked, and answered."""

    def __init__(self, mechanism: LocalRandomizer, liars: float) -> None:
        self._liars = liars
        self._mechanism = mechanism if isinstance(mechanism, BitMechanism) else None
        self._questions = self._ones = self._bits = 0
        self.about: dict[str, tuple[int, int]] = {}
        self.asked = self.answered = 0
        self.wrong: str | None = None

    def short_of(self, share: float) -> str | None:
        """Return a message about the first question that too few answered for this share; None if there is none."""
        for number, (asked, answered) in enumerate(self.about.values(), start=1):
            least = math.floor(share * asked - _SIGMAS * math.sqrt(asked * share * (1.0 - share)))
            if answered < least:
                return (
                    f"{answered:,} of {asked:,} agents answered question {number}, and the guarantee takes {least:,}"
                    f"{_ENROL}"
                )
        return None

    def take(self, query: Query, answers: Answers) -> None:
        """Count answers; keep in ``wrong`` a message about the first ones that honest agents hardly ever give."""
        self.asked += answers.asked
        self.answered += len(answers.values)
        digest = query.fingerprint()
        asked, answered = self.about.get(digest, (0, 0))
        self.about[digest] = asked + answers.asked, answered + len(answers.values)
        self._questions += 1
        if self._mechanism is None or answers.values.dtype != np.uint8:
            return
        ones, bits = int(answers.values.sum(dtype=np.int64)), len(answers.values)
        self._ones += ones
        self._bits += bits
        for subject, count, among in (
            (f"question {self._questions}", ones, bits),
            (f"the first {self._questions} questions", self._ones, self._bits),
        ):
            if self.wrong is None and implausible(self._mechanism, count, among, most_adversarial(among, self._liars)):
                low, high = 1.0 - self._mechanism.truth, self._mechanism.truth
                self.wrong = (
                    f"{count:,} of {among:,} answers to {subject} are 1, where honest ones are with a chance of "
                    f"{low:.3f} to {high:.3f} whatever people are like: answers were left out because of what they "
                    "say, or many agents lie"
                )


def _unknown(outcome: Outcome, wrong: str) -> Outcome:
    def vague(estimate: Estimate) -> Estimate:
        return estimate.model_copy(update={"low": 0.0, "high": 1.0})

    return replace(
        _exhausted(outcome, wrong),
        estimate=None if outcome.estimate is None else vague(outcome.estimate),
        tasks=tuple(_unknown(task, wrong) for task in outcome.tasks),
        judged=tuple(replace(candidate, estimate=vague(candidate.estimate)) for candidate in outcome.judged),
        gap=None if outcome.gap is None else 1.0,
        comparison=None if outcome.comparison is None else outcome.comparison.vague,
        constant=None if outcome.constant is None else outcome.constant.vague,
        pairs=tuple(replace(pair, low=-1.0, high=1.0) for pair in outcome.pairs),
        calibrated=None,
        quality=None,
        summary=None,
    )


def _counted(script: Script, counted: _AnswerTally, scenario: ResolvedScenario) -> Generator[Step, Any, Outcome]:
    reply, groups = None, Counter[int]()
    while True:
        try:
            step = script.send(reply)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        steps = step.steps if isinstance(step, AskTogether) else (step,)
        groups.update(single.group for single in steps if isinstance(single, AskAgents) and single.group is not None)
        if max(groups.values(), default=0) > scenario.agents.answers:
            raise PatternViolation(f"the protocol asks agents more often than agents.answers={scenario.agents.answers}")
        reply = yield step
        for single, summary in zip(steps, reply if isinstance(reply, list) else [reply], strict=True):
            if isinstance(summary, Answers) and isinstance(single, AskAgents):
                counted.take(single.query, summary)
            elif isinstance(single, AskCurator) and isinstance(single.operation, Learn):
                check_learned(scenario, single.operation, summary)


def _with_silent(outcome: Outcome, questions: list[tuple[int, int]], scenario: ResolvedScenario) -> Outcome:
    """Return the outcome with what those who were asked and did not answer could change (:class:`Nonresponse`).

    Every interval, test and gap is about those who answer. If it is known which answers the estimate is computed from,
    the missing ones among them count, else those of the question that the smallest share answered; of several tasks,
    those of the task with the most. Whether they matter depends on what the run states, all missing answers being
    counted against it: a level is still shown only if it is above the largest possible loss, an interval becomes a
    wider one, which may still be informative, and a gap or the answer to a problem is no longer shown.
    """
    tasks = tuple(_with_silent(task, questions, scenario) for task in outcome.tasks)
    confidence, summary = 1.0 - scenario.beta, outcome.summary
    if summary is not None:
        silence = silence_bound([(summary.asked, summary.count)], confidence, summary.among)
    else:
        silence = silence_bound(questions, confidence)
    if tasks:
        silence = max((t.silent.silence for t in tasks if t.silent), key=lambda s: s.most, default=None)
    if silence is None:
        return replace(outcome, tasks=tasks)
    estimate = None if outcome.estimate is None else silence.widened(outcome.estimate)
    gap = None if outcome.gap is None else silence.exceeded(outcome.gap)
    left_out = None if summary is None else summary.left_out()
    matters = any(t.silent.matters for t in tasks if t.silent) if tasks else _matters(outcome, left_out, scenario)
    return replace(outcome, tasks=tasks, silent=Nonresponse(silence, estimate, gap, left_out, matters))


def _matters(outcome: Outcome, left_out: Estimate | None, scenario: ResolvedScenario) -> bool:
    if left_out is None or outcome.gap is not None:
        return True
    level = level_of(scenario)
    if outcome.status == "done" and level is not None:
        return left_out.high >= level
    return left_out.high - left_out.low > VAGUE


def needed(scenario: ResolvedScenario) -> int:
    """Return how many answers a run needs to end ``done``.

    With a problem: as many as its plan would ask if everybody answered; fewer are refused beforehand. With one test
    after one learner call: the plan's number, or, where the scenario asks fewer agents or no number suffices, what its
    dropout leaves of them. A sequential test decides by the answers it has, so it needs no more: 0.
    """
    if scenario.alone == "curator":
        return 0
    section = scenario.agents
    if scenario.problem is not None:
        everybody = replace(scenario.plan_inputs, dropout=0.0)
        return math.ceil(scenario.problem.plan(everybody, scenario.bounds == "paper")["agents"].rule or 0.0)
    if demands_of(scenario.protocol).reweighs:
        return 0
    expected = _expected(section.count, scenario)
    try:
        return min(int(plan(scenario).answers.value), expected)
    except BadScenario:  # the budget for the answers is spent by now, and what they show holds
        return expected


def _expected(asked: int, scenario: ResolvedScenario) -> int:
    dropout = scenario.agents.dropout
    return math.floor(asked * (1.0 - dropout) - _SIGMAS * math.sqrt(asked * dropout))


def check_learned(scenario: ResolvedScenario, asked: Learn, learned: Learned) -> None:
    """Raise :class:`PeerMisbehaved` for a hypothesis that the curator's learner cannot have given.

    The number of features is compared only where it is known without anybody's data: for simulated people.
    """
    learner, hypothesis = scenario.curator.learner, learned.hypothesis
    if learner is not None and not learner.can_give(hypothesis):
        raise PeerMisbehaved(
            f"the curator released a hypothesis of kind {hypothesis.kind!r} that its learner {learner.name!r}, with "
            "the settings of the scenario, cannot give"
        )
    distribution = scenario.source.distribution
    if asked.task is None and distribution is not None and hypothesis.min_features > distribution.dimension:
        raise PeerMisbehaved(
            f"the curator released a hypothesis over {hypothesis.min_features:,} features, its people have "
            f"{distribution.dimension:,}"
        )
