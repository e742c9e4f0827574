"""A hosted population: every person answers once in a life, through crashes, copies of its folder and workers."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import local_agent.hosted.questions as answered_module
from common.core import machine
from common.core.arrays import Indices
from common.core.errors import (
    AlreadyAnswered,
    BadData,
    BadInput,
    BadMessage,
    BadScenario,
    BrokenLedger,
    PeerUnavailable,
)
from common.crypto.identity import verify
from common.data.population import SimulatedRecordSource, TableRecordSource
from common.lifetime.charging import Charging
from common.local import packing
from common.local.hypotheses.hypothesis import Linear
from common.local.mechanisms.mechanism import MECHANISMS, Mechanism
from common.local.packing import unpack_answers
from common.local.queries.features import CoordinateQuery, ItemQuery
from common.local.queries.query import LossQuery
from common.local.records import Records
from common.log.witness import FileWitness
from common.net import messages
from common.net.client import HttpWitness, witness_at
from common.numerics.randomness import RandomSource
from local_agent import answers as asking
from local_agent.answers import NotOneEach, OwnNoise, answer_together
from local_agent.hosted import population as hosted
from local_agent.hosted.population import Population, open_population
from referee.service.witness import witness_app
from tests.common.data.test_people import own
from tests.local_agent.test_policy import LOSS, REFEREE, assignment, configuration
from tests.support import ONE_QUESTION, TOKEN, Bench, seal, served, tiny
from tests.tiers import for_each, thinned

AGREED = configuration()
ITS = seal(REFEREE, AGREED)
ASKED = assignment(AGREED, range(20), range(20))
TWICE = ("protocol=local-gradient-descent", "agents.answers=2")


def opened(folder: Path, *overrides: str, seed: int | None = 1, agents: int = 50, witnesses: Any = ()) -> Population:
    return open_population(tiny(*overrides), folder, seed, REFEREE.public, agents, witnesses=witnesses)


def ask(people: Population, agreed: messages.Configuration = AGREED, who: Any = range(20), **more: Any) -> bytes:
    """Ask some people, by default with slots from 0; return their packed answers."""
    asked = assignment(agreed, who, **{"slots": range(len(who)), **more})
    return people.answer(asked, seal(REFEREE, agreed))[1]


def check_refused(people: Population, agreed: messages.Configuration = AGREED, **asked: Any) -> None:
    with pytest.raises(AlreadyAnswered, match="as often as they may"):
        ask(people, agreed, **asked)


def ask_where_the_disk_fails(people: Population, agreed: messages.Configuration = AGREED) -> None:
    """Let each write end with an error, once it is done."""
    real = answered_module.write_durably  # type: ignore[attr-defined]

    def failing(*arguments: Any, **named: Any) -> None:
        real(*arguments, **named)
        raise OSError("the folder cannot be synchronized")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(answered_module, "write_durably", failing)
        with pytest.raises(OSError, match="synchronized"):
            ask(people, agreed)


@pytest.fixture
def people(tmp_path):
    with closing(opened(tmp_path / "people")) as found:
        yield found


def test_the_same_question_gets_the_same_stored_report_also_after_a_restart(people, tmp_path):
    first = signed, body = people.answer(ASKED, ITS)
    report = messages.PackedReport.parse(verify(signed, "packed-report", people.identity.public))
    assert (report.people, report.body_sha256) == (20, hashlib.sha256(body).hexdigest())
    answered, answers = unpack_answers(body, 20, "bit")
    assert answered.all()
    assert set(answers.tolist()) <= {0, 1}
    assert people.answer(ASKED, ITS) == first
    people.close()
    with closing(opened(tmp_path / "people")) as again:
        assert again.answered == 20
        assert again.answer(ASKED, ITS) == first


def test_nobody_answers_twice(people):
    people.answer(ASKED, ITS)
    others: list[dict[str, Any]] = [{"question": 2}, {"slots": range(20, 40)}, {"who": [19]}, {"who": [49, 0]}]
    for other in others:
        check_refused(people, **other)
    assert people.answered == 20


def test_people_answer_as_often_as_the_scenario_may_ask_and_in_one_run(tmp_path):
    """A crash between the two writes counts once, and what was counted is there after a restart."""
    agreed, other = (configuration(*TWICE, run=run) for run in ("run", "run-1"))
    with closing(opened(tmp_path, *TWICE)) as people:
        assert ask(people, agreed) == ask(people, agreed, question=2)  # the same question, so the same noise
        check_refused(people, agreed, who=[19, 40], question=3)
        ask(people, agreed, range(20, 30), question=3)
        check_refused(people, other, who=range(20, 30))  # of a run whose name begins alike
    with closing(opened(tmp_path, *TWICE)) as people:
        check_refused(people, other, who=range(20, 30))
        ask(people, agreed, range(20, 30), question=4)
        check_refused(people, agreed, who=range(20, 30), question=5)
        policy = messages.Enrolment.parse(people.enrolment().message).policy
        assert (policy.epsilon, people.answered) == (2 * tiny().agents.mechanism.guarantee[0], 30)


def test_another_configuration_under_the_name_of_a_run_is_another_run(tmp_path):
    """Else a person would pay two prices: of the first run, and of what is left of the second one's answers."""
    first = configuration()
    with closing(opened(tmp_path)) as people:
        people.answer(ASKED, ITS)
    second = configuration(*TWICE, run=first.run)
    assert second.fingerprint() != first.fingerprint()
    with closing(opened(tmp_path, *TWICE)) as people:
        check_refused(people, second)
        ask(people, second, range(20, 30))


