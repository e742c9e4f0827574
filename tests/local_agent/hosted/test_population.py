"""A hosted population: every person answers once in a life, through crashes at every point."""

import hashlib
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import local_agent.hosted.questions as answered_module
from common.core.errors import AlreadyAnswered, BadData, BadInput, BadMessage
from common.crypto.identity import verify
from common.data.population import TableRecordSource
from common.local.mechanisms.mechanism import MECHANISMS, Mechanism
from common.local.packing import unpack_answers
from common.local.queries.features import ItemQuery
from common.local.queries.loss import LossQuery
from common.local.records import Records
from common.net import messages
from common.numerics.randomness import RandomSource
from local_agent import answers as asking
from local_agent.answers import NotOneEach, OwnNoise, answer_together
from local_agent.hosted.population import Population, open_population
from tests.local_agent.test_policy import LOSS, REFEREE, assignment, configuration
from tests.support import Bench, seal, tiny
from tests.tiers import for_each, thinned

AGREED = configuration()
ITS = seal(REFEREE, AGREED)


def opened(folder: Path, *overrides: str, seed: int | None = 1, agents: int | None = 50) -> Population:
    return open_population(tiny(*overrides), folder, seed, REFEREE.public, agents)


@pytest.fixture
def people(tmp_path):
    found = opened(tmp_path / "people")
    yield found
    found.close()


def test_header_and_body_belong_together(people):
    signed, body = people.answer(assignment(AGREED, range(20), range(20)), ITS)
    report = messages.PackedReport.parse(verify(signed, "packed-report", people.identity.public))
    assert report.people == 20
    assert report.body_sha256 == hashlib.sha256(body).hexdigest()
    answered, answers = unpack_answers(body, 20, "bit")
    assert answered.all()
    assert set(answers.tolist()) <= {0, 1}
    assert people.answered == 20


def test_the_same_question_gets_the_same_stored_report_also_after_a_restart(people, tmp_path):
    asked = assignment(AGREED, range(20), range(20))
    first = people.answer(asked, ITS)
    assert people.answer(asked, ITS) == first
    people.close()
    with closing(opened(tmp_path / "people")) as again:
        assert again.answered == 20
        assert again.answer(asked, ITS) == first


@pytest.mark.parametrize(
    "other", [{"question": 2}, {"slots": range(20, 40)}, {"people": [19]}, {"people": [49, 0], "slots": [0, 1]}]
)
def test_nobody_answers_twice(people, other):
    people.answer(assignment(AGREED, range(20), range(20)), ITS)
    wanted: dict[str, Any] = {"people": range(20), "slots": range(20), **other}
    wanted["slots"] = list(wanted["slots"])[: len(wanted["people"])]
    with pytest.raises(AlreadyAnswered):
        people.answer(assignment(AGREED, **wanted), ITS)
    assert people.answered == 20


@pytest.mark.parametrize(
    ("who", "slots"), [([], []), ([50], [0]), ([1, 1], [0, 1]), ([0, 1], [0]), ([0], [0, 1]), ([(1 << 32) - 1], [0])]
)
def test_assignments_that_name_nobody_or_somebody_twice_are_refused(people, who, slots):
    with pytest.raises(BadMessage):
        people.answer(assignment(AGREED, who, slots), ITS)
    assert people.answered == 0


class Crash(BaseException):
    """The end of the process."""


@for_each("when", [1, 2])
@for_each("after", [False, True])
def test_a_crash_at_any_write_leads_to_the_same_answers(tmp_path, monkeypatch, when, after):
    asked = assignment(AGREED, range(20), range(20))
    with closing(opened(tmp_path / "whole")) as whole:
        undisturbed = whole.answer(asked, ITS)[1]
    people, calls, real = opened(tmp_path / "cut"), [], answered_module.write_durably  # type: ignore[attr-defined]

    def dying(*arguments: Any, **named: Any) -> None:
        calls.append(1)
        if len(calls) == when and not after:
            raise Crash
        real(*arguments, **named)
        if len(calls) == when:
            raise Crash

    monkeypatch.setattr(answered_module, "write_durably", dying)
    with pytest.raises(Crash):
        people.answer(asked, ITS)
    monkeypatch.undo()
    people.close()
    with closing(opened(tmp_path / "cut")) as again:
        assert again.answer(asked, ITS)[1] == undisturbed
        assert again.answered == 20


