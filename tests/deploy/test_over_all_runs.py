"""The same real people, in whatever deployment, have one budget: each run is charged, shown, and in its result."""

import json
import shutil
import tempfile
from contextlib import closing
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.model_selection import GridSearchCV
from typer.testing import CliRunner

from common.core import canonical
from common.core.durable import user_state
from common.core.errors import BadFit, BadScenario, BrokenLedger, BudgetExceeded, ConfigurationMismatch
from common.crypto.identity import Identity
from common.lifetime.charging import Charging
from common.lifetime.ledger import PeopleLedger
from common.log.transcript import SignedEntry
from common.net.messages import Configuration, OrderCommitment
from curator.ledger import Ledger
from curator.startup import open_curator
from deploy.checking import check_lifetimes
from deploy.deployment import Embedded
from deploy.processes import Processes
from referee.cli import app
from referee.view.wording import over_all_runs
from tests.common.data.test_people import TABLE, TREE, own
from tests.support import Halted, quiet, seal, tiny
from tests.tandem.estimators.people import square
from tests.tandem.estimators.test_transfer_classifier import quick


def run(place, chosen, seed=None, **ways):
    """Run a scenario in a folder of its own."""
    return Embedded(place, **ways).run(chosen, seed, "run", quiet)


def ran(tmp_path, folder, **changes):
    return run(tmp_path / folder, own(tmp_path, **changes)).result


def side(half: str, *files: str) -> dict[str, Any]:
    """Return the people of one half of the rows of some files."""
    return {"table": {**TABLE, "files": list(files), "where": {"half": [half]}}}


LIFETIME = {**TREE["curator"], "lifetime": {"epsilon": 200.0, "delta": 0.05}}


@pytest.mark.slow
def test_a_new_folder_is_no_new_budget(tmp_path):
    """Both files hold the same rows, so each person is on both sides: 90 as one of the curator's, 1 as an agent."""
    first = ran(tmp_path, "one")
    assert first["privacy"]["all_runs"] == {"runs": 1, "epsilon": 91.0, "delta": 0.01, "both": True}
    assert ran(tmp_path, "one") == first  # the same run again is no further run
    with pytest.raises(BudgetExceeded, match=r"own of .*curator.lifetime"):
        ran(tmp_path, "two")
    assert [row["agents"]["epsilon"] for row in PeopleLedger().table()] == [1.0]
    second = ran(tmp_path, "three", curator=LIFETIME)
    assert second["privacy"]["all_runs"] == {"runs": 2, "epsilon": 182.0, "delta": 0.02, "both": True}


@pytest.mark.slow
def test_the_populations_people_are_charged_from_run_to_run(tmp_path):
    """Two curators with different people ask the same population twice; its people are known by an id."""
    target = {"table": {**TABLE, "files": ["others.csv"], "id": "p"}}

    def again(folder, number, **changes):
        chosen = own(tmp_path, target=target, **changes)
        for name, first in (("people.csv", 1000 * number), ("others.csv", 0)):
            rows = "".join(f"{first + n},{n % 7},{'yes' if n % 3 else 'no'}\n" for n in range(60))
            (tmp_path / name).write_text("p,x,y\n" + rows)
        table = chosen.target.table.model_copy(update={"files": ("people.csv",)})
        chosen = chosen.model_copy(update={"source": chosen.source.model_copy(update={"table": table})})
        return run(tmp_path / folder, chosen).result

    assert again("one", 1)["privacy"]["all_runs"] == {"runs": 1, "epsilon": 90.0, "delta": 0.01}
    with pytest.raises(BudgetExceeded, match=r"60 of 60 rows of the population's people have the id of .*own of"):
        again("two", 2)
    assert len(PeopleLedger().table()) == 1
    agents = {**TREE["agents"], "lifetime": {"epsilon": 2.0, "delta": 0.0}}
    again("three", 2, agents=agents)
    assert [row["agents"]["all_runs"]["epsilon"] for row in PeopleLedger().table()] == [2.0, 2.0]
    with pytest.raises(BudgetExceeded, match=r"lifetime budget is \(2, 0\)"):
        again("four", 3, agents=agents)


