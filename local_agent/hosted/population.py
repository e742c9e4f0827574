"""A hosted population: very many people in one process, each of whom answers as often as the scenario allows.

Every person's answer is randomized independently; only the work is shared. Answers are on disk before they are sent.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from common.core.arrays import AnyArray, Bits, Indices
from common.core.durable import SPEAKS, claim, claim_people, hold, make_folder
from common.core.errors import AlreadyAnswered, BadInput, BadMessage
from common.core.machine import check_memory, on_all_cores, processors
from common.core.version import PROTOCOL
from common.crypto.identity import Identity, Signed
from common.data.population import RecordSource, open_records
from common.lifetime.charging import USERS_OWN, Charging
from common.local import packing
from common.local.hypotheses.hypothesis import ordinary_kinds
from common.local.packing import Mask, pack_answers
from common.net import messages
from common.net.messages import Spent
from common.numerics.counter import fill_words, stream
from common.numerics.kernels import njit, njit_inlined
from common.numerics.loops import all_distinct
from common.numerics.randomness import RandomSource, durable_secret, subseed
from common.privacy.guarantee import repeated
from common.scenario.accepting import check_real
from common.scenario.scenario import ResolvedScenario, data_folder
from local_agent.answers import Values, answer_mass, answer_together, blocks, evaluated
from local_agent.hosted import questions
from local_agent.person import checking
from local_agent.person.credential import held_grant
from local_agent.policy import ALL_HYPOTHESES, ALL_QUERIES, CheckedQuestion, PersonalPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from common.lifetime.account import Account
    from common.log.witness import Witness


_FEW = 1 << 20  # number of people whose answers always fit into memory
_ALONE = 1 << 16  # number of people whom one thread counts before others have started
_COUNTED = 2  # bytes per person: how often they answered, in all runs and in this one


class Population:
    """Hosted agents 0..size-1.

    BadInput if another process uses the same folder. BrokenLedger if a witness has seen another history: the folder
    is a copy. BadData if the files of who was asked are damaged. BudgetExceeded if the people have spent their
    lifetime budget in other runs.

    Args:
        source: Randomness of all answers, derived for each question, so that work after a crash is repeated exactly.
        answers: How often each person may answer in one run; a person who has answered in another run may not.
        dropout: Share of simulated people that never answer, in [0, 1): decided by a hash of the seed and the person.
        values: How a question is evaluated on simulated people; by default in this process.
        account: Account that is charged for the people before the first of them answers; None if no one is charged.
        witnesses: Services that are sent each question before it is answered (:mod:`local_agent.hosted.questions`).
    """

    def __init__(
        self,
        population: RecordSource,
        policy: PersonalPolicy,
        folder: Path,
        source: RandomSource,
        *,
        answers: int = 1,
        dropout: float = 0.0,
        seed: int = 0,
        values: Values = evaluated,
        account: Account | None = None,
        witnesses: Sequence[Witness] = (),
    ) -> None:
        self._population, self._policy, self._source, self._values = population, policy, source, values
        self._dropout, self._seed, self._first, self._most = dropout, seed, 0, answers
        self._account, self._charged = account, False
        self._lock = hold(folder)
        self._folder = folder / "answered"
        make_folder(self._folder, mode=0o700)
        self._questions: questions.QuestionChain | None = None
        self.spent: Spent | None = None  # budget that its people will have spent over all runs; None: not charged
        try:
            self.identity = Identity.load_or_create(folder / "identity.key")
            self._run, self._counts = "", questions.everybody_asked(self._folder, len(population), "")
            if account is not None:
                self.spent = account.check(self.identity.public)
            if account is not None or witnesses or (folder / "questions").exists():
                self._questions = questions.QuestionChain(folder, self.identity.public, witnesses, account)
        except BaseException:
            self._lock.close()
            raise

    def __len__(self) -> int:
        return len(self._population)

    def close(self) -> None:
        self._lock.close()

    def settle(self, first: int) -> None:
        """Set the number of the first person in the whole population: simulated people are numbered across hosts."""
        self._population = self._population.shifted(first)
        self._first = first

    @property
    def real(self) -> bool:
        return not self._source.simulated

    def keep_receipt(self, receipt: Signed, header: Signed, body: bytes) -> None:
        checking.store_receipt(self._folder.parent, receipt, header, body)

    @property
    def answered(self) -> int:
        return int(np.count_nonzero(self._counts[:, 0]))

    def enrolment(self) -> Signed:
        epsilon, delta = repeated((self._policy.epsilon, self._policy.delta), self._most)
        policy = replace(self._policy, epsilon=epsilon, delta=delta).announced(self._population.dimension)
        message = messages.Enrolment(agents=len(self), grant=held_grant(self._folder.parent), policy=policy)
        return self.identity.sign(message.KIND, message.wire())

    def answer(self, assignment: Signed, configuration: Signed) -> tuple[Signed, bytes]:
        """Answer for all people of an assignment, with a signed header and a packed body; idempotent.

        AlreadyAnswered if a person has answered as often as allowed. BadScenario if their answers do not fit into
        memory; nothing is charged then. BudgetExceeded or CannotWrite if the people cannot be charged. BrokenLedger if
        a witness has seen another question instead: another copy of the folder is in use. Forged, BadMessage,
        ConfigurationMismatch or PolicyRefused if the policy refuses; no record is read then.
        """
        question = self._policy.check(assignment, configuration, self._population.dimension)
        asked = question.assignment
        ending = questions.MASK if isinstance(asked, messages.MassAssignment) else questions.PEOPLE
        file = self._folder / f"{_run_of(asked)}-{asked.question}-{question.fingerprint[:32]}{ending}"
        stored = questions.report(file, self.identity)
        if stored is not None:
            return stored
        what = question.query, question.mechanism, self._population
        draw: Callable[[RandomSource, Values], AnyArray]
        people: People
        groups: Iterable[Indices]
        if isinstance(asked, messages.MassAssignment):
            people = mask = self._mask(asked)
            recorded = mask.tobytes()
            draw = partial(answer_mass, *what, mask, asked.slot)
            groups = (block for block, _ in blocks(mask, asked.slot))
        else:
            people, slots = self._asked(asked)
            recorded, groups = people.astype("<u4").tobytes(), [people]
            draw = partial(answer_together, *what, people, slots)
        _check_room(people, question)
        if self._account is not None and not self._charged:
            self.spent, _ = self._account.charge(self.identity.public, asked.digest)
            self._charged = True
        resumed = self._check_fresh(question, people, file, recorded)
        answers = draw(self._source, self._values)
        speaks = (
            np.concatenate([*map(self._speaks, groups)]) if self._dropout else np.ones(len(answers), dtype=np.bool_)
        )
        signed, body = self._packed(question, speaks, answers)
        # Before the answers leave, the people must be counted.
        try:
            questions.keep(file, recorded, signed, body)
        except BaseException:
            self._run = ""  # it is unknown whether they were stored: read the files again
            raise
        self._count(people, resumed)
        return signed, body

    def _packed(self, question: CheckedQuestion, speaks: NDArray[np.bool_], answers: AnyArray) -> tuple[Signed, bytes]:
        asked, body = question.assignment, pack_answers(speaks, answers, question.answer_kind)
        report = messages.PackedReport(
            report_id=secrets.token_hex(16),
            run=asked.run,
            digest=asked.digest,
            question=asked.question,
            assignment=question.digest,
            people=len(speaks),
            body_sha256=hashlib.sha256(body).hexdigest(),
        )
        return self.identity.sign(report.KIND, report.wire()), body

    def _asked(self, asked: messages.Assignment) -> tuple[Indices, Indices]:
        people = messages.unpack_indices(asked.people)
        slots = messages.unpack_slots(asked.slots, people.size)
        if people.size == 0 or people.max() >= len(self):
            raise BadMessage(f"an assignment names 1..{len(self)} of this population's people, each with a slot")
        if not all_distinct(people):
            raise BadMessage("an assignment may name each person only once")
        return people, slots

    def _mask(self, asked: messages.MassAssignment) -> Mask:
        mask = packing.decode_mask(asked.people, len(self))
        count = packing.count_ones(mask)
        if count == 0 or asked.slot + count > messages.MAX_AGENTS:
            raise BadMessage(f"an assignment asks 1..{len(self)} of this population's people, each with a slot")
        return mask

    def _check_fresh(self, question: CheckedQuestion, people: People, own: Path, recorded: bytes) -> bool:
        """Check that all people may answer, publish the question to the witnesses, and return whether it is resumed.

        A question is resumed if its people are stored and its report is damaged; no other question does that.
        AlreadyAnswered if some people have answered as often as they may.
        """
        run = _run_of(question.assignment)
        if self._run != run:
            counts, self._run = self._counts if self._run else None, ""  # until the files are read
            self._counts = questions.everybody_asked(self._folder, len(self), run, counts)
            self._run = run
        spent = count_spent(people, self._most, self._counts)
        resumed = own.exists() and questions.asked(own) == recorded
        if spent and not resumed:
            raise AlreadyAnswered(f"{spent} of the people asked have answered before, as often as they may")
        if self._questions is not None:
            self._questions.note(question.fingerprint)
        return resumed

    def _count(self, people: People, resumed: bool) -> None:
        if resumed:  # they may have been counted before: read the files again
            self._counts = questions.everybody_asked(self._folder, len(self), self._run)
        else:
            count_asked(people, self._counts)

    def _speaks(self, people: Indices) -> NDArray[np.bool_]:
        words = np.empty((len(people), 1), dtype=np.uint64)
        fill_words(stream(self._seed, 0), self._first + people, words)
        return np.asarray(words[:, 0] >= np.uint64(self._dropout * 2.0**64))


def _run_of(asked: messages.AnyAssignment) -> str:
    """Return a run's name and digest: a run with the same name and another configuration is another run."""
    return f"{asked.run}-{asked.digest[:16]}"