def test_after_a_crash_only_the_very_same_question_is_taken_up(tmp_path, monkeypatch):
    """The people are on record, their report is not: another question about them would be a second answer.

    A referee that knows of the crash may try any number of other questions for the same people: all are refused.
    """
    asked = assignment(AGREED, range(20), range(20))
    people, real = opened(tmp_path), answered_module.write_durably  # type: ignore[attr-defined]

    def dying(path: Path, *arguments: Any, **named: Any) -> None:
        if path.suffix == ".report":
            raise Crash
        real(path, *arguments, **named)

    monkeypatch.setattr(answered_module, "write_durably", dying)
    with pytest.raises(Crash):
        people.answer(asked, ITS)
    monkeypatch.undo()
    people.close()
    flipped = {**LOSS, "hypothesis": {**LOSS["hypothesis"], "threshold": 1.0}}
    others: list[dict[str, Any]] = [{"query": flipped}, {"slots": range(20, 40)}, {"question": 2}]
    with closing(opened(tmp_path)) as again:
        for other in others:
            with pytest.raises(AlreadyAnswered):
                again.answer(assignment(AGREED, range(20), **{"slots": range(20), **other}), ITS)
        again.answer(asked, ITS)


def test_blocks_do_not_change_the_answers(tmp_path, monkeypatch):
    asked = assignment(AGREED, range(50), range(50))
    bodies = []
    for block in (7, 50):
        monkeypatch.setattr(asking, "BLOCK", block)
        with closing(opened(tmp_path / str(block), "agents.dropout=0.3")) as people:
            bodies.append(people.answer(asked, ITS)[1])
    masks = [unpack_answers(body, 50, "bit")[0] for body in bodies]
    assert np.array_equal(*masks)
    assert 0 < masks[0].sum() < 50


def test_dropout_has_its_share_and_depends_on_the_person_alone(tmp_path):
    """5000 people, 30%: within 6 standard errors; a person that is silent is silent wherever it is hosted."""
    few = "agents.dropout=0.3"
    with closing(opened(tmp_path / "a", few, agents=5000)) as one, closing(opened(tmp_path / "b", few)) as two:
        silent = 1 - one._speaks(np.arange(5000)).mean()
        assert abs(silent - 0.3) < 6 * np.sqrt(0.21 / 5000)
        one.settle(100)
        assert np.array_equal(one._speaks(np.arange(900)), two._speaks(np.arange(100, 1000)))


def test_hosts_that_share_people_simulate_each_person_once(tmp_path):
    with closing(opened(tmp_path / "a")) as first, closing(opened(tmp_path / "b")) as second:
        before = second._population.records(np.arange(5)).features.copy()
        second.settle(50)
        assert np.array_equal(first._population.records(np.arange(5)).features, before)
        assert not np.array_equal(second._population.records(np.arange(5)).features, before)


def test_the_state_is_bound_to_the_people_and_to_one_process(tmp_path):
    with closing(opened(tmp_path)), pytest.raises(BadInput, match="in use by another process"):
        opened(tmp_path)
    for other, why in (({"seed": 2}, "another seed"), ({"agents": 51}, "another agents")):
        with pytest.raises(BadInput, match=why):
            opened(tmp_path, **other)
    opened(tmp_path, seed=None).close()
    assert not (tmp_path / "secret.key").exists()  # that is of real people


