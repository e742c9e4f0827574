"""People, not folders: what all runs together cost a person is one sum, whatever the folder, file, side or process."""

import lzma
import math
import shutil
from fractions import Fraction
from typing import Any

import numpy as np
import polars
import pytest

from common.core.durable import user_state
from common.core.errors import BadInput, BadScenario, BrokenLedger, BudgetExceeded, CannotWrite, TandemError
from common.lifetime.account import Account, charge_of
from common.lifetime.charging import Charging, GivenPeople
from common.lifetime.ledger import Charge, PeopleLedger
from common.lifetime.recognition import People
from common.log.ledger import Journal
from common.log.witness import FileWitness, last_head
from common.net.messages import Spent
from common.numerics.randomness import durable_secret
from common.scenario.sections import Lifetime
from tests.common.data.test_people import TABLE, TREE, own
from tests.tiers import for_each

ENOUGH = Lifetime(epsilon=100.0, delta=0.5)
COLUMNS = ["age", "income", "visits", "score"]


def table(seed: int = 0) -> polars.DataFrame:
    return polars.DataFrame(np.random.default_rng(seed).random((50, 4)), schema=COLUMNS)


OWN, OTHERS = table(), table(1)
BOTH = polars.concat([OWN, OTHERS])
AGENTS: dict[str, Any] = {"side": "target", "delta": 0.0}


class Book(PeopleLedger):
    """A ledger whose charges are made in a line: of a party, for the people of a frame."""

    def pair(
        self, party: str, epsilon: float = 1.0, lifetime: Lifetime | None = None, of=OWN, files=(), **more
    ) -> tuple[Charge, People]:
        settings = {"side": "source", "scenario": "s", "people": 50, "delta": 1e-6, "experiment": False, **more}
        who = self.digester().people([of], files)
        return Charge(party=64 * party, epsilon=epsilon, lifetime=lifetime, **settings), who

    def pay(self, *charged, **more) -> Spent:
        return self.charge(*self.pair(*charged, **more))[0]

    def ask(self, *charged, **more) -> Spent:
        return self.check([self.pair(*charged, **more)])[0]

    def refuse(self, why: str, *charged, **more) -> BudgetExceeded:
        with pytest.raises(BudgetExceeded, match=why) as refused:
            self.ask(*charged, **more)
        return refused.value


@pytest.fixture
def ledger(tmp_path) -> Book:
    return Book(tmp_path / "people")


def test_the_same_people_take_part_once_unless_a_lifetime_budget_is_stated(ledger):
    first, head = ledger.charge(*ledger.pair("a"))
    assert ledger.charge(*ledger.pair("a")) == (first, head)  # one party is charged once
    assert "in this run, and none was recognised in another one" in str(first)
    words = ledger.refuse("50 of 50 rows of the curator's people look the same", "b", 2.0, of=OWN[::-1]).detail
    for said in ("s of 20", "(1, 1e-06)", "curator.lifetime: {epsilon: 3.0, delta: ", "source.table.id: COLUMN"):
        assert said in words
    assert "Nothing was charged" in words
    assert len(ledger.table()) == 1  # a refusal charges nothing
    spent = ledger.pay("b", 2.0, ENOUGH, of=OWN[::-1])
    assert (spent.runs, spent.epsilon, spent.delta >= 2e-6) == (2, 3.0, True)
    assert "epsilon = 3" in str(spent)
    assert "in 2 runs" in str(spent)


