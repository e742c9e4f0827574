"""People, not folders: what all runs together cost a person is one sum, whatever the folder, file, side or process."""

import lzma
import math
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars
import pytest

from common.core.durable import user_state
from common.core.errors import BadInput, BadScenario, BrokenLedger, BudgetExceeded, CannotWrite, TandemError
from common.lifetime.account import Account, charge_of
from common.lifetime.charging import Charging, GivenPeople
from common.lifetime.ledger import Charge, PeopleLedger
from common.log.ledger import Journal
from common.log.witness import FileWitness, last_head
from common.numerics.randomness import durable_secret
from common.scenario.sections import Lifetime
from tests.common.data.test_people import TABLE, TREE, own

ENOUGH = Lifetime(epsilon=100.0, delta=0.5)
COLUMNS = ["age", "income", "visits", "score"]


def table(count: int = 50, seed: int = 0) -> polars.DataFrame:
    numbers = np.random.default_rng(seed).random((count, 4))
    return polars.DataFrame(numbers, schema=COLUMNS)


def charge(party: str, epsilon: float = 1.0, lifetime: Lifetime | None = None, **more) -> Charge:
    settings = {"side": "source", "scenario": "s", "people": 50, "delta": 1e-6, "experiment": False, **more}
    return Charge(party=64 * party, epsilon=epsilon, lifetime=lifetime, **settings)


def who(ledger: PeopleLedger, frame: polars.DataFrame, files=(), **more):
    return ledger.digester().people([frame], files, **more)


@pytest.fixture
def ledger(tmp_path):
    return PeopleLedger(tmp_path / "people")


def test_it_lies_in_the_users_state_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert PeopleLedger().folder == tmp_path / "xdg" / "tandem" / "people"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_state() == tmp_path / ".local" / "state" / "tandem"


def test_the_same_people_take_part_once_unless_a_lifetime_budget_is_stated(ledger):
    first, head = ledger.charge(charge("a"), who(ledger, table()))
    assert ledger.charge(charge("a"), who(ledger, table())) == (first, head)  # one party is charged once
    assert first.runs == 1
    assert "in this run, and none was recognised in another one" in str(first)
    again = who(ledger, table()[::-1])
    with pytest.raises(BudgetExceeded) as refused:
        ledger.charge(charge("b", 2.0), again)
    words = refused.value.detail
    for said in (
        "50 of 50 rows of the curator's people look the same",
        "s of 20",
        "(1, 1e-06)",
        "curator.lifetime: {epsilon: 3.0, delta: ",
        "source.table.id: COLUMN",
        "Nothing was charged",
    ):
        assert said in words
    assert len(ledger.table()) == 1  # a refusal charges nothing
    spent, _ = ledger.charge(charge("b", 2.0, ENOUGH), again)
    assert (spent.runs, spent.epsilon) == (2, 3.0)
    assert spent.delta >= 2e-6
    assert "epsilon = 3" in str(spent)
    assert "in 2 runs" in str(spent)


def test_what_the_message_says_to_write_is_enough(ledger):
    ledger.charge(charge("a", 0.1, delta=1e-6), who(ledger, table()))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.check([(charge("b", 0.2, delta=3e-7), who(ledger, table()))])
    words = refused.value.detail.partition("lifetime=(")[2].partition(")")[0]
    epsilon, delta = map(float, words.split(","))
    assert Fraction(epsilon) >= Fraction(0.1) + Fraction(0.2)
    enough = Lifetime(epsilon=epsilon, delta=delta)
    assert ledger.charge(charge("b", 0.2, enough, delta=3e-7), who(ledger, table()))[0].runs == 2


