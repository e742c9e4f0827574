"""Write two small tables of invented people: beta testers (the curator's) and customers (the agents').

python make_people.py [FOLDER [quits]] has, with ``quits``, another label: who quits, 4% of the customers.
"""

from __future__ import annotations

import csv
import math
import random
import sys
from pathlib import Path

TESTERS, CUSTOMERS = 20_000, 50_000


def person(source: random.Random, label: str) -> dict[str, object]:
    """Invent a customer, who renews if a weighted sum is large, but for 2%, or quits, as 4% do, most of them new."""
    visits, months = min(source.expovariate(0.2), 30.0), source.uniform(0, 60)
    plan = source.choice(["basic", "family", "pro"])
    if label == "quits":
        yes = source.random() < 1.0 / (1.0 + math.exp(visits / 4 + months / 10 - (plan == "basic") + 0.9))
    else:
        yes = (visits / 10 + months / 60 + 0.5 * (plan == "pro") > 1.2) != (source.random() < 0.02)
    return {
        "visits": f"{visits:.1f}",
        "months": f"{months:.0f}",
        "plan": plan if source.random() < 0.97 else "",
        label: "yes" if yes else "no",
    }


def tester(source: random.Random, label: str) -> dict[str, object]:
    """Invent a beta tester: a customer who volunteers, ten times less readily with up to 5 visits a week."""
    while True:
        candidate = person(source, label)
        if source.random() < (1.0 if float(str(candidate["visits"])) > 5 else 0.1):
            return candidate


def main(folder: Path, label: str = "renews") -> None:
    """Write ``testers.csv`` and ``customers.csv``, whose label is ``renews`` or ``quits``."""
    source, other = random.Random(1), 1_000_000 if label == "quits" else 0  # other people, who have spent nothing yet
    for name, first, count, invent in [("testers", 1, TESTERS, tester), ("customers", 100_001, CUSTOMERS, person)]:
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["member", "visits", "months", "plan", label])
            writer.writeheader()
            writer.writerows({"member": first + other + number, **invent(source, label)} for number in range(count))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent, *sys.argv[2:])
