"""What one part proposes, another accepts: init, check, plan, run and the parties agree; a refusal charges nobody."""

import csv
import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core.errors import BadInput, BadScenario, TandemError
from common.lifetime.charging import Charging
from common.local.mechanisms.mechanism import MECHANISMS
from common.privacy.budget import MIN_SUPPORT, least_people, sampling_schedule
from common.scenario import loading
from common.scenario.plan import resolve
from common.scenario.scenario import Scenario, parse
from curator.learners.base import LEARNERS
from deploy.checking import acceptable, acceptable_of
from deploy.deployment import Embedded
from referee.cli import app
from referee.protocols.base import PROTOCOLS
from tests.support import quiet

LARGEST = 20_000
"""People on a side of the runs that are tried."""


def refused(asked: Scenario) -> str | None:
    """Return why a scenario is not acceptable; None if it is."""
    try:
        acceptable(asked)
    except TandemError as error:
        return error.detail
    return None


def ran(asked: Scenario, folder: Path) -> tuple[str, str]:
    """Run a scenario whatever :func:`acceptable` says; return how it ended and why, ``not begun`` before any charge."""
    seed = 1 if asked.people == "simulated" else None
    try:
        deployed = Embedded(folder / "state", Charging(folder / "ledger"))
        result = deployed.run(resolve(asked), seed, "run", quiet).result
    except TandemError as error:
        return "not begun", error.detail
    return result["status"], result["reason"]


def begins(asked: Scenario, folder: Path) -> bool:
    """Return whether a scenario is acceptable, and small enough to be tried; assert that it then begins."""
    if refused(asked) is not None:
        return False
    chosen = acceptable(asked)
    if max(int(chosen.agents.count), int(chosen.curator.n)) > LARGEST:
        return False
    status, reason = ran(asked, folder)
    assert status in ("done", "exhausted"), (status, reason)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_every_mechanism_is_refused_by_all_or_by_none(half: int, tmp_path: Path) -> None:
    """Charged and then refused, before: items and reals where a protocol asks for a value, or for a bit."""
    began = asked_in_vain = 0
    cases = list(product(PROTOCOLS.shipped(), MECHANISMS.names()))
    random.Random(1).shuffle(cases)
    for number, (protocol, mechanism) in enumerate(cases[half::2]):
        wire = MECHANISMS[mechanism].example()[0].wire()
        try:
            asked = loading.altered(PROTOCOLS[protocol].example()[0], [f"agents.mechanism={json.dumps(wire)}"])
        except TandemError:
            continue
        try:
            began += begins(asked, tmp_path / f"{number}")
        except AssertionError as error:
            raise AssertionError(f"{protocol} with {mechanism}: {error}") from None
        why = refused(asked)
        if why is not None and number % 3 == 0:  # refused by all: no run of it begins either
            try:
                resolve(asked)
            except TandemError:
                continue
            status, reason = ran(asked, tmp_path / f"{number}-all-the-same")
            assert (status, reason) == ("not begun", why), (protocol, mechanism)
            asked_in_vain += 1
    assert began >= 15
    assert asked_in_vain >= 3


def mutations(rng: random.Random) -> Iterator[str]:
    """Yield overrides, one for each kind of number that a scenario has."""
    learner = rng.choice(LEARNERS[rng.choice(LEARNERS.names())].example()).wire()
    values: dict[str, list[Any]] = {
        "curator.n": [1, 2, 5, 11, 16, 40, 200, 1000], "curator.kappa": ["null", "plan", 0.001, 0.01, 0.05, 0.5, 1],
        "curator.eta": ["plan", 0.01, 0.5, 5, 100], "curator.rounds": ["plan", 1, 2, 10, 400],
        "curator.epsilon": ["null", 1e-3, 0.1, 1, 100, 1000], "curator.delta": ["null", 0, 1e-12, 1e-6, 0.5],
        "curator.learner": [json.dumps(learner)], "curator.storage.numbers": ["single", "fixed"],
        "curator.storage.place": ["memory", "disk"], "agents.count": ["plan", 1, 2, 50, 5000],
        "agents.mechanism.epsilon": [0.01, 0.5, 2, 8, 60], "agents.dropout": [0, 0.1, 0.9],
        "agents.test": ["fixed", "sequential"], "agents.liars": [0, 0.05, 0.4],
        "agents.loss": ["zero-one", "hinge", "squared", "logistic"], "agents.bound": [1, 4],
        "agents.reweigh": ["tested", "mistakes"], "accuracy.best": [0.1, 0.7], "alpha": [0.001, 0.1, 0.3, 0.49],
        "beta": [1e-9, 0.01, 0.4], "mode": ["realizable", "agnostic"], "bounds": ["paper", "tight"],
        "divergence.chi_squared": [1, 2, 1000], "accuracy.halt_below": [0.5, 3, 10],
        "accuracy.reweigh_above": [0.1, 1, 3], "portfolio.teach": [0, 0.5, 0.99], "portfolio.margins": [0, 1],
        "alone": ["curator", "agents"],
    }  # fmt: skip
    for key, choices in values.items():
        yield f"{key}={rng.choice(choices)}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 2, 3))])