@pytest.mark.slow
def test_all_rows_that_were_read_are_charged_whatever_where_keeps(tmp_path):
    """A row's guarantee covers its filtering: two runs on other rows of one file, and of a copy of it."""
    rows = np.random.default_rng(0).random((120, 1))

    def chosen(half, file):
        lines = "".join(f"{at % 2},{x:.6f},{'yes' if at % 3 else 'no'}\n" for at, (x,) in enumerate(rows))
        (tmp_path / file).write_text("half,x,y\n" + lines.replace("0,0.6", "0,0.7", file != "all.csv"))
        return own(tmp_path, source=side(half, file), target={"table": {**TABLE, "files": ["others.csv"]}})

    run(tmp_path / "one", chosen("0", "all.csv"))
    for file in ("all.csv", "copy.csv"):
        with pytest.raises(BudgetExceeded, match="rows of the curator's people look the same"):
            run(tmp_path / file[:-4], chosen("1", file))


def test_a_check_beforehand_leaves_no_file(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    check_lifetimes(own(tmp_path), Charging(tmp_path / "ledger"))
    assert not any(temporary.iterdir())
    assert not (tmp_path / "ledger").exists()


def test_a_curator_that_charges_for_the_agents_takes_no_run_whose_agents_cost_something_else(tmp_path):
    (tmp_path / "all.csv").write_text(
        "half,x,y\n" + "".join(f"{at % 2},{at % 7},{'yes' if at % 7 > 3 else 'no'}\n" for at in range(400))
    )
    sides = {"source": side("0", "all.csv"), "target": side("1", "all.csv")}
    agents, referee = TREE["agents"], Identity.create()
    order = OrderCommitment(first=0, agents=200, used=0, sha256="0" * 64)
    dearer = {**agents, "mechanism": {**agents["mechanism"], "epsilon": 5.0}}
    promised = {**agents, "lifetime": {"epsilon": 1.0, "delta": 0.0}}

    def asked(**changes):
        chosen = own(tmp_path, **sides, **changes)
        return seal(referee, Configuration(run="run", referee=referee.public, scenario=chosen.wire(), order=(order,)))

    with closing(open_curator(own(tmp_path, **sides), tmp_path / "curator", None, None)) as curator:
        for other in (dearer, promised):
            with pytest.raises(ConfigurationMismatch, match="both sides read one file"):
                curator.open_run(asked(agents=other))
    assert not PeopleLedger().table()


@pytest.mark.slow
def test_a_shared_file_covers_no_other_one_and_is_bound_by_both_sides_lifetimes(tmp_path):
    """The population is of the shared file and of another one, whose people are charged as agents."""
    rows = np.random.default_rng(0).random((300, 1)) * 7
    lines = [f"{at % 2},{x:.6f},{'yes' if x > 3 else 'no'}\n" for at, (x,) in enumerate(rows)]
    (tmp_path / "all.csv").write_text("half,x,y\n" + "".join(lines[:180]))
    (tmp_path / "more.csv").write_text("half,x,y\n" + "".join(lines[180:]))
    shared = {"source": side("0", "all.csv"), "target": side("1", "all.csv", "more.csv")}
    agents = {**TREE["agents"], "lifetime": {"epsilon": 90.5, "delta": 0.5}}
    with pytest.raises(BudgetExceeded, match=r"would have spent \(91, 0.01\), .*both sides of it.* is \(90.5, 0.5\)"):
        run(tmp_path / "none", own(tmp_path, **shared, agents=agents))
    limit = {**TREE["curator"], "lifetime": {"epsilon": 91.0, "delta": 0.01}}  # exactly what is promised together
    finished = run(tmp_path / "one", own(tmp_path, **shared, curator=limit))
    assert finished.result["privacy"]["together"]["epsilon"] == 91.0
    assert {who: total["epsilon"] for who, total in finished.all_runs.items()} == {"curator": 91.0, "agent": 1.0}
    again = run(tmp_path / "two", own(tmp_path, target=side("0", "more.csv")))
    assert again.all_runs["agent"] == {"runs": 2, "epsilon": 2.0, "delta": 0.0}


@pytest.mark.slow
def test_processes_charge_the_same_ledger(tmp_path):
    ran(tmp_path, "one")
    deployed = Processes(tmp_path / "two")
    finished = deployed.run(own(tmp_path, curator=LIFETIME), None, "run", quiet)
    assert finished.result["privacy"]["all_runs"]["runs"] == 2


@pytest.mark.slow
def test_estimators_charge_the_same_people_from_fit_to_fit():
    features, y = square(300, 1)
    # Without a population chance decides who is the curator's: two halves overlap.
    first = quick(random_state=None).fit(features, y)
    assert first.result_["privacy"]["all_runs"]["runs"] == 1
    with pytest.raises(BadFit, match="lifetime=") as refused:
        quick(random_state=None).fit(features[::-1], -y[::-1])
    words = refused.value.detail.partition("lifetime=(")[2].partition(")")[0]
    lifetime = tuple(map(float, words.split(",")))
    again = quick(random_state=None, lifetime=lifetime).fit(features, y)
    assert again.result_["privacy"]["all_runs"]["runs"] == 2
    quick(random_state=0).fit(features, y)  # a simulation has nothing to protect


@pytest.mark.slow
def test_other_parameters_and_other_forms_make_nobody_new_to_an_estimator():
    """Neither bounds, norm or schema, nor other people beside them, nor a clone or a grid search, is a fresh budget."""
    (x, y), (p, q) = square(300, 1), square(200, 2)
    model = quick(random_state=None)
    model.fit(x, y, population=(p, q))
    assert "OVER ALL RUNS, the population's people: epsilon = 1" in str(model.guarantee_)
    forms = {
        "bounds": (quick(random_state=None, bounds=(-2, 2)), x, p),
        "norm": (quick(random_state=None, norm=1.0), x, p),
        "frames": (quick(random_state=None), *(pandas.DataFrame(rows, columns=["a", "b"]) for rows in (x, p))),
        "sides exchanged": (quick(random_state=None), p, x),
        "other curators, the same population": (quick(random_state=None), square(300, 5)[0], p),
    }
    for other, left, right in forms.values():
        labels = {300: y, 200: q}
        with pytest.raises(BadFit, match=r"rows that were charged before: transfer-classifier of .*lifetime="):
            other.fit(left, labels[len(left)], population=(right, labels[len(right)]))
    search = GridSearchCV(quick(random_state=None), {"bounds": [(-1, 1), (-2, 2), (-3, 3)]}, cv=2, error_score="raise")
    with pytest.raises(BadFit, match="rows that were charged before"):
        search.fit(x, y)
    assert len(PeopleLedger().table()) == 1


@pytest.mark.slow
def test_an_id_column_tells_other_people_with_the_same_few_features_apart():
    def cohort(first):
        r = np.random.default_rng(3)
        frame = pandas.DataFrame(
            {"id": range(first, first + 600), "a": r.integers(0, 3, 600), "b": r.integers(0, 2, 600)}
        )
        return frame, (frame["a"] > 1).to_numpy()

    def fit(first, **more):
        (x, y), (p, q) = cohort(first), cohort(first + 10_000)
        bounds = {"a": (0, 2), "b": (0, 1)}
        return quick(random_state=None, bounds=bounds, **more).fit(x, y, population=(p, q))

    assert "for who is on both sides" not in str(fit(0, id_column="id").guarantee_)
    fit(1000, id_column="id")
    with pytest.raises(BadFit, match="300 of 600 rows of the curator's people have the id of"):
        fit(1300, id_column="id")
    with pytest.raises(BadFit, match="is named as the id"):
        fit(0, id_column="nobody")


def test_simulated_people_experiments_and_a_ledger_by_path_leave_the_users_own_alone(tmp_path):
    assert run(tmp_path / "state", tiny(), 1).result["privacy"]["all_runs"] is None
    unpaid, placed = Charging(ephemeral=True), Charging(tmp_path / "shared")
    with pytest.raises(BadScenario, match="experiment"):
        run(tmp_path / "none", own(tmp_path), charging=unpaid)
    for folder in ("a", "b"):
        result = run(tmp_path / folder, own(tmp_path, experiment=True), charging=unpaid).result
        assert result["privacy"]["all_runs"] is None
    run(tmp_path / "c", own(tmp_path), charging=placed)
    assert not (user_state() / "people").exists()
    with pytest.raises(BudgetExceeded):
        run(tmp_path / "d", own(tmp_path), charging=placed)


def test_a_copy_of_the_state_put_back_is_noticed_without_any_witness_named(tmp_path):
    """The people's ledger is a witness of each of their curators: two copies, or an older one, do not start."""
    folder = tmp_path / "one" / "curator"
    open_curator(own(tmp_path), folder, None, None).close()
    shutil.copytree(folder, tmp_path / "older")
    ran(tmp_path, "one")
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "older", folder)
    with pytest.raises(BrokenLedger, match="curator restore"):
        open_curator(own(tmp_path), folder, None, None)


