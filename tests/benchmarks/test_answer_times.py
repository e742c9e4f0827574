"""What answers of real people take, against what the public schedule grants them."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from benchmarks import answer_times
from common.core import canonical
from common.data.population import TableRecordSource
from common.local.hypotheses.onnx import Onnx
from common.local.mechanisms.warner import Warner
from common.local.queries.loss import LossQuery
from common.local.records import Records
from common.numerics.randomness import RandomSource
from local_agent.hosted.asking import answer_together


def test_arms_have_as_many_steps_as_there_can_be():
    trees = answer_times.arms(3, 4)
    assert len(trees.feature) == 3 * 9
    assert trees._arrays[1].tolist() == [4, 4, 4]


def test_hosts_of_real_people_accept_no_graphs():
    """Their work is bounded by the shapes within, and not by a question's length."""
    assert Onnx.by_choice


def test_a_question_is_digested_once_and_not_for_each_person(monkeypatch):
    digests, digest = [], canonical.digest
    monkeypatch.setattr(canonical, "digest", lambda value: (digests.append(1), digest(value))[1])
    people = TableRecordSource(Records(np.zeros((50, 8), dtype=np.float32), np.ones(50, dtype=np.int8)))
    secret = RandomSource(bytes(32), simulated=False)
    answer_together(LossQuery.example()[0], Warner(epsilon=1.0), people, np.arange(50), np.arange(50), secret)
    assert len(digests) == 1


@pytest.mark.thorough
def test_the_schedule_grants_more_than_answers_take(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["answer_times", "--people", "2000", "--json"])
    answer_times.main()
    rows = json.loads(capsys.readouterr().out)
    assert {row["mechanism"] for row in rows} >= {"warner", "laplace", "krr", "olh", "hadamard"}
    assert min(row["room"] for row in rows) > 1.0
