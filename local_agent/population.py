"""A hosted population: very many people in one process, each still answering at most once.

Every person's answer is randomized on its own; only the work is shared. What was answered is on disk before it is sent.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.core.arrays import AnyArray, Indices
from common.core.errors import AlreadyAnswered, BadMessage
from common.numerics.counter import fill_words, stream
from common.numerics.randomness import RandomSource
from common.people.spec import RecordSource
from common.vocabulary.mechanisms.base import LocalRandomizer
from common.vocabulary.packing import answer_type, pack_answers
from common.vocabulary.queries.base import Query
from common.wire import messages
from common.wire.identity import Identity, Signed
from common.wire.state import hold, write_durably
from local_agent.answering import CONSTANT, evaluate, noise_for, question_digest, randomize
from local_agent.own_noise import MOST, NotOneEach, OwnNoise
from local_agent.policy import Policy, Question

BLOCK = 1 << 18
"""People whose records are in memory at the same time."""


class Population:
    """Hosted agents 0..size-1.

    Parameters
    ----------
    population
        The people.
    policy
        The rules of each of them.
    folder
        State directory: key, secret, and one file per answered question.
    source
        Randomness of all answers; derived anew for each question: work cut off by a crash is repeated bit for bit.
    dropout
        Share of simulated people that never answer, in [0, 1): decided by a hash of the seed and the person.
    seed
        Seed of that hash.

    Raises
    ------
    BadInput
        If another process works on the same folder.
    """

    def __init__(
        self,
        population: RecordSource,
        policy: Policy,
        folder: Path,
        source: RandomSource,
        *,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._population = population
        self._policy = policy
        self._lock = hold(folder)
        self._folder = folder / "answered"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._source = source
        self._dropout = dropout
        self._seed = seed
        self.identity = Identity.load_or_create(folder / "identity.key")
        self._first = 0
        self._answered = np.zeros(len(population), dtype=np.bool_)
        for path in self._folder.glob("*.people"):
            self._answered[np.frombuffer(path.read_bytes(), dtype="<u4")] = True

    def __len__(self) -> int:
        return len(self._population)

    def close(self) -> None:
        """Let go of the state directory."""
        self._lock.close()

    def settle(self, first: int) -> None:
        """Take the place in the whole population that the referee gave: simulated people are numbered across hosts."""
        self._population = self._population.shifted(first)
        self._first = first

    @property
    def real(self) -> bool:
        """Whether its people are real: then their answers leave at a public time."""
        return not self._source.simulated

    @property
    def answered(self) -> int:
        """How many people have been asked already."""
        return int(np.count_nonzero(self._answered))

    def enrolment(self) -> Signed:
        """Return the signed request to be enrolled."""
        message = messages.Enrolment(agents=len(self))
        return self.identity.sign(message.KIND, message.wire())

    def answer(self, assignment: Signed, configuration: Signed) -> tuple[Signed, bytes]:
        """Answer for all people of an assignment, once; the same assignment again gets the same stored report.

        Returns
        -------
        The signed header and the packed body.

        Raises
        ------
        AlreadyAnswered
            If one of the people was asked before.
        Forged, BadMessage, ConfigurationMismatch, PolicyRefused
            As :meth:`local_agent.policy.Policy.check`; no record is touched then.
        """
        question = self._policy.check(assignment, configuration, self._population.dimension)
        asked = question.assignment
        stored = self._folder / f"{asked.run}-{asked.question}-{question.fingerprint[:32]}"
        if stored.with_suffix(".report").exists():
            header, _, body = stored.with_suffix(".report").read_bytes().partition(b"\n")
            return Signed.model_validate_json(header), body
        people, slots = self._asked(asked, stored.with_suffix(".people"))
        body = self._pack(question, people, slots)
        report = messages.PackedReport(
            report_id=secrets.token_hex(16),
            run=asked.run,
            digest=asked.digest,
            question=asked.question,
            assignment=asked.fingerprint(),
            people=len(people),
            body_sha256=hashlib.sha256(body).hexdigest(),
        )
        signed = self.identity.sign(report.KIND, report.wire())
        # The people first: once their answers exist anywhere, nobody may ask them again.
        write_durably(stored.with_suffix(".people"), people.astype("<u4").tobytes(), mode=0o600)
        self._answered[people] = True
        write_durably(stored.with_suffix(".report"), signed.model_dump_json().encode() + b"\n" + body, mode=0o600)
        return signed, body

    def _asked(self, asked: messages.Assignment, own: Path) -> tuple[Indices, Indices]:
        people, slots = messages.unpack_indices(asked.people), messages.unpack_indices(asked.slots)
        if people.size == 0 or people.shape != slots.shape or people.max() >= len(self):
            raise BadMessage(f"an assignment names 1..{len(self)} of this population's people, each with a slot")
        if np.unique(people).size != people.size:
            raise BadMessage("an assignment may name each person only once")
        # A crash may have cut off exactly this question between recording the people and storing the report. Nothing
        # but this question may resume it: a changed one would be a second answer of the same people.
        resumes = own.exists() and own.read_bytes() == people.astype("<u4").tobytes()
        if self._answered[people].any() and not resumes:
            raise AlreadyAnswered(f"{int(self._answered[people].sum())} of the people asked have answered before")
        return people, slots

    def _pack(self, question: Question, people: Indices, slots: Indices) -> bytes:
        answers = answer_together(question.query, question.mechanism, self._population, people, slots, self._source)
        kind = question.mechanism.answer_kind(question.query.domain)
        return pack_answers(self._speaks(people), answers, kind)

    def _speaks(self, people: Indices) -> NDArray[np.bool_]:
        if self._dropout == 0.0:
            return np.ones(len(people), dtype=np.bool_)
        words = np.empty((len(people), 1), dtype=np.uint64)
        fill_words(stream(self._seed, 0), self._first + people, words)
        return np.asarray(words[:, 0] >= np.uint64(self._dropout * 2.0**64))


def evaluate_people(query: Query, population: RecordSource, people: Indices, slots: Indices) -> AnyArray:
    """Evaluate a query on some people of a record source, as :func:`evaluate`.

    A record that cannot be read is one that cannot be evaluated: whether it can may depend on what is in it.
    """
    wanted = np.dtype(np.float64 if query.domain is None else np.uint64)
    try:
        records = population.records(people, query.columns)
    except Exception:  # noqa: BLE001 - nobody may see that it failed: not by silence, and not by a reason given
        if len(people) == 1:
            return np.array([CONSTANT], dtype=wanted)
        each = [evaluate_people(query, population, people[i : i + 1], slots[i : i + 1]) for i in range(len(people))]
        return np.concatenate(each) if each else np.empty(0, dtype=wanted)
    return evaluate(query, records, slots)


def answer_together(
    query: Query,
    mechanism: LocalRandomizer,
    population: RecordSource,
    people: Indices,
    slots: Indices,
    source: RandomSource,
) -> AnyArray:
    """Return the randomized answers of some people of a record source, in their order, :data:`BLOCK` records at a time.

    The randomness is keyed by who answers what: people answer once in their lives, so no two answers ever share random
    bits, across runs too. Keys and run names stay out of it: a seeded run is the same run in every deployment. Where
    people are real each has noise of their own for each question (:func:`local_agent.answering.noise_for`), whoever is
    asked beside them: copies of the state give the same answers.
    """
    what = question_digest(query, mechanism)
    if not source.simulated:
        return _answer_each(query, mechanism, what, population, people, slots, source)
    own = source.derive("answers", hashlib.sha256(people.tobytes() + slots.tobytes()).hexdigest(), what)
    answers: AnyArray = np.empty(len(people), dtype=answer_type(mechanism.answer_kind(query.domain)))
    for begin in range(0, len(people), BLOCK):
        block = slice(begin, min(begin + BLOCK, len(people)))
        values = evaluate_people(query, population, people[block], slots[block])
        answers[block] = randomize(query, values, mechanism, slots[block], own)
    return answers


def _answer_each(
    query: Query,
    mechanism: LocalRandomizer,
    what: str,
    population: RecordSource,
    people: Indices,
    slots: Indices,
    secret: RandomSource,
) -> AnyArray:
    parts = query.parts(slots).tolist()
    answers: AnyArray = np.empty(len(people), dtype=answer_type(mechanism.answer_kind(query.domain)))
    for begin in range(0, len(people), MOST):
        block = slice(begin, min(begin + MOST, len(people)))
        values = evaluate_people(query, population, people[block], slots[block])
        whose = list(zip(parts[block], people[block].tolist(), strict=True))

        def streams(whose: list[tuple[int, int]] = whose) -> list[RandomSource]:
            return [noise_for(what, part, person, secret) for part, person in whose]

        try:
            answers[block] = randomize(query, values, mechanism, slots[block], OwnNoise(streams()))
        except NotOneEach:
            for place, own in enumerate(streams()):
                one = slice(begin + place, begin + place + 1)
                answers[one] = randomize(query, values[place : place + 1], mechanism, slots[one], own)
    return answers