def _check_room(people: People, question: CheckedQuestion) -> None:
    """Check that the answers fit in memory three times (drawn, packed, in the report), with the mask of who answers."""
    asked = len(people) if people.dtype == np.int64 else packing.count_ones(people.view(np.uint8))
    if asked > _FEW:
        each = 3 * packing.answer_type(question.answer_kind).itemsize + 2
        check_memory(f"answering for {asked:,} people", each * asked, "host fewer here, and others on another machine")


Counts = Bits
"""Shape (size, 2): how often each person was asked, in all runs and in this one; adjacent for one memory access."""
People = Indices | Mask
"""The people asked: numbers, int64, shape (n,), or a bit per person, uint8, shape (ceil(size / 8),)."""


def count_spent(asked: People, most: int, counts: Counts) -> int:
    """Return how many of the people may not answer again: at most ``most`` times in this run, and in no other."""
    if asked.dtype == np.uint8:
        return int(_masked_spent(asked, most, _together(counts)))
    return sum(on_all_cores(lambda part: int(_listed_spent(part, most, _together(counts))), _shares(asked)))


def count_asked(asked: People, counts: Counts) -> None:
    """Add one for each person asked."""
    if asked.dtype == np.uint8:
        _masked_added(asked, counts)
    else:  # all differ, so no two threads count the same person
        on_all_cores(lambda part: _listed_added(part, _together(counts)), _shares(asked))


