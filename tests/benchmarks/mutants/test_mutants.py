"""The command that mutates: what it changes, whom it chooses, which tests it asks, and what it keeps."""

import ast
import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.mutants import __main__ as command
from benchmarks.mutants import running
from benchmarks.mutants.operators import mutations
from benchmarks.mutants.reach import Imports
from benchmarks.mutants.sampling import Mutant, chosen, equivalents, every_mutant
from benchmarks.mutants.targets import AREAS, ROOT, targets

SOURCE = '''"""A file."""

import math

LEAST = 2.0


def charge(ledger, steps, noise: int = 3):
    """Charge 1 step."""
    if steps < 1 or not ledger:
        raise ValueError(f"at least {1} step")
    scale = max(math.nextafter(2 / noise, math.inf), LEAST)
    ledger.charge(steps)
    ledger.run(scale)
    for step in range(steps):
        scale += step
    return math.ceil(scale)
'''


@pytest.fixture(scope="module")
def every() -> list[Mutant]:
    return every_mutant()


def test_changes_are_what_they_say_and_nothing_else() -> None:
    found = {mutation.change: mutation for mutation in mutations(SOURCE, ordered=True)}
    assert set(found) == {
        "2.0 -> (4.0)",
        "2.0 -> (1.0)",
        "steps < 1 or not ledger -> (steps < 1 and (not ledger))",
        "steps < 1 -> (steps <= 1)",
        "steps -> (2 * steps)",
        "steps -> (steps // 2)",
        "1 -> (2)",
        "1 -> (0)",
        "not ledger -> ledger",
        'raise ValueError(f"at least {1} step") -> pass',
        "max(math.nextafter(2 / noise, math.inf), LEAST) -> min(math.nextafter(2 / noise, math.inf), LEAST)",
        "max(math.nextafter(2 / noise, math.inf), LEAST) -> math.nextafter(2 / noise, math.inf)",
        "max(math.nextafter(2 / noise, math.inf), LEAST) -> LEAST",
        "math.nextafter(2 / noise, math.inf) -> (2 / noise)",
        "2 / noise -> (2 * noise)",
        "2 -> (3)",
        "2 -> (1)",
        "noise -> (2 * noise)",
        "noise -> (noise / 2)",
        "math.inf -> (-math.inf)",
        "ledger.charge(steps) -> pass",
        "ledger.run(scale) -> pass",
        "scale = max(math.nextafter(2 / noise, math.inf), LEAST) ledger.charge(steps) -> "
        "ledger.charge(steps); scale = max(math.nextafter(2 / noise, math.inf), LEAST)",
        "ledger.charge(steps) ledger.run(scale) -> ledger.run(scale); ledger.charge(steps)",
        "scale -> (2 * scale)",
        "scale -> (scale / 2)",
        "range(steps) -> range(steps - 1)",
        "scale += step -> scale -= step",
        "math.ceil(scale) -> math.floor(scale)",
    }
    for mutation in found.values():
        mutant = mutation.applied(SOURCE)
        assert ast.dump(ast.parse(mutant)) != ast.dump(ast.parse(SOURCE))
        assert SOURCE.splitlines()[mutation.line - 1].strip() == mutation.text
        assert mutation.kind == "order" or mutant.count("\n") == SOURCE.count("\n")


def test_a_mutant_keeps_its_key_where_its_file_moves_or_grows_no_two_share_one_and_equivalents_are_there(
    every: list[Mutant],
) -> None:
    keys = [mutation.key("area", "file.py") for mutation in mutations(SOURCE)]
    grown = SOURCE.replace("LEAST = ", "# Why.\nOTHER = print\n\nLEAST = ")
    assert [mutation.key("area", "file.py") for mutation in mutations(grown)] == keys
    assert len({mutant.key for mutant in every}) == len(every)
    gone = [entry for entry in equivalents() if not (entry.why and any(map(entry.covers, every)))]
    assert gone == [], "no such mutants any more"