def test_a_disk_that_fails_once_who_was_asked_is_written_counts_them(tmp_path):
    """The process goes on: what it knows in memory is what the disk says."""
    agreed = configuration(*TWICE)
    with closing(opened(tmp_path, *TWICE)) as people:
        ask_where_the_disk_fails(people, agreed)
        for question in (1, 2):
            ask(people, agreed, question=question)
        check_refused(people, agreed, question=3)


def test_after_a_disk_failed_nobody_answers_another_question_than_the_one_that_may_be_written(tmp_path):
    with closing(opened(tmp_path)) as people:
        ask_where_the_disk_fails(people)
        check_refused(people, question=2)
        ask(people)


def test_of_runs_that_go_on_side_by_side_each_reads_its_own_files(tmp_path, monkeypatch):
    """Else each answer would read all that the host was ever asked."""
    runs = [configuration(*TWICE, run=run) for run in ("run", "run-1")]
    read: list[Path] = []
    real = answered_module.asked
    with closing(opened(tmp_path, *TWICE)) as people:
        for question in range(4):
            for agreed, first in zip(runs, (0, 20), strict=True):
                who = range(first + question // 2 * 10, first + question // 2 * 10 + 10)
                monkeypatch.setattr(answered_module, "asked", lambda path: (read.append(path), real(path))[1])
                ask(people, agreed, who, question=question)
        assert len(read) <= 1 + 2 * sum(range(4)) + 8  # at most its own each time it is its turn
        for agreed, who in zip(runs, (range(20, 30), range(10)), strict=True):
            check_refused(people, agreed, who=who, question=9)
    assert people.answered == 40


def test_a_question_that_a_crash_cut_off_counts_once(tmp_path):
    agreed = configuration(*TWICE)
    asked = assignment(agreed, range(20), range(20)), seal(REFEREE, agreed)
    cut_off(tmp_path, after=True, asked=asked)
    with closing(opened(tmp_path, *TWICE)) as people:
        people.answer(*asked)
        ask(people, agreed, question=2)
        check_refused(people, agreed, question=3)


def test_assignments_that_name_nobody_or_somebody_twice_are_refused(people):
    last = (1 << 32) - 1
    cases: list[Any] = [([], []), ([50], [0]), ([1, 1], [0, 1]), ([0, 1, 2], [0, 1]), ([0], [0, 1])]
    for who, slots in (*cases, ([0, 1], [last]), ([last], [0])):
        with pytest.raises(BadMessage):
            ask(people, who=who, slots=slots)
    assert people.answered == 0


class Crash(BaseException):
    """The end of the process."""


def cut_off(folder: Path, *, after: bool, witnesses: Any = (), asked: Any = (ASKED, ITS)) -> None:
    """Let a host end before or after the write of a question: of who was asked, with the report."""
    real = answered_module.write_durably  # type: ignore[attr-defined]

    def dying(*arguments: Any, **named: Any) -> None:
        if after:
            real(*arguments, **named)
        raise Crash

    with pytest.MonkeyPatch.context() as patched, closing(opened(folder, witnesses=witnesses)) as people:
        patched.setattr(answered_module, "write_durably", dying)
        with pytest.raises(Crash):
            people.answer(*asked)


@for_each("after", [False, True])
def test_a_crash_at_the_write_leads_to_the_same_answers(tmp_path, after):
    """Also where a witness has seen the question before."""
    with closing(opened(tmp_path / "whole")) as whole:
        undisturbed = whole.answer(ASKED, ITS)[1]
    for name, witnesses in (("cut", ()), ("witnessed", [FileWitness(tmp_path / "heads")])):
        cut_off(tmp_path / name, after=after, witnesses=witnesses)
        with closing(opened(tmp_path / name, witnesses=witnesses)) as again:
            assert (again.answer(ASKED, ITS)[1], again.answered) == (undisturbed, 20)


@for_each("left", [-1, 8 + 20 * 4 + 32])
def test_of_a_damaged_report_only_the_very_same_question_is_answered_again(tmp_path, left):
    """The people are on record, their report is not: another question about them would be a second answer.

    A referee that knows of the damage may try any number of other questions for the same people: all are refused.
    """
    with closing(opened(tmp_path)) as people:
        undisturbed = ask(people)
    (stored,) = (tmp_path / "answered").iterdir()
    stored.write_bytes(stored.read_bytes()[:left])
    flipped = {**LOSS, "hypothesis": {**LOSS["hypothesis"], "threshold": 1.0}}
    others: list[dict[str, Any]] = [{"query": flipped}, {"slots": range(20, 40)}, {"question": 2}]
    with closing(opened(tmp_path)) as again:
        for other in others:
            check_refused(again, **other)
        assert (ask(again), again.answered) == (undisturbed, 20)


def test_a_file_that_does_not_tell_who_was_asked_is_refused(tmp_path):
    with closing(opened(tmp_path)) as people:
        ask(people)
    (stored,) = (tmp_path / "answered").iterdir()
    whole = stored.read_bytes()
    for damaged in (b"", whole[:7], whole[:100], whole[:8] + b"\1" + whole[9:], b"\xff" * 8 + whole[8:]):
        stored.write_bytes(damaged)
        with pytest.raises(BadData, match="which people were asked"):
            opened(tmp_path)


def test_blocks_do_not_change_the_answers(tmp_path, monkeypatch):
    bodies = []
    for block in (7, 10, 50):
        monkeypatch.setattr(asking, "BLOCK", block)
        with closing(opened(tmp_path / str(block), "agents.dropout=0.3")) as people:
            bodies.append(ask(people, who=range(50)))
    assert len(set(bodies)) == 1
    assert 0 < unpack_answers(bodies[0], 50, "bit")[0].sum() < 50


def test_wide_records_are_drawn_in_smaller_blocks_before_anything_is_refused(tmp_path, monkeypatch):
    drawn: list[int] = []
    records = SimulatedRecordSource.records

    def counted(self: SimulatedRecordSource, people: Indices, columns: Indices | None = None) -> Records:
        drawn.append(len(people))
        return records(self, people, columns)

    monkeypatch.setattr(SimulatedRecordSource, "records", counted)
    bodies = []
    for name, cells in (("whole", asking.CELLS), ("parts", 7 * 8), ("one", 1)):
        monkeypatch.setattr(asking, "CELLS", cells)
        with closing(opened(tmp_path / name)) as people:
            bodies.append(ask(people, who=range(50)))
    assert sorted(drawn, reverse=True) == [50, *[7] * 7, 1, *[1] * 50]  # two cores take turns
    assert len(set(bodies)) == 1


def test_of_wide_records_only_what_is_asked_about_counts(monkeypatch):
    read: list[int] = []

    class Wide(TableRecordSource):
        def records(self, people: Indices, columns: Indices | None = None) -> Records:
            read.append(len(people))
            return super().records(people, columns)

    monkeypatch.setattr(asking, "CELLS", 128)
    wide = np.random.default_rng(1).random((150, 32), dtype=np.float32) - 0.5
    rows, everybody = Wide(Records(wide, np.ones(150, dtype=np.int8))), np.arange(149, -1, -1)
    found = asking.evaluate_people(CoordinateQuery(first=3, count=2), rows, everybody, everybody)
    assert found.tolist() == [float(wide[who, 3 + who % 2] > 0) for who in everybody]
    assert sorted(read) == [22, 64, 64]


def test_a_population_that_does_not_fit_is_refused_with_the_memory_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 2 << 30)
    many, needed = 1 << 32, machine.size((2 << 32) + machine.SPARE)
    with pytest.raises(BadScenario, match=f"hosting 4,294,967,296 people needs {needed} of memory, 2.0 GiB are"):
        opened(tmp_path, agents=many)
    opened(tmp_path, agents=50).close()  # nothing was made of the others