def test_what_is_acceptable_begins_whatever_the_numbers_are(seed: int, tmp_path: Path) -> None:
    """Random scenarios of all protocols, from a seed: none that is acceptable is refused, fails or ends in a fault."""
    rng, began, turned_away = random.Random(seed), 0, 0
    for number in range(60):
        protocol = rng.choice(PROTOCOLS.shipped())
        changes = rng.sample(list(mutations(rng)), rng.choice([1, 1, 2, 3]))
        try:
            asked = loading.altered(rng.choice(PROTOCOLS[protocol].example()), changes)
        except TandemError:
            continue
        try:
            began += begins(asked, tmp_path / f"{number}")
        except Exception as error:
            raise AssertionError(f"seed {seed}: {protocol} with {changes}: {error!r}") from error
        turned_away += refused(asked) is not None
    assert began >= 10
    assert turned_away >= 5


def write_table(path: Path, rows: int, seed: int, **changed: Any) -> None:
    """Write people with two numbers, a category and a label; ``changed`` replaces a column's first field."""
    drawn = np.random.default_rng(seed)
    visits, months = drawn.integers(0, 30, rows), drawn.integers(0, 60, rows)
    columns: dict[str, list[Any]] = {
        "visits": visits.tolist(),
        "months": months.tolist(),
        "plan": np.where(months > 30, "basic", "pro").tolist(),
        "renews": np.where(visits + drawn.normal(0, 6, rows) > 15, "yes", "no").tolist(),
    }
    for name, value in changed.items():
        columns[name][0] = value
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])


class Commands:
    """The commands about one's own data in one folder, with a ledger of people of its own."""

    def __call__(self, *words: str) -> tuple[int, str, list[str]]:
        """Return exit status, standard output, and the lines on standard error that are no progress."""
        done = CliRunner().invoke(app, list(words))
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
        lines = [line for line in done.stderr.splitlines() if line.partition(":")[0] in TITLES]
        return done.exit_code, done.stdout, lines

    def charged(self) -> int:
        status, document, _ = self("budget", "--json")
        assert status == 0
        return len(json.loads(document))


TITLES = {*(f"{what} not acceptable" for what in ("Scenario", "Input", "Data")), "Privacy budget exceeded", "Refused"}
OPTIONS = ["--label", "renews", "--positive", "yes", "--negative", "no", "--bounds", "visits=0:30"]
SPEND = ["--yes", "--anyway"]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "people"))
    return Commands()