def test_the_sample_has_as_many_of_every_area_and_stays_where_others_go(every: list[Mutant]) -> None:
    count = 5 * len(AREAS)
    sample = chosen(every, count, seed=1)
    assert set(Counter(mutant.target.area for mutant in sample).values()) == {5}
    assert chosen(list(reversed(every)), count, seed=1) == sample
    assert chosen(every, count, seed=2) != sample
    # Without one that was not chosen, the same are.
    left_out = next(mutant for mutant in every if mutant not in sample)
    fewer = chosen([mutant for mutant in every if mutant is not left_out], count, seed=1)
    assert len(set(sample) - set(fewer)) <= 1


def test_the_nearest_tests_come_first_and_registries_are_followed() -> None:
    imports = Imports(ROOT)
    assert {target.area for target in targets()} == set(AREAS)
    assert len({target.path for target in targets()}) == len(targets())
    by_name = {target.path.name: imports.tests(target.path) for target in targets()}
    for name in ("rules.py", "gaussian_noise.py"):
        assert by_name[name][0].stem.endswith(f"test_{name}"[:-3].removeprefix("test")), name
    for name, tests in by_name.items():
        assert tests, f"no test reaches {name}"
        assert not any("docker" in str(test) for test in tests)
    followed = imports.tests(ROOT / "curator" / "learners" / "rules.py")
    assert followed[0].stem == "test_rules"
    assert any("learner_contract" in test.stem for test in followed)


def test_results_are_kept_and_counted(tmp_path: Path, every: list[Mutant]) -> None:
    sample = chosen(every, 20, seed=1)
    file = tmp_path / "results.jsonl"
    outcomes = ["caught", "survived", "timeout"]
    for number, mutant in enumerate(sample):
        row = {"key": mutant.key, "area": mutant.target.area, "outcome": outcomes[number % 3], "seconds": 2.0}
        with file.open("a") as lines:
            lines.write(json.dumps({**row, "outcome": "survived"}) + "\n" + json.dumps(row) + "\n")
    found = command.report(sample, sample[:1], command.read(file))
    assert (found["mutants"], found["caught"], len(found["survivors"])) == (20, 13, 7)
    assert sum(area["equivalent"] for area in found["areas"]) == 1
    assert sum(area["seconds"] for area in found["areas"]) == 40.0
    assert command.table(found).row_count == len(AREAS)
    assert command.table(command.report(sample[:1], [], command.read(file))).row_count == 1


@pytest.mark.thorough
def test_the_command_catches_a_mutant_in_a_copy_and_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "FILES", 1)
    # The command makes way for others; this process would for the rest of its tests, and whatever they start.
    monkeypatch.setattr("os.nice", lambda step: 0)
    target = next(target.path for target in targets() if target.path.match("curator/learners/rules.py"))
    before = target.read_bytes()
    asked = ["--only", "curator/learners/rules.py:.*answer is None", "--count", "1", "--trusted", "--json"]
    asked += ["--output", str(tmp_path / "r.jsonl")]
    assert command.main(asked) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["mutants"], first["caught"]) == (1, 1)
    assert target.read_bytes() == before
    assert command.main(asked) == 0
    assert json.loads(capsys.readouterr().out) == first
    (kept,) = (tmp_path / "r.jsonl").read_text().splitlines()
    assert json.loads(kept)["by"].startswith("tests/")  # a test failed: that none could run is no catch


def test_where_pytest_cannot_be_used_nothing_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PLUGINS", ("-p", "xdist.plugin"))
    path, test = ROOT / "common" / "numerics" / "bisection.py", ROOT / "tests/common/numerics/test_functions.py"
    trees = running.Trees(tmp_path, Imports(ROOT))
    with (
        trees.mutated(path, path.read_text("utf-8")) as tree,
        pytest.raises(RuntimeError, match="Unknown config option: asyncio"),
    ):
        trees.test(tree, [test], 60.0)
