"""The Python of the documents runs as it is printed, on values for the names that it does not define."""

from __future__ import annotations

import math
import runpy
import shutil
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars
import pytest

from common.local.mechanisms.mechanism import MECHANISMS
from common.numerics.randomness import RandomSource
from curator.mechanisms.sums import noisy_sum
from tests.documents.reading import ROOT, Block, blocks, pages
from tests.referee.view.test_models_of_runs import folder_of

Names = dict[str, Any]


def _arrays(folder: Path) -> Names:
    """Return volunteers, of whom more have a large first feature, a population, and new people."""
    generator = np.random.default_rng(1)
    people, population = (np.clip(generator.random((n, 3)), 0, 1) for n in (3000, 20_000))
    people[:, 0] = np.maximum(people[:, 0], generator.random(3000))

    def label(features: np.ndarray) -> np.ndarray:
        return np.where(features[:, 0] + features[:, 1] > 1, "yes", "no")

    return {
        "X": people, "y": label(people), "X_all": population, "y_all": label(population),
        "X_new": generator.random((50, 3)),
    }  # fmt: skip


def _tables(folder: Path) -> Names:
    runpy.run_path(str(ROOT / "examples" / "own_data" / "make_people.py"))["main"](folder)
    shutil.copy(ROOT / "examples" / "estimators" / "schema.yaml", folder)
    polars.read_csv(folder / "customers.csv").drop("renews").head(100).write_parquet(folder / "new_customers.parquet")
    return {}


def _a_run(folder: Path) -> Names:
    folder_of(folder / "runs" / "renewals")
    (folder / "new-customers.csv").write_text("plan,visits,months\npro,12,3\nbasic,0.5,60\n")
    return {}


def _predicted(names: Names) -> None:
    assert names["labels"].tolist() == ["yes"]
    assert names["shares"].shape == (2, 2)
    assert names["model"].columns == ("visits", "months", "plan")


def _a_choice(folder: Path) -> Names:
    return {
        "fit": lambda settings, source: settings["alpha"],
        "score": lambda output, source: -noisy_sum(round(1000 * abs(output - 0.5)), 1000, 1.0, source),
        "source": RandomSource.seeded(1, "documents"),
    }


def _fitted(names: Names) -> None:
    model = names["model"]
    assert model.guarantee_.epsilon <= model.epsilon
    assert 0.0 <= model.estimate_.low <= model.estimate_.high <= 1.0


def _chosen(names: Names) -> None:
    assert 0.0 < names["mu"] < 1.0
    epsilon = names["epsilon_of_selection"](names["mu"], names["law"], 1e-6)
    assert epsilon <= 1.0
    assert math.isclose(epsilon, 1.0, rel_tol=0.01)
    assert names["best"].output == names["best"].settings["alpha"]


def _nothing(folder: Path) -> Names:
    return {}


def _a_mechanism(names: Names) -> None:
    MECHANISMS._entries.pop("two-coins")  # what a page registers is there for its own test only
    for mechanism in names["TwoCoins"].example():
        epsilon, delta = mechanism.guarantee
        ratio = Fraction(mechanism.truth) / (1 - Fraction(mechanism.truth))
        assert ratio == 2 ** (mechanism.coins + 1) - 1
        assert delta == 0.0
        assert 0.0 <= epsilon - math.log(ratio) < 1e-14


PREPARED: dict[str, tuple[Callable[[Path], Names], Callable[[Names], None]]] = {
    "docs/running.md": (_arrays, _fitted),
    "CONTRIBUTING.md": (_nothing, _a_mechanism),
    "docs/estimators.md": (_tables, _fitted),
    "docs/models.md": (_a_run, _predicted),
    "docs/hyperparameters.md": (_a_choice, _chosen),
}
FILES = ROOT / "docs" / "extending.md"
"""Its blocks are the files of a package, which ``tests/plugins`` installs and runs."""
BLOCKS = [block for page in pages() if page != FILES for block in blocks(page) if block.kind == "python"]


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_printed_python_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, check = PREPARED[block.document]
    monkeypatch.chdir(tmp_path)
    page = ModuleType("page")  # classes look their annotations up in the module that they are of
    monkeypatch.setitem(sys.modules, page.__name__, page)
    vars(page).update(prepare(tmp_path))
    exec(compile(block.text, str(block), "exec"), vars(page))
    check(vars(page))


def test_every_page_with_python_is_prepared_for() -> None:
    assert {block.document for block in BLOCKS} == set(PREPARED)
