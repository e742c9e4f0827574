"""A host's answers leave at a time that everybody can work out beforehand, from sizes alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from common.local.hypotheses.trees import Trees
from common.net import messages
from local_agent import host as module
from local_agent.host import Host, public_seconds
from tests.common.core.test_values import Clock
from tests.support import Bench, tiny


def asked(people: int, query: object) -> SimpleNamespace:
    return SimpleNamespace(message={"people": messages.pack_indices(np.arange(people)), "query": query})


def test_the_time_is_a_function_of_how_many_are_asked_and_how_much() -> None:
    few, more, longer = asked(10, {"a": 1}), asked(100_000, {"a": 1}), asked(100_000, {"a": "x" * 1000})
    assert module.MIN_SECONDS < public_seconds(few) < public_seconds(more) < public_seconds(longer)
    other = SimpleNamespace(message={"people": messages.pack_indices(np.arange(10) + 7), "query": {"b": 2}})
    assert public_seconds(few) == public_seconds(other)


@pytest.mark.parametrize("real", [True, False])
def test_a_population_of_real_people_answers_at_that_time(tmp_path, real, monkeypatch) -> None:
    with Bench(tmp_path, tiny()) as bench:
        clock, left, seconds = Clock(), [], []
        monkeypatch.setattr(type(bench.population), "real", real)
        bench.host = Host(bench.population, bench.referee, bench.referee.identity.public, schedule=clock.schedule())
        answer, report = bench.population.answer, bench.referee.report_packed

        def working(assignment, configuration):
            clock.time = 1000.0 + 0.01
            seconds.append(public_seconds(assignment))
            return answer(assignment, configuration)

        monkeypatch.setattr(bench.population, "answer", working)
        monkeypatch.setattr(
            bench.referee, "report_packed", lambda *packed: (left.append(clock.time - 1000.0), report(*packed))[1]
        )

        def reset(_: float) -> None:
            clock.time = 1000.0
            bench.host.step()

        monkeypatch.setattr(bench.referee, "_wait", reset)
        bench.run()
        assert left == pytest.approx(seconds if real else [0.01] * len(left))
        assert len(left) > 1


def test_a_record_goes_as_deep_as_the_tree_whichever_way_it_takes() -> None:
    """One split at the top, and a long arm behind it: an earlier loop ended at the leaf, hundreds of steps sooner."""
    arm = 50
    feature = [0, -1, *[0, -1] * arm, -1]
    left = [1, -1, *[node for k in range(arm) for node in (3 + 2 * k, -1)], -1]
    right = [2, -1, *[node for k in range(arm) for node in (4 + 2 * k, -1)], -1]
    threshold = [0.5, -1.0, *[x for k in range(arm) for x in (0.5 + k, float(k))], 99.0]
    tree = Trees(roots=(0,), feature=tuple(feature), threshold=tuple(threshold), left=tuple(left), right=tuple(right))
    _roots, depths, features, _, lefts, rights = tree._arrays
    assert depths.tolist() == [arm + 1]
    leaves = np.flatnonzero(np.array(feature) == -1)
    assert lefts[leaves].tolist() == rights[leaves].tolist() == leaves.tolist()
    assert features.min() == 0
    scores = tree.scores(np.array([[0.0], [1.0], [2.5], [1000.0]]))
    assert scores.tolist() == [-1.0, 1.0, 2.0, 99.0]