def test_a_host_that_goes_on_at_a_higher_price_or_with_a_lower_promise_is_charged_the_rest(ledger):
    """Its people answer in one of its runs each, and nobody knows beforehand who in which: all may pay the most."""
    ledger.pay("a", 1.0, digest="run 1", **AGENTS)
    assert ledger.pay("a", 0.5, digest="run 2", **AGENTS).epsilon == 1.0
    assert ledger.pay("a", 5.0, digest="run 3", **AGENTS).epsilon == 5.0
    for epsilon in (5.0, 1.0):
        spent, head = ledger.charge(*ledger.pair("a", epsilon, digest="run 4", **AGENTS))
        again = ledger.charge(*ledger.pair("a", digest="run 1", **AGENTS))[1]
        assert (spent.epsilon, head.entries) == (5.0, again.entries), epsilon
    assert ledger.spent("run 1")["target"].epsilon == 5.0
    assert [row["agents"]["epsilon"] for row in ledger.table()] == [1.0, 5.0]  # of each run that was charged
    with pytest.raises(BudgetExceeded, match="Nothing was charged"):
        ledger.pay("a", 7.0, Lifetime(epsilon=6.0, delta=0.1), digest="run 5", **AGENTS)
    ledger.pay("a", 5.0, Lifetime(epsilon=6.0, delta=0.1), digest="run 6", **AGENTS)
    for epsilon, most in ((7.0, None), (7.0, 9.0), (1.0, 3.0)):
        lifetime = None if most is None else Lifetime(epsilon=most, delta=0.1)
        with pytest.raises(BudgetExceeded, match="which no later run can raise"):  # nor the party itself
            ledger.pay("a", epsilon, lifetime, digest="run 7", **AGENTS)
    with pytest.raises(BudgetExceeded, match="lifetime budget is"):  # what was promised last binds whoever comes later
        ledger.pay("b", 1.5, Lifetime(epsilon=9.0, delta=0.1), **AGENTS)
    assert ledger.pay("b", 1.0, Lifetime(epsilon=9.0, delta=0.1), **AGENTS).epsilon == 6.0


def test_what_the_message_says_to_write_is_enough(ledger):
    ledger.pay("a", 0.1)
    words = ledger.refuse(".", "b", 0.2, delta=3e-7).detail.partition("lifetime=(")[2].partition(")")[0]
    epsilon, delta = map(float, words.split(","))
    assert Fraction(epsilon) >= Fraction(0.1) + Fraction(0.2)
    assert ledger.pay("b", 0.2, Lifetime(epsilon=epsilon, delta=delta), delta=3e-7).runs == 2


def test_agents_are_charged_and_a_person_on_both_sides_pays_for_both(ledger):
    """Over runs, and over the two sides of one run."""
    agents = ledger.pair("b", 0.5, of=OTHERS, digest="run 1", **AGENTS)
    ledger.charge(*ledger.pair("a", digest="run 1"), [agents])
    assert ledger.charge(*agents)[0].epsilon == 0.5
    ledger.refuse(r"the population's people .*agents.lifetime: \{epsilon: 1.0", "d", 0.5, of=OTHERS, **AGENTS)
    ledger.refuse(r"curator.lifetime: \{epsilon: 1.5", "d", of=OTHERS)  # the agents' people, as a curator's
    both = {"of": table(2), "digest": "run 2"}
    pair = [ledger.pair("e", **both), ledger.pair("f", 0.5, **both, **AGENTS)]
    assert [(spent.epsilon, spent.runs) for spent in ledger.check(pair)] == [(1.5, 1), (1.5, 1)]
    limited = ledger.pair("e", lifetime=Lifetime(epsilon=1.2, delta=1.0e-5), **both)
    with pytest.raises(BudgetExceeded, match="look the same, on both sides of it"):  # one run exceeds the lifetime
        ledger.check([limited, pair[1]])
    ledger.charge(*pair[0], pair[1:])
    assert ledger.charge(*pair[1])[0].epsilon == ledger.spent("run 2")["source"].epsilon == 1.5
    (row,) = [row for row in ledger.table() if row["curator"] == 64 * "e"]
    assert (row["epsilon"], row["agents"]["epsilon"], row["all_runs"]["epsilon"]) == (1.0, 0.5, 1.5)


def test_the_curators_charge_for_a_file_that_both_read_covers_the_agents(ledger):
    limit = Lifetime(epsilon=3.0, delta=1e-5)
    ledger.pay("a", 3.0, limit, digest="run", both=True)
    assert ledger.ask("b", 1.0, limit, side="target").epsilon == 3.0  # it starts again: its run it does not know yet
    assert ledger.pay("b", side="target", digest="run").epsilon == 3.0
    assert len(ledger.table()) == 1


