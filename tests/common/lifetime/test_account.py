"""What a run costs the people of each side, and whom a party asks the ledger about before it begins."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import polars
import pytest

from common.core.errors import BadInput, BadScenario, BrokenLedger, BudgetExceeded
from common.data.population import open_records
from common.lifetime.account import Account, charge_of
from common.lifetime.charging import Charging, GivenPeople
from common.lifetime.ledger import PeopleLedger
from common.log.ledger import Journal
from common.scenario.sections import Lifetime
from tests.common.data.test_real_people import TABLE, TREE, own

ENOUGH = {"epsilon": 100.0, "delta": 0.5}
SHARED = {
    "source": {"table": {**TABLE, "where": {"y": ["yes"]}}},
    "target": {"table": {**TABLE, "where": {"y": ["no"]}}},
}
"""One file of which each side reads other rows."""


def account(tmp_path, side="source", chosen=None, **more):
    found = Account(Charging(tmp_path / "people", **more), chosen or own(tmp_path), side)
    found.identify()
    return found


def test_each_side_is_charged_its_own_and_a_file_that_both_read_their_sum(tmp_path):
    agents, curator = {**TREE["agents"], "lifetime": ENOUGH}, {**TREE["curator"], "lifetime": {**ENOUGH, "delta": 0.1}}
    chosen = own(tmp_path, curator=curator)
    source, target = charge_of(chosen, "source"), charge_of(chosen, "target")
    assert (source.people, source.epsilon, source.delta, source.both) == (60, 90.0, 0.01, False)
    assert (target.people, target.epsilon, target.delta, target.both) == (60, 1.0, 0.0, False)
    # What the curator's people are promised is promised to the population's, unless these have a promise of their own.
    assert source.lifetime == target.lifetime == Lifetime(epsilon=100.0, delta=0.1)
    both = own(tmp_path, curator=curator, agents=agents)
    assert charge_of(both, "source").lifetime == source.lifetime
    assert charge_of(both, "target").lifetime == Lifetime(**ENOUGH)
    shared = own(tmp_path, **SHARED, curator={**TREE["curator"], "epsilon": 0.1, "delta": 0.3})
    found = charge_of(shared, "source")
    assert found.both
    assert not charge_of(shared, "target").both
    for one, other in (({"epsilon": 95.0, "delta": 0.5}, ENOUGH), (ENOUGH, {"epsilon": 100.0, "delta": 0.1})):
        sections = {"curator": {**TREE["curator"], "lifetime": one}, "agents": {**TREE["agents"], "lifetime": other}}
        promised = charge_of(own(tmp_path, **SHARED, **sections), "source").lifetime
        assert promised == Lifetime(**{part: min(one[part], other[part]) for part in one})  # both promises hold
    exact = Fraction(0.1) + Fraction(1.0), Fraction(0.3)
    for number, wanted in zip((found.epsilon, found.delta), exact, strict=True):
        assert wanted <= Fraction(number) <= wanted * (1 + Fraction(1, 2**40))


def test_both_sides_are_checked_by_a_curator_that_has_both_at_hand_and_by_no_other(tmp_path):
    """Both files hold the same rows: each person is one of the curator's, 90, and an agent, 1."""
    assert account(tmp_path).check("a").epsilon == 90.0
    assert account(tmp_path, both=True).check("a").epsilon == 91.0
    assert account(tmp_path, "target", both=True).check("b").epsilon == 1.0
    shared = own(tmp_path, **SHARED)
    assert account(tmp_path, chosen=shared, both=True).check("a").epsilon == pytest.approx(91.0)
    chosen = own(tmp_path)
    (tmp_path / "others.csv").unlink()
    assert account(tmp_path, chosen=chosen).check("a").epsilon == 90.0
    with pytest.raises(BadInput, match=r"others.csv"):
        account(tmp_path, chosen=chosen, both=True)
    spent, _ = account(tmp_path, chosen=chosen).charge("a", "run")
    assert spent.epsilon == 90.0
    assert account(tmp_path, chosen=chosen).charge("a", "run")[0] == spent
    with pytest.raises(BudgetExceeded):
        account(tmp_path, chosen=chosen).check("c")


def test_a_charge_of_both_sides_joins_those_of_one_run(tmp_path):
    """The curator's says what both cost; the agents' of the same run adds nothing to it."""
    spent, _ = account(tmp_path, both=True).charge("a", "run")
    assert (spent.runs, spent.epsilon) == (1, 91.0)
    assert account(tmp_path, "target").charge("b", "run")[0].epsilon == 91.0
    with pytest.raises(BudgetExceeded):
        account(tmp_path, "target").charge("b2", "another run")


def test_people_who_were_handed_over_are_recognised_by_that_and_not_by_files(tmp_path):
    frame = polars.DataFrame({"who": [str(n) for n in range(60)], "x": 60 * ["1"]})
    apart = {"source": GivenPeople(frame, id_column="who"), "target": GivenPeople(frame, id_column="who", apart=True)}
    chosen = own(tmp_path)
    (tmp_path / "people.csv").unlink()
    found = account(tmp_path, chosen=chosen, given={"source": apart["source"]})
    assert found.check("a").epsilon == 90.0
    found.charge("a", "run")
    with pytest.raises(BudgetExceeded, match="have the id of"):
        account(tmp_path, chosen=chosen, given={"source": apart["source"]}).check("b")
    assert account(tmp_path, "target", chosen, given=apart)._charge("target").apart
    assert not account(tmp_path, "target", chosen, given=apart)._charge("source").apart
    with pytest.raises(BadScenario, match="needs the directory of its files"):
        account(tmp_path, chosen=chosen.model_copy(update={"data": None}))


def test_a_charge_of_an_older_release_is_met_by_the_encoded_features(tmp_path):
    """:attr:`common.lifetime.recognition.People.features` are those of the records that were opened."""
    chosen = own(tmp_path)
    records = open_records(chosen.source, Path(tmp_path), None, 60)
    found = Account(Charging(tmp_path / "people"), chosen, "source")
    found.identify(records)
    digester = PeopleLedger(tmp_path / "people").digester()
    assert found._met().features().tolist() == digester.features(records.records(np.arange(60)).features).tolist()
    assert len(account(tmp_path)._met().features()) == 0


def test_a_curator_is_refused_a_ledger_of_people_that_does_not_know_its_run(tmp_path):
    (tmp_path / "state").mkdir()
    journal = Journal(tmp_path / "state", {"about": "tests"})
    found = account(tmp_path)
    with pytest.raises(BrokenLedger, match="does not know of this curator's run"):
        found.attach(journal, seen=None, opened=True)
    found.attach(journal, seen=None, opened=False)
    witness = PeopleLedger(tmp_path / "people").witness(journal.identity.public)
    assert witness.last() == journal.chain.head()
    _, head = found.charge(journal.identity.public, "run")
    found.attach(journal, seen=head, opened=True)
    with pytest.raises(BrokenLedger, match="older copy, or is another one"):
        found.attach(journal, seen=head.model_copy(update={"hash": "0" * 64}), opened=True)
    (tmp_path / "other").mkdir()
    other = Journal(tmp_path / "other", {"about": "tests"})
    with pytest.raises(BudgetExceeded):  # another curator's run about the same people
        found.attach(other, seen=None, opened=False)
    for opened in (journal, other):
        opened.close()
