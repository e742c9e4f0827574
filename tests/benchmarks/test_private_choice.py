"""The benchmark of private choices prints one JSON document, whose prices are those of the documentation."""

import json

import pytest

from benchmarks.private_choice import main


def test_prices_as_documented(capsys):
    assert main(["--repetitions", "0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["worth"] == []
    prices = {row["law"]: row for row in told["prices"]}
    assert prices["one run"]["epsilon"] == pytest.approx(1.0, abs=1e-9)
    documented = {"Poisson, 4": (1.37, 0.74), "geometric, 4": (1.28, 0.79), "geometric, 30": (1.69, 0.61)}
    for law, (epsilon, left) in documented.items():
        assert (round(prices[law]["epsilon"], 2), round(prices[law]["mu_left"], 2)) == (epsilon, left)
        assert prices[law]["epsilon"] <= prices[law]["renyi"]


@pytest.mark.slow
def test_a_table_for_people(capsys):
    assert main(["--repetitions", "0"]) == 0
    assert "geometric, 10" in capsys.readouterr().out