def test_it_covers_them_also_where_their_host_was_charged_for_a_cheaper_run_before(ledger):
    ledger.pay("b", 1.0, ENOUGH, of=BOTH, digest="run 1", **AGENTS)
    ledger.pay("a", 3.0, ENOUGH, digest="run 2", both=True)
    for people, whole in ((OWN, 4.0), (BOTH, 2.0)):  # of those whom the curator's charge leaves out: 1.0, and the rest
        spent = ledger.pay("b", 2.0, ENOUGH, of=people, digest="run 2", **AGENTS)
        assert spent.epsilon == whole
    found = [ledger.ask("c", 0.5, ENOUGH, of=people).epsilon - 0.5 for people in (OWN, OTHERS)]
    assert found == [4.0, 2.0]


@for_each(("people", "rest"), [(BOTH, 50), (OTHERS, 50)], ids=["own and others", "others"])
def test_a_file_that_both_read_covers_no_people_of_another_one(tmp_path, people, rest):
    """A host whose people are partly, or all, of other files than the curator's: these are charged, as agents."""
    ledger = Book(tmp_path / "people")
    ledger.pay("a", 3.0, digest="run", both=True)
    host = {"of": people, "people": 100, **AGENTS}
    assert ledger.ask("b", **host).epsilon == 1.0  # it starts again, and does not know its run yet
    assert ledger.pay("b", **host, digest="run").epsilon == 1.0
    (row,) = ledger.table()
    assert (row["all_runs"]["epsilon"], row["agents"]["people"], row["agents"]["epsilon"]) == (3.0, rest, 1.0)
    ledger.refuse(r"50 of 50 rows .* has spent \(1, 0\)", "c", of=OTHERS)
    ledger.refuse(r"50 of 50 rows .* has spent \(3, 1e-06\)", "c")


def test_a_run_that_begins_takes_no_earlier_one_for_itself(ledger):
    """A curator's charge without agents, of the same scenario, is another run where the curator is checked, too."""
    ledger.pay("a", digest="run 1", both=True)
    with pytest.raises(BudgetExceeded, match="50 of 50 rows of the population's people"):
        ledger.check([ledger.pair("b", of=OTHERS), ledger.pair("c", 0.5, **AGENTS)])


def test_what_others_have_agreed_to_holds_for_nobody_else(ledger):
    """A lifetime budget that was stated for some of the people of a run allows no further run of the other ones."""
    ledger.pay("a", lifetime=ENOUGH)
    ledger.pay("b", of=OTHERS)
    ledger.refuse(r"curator\.lifetime", "c", of=BOTH)
    ledger.ask("c")
    ledger.ask("c", lifetime=ENOUGH, of=BOTH)


def test_a_sum_with_a_run_that_protects_labels_alone_says_so(ledger):
    """Features may have been released as they are there: the sum is true of labels alone, in later runs, too."""
    assert not ledger.pay("a", lifetime=ENOUGH).labels
    ledger.pay("b", labels=True, digest="run")
    assert "epsilon = 2.5, delta = 2e-06 for labels alone" in str(ledger.pay("c", 0.5, **AGENTS))
    assert ledger.spent("run")["source"].labels
    assert not ledger.pay("d", of=OTHERS).labels
    assert str(ledger.pay("e", labels=True, of=table(2))) == (
        "epsilon = 1, delta = 1e-06 for labels alone, which is all that the curator of one of the runs protects, in "
        "this run, and none was recognised in another one"
    )


def test_rows_that_chance_has_shared_out_pay_for_one_side(ledger):
    """Rows that look alike on both sides are two people, as each row is on one side: the dearer side is what counts."""
    people = polars.DataFrame({"a": [0, 1, 0, 1], "b": [0, 0, 1, 1]})
    both: dict[str, Any] = {"digest": "run", "apart": True, "of": people}
    ledger.pay("a", **both)
    spent = ledger.pay("b", 0.5, **both, **AGENTS)
    assert (spent.epsilon, spent.delta, spent.runs) == (1.0, 1e-6, 1)
    assert ledger.pay("c", 1.0, ENOUGH, of=people).epsilon == 2.0