def test_a_question_whose_answers_do_not_fit_is_refused_with_the_memory_they_need(people, monkeypatch):
    monkeypatch.setattr(hosted, "_FEW", 20)
    monkeypatch.setattr(machine, "available_memory", lambda: machine.SPARE)
    with pytest.raises(BadScenario, match=f"answering for 21 people needs {machine.size(machine.SPARE + 21 * 5)} of"):
        ask(people, who=range(21))
    assert people.answered == 0
    ask(people)  # few need no look at the memory


def test_dropout_has_its_share_and_hosts_that_share_people_simulate_each_person_once(tmp_path):
    """5000 people, 30%: within 6 standard errors; a person is the same, and silent or not, wherever it is hosted."""
    few = "agents.dropout=0.3"
    with closing(opened(tmp_path / "a", few, agents=5000)) as one, closing(opened(tmp_path / "b", few)) as two:
        silent = 1 - one._speaks(np.arange(5000)).mean()
        assert abs(silent - 0.3) < 6 * np.sqrt(0.21 / 5000)
        features = [host._population.records(np.arange(5)).features.tolist() for host in (one, two)]
        one.settle(100)
        assert np.array_equal(one._speaks(np.arange(900)), two._speaks(np.arange(100, 1000)))
        assert features[0] == features[1] != one._population.records(np.arange(5)).features.tolist()