def test_agents_are_charged_and_a_person_on_both_sides_pays_for_both(ledger):
    """Over runs, and over the two sides of one run."""
    people, others = who(ledger, table()), who(ledger, table(seed=1))
    agents = charge("b", 0.5, side="target", delta=0.0, digest="run 1")
    ledger.charge(charge("a", digest="run 1"), people, [(agents, others)])
    assert ledger.charge(agents, others)[0].epsilon == 0.5
    with pytest.raises(BudgetExceeded, match=r"the population's people .*agents.lifetime: \{epsilon: 1.0"):
        ledger.check([(charge("d", 0.5, side="target", delta=0.0), others)])
    with pytest.raises(BudgetExceeded, match=r"curator.lifetime: \{epsilon: 1.5"):  # the agents' people, as a curator's
        ledger.check([(charge("d"), others)])
    both = who(ledger, table(seed=2))
    pair = [(charge("e", digest="run 2"), both), (charge("f", 0.5, side="target", delta=0.0, digest="run 2"), both)]
    assert [spent.epsilon for spent in ledger.check(pair)] == [1.5, 1.5]
    assert [spent.runs for spent in ledger.check(pair)] == [1, 1]
    limit = Lifetime(epsilon=1.2, delta=1.0e-5)
    with pytest.raises(
        BudgetExceeded, match="look the same, on both sides of it"
    ):  # one run alone exceeds the lifetime
        ledger.check([(charge("e", lifetime=limit, digest="run 2"), both), pair[1]])
    ledger.charge(*pair[0], pair[1:])
    assert ledger.charge(*pair[1])[0].epsilon == 1.5
    assert ledger.spent("run 2")["source"].epsilon == 1.5
    (row,) = [row for row in ledger.table() if row["curator"] == 64 * "e"]
    assert (row["epsilon"], row["agents"]["epsilon"], row["all_runs"]["epsilon"]) == (1.0, 0.5, 1.5)


def test_the_curators_charge_for_a_file_that_both_read_covers_the_agents(ledger):
    people = who(ledger, table())
    limit = Lifetime(epsilon=3.0, delta=1e-5)
    ledger.charge(charge("a", 3.0, limit, digest="run", both=True), people)
    host = charge("b", 1.0, limit, side="target")
    assert ledger.check([(host, people)])[0].epsilon == 3.0  # it starts again, and does not know its run yet
    spent, _ = ledger.charge(charge("b", 1.0, side="target", digest="run"), people)
    assert spent.epsilon == 3.0
    assert len(ledger.table()) == 1


def test_a_file_that_both_read_covers_no_people_of_another_one(ledger):
    """A host whose people are partly, or all, of other files than the curator's: these are charged, as agents."""
    own, others = table(), table(seed=1)
    for number, (people, rest) in enumerate(
        {"own and others": (polars.concat([own, others]), 50), "": (others, 50)}.values()
    ):
        here = PeopleLedger(ledger.folder.with_name(f"{number}"))
        here.charge(charge("a", 3.0, digest="run", both=True), who(here, own))
        host = charge("b", 1.0, side="target", delta=0.0, people=100)
        asked = who(here, people)
        assert here.check([(host, asked)])[0].epsilon == 1.0  # it starts again, and does not know its run yet
        assert here.charge(replace(host, digest="run"), asked)[0].epsilon == 1.0
        (row,) = here.table()
        assert (row["all_runs"]["epsilon"], row["agents"]["people"], row["agents"]["epsilon"]) == (3.0, rest, 1.0)
        with pytest.raises(BudgetExceeded, match=r"50 of 50 rows .* has spent \(1, 0\)"):
            here.check([(charge("c"), who(here, others))])
        with pytest.raises(BudgetExceeded, match=r"50 of 50 rows .* has spent \(3, 1e-06\)"):
            here.check([(charge("c"), who(here, own))])


def test_a_run_that_begins_takes_no_earlier_one_for_itself(ledger):
    """A curator's charge without agents, of the same scenario, is another run where the curator is checked, too."""
    ledger.charge(charge("a", digest="run 1", both=True), who(ledger, table()))
    host = charge("c", 0.5, side="target", delta=0.0), who(ledger, table())
    with pytest.raises(BudgetExceeded, match="50 of 50 rows of the population's people"):
        ledger.check([(charge("b"), who(ledger, table(seed=1))), host])


def test_what_others_have_agreed_to_holds_for_nobody_else(ledger):
    """A lifetime budget that was stated for some of the people of a run allows no further run of the other ones."""
    ledger.charge(charge("a", lifetime=ENOUGH), who(ledger, table()))
    ledger.charge(charge("b"), who(ledger, table(seed=1)))
    together = polars.concat([table(), table(seed=1)])
    with pytest.raises(BudgetExceeded, match=r"curator\.lifetime"):
        ledger.check([(charge("c"), who(ledger, together))])
    ledger.check([(charge("c"), who(ledger, table()))])
    ledger.check([(charge("c", lifetime=ENOUGH), who(ledger, together))])


def test_a_sum_with_a_run_that_protects_labels_alone_says_so(ledger):
    """Features may have been released as they are there: the sum is true of labels alone, in later runs, too."""
    people, others = who(ledger, table()), who(ledger, table(seed=1))
    assert not ledger.charge(charge("a", lifetime=ENOUGH), people)[0].labels
    ledger.charge(charge("b", labels=True, digest="run"), people)
    later, _ = ledger.charge(charge("c", 0.5, side="target", delta=0.0), people)
    assert "epsilon = 2.5, delta = 2e-06 for labels alone" in str(later)
    assert ledger.spent("run")["source"].labels
    assert not ledger.charge(charge("d"), others)[0].labels
    assert str(ledger.charge(charge("e", labels=True), who(ledger, table(seed=2)))[0]) == (
        "epsilon = 1, delta = 1e-06 for labels alone, which is all that the curator of one of the runs protects, in "
        "this run, and none was recognised in another one"
    )


