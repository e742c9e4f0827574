"""Model-agnostic private learning: classifiers as black boxes that vote on public points."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

import numpy as np

from common.core.arrays import AnyArray, Indices
from common.core.errors import BadInput, BadScenario
from common.learners.model_agnostic import ModelAgnosticSettings, SparseVector
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Labelled, OpenedStream
from common.privacy.theorems.votes import Thresholds
from curator.learners import foreign
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.learners.scikit import Trainable
from curator.learners.teachers import (
    MAX_SET_ASIDE,
    ColumnClasses,
    LabelClasses,
    StreamOfAnswers,
    TeacherAnswers,
    TeacherStream,
)
from curator.mechanisms.access import Access, Stream
from curator.sample.base import Sample

_TRIAL, _MAX_TRIAL = 1000, 1 << 14  # random records for a trial of the classifiers before anything is charged
_TEACHER = 1 << 14  # bytes of a fitted classifier, apart from what grows with its chunk


@LEARNERS.register("model-agnostic")
class ModelAgnostic(ModelAgnosticSettings, Learner):
    """A_priv: teachers on disjoint chunks label public points privately, and a student learns from these labels.

    Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (NeurIPS 2018), Algorithm 3, with the corrections
    of docs/model-agnostic.md. The student, and anything else computed from the labels, is post-processing.

    *On the sample itself* (``draws: null``) the weights are not used. A call costs what its answers cost: exact
    Gaussian releases (``gnmax``), or one (epsilon, delta)-DP release (the others). *On m' draws of mu*, inside
    Subsample-Test-Reweigh, draw j is in chunk j mod k. Given m' rows, the answers are (epsilon, delta)-DP for replacing
    one, and the subsampling lemma gives the cost (:func:`common.privacy.theorems.composition.subsampled`).

    ``protects: labels`` is the paper's label-private setting (its Section 5), in which *features are public*. The
    features of the first half of the sample are then the public points, their labels are discarded, and teachers learn
    from the second half. Replacing a *label* changes at most one chunk, so the same epsilon and delta hold for labels
    only; nothing at all is claimed about features. As it weakens the guarantee, only this setting turns it on.

    If no label is released (bottom, or after the last bottom), the student gets a fair coin's label, as in the paper;
    with C classes, a uniform one. Several classes cost what two cost, since one teacher changes at most two counts.
    """

    teacher: Trainable
    student: Trainable

    examples: ClassVar = (
        {key: {"classifier": "DecisionTreeClassifier"} for key in ("teacher", "student")}
        | {"aggregation": {"name": "gnmax", "noise": 8.0}, "chunks": 50, "queries": 1000, "protects": "labels"},
    )

    @property
    def _classes(self) -> LabelClasses | ColumnClasses:
        return LabelClasses() if self.classes is None else ColumnClasses.parse(self.classes.wire())

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        dimension = self._classes.before(dimension)
        network = self.teacher.network
        if network is not None:
            network.check(dimension, self._classes.number)
        points, classes = _random(min(self.queries, _MAX_TRIAL), dtype, dimension, self._classes.number)
        self.transfer(points, classes, RandomSource.seeded(0, "trial").derive)
        self.teacher.check_trainable(*_random(_TRIAL, dtype, dimension, self._classes.number))

    def check_public(self, public: Records | None) -> None:
        count = self.points_of(0, public)
        if self.protects == "records" and count < self.queries:
            raise BadScenario(
                f"the learner labels {self.queries} public points, the scenario's public section has {count}: "
                "give it a larger count, or lower queries"
            )

    def check_people(self, people: int) -> None:
        size = people if self.draws is None else self.draws
        teaching = self.teaching(size - size // 2 if self.protects == "labels" else size)
        self.aggregation.check(self.sequence, self.chunks, teaching, self.touched)
        if self.chunks > teaching:
            raise BadScenario(f"{self.chunks} chunks are more than the {teaching} records that teach: lower chunks")
        if self.protects == "labels" and self.queries > self.points_of(people, None):
            raise BadScenario(
                f"{self.queries} points are to be labelled, the unlabelled half of the sample has {people // 2}"
            )

    def check_here(self) -> None:
        if self.teacher.missing:
            raise BadScenario(self.teacher.missing)

    def check_run(self, rounds: int, operations: Collection[str]) -> None:
        if self.stream is not None and (rounds > 1 or "label" not in operations):
            raise BadScenario("a stream is opened once, by protocol model-agnostic with curator.rounds: 1")

    def noise_numbers(self, sizes: CallSizes) -> int:
        return self.class_count

    def room(self, sizes: CallSizes) -> int:
        """Return the bytes of the records, counted three times, the votes, twice, and the teachers of a stream."""
        records = sizes.people if self.draws is None else self.draws
        ballots = self.chunks * (self.queries + (MAX_SET_ASIDE if self.sets_aside else 0))
        stream_bytes = 0 if self.stream is None else self.chunks * _TEACHER + records * 128
        network, count = self.teacher.network, 0 if self.stream is None else self.chunks
        if network is not None:
            stream_bytes += foreign.room(network, self._classes.before(sizes.dimension), self._classes.number, count)
        return records * (3 * sizes.width + 32) + 2 * ballots + stream_bytes

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        points = self.points(access, public, 0, self.queries)
        return self.transfer(points, self.answers(access, points), access.coins)

    def points_of(self, people: int, public: Records | None) -> int:
        """Return how many public points there are with a sample of ``people``."""
        if self.protects == "labels":
            return people // 2
        return 0 if public is None else len(public)

    def points(self, access: Access, public: Records | None, first: int, count: int) -> AnyArray:
        """Return the teachers' view of ``count`` public points from number ``first`` on, shape (count, d)."""
        if self.protects == "labels":
            last = min(first + count, access.people // 2)
            return self._classes.inputs(access.features(first, last - first))
        if public is None:
            raise AssertionError("a public sample was checked for")
        return self._classes.inputs(public.features[first : first + count])

    def answers(self, access: Access, points: AnyArray) -> Indices:
        """Release the private classes of points, shape (m,), int64 in [0, C); negative where none is released."""
        return access.release(self.mechanism(points), draws=self.draws)

    def mechanism(self, points: AnyArray) -> TeacherAnswers:
        settings = (self.aggregation, self.teacher, self._classes, self.chunks, self.by, self.sequence)
        return TeacherAnswers(*settings, points, drawn=self.draws is not None, second_half=self.protects == "labels")

    def stream_opening(self) -> OpenedStream | None:
        """Return the parameters that open the stream of further questions; None if there is no stream."""
        if self.stream is None or not isinstance(self.aggregation, SparseVector):
            return None
        law = self.aggregation.thresholds(self.sequence, self.aggregation.cutoff)
        return OpenedStream(**law._asdict(), questions=self.stream)

    def open_stream(self, access: Access, opened: OpenedStream, first: Labelled) -> StreamOfAnswers:
        """Return the stream after the sequence's first answers, with the teachers trained again."""
        law = Thresholds(opened.cutoff, opened.level, opened.of_threshold, opened.of_query)
        no_points = np.empty((0, self._classes.before(access.dimension)), dtype=access.dtype)
        bottoms = min(first.unstable, opened.cutoff)  # no question is answered after the last allowed bottom
        return access.release(TeacherStream(self.mechanism(no_points), law, bottoms))

    def point(self, values: Sequence[float], sample: Sample) -> AnyArray:
        """Return a point as teachers see it, shape (d,); BadInput if the values cannot be a record's features."""
        dimension = self._classes.before(sample.dimension)
        if len(values) != dimension:
            raise BadInput(f"a point has {dimension} features here, found {len(values)}")
        with np.errstate(over="ignore"):
            point = np.array(values, dtype=np.float64).astype(np.float32) + np.float32(0.0)  # -0.0 becomes 0.0
        if not np.isfinite(point).all():
            raise BadInput("every feature of a point must be a finite number in single precision")
        if sample.dtype != np.uint8:
            return point
        if not np.isin(point, (0.0, 1.0)).all():
            raise BadInput("every feature of a point must be 0 or 1 here")
        return point.astype(np.uint8)

    def released(self, answers: Indices) -> list[int | None]:
        """Return answers in released form: labels -1 and +1, or class numbers; None where there is no answer."""
        return [self._classes.released(int(answer)) for answer in answers]

    def transfer(self, points: AnyArray, answers: Indices, coins: Callable[[Stream], RandomSource]) -> Hypothesis:
        """Train the student on answered points; where nothing was released (a negative answer), draw a random class."""
        chance = coins("coins").integers(self._classes.number, len(answers))
        classes = np.where(answers < 0, chance, answers)
        return self._classes.train_student(self.student, points, classes, coins("student"))


def _random(count: int, dtype: np.dtype[Any], dimension: int, classes: int) -> tuple[AnyArray, Indices]:
    source = RandomSource.seeded(0, "random points")
    uniform = source.derive("features").uniforms(count * dimension).reshape(count, dimension)
    features = np.ascontiguousarray((uniform < 0.5) if dtype == np.uint8 else 2.0 * uniform - 1.0, dtype=dtype)
    return features, source.derive("labels").integers(classes, count)