@for_each("alone", [1, 1 << 16])
def test_people_are_counted_alike_by_their_numbers_and_by_a_mask(monkeypatch, alone):
    monkeypatch.setattr(hosted, "_ALONE", alone)  # one person more is counted on all cores
    random = np.random.default_rng(1)
    before = random.integers(0, 3, (501, 2)).astype(np.uint8)
    in_all, here = before.T
    asked = random.integers(0, 2, 501).astype(np.bool_)
    listed, mask = random.permutation(np.flatnonzero(asked)), np.packbits(asked)
    for most in (1, 2, 3):
        spent = np.count_nonzero(asked & ((in_all >= most) | (in_all != here)))
        assert hosted.count_spent(listed, most, before) == hosted.count_spent(mask, most, before) == spent
    for people in (listed, mask):
        after = before.copy()
        hosted.count_asked(people, after)
        assert np.array_equal(after.T, (in_all + asked, here + asked))


def test_the_state_is_bound_to_the_people_and_to_one_process(tmp_path):
    with closing(opened(tmp_path)), pytest.raises(BadInput, match="in use by another process"):
        opened(tmp_path)
    for other, why in (({"seed": 2}, "another seed"), ({"agents": 51}, "another agents")):
        with pytest.raises(BadInput, match=why):
            opened(tmp_path, **other)
    opened(tmp_path, seed=None).close()
    assert not (tmp_path / "secret.key").exists()  # that is of real people