def test_a_budget_that_is_too_small_by_a_digit_is_shown_with_it(ledger):
    """Three times .01 is more than .03 as doubles are: the message shows two numbers that differ."""
    with pytest.raises(BudgetExceeded) as refused:
        ledger.check(
            [(charge("a", lifetime=Lifetime(epsilon=math.nextafter(1.0, 0.0), delta=0.5)), who(ledger, table()))]
        )
    assert "would have spent (1, 1e-06). Their lifetime budget is (0.9999999999999999, 0.5)" in refused.value.detail
    assert "both sides" not in refused.value.detail


def test_rows_that_chance_has_shared_out_pay_for_one_side(ledger):
    """Rows that look alike on both sides are two people, as each row is on one side: the dearer side is what counts."""
    people = polars.DataFrame({"a": [0, 1, 0, 1], "b": [0, 0, 1, 1]})
    both = {"digest": "run", "apart": True}
    ledger.charge(charge("a", 1.0, **both), who(ledger, people))
    spent, _ = ledger.charge(charge("b", 0.5, side="target", delta=0.0, **both), who(ledger, people))
    assert (spent.epsilon, spent.delta, spent.runs) == (1.0, 1e-6, 1)
    assert ledger.charge(charge("c", 1.0, ENOUGH), who(ledger, people))[0].epsilon == 2.0


def test_the_file_is_the_same_whatever_is_read_of_it_and_however_it_is_compressed(ledger, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n")
    ledger.charge(charge("a"), who(ledger, table(), [path]))
    shutil.copy(path, tmp_path / "copy.csv")
    (tmp_path / "beside.csv.xz").write_bytes(lzma.compress(path.read_bytes()))
    for other in ("copy.csv", "beside.csv"):
        with pytest.raises(BudgetExceeded):
            ledger.check([(charge("b"), who(ledger, table(seed=1), [tmp_path / other]))])


def test_a_lifetime_budget_binds_its_run_and_every_later_one(ledger):
    with pytest.raises(BudgetExceeded, match=r"lifetime budget is \(0.5, 0.5\)"):
        ledger.check([(charge("a", lifetime=Lifetime(epsilon=0.5, delta=0.5)), who(ledger, table()))])
    ledger.charge(charge("a", lifetime=Lifetime(epsilon=2.0, delta=1e-5)), who(ledger, table()))
    with pytest.raises(BudgetExceeded, match=r"lifetime budget is \(2, 1e-05\), which no later run can raise"):
        ledger.charge(charge("b", 1.5, ENOUGH), who(ledger, table()))
    ledger.charge(charge("b", 1.0), who(ledger, table()))  # it holds both
    with pytest.raises(BudgetExceeded):
        ledger.charge(charge("c", 0.1), who(ledger, table()))


def test_each_person_is_charged_the_runs_they_were_in(ledger):
    """Two groups with one run each: somebody who is in both groups' union has been in one run before, not two."""
    one, two = table(seed=1), table(seed=2)
    ledger.charge(charge("a", 1.0), who(ledger, one))
    ledger.charge(charge("b", 3.0), who(ledger, two))
    spent, _ = ledger.charge(charge("c", 0.5, ENOUGH), who(ledger, polars.concat([one, two])))
    assert (spent.runs, spent.epsilon) == (3, 3.5)
    assert [row["all_runs"]["epsilon"] for row in ledger.table()] == [1.5, 3.5, 3.5]


def test_one_row_that_was_charged_before_is_enough_to_be_refused(ledger):
    """Whoever it is beside: nothing is charged, and the refusal says how many were met and what each number is."""
    one, two = table(seed=1), table(seed=2)
    ledger.charge(charge("a", 1.5), who(ledger, one))
    with pytest.raises(BudgetExceeded, match=r"^1 of 51 rows of the curator's people look the same") as refused:
        ledger.check([(charge("b", 0.25), who(ledger, polars.concat([two, one[:1]])))])
    assert refused.value.members == {"spent": 1.5, "requested": 0.25, "budget": 1.5}
    binding = Lifetime(epsilon=1.6, delta=1e-3)
    with pytest.raises(BudgetExceeded) as refused:
        ledger.check([(charge("b", 0.25, binding), who(ledger, polars.concat([two, one[:1]])))])
    assert refused.value.members == {"spent": 1.5, "requested": 0.25, "budget": 1.6}
    assert len(ledger.table()) == 1


def test_a_sum_is_that_of_one_person_and_exact_up_to_the_last_place(ledger):
    """Three groups of which each was in other runs: the sum of the one who has spent most, rounded up, never down."""
    groups = [table(seed=seed) for seed in range(3)]
    everybody = Lifetime(epsilon=10.0, delta=0.1)
    taken = ((0.1, (0, 1)), (0.2, (1, 2)), (0.7, (0,)), (0.3, (1,)))
    for number, (epsilon, who_takes_part) in enumerate(taken):
        rows = polars.concat([groups[at] for at in who_takes_part])
        ledger.charge(charge("abcd"[number], epsilon, everybody, delta=epsilon / 1e6), who(ledger, rows))
    for at, group in enumerate(groups):
        before = [epsilon for epsilon, some in taken if at in some]
        (spent,) = ledger.check([(charge("e", 1e-3, everybody, delta=0.0), who(ledger, group))])
        exact = sum(map(Fraction, before), Fraction(1e-3)), sum(Fraction(epsilon / 1e6) for epsilon in before)
        assert spent.runs == len(before) + 1
        for found, wanted in zip((spent.epsilon, spent.delta), exact, strict=True):
            assert wanted <= Fraction(found) <= wanted * (1 + Fraction(1, 2**50))


def test_the_ledger_is_for_its_user_alone_and_says_what_makes_it_unusable(ledger, tmp_path):
    ledger.charge(charge("a"), who(ledger, table()))
    ledger.witness(64 * "a")
    for folder in (ledger.folder, ledger.folder / "rows", ledger.folder / "heads"):
        assert folder.stat().st_mode & 0o777 == 0o700
    (stored,) = (ledger.folder / "rows").iterdir()
    assert stored.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CannotWrite, match=r"cannot be used .*File name too long.*nothing was charged"):
        PeopleLedger(tmp_path / (300 * "x")).digester()