def test_a_run_that_the_people_never_heard_of_does_not_go_on(tmp_path):
    ran(tmp_path, "one")
    shutil.rmtree(user_state())
    with pytest.raises(BrokenLedger, match="does not know of this curator's run"):
        ran(tmp_path, "one")


def test_a_crash_between_the_two_ledgers_charges_once(tmp_path, monkeypatch):
    """The people are charged first: after a crash before the run is opened, the same run finds its charge."""

    def dying(self, holder):
        raise Halted

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "open_run", dying)
        with pytest.raises(Halted):
            ran(tmp_path, "one")
    assert len(PeopleLedger().table()) == 1
    assert ran(tmp_path, "one")["privacy"]["all_runs"] == {"runs": 1, "epsilon": 91.0, "delta": 0.01, "both": True}
    assert len(PeopleLedger().table()) == 1


def test_the_command_shows_what_was_spent(tmp_path):
    assert json.loads(CliRunner().invoke(app, ["budget", "--json"]).stdout) == []
    ran(tmp_path, "one")
    (row,) = json.loads(CliRunner().invoke(app, ["budget", "--json"]).stdout)
    assert (row["scenario"], row["people"], row["epsilon"], row["all_runs"]["runs"]) == ("own", 60, 90.0, 1)
    assert "(90, 0.01)" in CliRunner().invoke(app, ["budget"], env={"COLUMNS": "200"}).stdout