def _shares(people: AnyArray) -> list[AnyArray]:
    """Return the people in a part for each core, or in one part if they are few."""
    return np.array_split(people, processors() if len(people) > _ALONE else 1)


_ONE = np.uint16(0x0101)


def _together(counts: Counts) -> AnyArray:
    """Return a view of both counts of each person as one 16-bit number; neither count exceeds its byte."""
    return counts.view(np.uint16).reshape(-1)


@njit_inlined
def _spent(both: Any, most: int) -> Any:
    """Return whether two counts differ, or are equal and at least ``most``; the byte order does not matter."""
    lower = both & np.uint16(0xFF)
    return (lower >= most) | (both != lower * _ONE)


@njit
def _listed_spent(asked: AnyArray, most: int, counts: AnyArray) -> int:
    count = 0
    for k in range(len(asked)):
        count += _spent(counts[np.uint64(asked[k])], most)
    return count


@njit
def _masked_spent(asked: AnyArray, most: int, counts: AnyArray) -> int:
    count = 0
    for person in range(len(counts)):
        count += _spent(counts[person], most) & (asked[person >> 3] >> (7 - (person & 7)))
    return count


@njit
def _listed_added(asked: AnyArray, counts: AnyArray) -> None:
    for k in range(len(asked)):
        counts[np.uint64(asked[k])] += _ONE


