"""The benchmark of searches for heavy hitters: what it prints, and that its searches find what is there."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from benchmarks import heavy_hitters
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.item import ItemQuery
from common.numerics.randomness import RandomSource


@pytest.mark.parametrize("search", list(heavy_hitters.SEARCHES))
@pytest.mark.parametrize("name", ["hadamard", "olh"])
def test_every_search_finds_what_most_people_hold(search: str, name: str) -> None:
    oracle = parse_mechanism({"name": name, "epsilon": 5.0})
    assert isinstance(oracle, FrequencyOracle)
    source = RandomSource.seeded(1)
    heavy, items = heavy_hitters.people(np.array([0.9]), 20_000, source)
    query = ItemQuery(bits=64, prefixes=heavy_hitters.lengths(search, oracle), public=3)
    listed = heavy_hitters.SEARCHES[search](query, oracle, heavy_hitters.asked(query, oracle, items, source))
    assert listed.tolist() == heavy.tolist()


def test_rows_are_as_declared(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(heavy_hitters, "KINDS", 100)
    oracle = parse_mechanism({"name": "hadamard", "epsilon": 1.0})
    assert isinstance(oracle, FrequencyOracle)
    row = heavy_hitters.measure("prefix extending", oracle, "Zipf", 20_000, runs=1)
    assert row.surely is None
    assert row.promised == pytest.approx(0.255, abs=0.01)
    monkeypatch.setattr(heavy_hitters, "rows", lambda sizes, runs: iter([row]))
    for options, first in (([], "search"), (["--json"], "[")):
        monkeypatch.setattr(sys, "argv", ["heavy_hitters", *options])
        heavy_hitters.main()
        said = capsys.readouterr().out
        assert said.startswith(first)
    assert json.loads(said)[0]["agents"] == 20_000