@pytest.mark.slow
def test_what_init_writes_passes_the_check_and_begins(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grid of sizes and budgets: where ``init`` writes a file, ``check``, ``plan`` and ``run`` accept it."""
    sizes = [(1, 1), (60, 20), (900, 2500), (3000, 300)]
    budgets = [("1", "1"), ("8", "0.05"), ("0.01", "5")]
    cases = [(*one, *two) for one, two in product(sizes, budgets)]
    written = 0
    for number, (n, agents, epsilon, agent_epsilon) in enumerate(cases):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"people{number}"))  # rows of different cases look alike
        write_table(tmp_path / f"s{number}.csv", n, 2 * number + 1)
        write_table(tmp_path / f"t{number}.csv", agents, 2 * number + 2)
        further = ["--skip", "months,plan"]
        if number % 2:
            further = ["--categories", "plan=basic,pro", "--bounds", "months=0:60"]
        budget = ["--epsilon", epsilon, "--agent-epsilon", agent_epsilon]
        words = [f"s{number}.csv", f"t{number}.csv", *OPTIONS, *further, *budget, "--yes"]
        status, _, lines = commands("init", *words, "--output", f"{number}.yaml")
        if status != 0:
            assert (status, len(lines), (tmp_path / f"{number}.yaml").exists()) in {(1, 1, False), (2, 1, False)}
            continue
        written += 1
        status, printed, lines = commands("check", f"{number}.yaml")
        sound = "Nothing stands in the way of a run." in printed
        assert (status, lines) == (0, []) or ("every label is" in printed and not sound), (n, agents, printed, lines)
        status, document, lines = commands("plan", f"{number}.yaml", "--json")
        assert (status, lines, json.loads(document)["refused"]) == (0, [], None)
        status, _, lines = commands("run", f"{number}.yaml", "--output", f"run{number}", *SPEND)
        assert (status, lines) == (0, []), (n, agents, epsilon, agent_epsilon)
        assert commands.charged() == 1
    assert 4 <= written < len(cases)


EDITS = (
    "agents.mechanism={name: hadamard, epsilon: 1.0}", "agents.mechanism={name: none}", "agents.dropout=0.1",
    "agents.count=901", "agents.liars=0.3", "curator.n=401", "curator.epsilon=null", "curator.delta=null",
    "curator.kappa=0.001", "curator.learner.noise=0.5", "curator.rounds=400", "curator.storage.numbers=fixed",
    "protocol=learn-and-test", "protocol=nosuch", "title='another'", "agents.count=800",
    "source.table.files=[nosuch.csv]", "source.table.files=[broken.csv]", "source.table.label.column=nosuch",
    "target.table.label.positive=[ja]", "data=nosuch",
    "public={table: {files: [nosuch.csv], label: {column: renews, positive: ['yes'], negative: ['no']}, "
    "features: [{kind: number, column: visits, low: 0, high: 30}]}}",
)  # fmt: skip
"""Edits of a scenario that begins as it is."""


@pytest.mark.slow
def test_what_a_run_refuses_a_check_refuses_in_the_same_words_and_nobody_is_charged(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path / "s.csv", 400, 1)
    write_table(tmp_path / "t.csv", 900, 2)
    write_table(tmp_path / "broken.csv", 900, 3, visits="many")
    options = [*OPTIONS, "--skip", "months,plan", "--epsilon", "2", "--yes", "--output", "mine.yaml"]
    assert commands("init", "s.csv", "t.csv", *options)[0] == 0
    began = 0
    for number, edit in enumerate(EDITS):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"people{number}"))
        checked, said, reason = commands("check", "mine.yaml", "--set", edit)
        assert (checked == 0) == ("Nothing stands in the way of a run." in said), edit
        status, printed, lines = commands("run", "mine.yaml", "--set", edit, "--output", f"run{number}", *SPEND)
        assert (status, lines) == (checked, reason), edit
        assert commands.charged() == (status == 0), edit
        assert (status == 0) == (printed != ""), edit
        began += status == 0
    assert 2 <= began <= len(EDITS) - 10


@pytest.mark.slow
def test_too_few_people_are_told_how_many_would_do() -> None:
    """The number is tried itself: with so many the scenario is acceptable, and kappa is not spoken of."""
    tree = loading.load("portfolio", ["curator.learner.noise=1000"]).wire()  # no trial waits for a plan of it
    for n in (1, 10):

        def with_people(people: int) -> Scenario:
            return parse({**tree, "curator": {**tree["curator"], "n": people}})

        with pytest.raises(BadScenario, match=r"^10 rows are too few: [\d,]+ would do$") as error:
            acceptable_of(with_people, n, "10 rows are too few")
        found = int(error.value.detail.rpartition(": ")[2].split()[0].replace(",", ""))
        assert found > n
        acceptable(with_people(found))
    hopeless = loading.altered(loading.load("portfolio"), ["agents.mechanism={name: hadamard, epsilon: 1.0}"]).wire()
    with pytest.raises(BadScenario, match="agents answer with a bit, found hadamard"):
        acceptable_of(lambda people: parse({**hopeless, "curator": {**hopeless["curator"], "n": people}}), 12, "few")


def test_a_missing_folder_is_reported_before_what_takes_seconds(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("deploy.running.acceptable", lambda asked: pytest.fail("it is planned first"))
    found = CliRunner().invoke(app, ["run", "flights", "--set", f"data={tmp_path / 'none'}", "--yes"])
    assert found.exit_code == 2
    assert "there is no directory" in found.output


def test_a_planned_number_beyond_what_a_run_admits_is_refused() -> None:
    with pytest.raises(BadScenario, match=r"curator\.n: Input should be less than 4294967296 .*, found 156370923"):
        acceptable(loading.load("halfspace", ["curator.n=plan"]))


def test_no_density_is_asked_for_where_the_sample_is_too_small() -> None:
    """Least n with kappa n > 10, as doubles compare it, over densities that are and are not binary fractions."""
    for kappa in (1.0, 0.5, 0.3, 0.1, 0.7, 1 / 3, 0.09625, 1e-3, 1e-6, *np.random.default_rng(0).uniform(0, 1, 500)):
        n = least_people(float(kappa))
        assert kappa * n > MIN_SUPPORT >= kappa * (n - 1)
        with pytest.raises(BadInput, match=f"{n:,} would do"):
            sampling_schedule(n - 1, float(kappa), 0.5, 1)
