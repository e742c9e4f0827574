"""Write two small tables of invented people: beta testers (the curator's) and customers (the agents')."""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

TESTERS, CUSTOMERS = 20_000, 50_000


def person(source: random.Random) -> dict[str, object]:
    """Invent a customer: renews if a weighted sum is large, but for 2% who decide otherwise."""
    visits, months = min(source.expovariate(0.2), 30.0), source.uniform(0, 60)
    plan = source.choice(["basic", "family", "pro"])
    renews = visits / 10 + months / 60 + 0.5 * (plan == "pro") > 1.2
    if source.random() < 0.02:
        renews = not renews
    return {
        "visits": f"{visits:.1f}",
        "months": f"{months:.0f}",
        "plan": plan if source.random() < 0.97 else "",
        "renews": "yes" if renews else "no",
    }


def tester(source: random.Random) -> dict[str, object]:
    """Invent a beta tester: a customer who volunteers, ten times less readily with up to 5 visits a week."""
    while True:
        candidate = person(source)
        if source.random() < (1.0 if float(str(candidate["visits"])) > 5 else 0.1):
            return candidate


def main(folder: Path) -> None:
    """Write ``testers.csv`` and ``customers.csv``."""
    source = random.Random(1)
    for name, first, count, invent in [("testers", 1, TESTERS, tester), ("customers", 100_001, CUSTOMERS, person)]:
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["member", "visits", "months", "plan", "renews"])
            writer.writeheader()
            writer.writerows({"member": first + number, **invent(source)} for number in range(count))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
