"""People hosted over Ray workers give the answers of one process, also when a worker dies; real people never do so."""

import os
import shutil
import signal
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from common.core.errors import AlreadyAnswered, BadInput, BrokenLedger, PeerUnavailable
from common.lifetime.charging import Charging
from common.local import packing
from common.local.hypotheses.hypothesis import Linear
from common.local.queries.query import LossQuery
from common.log.witness import FileWitness, Witness
from common.net.client import HttpWitness, witness_at
from local_agent.hosted import questions as answered_module
from local_agent.hosted.population import Population, open_population
from referee.service.witness import witness_app
from tests.common.data.test_people import own
from tests.local_agent.test_policy import REFEREE, assignment, configuration
from tests.support import TOKEN, Bench, seal, served, tiny
from tests.tiers import for_each

CHOSEN = ("agents.count=600", "agents.batch=600", "curator.rounds=1")


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
            with Bench(tmp_path / str(spread), tiny(*CHOSEN)) as bench:
                if spread:
                    bench.population._values = values
                ended.append((bench.run()["estimate"], bench.finished().reports))
        assert ended[0][0] == ended[1][0]
        people = open_population(tiny(*CHOSEN), tmp_path / "people", 1, REFEREE.public, 600)
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


AGREED = configuration()
ITS = seal(REFEREE, AGREED)
FIRST, SECOND, THIRD = (assignment(AGREED, range(20), range(20), question=number) for number in (1, 2, 3))
"""The same people are asked three different questions, as a referee asks who wants to hear more than one answer."""


def opened(folder: Path, *witnesses: Witness) -> Population:
    return open_population(tiny(), folder, 1, REFEREE.public, 50, charging=Charging(), witnesses=witnesses)


def asked_at(folder: Path) -> set[str]:
    return {path.name for path in (folder / "answered").iterdir()}


@for_each("place", ["file", "service"])
@for_each("copied", ["before it was asked", "after it was asked"])
def test_the_second_copy_is_refused_before_it_answers(tmp_path, monkeypatch, place, copied):
    monkeypatch.setenv("TANDEM_WITNESS_TOKEN", TOKEN)
    with served(witness_app(tmp_path / "witness", TOKEN)) as url:
        witness = witness_at(f"{url}/v1/heads/hospital" if place == "service" else str(tmp_path / "heads"))
        one, two = tmp_path / "one", tmp_path / "two"
        with closing(opened(one, witness)) as host:
            if copied == "after it was asked":
                host.answer(assignment(AGREED, range(20, 40), range(20), question=7), ITS)
        shutil.copytree(one, two)
        with closing(opened(one, witness)) as host, closing(opened(two, witness)) as copy:  # at once
            report, before = host.answer(FIRST, ITS), asked_at(two)
            for question in (SECOND, THIRD, FIRST, SECOND):
                with pytest.raises(BrokenLedger, match=r"two is not the newest of this host.*Nothing was answered: d"):
                    copy.answer(question, ITS)
            assert asked_at(two) == before
            assert host.answer(FIRST, ITS) == report
            with pytest.raises(AlreadyAnswered):
                host.answer(SECOND, ITS)
        with pytest.raises(BrokenLedger, match="is not the newest of this host"):
            opened(two, witness)  # and one after the other


def test_a_folder_that_had_a_witness_is_not_opened_without_it_nor_where_either_has_forgotten(tmp_path):
    heads = tmp_path / "heads"
    with closing(opened(tmp_path / "one", FileWitness(heads))) as host:
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        host.answer(FIRST, ITS)
    shutil.rmtree(tmp_path / "two" / "questions")
    with pytest.raises(BrokenLedger, match="another ledger"):  # it is not taken for a new one
        opened(tmp_path / "two", FileWitness(heads))
    with pytest.raises(BrokenLedger, match="give it with --witness"):
        opened(tmp_path / "one")
    heads.unlink()
    with pytest.raises(BrokenLedger, match="has forgotten this ledger"):
        opened(tmp_path / "one", FileWitness(heads))


def test_a_question_is_taken_up_again_after_a_crash_or_a_witness_that_was_away(tmp_path, monkeypatch):
    """The witness has seen the question, or has not yet: the same one is answered, and no other about these people."""
    monkeypatch.setenv("TANDEM_WITNESS_TOKEN", TOKEN)
    with closing(opened(tmp_path / "plain")) as plain:
        wanted = plain.answer(FIRST, ITS)[1]

    def cut_off(*arguments):
        raise KeyboardInterrupt

    for number, name in enumerate(("keep_asked", "keep_report")):
        folder, heads = tmp_path / name, FileWitness(tmp_path / f"heads-{number}")
        with closing(opened(folder, heads)) as host, monkeypatch.context() as patched:
            patched.setattr(answered_module, name, cut_off)
            with pytest.raises(KeyboardInterrupt):
                host.answer(FIRST, ITS)
        with closing(opened(folder, heads)) as host:
            assert host.answer(FIRST, ITS)[1] == wanted
    away = HttpWitness("http://127.0.0.1:9/v1/heads/hospital")
    with closing(opened(tmp_path / "away", FileWitness(tmp_path / "heads"))) as host:
        with monkeypatch.context() as patched:
            patched.setattr(FileWitness, "keep", lambda witness, signed: away.keep(signed))
            with pytest.raises(PeerUnavailable):
                host.answer(FIRST, ITS)
        assert asked_at(tmp_path / "away") == set()
        assert host.answer(FIRST, ITS)[1] == wanted


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