def test_digests_that_were_damaged_or_taken_away_are_noticed(ledger):
    ledger.charge(charge("a"), who(ledger, table()))
    (stored,) = (ledger.folder / "rows").iterdir()
    content = stored.read_bytes()
    for damaged in (content[:-1], None):
        stored.unlink() if damaged is None else stored.write_bytes(damaged)
        with pytest.raises(BrokenLedger, match="says who was charged"):
            PeopleLedger(ledger.folder).table()


def test_experiments_are_counted_and_need_no_lifetime_budget(ledger):
    for party in "abc":
        spent, _ = ledger.charge(charge(party, experiment=True), who(ledger, table()))
    assert (spent.runs, spent.epsilon) == (3, 3.0)
    with pytest.raises(BudgetExceeded):
        ledger.charge(charge("d"), who(ledger, table()))


@pytest.mark.parametrize("lost", ["ledger.sqlite", "people.key", "head.json", "rows", "../people.heads"])
def test_a_part_of_it_that_is_gone_is_noticed(ledger, lost):
    ledger.charge(charge("a"), who(ledger, table()))
    path = ledger.folder / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(BrokenLedger):
        ledger.check([(charge("b"), who(ledger, table()))])


def test_an_older_copy_and_another_key_in_its_place_are_noticed(ledger, tmp_path):
    """Each of these would give everybody in the ledger a fresh budget."""
    ledger.charge(charge("a"), who(ledger, table()))
    mine = (ledger.folder / "people.key").rename(tmp_path / "people.key")
    durable_secret(ledger.folder / "people.key")
    with pytest.raises(BrokenLedger, match="is not the one of this ledger"):
        ledger.digester()
    mine.replace(ledger.folder / "people.key")
    shutil.copytree(ledger.folder, tmp_path / "older")
    _, head = ledger.charge(charge("b"), who(ledger, table(seed=1)))
    shutil.copytree(ledger.folder, tmp_path / "newest")

    def put_back(copy):
        shutil.rmtree(ledger.folder)
        shutil.copytree(tmp_path / copy, ledger.folder)

    put_back("older")
    with pytest.raises(BrokenLedger, match="put back or cut off"):
        ledger.check([(charge("c"), who(ledger, table(seed=1)))])
    (tmp_path / "people.heads").unlink()  # with the copy's neighbour gone, too, the ledger says what is missing
    with pytest.raises(BrokenLedger, match="forgotten"):
        ledger.check([(charge("c"), who(ledger, table(seed=1)))])
    put_back("newest")
    (tmp_path / "people.heads").unlink(missing_ok=True)
    shutil.rmtree(ledger.folder)  # all of it is gone: only who holds a head notices
    ledger.digester()
    with pytest.raises(BrokenLedger, match="older copy, or is another one"):
        ledger.check_head(head)