def test_the_file_is_the_same_whatever_is_read_of_it_and_however_it_is_compressed(ledger, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n")
    ledger.pay("a", files=[path])
    shutil.copy(path, tmp_path / "copy.csv")
    (tmp_path / "beside.csv.xz").write_bytes(lzma.compress(path.read_bytes()))
    for other in ("copy.csv", "beside.csv"):
        ledger.refuse(".", "b", of=OTHERS, files=[tmp_path / other])


def test_a_lifetime_budget_binds_its_run_and_every_later_one(ledger):
    ledger.refuse(r"lifetime budget is \(0.5, 0.5\)", "a", lifetime=Lifetime(epsilon=0.5, delta=0.5))
    budget = Lifetime(epsilon=math.nextafter(1.0, 0.0), delta=0.5)  # too small by a digit, with which it is shown
    why = r"would have spent \(1, 1e-06\). Their lifetime budget is \(0.9999999999999999, 0.5\)"
    assert "both sides" not in ledger.refuse(why, "a", lifetime=budget).detail
    ledger.pay("a", lifetime=Lifetime(epsilon=2.0, delta=1e-5))
    ledger.refuse(r"lifetime budget is \(2, 1e-05\), which no later run can raise", "b", 1.5, ENOUGH)
    ledger.pay("b", 1.0)  # it holds both
    ledger.refuse(".", "c", 0.1)


def test_one_row_that_was_charged_before_is_enough_to_be_refused(ledger):
    """Whoever it is beside: nothing is charged, and the refusal says how many were met and what each number is."""
    ledger.pay("a", 1.5)
    mixed = polars.concat([OTHERS, OWN[:1]])
    for lifetime, budget in ((None, 1.5), (Lifetime(epsilon=1.6, delta=1e-3), 1.6)):
        refused = ledger.refuse(r"^1 of 51 rows of the curator's people look the same", "b", 0.25, lifetime, of=mixed)
        assert refused.members == {"spent": 1.5, "requested": 0.25, "budget": budget}
    assert len(ledger.table()) == 1


def test_a_sum_is_that_of_one_person_and_exact_up_to_the_last_place(ledger):
    """Three groups of which each was in other runs: the sum of the one who has spent most, rounded up, never down."""
    groups, everybody = [table(seed) for seed in range(3)], Lifetime(epsilon=10.0, delta=0.1)
    taken = ((0.1, (0, 1)), (0.2, (1, 2)), (0.7, (0,)), (0.3, (1,)))
    for party, (epsilon, who) in zip("abcd", taken, strict=True):
        ledger.pay(party, epsilon, everybody, of=polars.concat([groups[at] for at in who]), delta=epsilon / 1e6)
    for people, before in (
        *((group, [epsilon for epsilon, some in taken if at in some]) for at, group in enumerate(groups)),
        (polars.concat(groups), [0.1, 0.7]),  # of all together the first group has spent most
    ):
        spent = ledger.ask("e", 1e-3, everybody, of=people, delta=0.0)
        exact = sum(map(Fraction, before), Fraction(1e-3)), sum(Fraction(epsilon / 1e6) for epsilon in before)
        assert spent.runs == (5 if len(people) == 150 else len(before) + 1)
        for found, wanted in zip((spent.epsilon, spent.delta), exact, strict=True):
            assert wanted <= Fraction(found) <= wanted * (1 + Fraction(1, 2**50))


def test_the_ledger_is_for_its_user_alone_and_what_was_damaged_or_taken_away_is_noticed(ledger, tmp_path):
    ledger.pay("a")
    ledger.witness(64 * "a")
    assert PeopleLedger().folder == user_state() / "people"
    (stored,) = (ledger.folder / "rows").iterdir()
    modes = {path: path.stat().st_mode & 0o777 for path in (ledger.folder, stored.parent, ledger.folder / "heads")}
    assert set(modes.values()) == {0o700}
    assert stored.stat().st_mode & 0o777 == 0o600
    assert (ledger.folder / "people.key").stat().st_mode & 0o077 == 0
    content = stored.read_bytes()
    for damaged in (content[:-1], None):
        stored.unlink() if damaged is None else stored.write_bytes(damaged)
        with pytest.raises(BrokenLedger, match="says who was charged"):
            PeopleLedger(ledger.folder).table()


def test_experiments_are_counted_and_need_no_lifetime_budget(ledger):
    spent = [ledger.pay(party, experiment=True) for party in "abc"][-1]
    assert (spent.runs, spent.epsilon) == (3, 3.0)
    ledger.refuse(".", "d")


@for_each("lost", ["ledger.jsonl", "people.key", "heads.jsonl", "rows", "../people.heads"])
def test_a_part_of_it_that_is_gone_is_noticed(tmp_path, lost):
    ledger = Book(tmp_path / "people")
    ledger.pay("a")
    path = ledger.folder / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(BrokenLedger):
        ledger.ask("b")


def test_an_older_copy_and_another_key_in_its_place_are_noticed(ledger, tmp_path):
    """Each of these would give everybody in the ledger a fresh budget."""
    ledger.pay("a")
    mine = (ledger.folder / "people.key").rename(tmp_path / "people.key")
    durable_secret(ledger.folder / "people.key")
    with pytest.raises(BrokenLedger, match="is not the one of this ledger"):
        ledger.digester()
    mine.replace(ledger.folder / "people.key")
    shutil.copytree(ledger.folder, tmp_path / "older")
    _, head = ledger.charge(*ledger.pair("b", of=OTHERS))
    shutil.rmtree(ledger.folder)
    shutil.copytree(tmp_path / "older", ledger.folder)
    with pytest.raises(BrokenLedger, match="put back or cut off"):
        ledger.digester()
    (tmp_path / "people.heads").unlink()  # with the copy's neighbour gone, too, the ledger says what is missing
    with pytest.raises(BrokenLedger, match="forgotten"):
        ledger.digester()
    shutil.rmtree(ledger.folder)  # all of it is gone: only who holds a head notices
    (tmp_path / "people.heads").unlink(missing_ok=True)
    ledger.digester()
    with pytest.raises(BrokenLedger, match="older copy, or is another one"):
        ledger.check_head(head)


def test_a_witness_that_is_named_once_notices_an_older_copy_of_everything(tmp_path):
    place, state = tmp_path / "elsewhere" / "people.heads", tmp_path / "state"
    place.parent.mkdir()
    Book(state / "people", [str(place)]).pay("a")
    shutil.copytree(state, tmp_path / "older")
    plain = Book(state / "people")  # the ledger remembers its witness
    plain.pay("b", of=OTHERS)
    last = last_head(FileWitness(place))
    assert last is not None
    plain.check_head(last)
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "older", state)
    with pytest.raises(TandemError, match="put back or cut off"):
        plain.digester()


