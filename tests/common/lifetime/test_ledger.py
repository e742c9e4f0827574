"""People, not folders: the same people's budget is one, whatever the folder, the order, the file or the process."""

from __future__ import annotations

import lzma
import shutil
from fractions import Fraction

import numpy as np
import pytest

from common.core.errors import BrokenLedger, BudgetExceeded
from common.lifetime.ledger import Deployment, PeopleLedger
from common.people.spec import TableRecordSource
from common.scenario.sections import Lifetime
from common.vocabulary.records import Records
from common.wire.state import user_state

ENOUGH = Lifetime(epsilon=100.0, delta=0.5)


def people(count: int = 50, seed: int = 0, label: int = 1) -> Records:
    features = np.random.default_rng(seed).random((count, 4)).astype(np.float32)
    return Records(features, np.full(count, label, dtype=np.int8))


def deployment(curator: str, epsilon: float = 1.0, lifetime: Lifetime | None = None, **more) -> Deployment:
    settings = {"scenario": "s", "people": 50, "delta": 1e-6, "experiment": False, **more}
    return Deployment(curator=64 * curator, epsilon=epsilon, lifetime=lifetime, **settings)


def who(ledger: PeopleLedger, records: Records, files=()):
    return ledger.identify(TableRecordSource(records), files)


@pytest.fixture
def ledger(tmp_path):
    return PeopleLedger(tmp_path / "people")


def test_it_lies_in_the_users_state_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert PeopleLedger().folder == tmp_path / "xdg" / "tandem" / "people"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_state() == tmp_path / ".local" / "state" / "tandem"


def changed(records: Records) -> Records:
    features = records.features.copy()
    features[7, 2] += 0.25
    return Records(features, records.labels)


SAME = {
    "as they are": lambda records: records,
    "in another order": lambda records: records.take(np.arange(50)[::-1].copy()),
    "with a cell changed": changed,
    "with others added": lambda records: Records.joined([records, people(seed=9)]),
    "one of them among others": lambda records: Records.joined([people(seed=9), records.take(np.array([3]))]),
    "with other labels": lambda records: Records(records.features, -records.labels),
}


@pytest.mark.parametrize("name", sorted(SAME))
def test_the_same_people_take_part_once_unless_a_lifetime_budget_is_stated(ledger, name):
    assert ledger.charge(deployment("a"), who(ledger, people())).runs == 1
    again = who(ledger, SAME[name](people()))
    with pytest.raises(BudgetExceeded, match=r"curator.lifetime: \{epsilon: 3.0, delta: .*Nothing was|Nothing was"):
        ledger.charge(deployment("b", 2.0), again)
    assert len(ledger.table()) == 1  # a refusal charges nothing
    spent = ledger.charge(deployment("b", 2.0, ENOUGH), again)
    assert (spent.runs, spent.epsilon) == (2, 3.0)
    assert spent.delta >= 2e-6


def test_what_the_message_says_to_write_is_enough(ledger):
    ledger.charge(deployment("a", 0.1, delta=1e-6), who(ledger, people()))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.check(deployment("b", 0.2, delta=3e-7), who(ledger, people()))
    words = refused.value.detail.partition("lifetime=(")[2].partition(")")[0]
    epsilon, delta = map(float, words.split(","))
    assert Fraction(epsilon) >= Fraction(0.1) + Fraction(0.2)
    assert ledger.charge(
        deployment("b", 0.2, Lifetime(epsilon=epsilon, delta=delta), delta=3e-7), who(ledger, people())
    ).runs == 2  # fmt: skip


def test_other_people_owe_nothing(ledger):
    ledger.charge(deployment("a"), who(ledger, people()))
    spent = ledger.charge(deployment("b"), who(ledger, people(seed=1)))
    assert (spent.runs, spent.epsilon) == (1, 1.0)


def test_the_file_is_the_same_whatever_is_read_of_it(ledger, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n")
    ledger.charge(deployment("a"), who(ledger, people(), [path]))
    shutil.copy(path, tmp_path / "copy.csv")
    with pytest.raises(BudgetExceeded):
        ledger.check(deployment("b"), who(ledger, people(seed=1), [tmp_path / "copy.csv"]))


def test_the_file_is_the_same_however_it_is_compressed(ledger, tmp_path):
    """A table is read from the compressed file beside where the plain one should be, and so it is known by that."""
    (tmp_path / "plain.csv").write_text("a,b\n1,2\n")
    (tmp_path / "beside.csv.xz").write_bytes(lzma.compress(b"a,b\n1,2\n"))
    ledger.charge(deployment("a"), who(ledger, people(), [tmp_path / "beside.csv"]))
    with pytest.raises(BudgetExceeded):
        ledger.check(deployment("b"), who(ledger, people(seed=1), [tmp_path / "plain.csv"]))


def test_a_lifetime_budget_binds_every_later_run(ledger):
    ledger.charge(deployment("a", lifetime=Lifetime(epsilon=2.0, delta=1e-5)), who(ledger, people()))
    with pytest.raises(BudgetExceeded, match=r"lifetime budget is \(2, 1e-05\), which no later run can raise"):
        ledger.charge(deployment("b", 1.5, ENOUGH), who(ledger, people()))
    ledger.charge(deployment("b", 1.0), who(ledger, people()))  # it holds both
    with pytest.raises(BudgetExceeded):
        ledger.charge(deployment("c", 0.1), who(ledger, people()))


def test_each_person_is_charged_the_runs_they_were_in(ledger):
    """Two groups with one run each: somebody who is in both groups' union has been in one run before, not two."""
    one, two = people(seed=1), people(seed=2)
    ledger.charge(deployment("a", 1.0), who(ledger, one))
    ledger.charge(deployment("b", 3.0), who(ledger, two))
    both = who(ledger, Records.joined([one, two]))
    spent = ledger.charge(deployment("c", 0.5, ENOUGH), both)
    assert (spent.runs, spent.epsilon) == (3, 3.5)
    assert [row["all_runs"]["epsilon"] for row in ledger.table()] == [1.5, 3.5, 3.5]


def test_one_curator_is_charged_once(ledger):
    first = ledger.charge(deployment("a"), who(ledger, people()))
    assert ledger.charge(deployment("a"), who(ledger, people())) == first
    assert len(ledger.table()) == 1


def test_experiments_are_counted_and_need_no_lifetime_budget(ledger):
    for curator in "abc":
        spent = ledger.charge(deployment(curator, experiment=True), who(ledger, people()))
    assert (spent.runs, spent.epsilon) == (3, 3.0)
    with pytest.raises(BudgetExceeded):
        ledger.charge(deployment("d"), who(ledger, people()))


@pytest.mark.parametrize("lost", ["ledger.sqlite", "people.key", "head.json", "rows"])
def test_a_part_of_it_that_is_gone_is_noticed(ledger, lost):
    ledger.charge(deployment("a"), who(ledger, people()))
    path = ledger.folder / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(BrokenLedger):
        ledger.check(deployment("b"), who(ledger, people()))


def test_nobody_can_be_found_in_it_without_its_key(ledger):
    """The same people under another key leave nothing alike."""
    other = PeopleLedger(ledger.folder.with_name("other"))
    mine, theirs = who(ledger, people()), who(other, people())
    assert not set(mine.rows.tolist()) & set(theirs.rows.tolist())
    assert (ledger.folder / "people.key").stat().st_mode & 0o077 == 0