def test_a_referee_learns_no_count_of_people_from_a_refusal(tmp_path, caplog):
    """Who is in a table is private: what a curator's operator is told of it does not leave with the refusal."""
    chosen = own(tmp_path)
    late = open_curator(chosen, tmp_path / "late" / "curator", None, None)  # its people have spent nothing yet
    finished = run(tmp_path / "one", chosen)
    first = SignedEntry.parse(canonical.decode(finished.transcript.partition("\n")[0].encode()))
    referee = Identity.load_or_create(tmp_path / "identity.key")
    asked = Configuration.parse({**first.body["configuration"], "referee": referee.public})
    with closing(late), pytest.raises(BudgetExceeded) as refused:
        late.open_run(seal(referee, asked))
    assert "60" not in refused.value.detail
    assert "the curator's log says more" in refused.value.detail
    assert "60 of 60 rows" in caplog.text


def test_a_run_elsewhere_says_that_its_curator_counted_before_agents_were_charged():
    """Of such a run nobody has the ledger of people at the end, and its word was signed at the beginning."""
    signed = {"runs": 1, "epsilon": 2.0, "delta": 0.0}
    before = "epsilon = 2, delta = 0 in this run, and none was recognised in another one, when this run began"
    ((_, elsewhere),) = over_all_runs({"privacy": {"all_runs": signed}, "all_runs": None})
    assert elsewhere == f"{before}, before agents were charged"
    by_now = {"curator": signed | {"runs": 2}, "agent": signed}
    here = dict(over_all_runs({"privacy": {"all_runs": signed}, "all_runs": by_now}))
    assert here["the curator's people"] == "epsilon = 2, delta = 0 in 2 runs"
    assert "when this run began" not in here["the population's people"]