@for_each("error", [None, BadData("row 7: no number"), OSError("row 7")])
def test_records_that_cannot_be_read_are_answered_like_any_other(tmp_path, error, monkeypatch):
    """Whether a record can be read may depend on it: nobody may see that, neither by silence nor by a reason given."""
    with Bench(tmp_path, tiny(*ONE_QUESTION)) as bench:
        source = type(bench.population._population)
        whole = source.records

        def records(self, chosen, columns=None):
            if error is not None and 7 in chosen:
                raise error
            return whole(self, chosen, columns)

        monkeypatch.setattr(source, "records", records)
        result = bench.run()
    assert (result["agents"]["answered"], result["lost"]) == (600, {"silent": 0, "declined": {}})


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

    def answers(who: Indices) -> list[float]:
        return answer_together(query, mechanism, rows, who, who, secret).tolist()

    alone = [answers(everybody[i : i + 1])[0] for i in range(300)]
    assert answers(everybody) == alone

    def other(source: OwnNoise, count: int) -> None:
        raise NotOneEach

    monkeypatch.setattr(OwnNoise, "words", other)
    assert answers(everybody) == alone


def test_rejected_words_are_drawn_again_from_the_same_persons_stream():
    """Of this bound one word in eight is rejected: some people draw again, and some of them twice."""
    bound = (1 << 61) + 1
    alone, own = ([RandomSource(bytes([k] * 32), simulated=False) for k in range(200)] for _ in range(2))
    together = OwnNoise(own)
    for draw in (
        lambda source, count: source.integers(bound, count),
        lambda source, count: source.words(count),
        lambda source, count: source.uniforms(count),
        lambda source, count: source.bernoullis(0.3, count),
    ):
        assert draw(together, 200).tolist() == [draw(source, 1).tolist()[0] for source in alone]
    for refused in (lambda: together.words(3), lambda: together.normals(200), lambda: together.derive("x")):
        with pytest.raises(NotOneEach):
            refused()


def test_records_of_real_people_stay_in_their_process(tmp_path):
    chosen = tiny("agents.mechanism.epsilon=1").model_copy(update={"people": "real"})
    with pytest.raises(BadInput, match="their records stay in this process"):
        open_population(chosen, tmp_path, None, REFEREE.public, 10, workers=2)


