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
    """Invent testers and customers in a folder, learn the testers' model and what fits, print what each is worth."""
    runpy.run_path(str(HERE.parent / "own_data" / "make_people.py"))["main"](folder)
    testers, customers = folder / "testers.csv", folder / "customers.csv"
    truth = polars.read_csv(customers)["renews"].to_numpy()
    model = TransferClassifier(epsilon=2.0, agent_epsilon=2.0, schema=HERE / "schema.yaml", random_state=seed)
    for protocol, words in (("learn-and-test", "the testers' model"), ("fit", "what fits so many people")):
        model.set_params(protocol=protocol).fit(testers, population=customers)
        errs, found = (model.predict(customers) != truth).mean(), model.estimate_
        print(f"{words} errs on {errs:.1%} of the customers; their answers say {found.low:.1%} to {found.high:.1%}")
    for judged in model.candidates_:
        print(f"  {judged.name}: {judged.estimate.value:.1%}, {judged.asked:,} judges")
    print(model.verdict_.text)
    print(model.guarantee_)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place), int(sys.argv[1]) if len(sys.argv) > 1 else 0)