def test_another_key_gives_other_answers_only_where_secrets_differ(tmp_path):
    """A seeded host answers a question the same wherever it runs: names and keys stay out of its randomness."""
    bodies = set()
    for number in range(2):
        agreed = configuration(run=f"run-{number}")
        with closing(opened(tmp_path / str(number))) as people:
            bodies.add(people.answer(assignment(agreed, range(50), range(50)), seal(REFEREE, agreed))[1])
    assert len(bodies) == 1


@pytest.mark.parametrize("kind", ["data", "anything"])
def test_records_that_cannot_be_read_are_answered_like_any_other(tmp_path, kind, monkeypatch):
    """Whether a record can be read may depend on it: nobody may see that, neither by silence nor by a reason given."""
    said = []
    for broken in (False, True):
        with Bench(tmp_path / str(broken), tiny("agents.count=600", "agents.batch=600", "curator.rounds=1")) as bench:
            people, whole = bench.population, bench.population._population.__class__.records

            def records(self, chosen, columns=None, whole=whole, broken=broken):
                if broken and 7 in chosen:
                    raise BadData("row 7: no number") if kind == "data" else OSError("row 7")
                return whole(self, chosen, columns)

            monkeypatch.setattr(people._population.__class__, "records", records)
            result = bench.run()
            monkeypatch.undo()
            said.append((result["agents"], result["lost"]))
    assert said[0] == said[1]
    assert said[0][0]["answered"] == 600


REAL = [
    mechanism for name in MECHANISMS.names() for mechanism in MECHANISMS[name].example() if mechanism.for_real_people
]


def noise_people(count: int) -> TableRecordSource:
    rng = np.random.default_rng(3)
    features = rng.random((count, 8), dtype=np.float32) - 0.5
    return TableRecordSource(Records(features, np.where(rng.random(count) < 0.5, 1, -1).astype(np.int8)))


@for_each("mechanism", thinned(REAL, 6), ids=lambda mechanism: f"{mechanism.name}-{mechanism.guarantee[0]:g}")
def test_together_people_answer_as_each_would_alone(mechanism, monkeypatch):
    query = LossQuery.example()[1] if isinstance(mechanism, Mechanism) else ItemQuery.example()[0]
    rows, everybody, secret = noise_people(300), np.arange(300), RandomSource(bytes(range(32)), simulated=False)
    alone = [
        answer_together(query, mechanism, rows, everybody[i : i + 1], everybody[i : i + 1], secret)[0]
        for i in range(300)
    ]
    assert answer_together(query, mechanism, rows, everybody, everybody, secret).tolist() == alone

    def other(source: OwnNoise, count: int) -> None:
        raise NotOneEach

    monkeypatch.setattr(OwnNoise, "words", other)
    assert answer_together(query, mechanism, rows, everybody, everybody, secret).tolist() == alone


def test_rejected_words_are_drawn_again_from_the_same_persons_stream():
    """Of this bound one word in eight is rejected: some people draw again, and some of them twice."""
    keys = [bytes([k] * 32) for k in range(200)]
    bound = (1 << 61) + 1
    alone = [RandomSource(key, simulated=False) for key in keys]
    together = OwnNoise([RandomSource(key, simulated=False) for key in keys])
    assert together.integers(bound, 200).tolist() == [int(source.integers(bound, 1)[0]) for source in alone]
    assert together.words(200).tolist() == [int(source.words(1)[0]) for source in alone]
    assert together.uniforms(200).tolist() == [float(source.uniforms(1)[0]) for source in alone]
    assert together.bernoullis(0.3, 200).tolist() == [int(source.bernoullis(0.3, 1)[0]) for source in alone]


@for_each("draw", [lambda s: s.words(3), lambda s: s.normals(4), lambda s: s.derive("x")])
def test_anything_else_than_a_number_each_is_refused(draw):
    with pytest.raises(NotOneEach):
        draw(OwnNoise([RandomSource(bytes(32), simulated=False)] * 4))