@pytest.mark.slow
def test_answers_over_workers_are_those_of_one_process_also_when_a_worker_dies(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    from local_agent import answers
    from local_agent.hosted.cluster import over_workers

    monkeypatch.setattr(answers, "BLOCK", 64)
    monkeypatch.setattr(answers, "MASS_BLOCK", 8)
    try:
        values = over_workers(2)
        ended = []
        for spread in (False, True):
            with Bench(tmp_path / str(spread), tiny(*ONE_QUESTION)) as bench:
                if spread:
                    bench.population._values = values
                ended.append((bench.run()["estimate"], bench.finished().reports))
        assert ended[0][0] == ended[1][0]
        people = open_population(tiny(*ONE_QUESTION), tmp_path / "people", 1, REFEREE.public, 600)
        population, query = people._population, LossQuery(hypothesis=Linear(weights=(1.0,) * 8, threshold=0.0))
        mask = np.packbits(np.arange(600) % 3 > 0)
        slots = [found.tolist() for _, found in answers.evaluated(query, population, answers.blocks(mask, 5))]
        there = values(query, population, answers.blocks(mask, 5))
        first = next(there)[1].tolist()
        os.kill(ray.get(ray.remote(lambda: os.getpid()).remote()), signal.SIGKILL)
        assert [first, *(found.tolist() for _, found in there)] == slots
        assert sum(map(len, slots)) == packing.count_ones(mask)
        people.close()
    finally:
        ray.shutdown()


FIRST, SECOND, THIRD = (assignment(AGREED, range(20), range(20), question=number) for number in (1, 2, 3))
"""The same people are asked three different questions, as a referee asks who wants to hear more than one answer."""


def asked_at(folder: Path) -> set[str]:
    return {path.name for path in (folder / "answered").iterdir()}


@for_each("place", ["file", "service"])
@for_each("copied", ["before it was asked", "after it was asked"])
def test_the_second_copy_is_refused_before_it_answers(tmp_path, monkeypatch, place, copied):
    monkeypatch.setenv("TANDEM_WITNESS_TOKEN", TOKEN)
    with served(witness_app(tmp_path / "witness", TOKEN)) as url:
        witness = witness_at(f"{url}/v1/heads/hospital" if place == "service" else str(tmp_path / "heads"))
        one, two = tmp_path / "one", tmp_path / "two"
        with closing(opened(one, witnesses=[witness])) as host:
            if copied == "after it was asked":
                ask(host, who=range(20, 40), question=7)
        shutil.copytree(one, two)
        host, copy = (opened(folder, witnesses=[witness]) for folder in (one, two))  # at once
        with closing(host), closing(copy):
            report, before = host.answer(FIRST, ITS), asked_at(two)
            for question in (SECOND, THIRD, FIRST, SECOND):
                with pytest.raises(BrokenLedger, match=r"two is not the newest of this host.*Nothing was answered: d"):
                    copy.answer(question, ITS)
            assert asked_at(two) == before
            assert host.answer(FIRST, ITS) == report
            with pytest.raises(AlreadyAnswered):
                host.answer(SECOND, ITS)
        with pytest.raises(BrokenLedger, match="is not the newest of this host"):
            opened(two, witnesses=[witness])  # and one after the other


def test_a_folder_that_had_a_witness_is_not_opened_without_it_nor_where_either_has_forgotten(tmp_path):
    heads = tmp_path / "heads"
    with closing(opened(tmp_path / "one", witnesses=[FileWitness(heads)])) as host:
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        host.answer(FIRST, ITS)
    shutil.rmtree(tmp_path / "two" / "questions")
    with pytest.raises(BrokenLedger, match="another ledger"):  # it is not taken for a new one
        opened(tmp_path / "two", witnesses=[FileWitness(heads)])
    with pytest.raises(BrokenLedger, match="give it with --witness"):
        opened(tmp_path / "one")
    heads.unlink()
    with pytest.raises(BrokenLedger, match="has forgotten this ledger"):
        opened(tmp_path / "one", witnesses=[FileWitness(heads)])


def test_a_question_is_taken_up_again_once_a_witness_is_back(tmp_path, monkeypatch):
    away = HttpWitness("http://127.0.0.1:9/v1/heads/hospital")
    with closing(opened(tmp_path / "away", witnesses=[FileWitness(tmp_path / "heads")])) as host:
        with monkeypatch.context() as patched:
            patched.setattr(FileWitness, "keep", lambda witness, signed: away.keep(signed))
            with pytest.raises(PeerUnavailable):
                host.answer(FIRST, ITS)
        assert asked_at(tmp_path / "away") == set()
        assert unpack_answers(host.answer(FIRST, ITS)[1], 20, "bit")[0].all()


def test_people_who_are_charged_have_the_ledger_of_people_as_a_witness(tmp_path):
    """Without any option; also where the copy lies under another user, whose ledger has never seen this host."""
    chosen = own(tmp_path)
    agreed = configuration(scenario=chosen.wire())
    signed = seal(REFEREE, agreed)
    loss = {"kind": "loss", "hypothesis": {"kind": "linear", "weights": [1.0], "threshold": 0.0}}
    first, second = (assignment(agreed, range(20), range(20), question=n, query=loss) for n in (1, 2))

    def host(name: str, ledger: str = "people") -> Population:
        charging = Charging(tmp_path / ledger)
        return open_population(chosen, tmp_path / name, None, REFEREE.public, None, charging=charging)

    host("one").close()
    for name in ("two", "three"):
        shutil.copytree(tmp_path / "one", tmp_path / name)
    with closing(host("one")) as original, closing(host("two")) as copy:
        original.answer(first, signed)
        with pytest.raises(BrokenLedger, match="two is not the newest of this host"):
            copy.answer(second, signed)
    shutil.copytree(tmp_path / "one", tmp_path / "elsewhere")
    for name, ledger in (("three", "people"), ("elsewhere", "another user's")):
        with pytest.raises(BrokenLedger, match=f"{name} is not the newest of this host"):
            host(name, ledger)
    host("one").close()