@njit
def _masked_added(asked: AnyArray, counts: Counts) -> None:
    for person in range(len(counts)):  # byte by byte, which the compiler vectorizes
        one = (asked[person >> 3] >> (7 - (person & 7))) & 1
        counts[person, 0] += one
        counts[person, 1] += one


def open_population(
    scenario: ResolvedScenario,
    folder: Path,
    seed: int | None,
    referee: str,
    agents: int | None,
    workers: int = 0,
    charging: Charging = USERS_OWN,
    queries: frozenset[str] = ALL_QUERIES,
    witnesses: Sequence[Witness] = (),
) -> Population:
    """Return the hosted population of a resolved scenario.

    BadInput if workers are requested for real people, or real people would answer without privacy. BadScenario if the
    people's counts do not fit into memory.

    Args:
        folder: State directory; bound to the people and the seed at the first start.
        seed: Seed of simulated people; None uses that of the first start (0 at the first start).
        agents: Number of people to host; by default agents.count.
        workers: Number of Ray workers that draw simulated people and evaluate questions; 0: this process does it.
    """
    section, simulated = scenario.agents, scenario.people == "simulated"
    epsilon, delta = section.mechanism.guarantee
    _check_hosting(scenario, agents, workers)
    size = agents if agents is not None else section.count
    people = {"target": scenario.target.fingerprint(), "agents": size, "seed": seed if simulated else None}
    if size > messages.MAX_LISTED:
        check_memory(f"hosting {size:,} people", _COUNTED * size, "host fewer here, and others on another machine")
    facts = claim(folder, {SPEAKS: PROTOCOL, **people})
    seed = facts["seed"] if facts["seed"] is not None else 0
    source = RandomSource.seeded(seed, "agents") if simulated else durable_secret(folder / "secret.key")
    order = None if simulated else source.derive("order")
    population = open_records(scenario.target, data_folder(scenario), subseed(seed, "target"), size, order)
    claim_people(folder, population.fingerprint())
    account = None
    if charging.charges(scenario, "target"):
        from common.lifetime.account import Account  # imported late: simulated people need no database

        account = Account(charging, scenario, "target")
        account.identify()
    values: Values = evaluated
    if workers:
        from local_agent.hosted.cluster import over_workers  # Ray is an optional dependency

        values = over_workers(workers)
    hypotheses = ALL_HYPOTHESES if simulated else ordinary_kinds()
    policy = PersonalPolicy(referee, epsilon, delta, queries, hypotheses, simulated)
    return Population(
        population,
        policy,
        folder,
        source,
        answers=section.answers,
        dropout=section.dropout,
        seed=subseed(seed, "dropout"),
        values=values,
        account=account,
        witnesses=witnesses,
    )


def _check_hosting(scenario: ResolvedScenario, agents: int | None, workers: int) -> None:
    check_real(scenario)
    if workers and scenario.people != "simulated":
        raise BadInput("people are real: their records stay in this process, so leave out the workers")
    if scenario.target.table is not None and agents is not None:
        raise BadInput(
            "the people of a table are hosted together, agents.count of them, so that no person is hosted twice: leave "
            "out the number of agents"
        )