def test_a_place_that_takes_nothing_is_named_and_leaves_the_ledger_as_it_was(ledger, tmp_path, monkeypatch):
    """Neither a full disk, nor a file in the place of the ledger, nor a mistyped witness."""

    def full(self):
        raise OSError(28, "No space left on device")

    pair = ledger.pair("a")
    with monkeypatch.context() as patched:
        patched.setattr("common.log.ledger.Chain.check_writable", full)
        with pytest.raises(CannotWrite, match=r"No space left.*nothing was charged"):
            ledger.check([pair])
    (tmp_path / "file").write_text("no folder")
    for place, why in ((tmp_path / "file", "--ledger"), (tmp_path / (300 * "x"), "File name too long")):
        with pytest.raises(CannotWrite, match=rf"ledger of people .* cannot be used .*{why}.*; nothing was charged"):
            PeopleLedger(place).table()
    for place in (tmp_path / "file" / "witness", tmp_path):
        with pytest.raises((CannotWrite, OSError)):
            PeopleLedger(tmp_path / "people", [str(place)]).table()
    assert PeopleLedger(tmp_path / "people").table() == []


def test_nobody_can_be_found_in_it_without_its_key(ledger, tmp_path):
    """The same people under another key leave nothing alike."""
    mine, theirs = (set(book.pair("a")[1].cells.ravel().tolist()) for book in (ledger, Book(tmp_path / "other")))
    assert not mine & theirs


SHARED = {
    "source": {"table": {**TABLE, "where": {"y": ["yes"]}}},
    "target": {"table": {**TABLE, "where": {"y": ["no"]}}},
}
"""One file of which each side reads other rows."""