def test_a_witness_that_is_named_once_notices_an_older_copy_of_everything(tmp_path):
    place = tmp_path / "elsewhere" / "people.heads"
    place.parent.mkdir()
    named = PeopleLedger(tmp_path / "state" / "people", [str(place)])
    named.charge(charge("a"), who(named, table()))
    shutil.copytree(tmp_path / "state", tmp_path / "older")
    plain = PeopleLedger(tmp_path / "state" / "people")  # the ledger remembers its witness
    plain.charge(charge("b"), who(plain, table(seed=1)))
    last = last_head(FileWitness(place))
    assert last is not None
    plain.check_head(last)
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "older", tmp_path / "state")
    with pytest.raises(TandemError, match="put back or cut off"):
        plain.digester()


def test_a_place_that_takes_nothing_is_named_and_leaves_the_ledger_as_it_was(ledger, tmp_path, monkeypatch):
    """Neither a full disk, nor a file in the place of the ledger, nor a mistyped witness."""

    def full(self):
        raise OSError(28, "No space left on device")

    people = who(ledger, table())
    with monkeypatch.context() as patched:
        patched.setattr("common.log.ledger.Chain.check_writable", full)
        with pytest.raises(CannotWrite, match=r"No space left.*nothing was charged"):
            ledger.check([(charge("a"), people)])
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CannotWrite, match=r"ledger of people .*file cannot be used .*--ledger.*; nothing was charged"):
        PeopleLedger(tmp_path / "file").table()
    for place in (tmp_path / "file" / "witness", tmp_path):
        with pytest.raises((CannotWrite, OSError)):
            PeopleLedger(tmp_path / "people", [str(place)]).table()
    assert PeopleLedger(tmp_path / "people").table() == []


def test_nobody_can_be_found_in_it_without_its_key(ledger):
    """The same people under another key leave nothing alike."""
    other = PeopleLedger(ledger.folder.with_name("other"))
    mine, theirs = who(ledger, table()), who(other, table())
    assert not set(mine.cells.ravel().tolist()) & set(theirs.cells.ravel().tolist())
    assert (ledger.folder / "people.key").stat().st_mode & 0o077 == 0


ACCOUNT_ENOUGH = {"epsilon": 100.0, "delta": 0.5}
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
    agents, curator = (
        {**TREE["agents"], "lifetime": ACCOUNT_ENOUGH},
        {**TREE["curator"], "lifetime": {**ACCOUNT_ENOUGH, "delta": 0.1}},
    )
    chosen = own(tmp_path, curator=curator)
    source, target = charge_of(chosen, "source"), charge_of(chosen, "target")
    assert (source.people, source.epsilon, source.delta, source.both) == (60, 90.0, 0.01, False)
    assert (target.people, target.epsilon, target.delta, target.both) == (60, 1.0, 0.0, False)
    # What the curator's people are promised is promised to the population's, unless these have a promise of their own.
    assert source.lifetime == target.lifetime == Lifetime(epsilon=100.0, delta=0.1)
    both = own(tmp_path, curator=curator, agents=agents)
    assert charge_of(both, "source").lifetime == source.lifetime
    assert charge_of(both, "target").lifetime == Lifetime(**ACCOUNT_ENOUGH)
    shared = own(tmp_path, **SHARED, curator={**TREE["curator"], "epsilon": 0.1, "delta": 0.3})
    found = charge_of(shared, "source")
    assert found.both
    assert not charge_of(shared, "target").both
    for one, other in (
        ({"epsilon": 95.0, "delta": 0.5}, ACCOUNT_ENOUGH),
        (ACCOUNT_ENOUGH, {"epsilon": 100.0, "delta": 0.1}),
    ):
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


def test_a_curator_is_refused_a_ledger_of_people_that_does_not_know_its_run(tmp_path):
    (tmp_path / "state").mkdir()
    journal = Journal(tmp_path / "state", {"about": "tests"})
    found = account(tmp_path)
    with pytest.raises(BrokenLedger, match="does not know of this curator's run"):
        found.attach(journal, seen=None, opened=True)
    found.attach(journal, seen=None, opened=False)
    witness = PeopleLedger(tmp_path / "people").witness(journal.identity.public)
    assert last_head(witness) == journal.chain.head()
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
