"""A classifier learned from beta testers that fits all customers: the tables of examples/own_data, in six lines."""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path

import polars

from tandem import TransferClassifier

HERE = Path(__file__).parent


def main(folder: Path, seed: int = 0) -> None:
    """Invent testers and customers in a folder, learn with and without reweighing, print what each is worth."""
    runpy.run_path(str(HERE.parent / "own_data" / "make_people.py"))["main"](folder)
    testers, customers = folder / "testers.csv", folder / "customers.csv"
    truth = polars.read_csv(customers)["renews"].to_numpy()
    model = TransferClassifier(epsilon=2.0, agent_epsilon=2.0, schema=HERE / "schema.yaml", random_state=seed)
    for rounds, words in ((1, "the testers' model"), (5, "reweighed")):
        model.set_params(rounds=rounds).fit(testers, population=customers)
        errs, found = (model.predict(customers) != truth).mean(), model.estimate_
        print(f"{words} errs on {errs:.1%} of the customers; their answers say {found.low:.1%} to {found.high:.1%}")
    print(model.guarantee_)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place), int(sys.argv[1]) if len(sys.argv) > 1 else 0)