def account(tmp_path, side="source", chosen=None, **more):
    found = Account(Charging(tmp_path / "people", **more), chosen or own(tmp_path), side)
    found.identify()
    return found


def promising(section: str, lifetime: tuple[float, float] = (100.0, 0.5)) -> dict[str, Any]:
    """Return a section of a scenario with a lifetime budget."""
    return {section: {**TREE[section], "lifetime": dict(zip(("epsilon", "delta"), lifetime, strict=True))}}


def test_each_side_is_charged_its_own_and_a_file_that_both_read_their_sum(tmp_path):
    curator = promising("curator", (100.0, 0.1))
    source, target = (charge_of(own(tmp_path, **curator), side) for side in ("source", "target"))
    assert (source.people, source.epsilon, source.delta, source.both) == (60, 90.0, 0.01, False)
    assert (target.people, target.epsilon, target.delta, target.both) == (60, 1.0, 0.0, False)
    # What the curator's people are promised is promised to the population's, unless these have a promise of their own.
    assert source.lifetime == target.lifetime == Lifetime(epsilon=100.0, delta=0.1)
    both = own(tmp_path, **curator, **promising("agents"))
    assert charge_of(both, "source").lifetime == source.lifetime
    assert charge_of(both, "target").lifetime == ENOUGH
    shared = own(tmp_path, **SHARED, curator={**TREE["curator"], "epsilon": 0.1, "delta": 0.3})
    found = charge_of(shared, "source")
    assert (found.both, charge_of(shared, "target").both) == (True, False)
    exact = Fraction(0.1) + Fraction(1.0), Fraction(0.3)
    for number, wanted in zip((found.epsilon, found.delta), exact, strict=True):
        assert wanted <= Fraction(number) <= wanted * (1 + Fraction(1, 2**40))
    for one, other in (((95.0, 0.5), (100.0, 0.5)), ((100.0, 0.5), (100.0, 0.1))):
        sections = {**promising("curator", one), **promising("agents", other)}
        promised = charge_of(own(tmp_path, **SHARED, **sections), "source").lifetime
        assert promised == Lifetime(epsilon=min(one[0], other[0]), delta=min(one[1], other[1]))  # both promises hold


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


def test_people_who_were_handed_over_are_recognised_by_that_and_not_by_files(tmp_path):
    frame = polars.DataFrame({"who": [str(n) for n in range(60)], "x": 60 * ["1"]})
    given = {"source": GivenPeople(frame, id_column="who")}
    apart = {**given, "target": GivenPeople(frame, id_column="who", apart=True)}
    chosen = own(tmp_path)
    (tmp_path / "people.csv").unlink()
    found = account(tmp_path, chosen=chosen, frames=given)
    assert found.check("a").epsilon == 90.0
    found.charge("a", "run")
    with pytest.raises(BudgetExceeded, match="have the id of"):
        account(tmp_path, chosen=chosen, frames=given).check("b")
    both = account(tmp_path, "target", chosen, frames=apart)
    assert (both._charge("source").apart, both._charge("target").apart) == (False, True)
    with pytest.raises(BadScenario, match="needs the directory of its files"):
        account(tmp_path, chosen=chosen.model_copy(update={"data": None}))


def test_a_curator_is_refused_a_ledger_of_people_that_does_not_know_its_run(tmp_path):
    for name in ("state", "other"):
        (tmp_path / name).mkdir()
    found = account(tmp_path)
    journal = Journal(tmp_path / "state", {"about": "tests"})
    other = Journal(tmp_path / "other", {"about": "tests"})
    with pytest.raises(BrokenLedger, match="does not know of this curator's run"):
        found.attach(journal, head=None, opened=True)
    found.attach(journal, head=None, opened=False)
    witness = PeopleLedger(tmp_path / "people").witness(journal.identity.public)
    assert last_head(witness) == journal.chain.head()
    _, head = found.charge(journal.identity.public, "run")
    found.attach(journal, head=head, opened=True)
    with pytest.raises(BrokenLedger, match="older copy, or is another one"):
        found.attach(journal, head=head.model_copy(update={"hash": "0" * 64}), opened=True)
    with pytest.raises(BudgetExceeded):  # another curator's run about the same people
        found.attach(other, head=None, opened=False)
