"""``referee run`` asks once before it spends real people's budgets, and not at all where noise alone would decide."""

import pytest
from typer.testing import CliRunner

from common.scenario.fitting import noise_alone
from common.scenario.loading import load
from referee.cli import app
from referee.view import asking
from tests.tiers import for_each

LABEL = ["--label", "sick", "--positive", "yes", "--negative", "no", "--bounds", "age=18:90", "--yes"]
BUDGET = ["--epsilon", "2", "--agent-epsilon", "2"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name, rows in (("s", 400), ("t", 900)):
        (tmp_path / f"{name}.csv").write_text("age,sick\n" + "30,yes\n60,no\n" * (rows // 2))
    assert CliRunner().invoke(app, ["init", "s.csv", "t.csv", *LABEL, *BUDGET, "--output", "mine.yaml"]).exit_code == 0
    return tmp_path


def refused(folder, *words, says, typed=None):
    """Run, for which one line is said to be why not, and nothing is left; return all that is said."""
    done = CliRunner().invoke(app, ["run", "mine.yaml", "--output", "runs/mine", *words], input=typed)
    assert (done.exit_code, says in done.stderr) == (1, True), done.output
    assert not (folder / "runs").exists()
    assert not (folder / "state").exists()
    return done.stderr


def test_real_people_are_spent_by_nobody_who_was_not_asked(mine, monkeypatch):
    refused(mine, says="agree beforehand, with --yes; nothing was charged")
    monkeypatch.setattr(asking, "has_terminal", lambda: True)
    said = refused(mine, says="not confirmed: nothing was charged", typed="n\n")
    for words in (
        "400 people who trust the curator: epsilon 2, delta 0.0001 for the whole run",
        "900 people who trust their own device: epsilon 2 for each answer",
        "Forecast of the verdict",
        "Spend this?",
    ):
        assert words in said, words
    few = "even of a model without mistakes: 'probably' takes 56 points less"
    refused(mine, "--set", "agents.count=150", says=few, typed="n\n")


def test_what_noise_alone_would_decide_is_not_spent_with_yes_but_with_anyway(mine, monkeypatch):
    assert "--anyway" in refused(mine, "--yes", "--set", "agents.count=30", says="noise alone would decide")
    monkeypatch.setattr(asking, "has_terminal", lambda: True)
    refused(mine, "--anyway", "--set", "agents.count=30", says="Spend this?", typed="n\n")


@for_each(
    ("changes", "words"),
    [
        (["agents.count=5"], "agents cannot tell less than"),
        (["agents.count=30"], "30 agents tell on how many a model errs to within"),
        (["agents.count=30", "protocol=learn-and-test"], "30 agents tell on how many a model errs to within"),
        (["curator.n=20", "curator.epsilon=0.01"], "may be noise alone"),
        ([], None),
        (["protocol=learn-and-test"], None),
    ],
)
def test_where_noise_alone_decides(changes, words):
    asked = load("portfolio", changes)
    found = noise_alone(asked, int(asked.curator.n), int(asked.agents.count))
    assert (found is None) if words is None else (words in str(found)), found


def test_tables_that_are_refused_leave_no_folder_and_charge_nobody(mine):
    """Corrected, the same command runs in the same folder; it was taken for unfinished before."""
    with (mine / "t.csv").open("a") as file:
        file.write("30,maybe\n")
    refused(mine, "--yes", "--set", "agents.count=901", says="t.csv: line 902, column 'sick'")
