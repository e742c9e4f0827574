"""A scenario whose people contribute, the table that they would be in a file, and persons who contribute."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common.core.errors import Unauthorized
from common.crypto.identity import Identity, Signed
from common.data.tables import TableSource
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario, parse
from curator.contributions import messages
from curator.contributions.collection import Collection, collecting
from curator.contributions.contributor import Contributor
from curator.contributions.messages import Offer

TOKEN = "a-token-for-contributors"
PEOPLE = 12
TABLE: dict[str, Any] = {
    "label": {"column": "renews", "positive": ["yes"], "negative": ["no"]},
    "features": [
        {"kind": "number", "column": "visits", "low": 0, "high": 30, "fill": 3},
        {"kind": "category", "column": "plan", "values": ["basic", "family", ["professional", "pro"]]},
    ],
    "norm": 1.25,
}
CONTRIBUTED: dict[str, Any] = {**TABLE, "contributed": True}
Fields = dict[str, Any]


def rows(count: int = PEOPLE, seed: int = 1) -> list[Fields]:
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        visits = chance.choice([None, *range(31)])
        plan = chance.choice([None, "basic", "family", "professional", "pro"])
        found.append({"visits": visits, "plan": plan, "renews": "yes" if (visits or 0) > 14 else "no"})
    return found


def write(path: Path, people: list[Fields]) -> None:
    """Write them as a file."""
    lines = [",".join("" if value is None else str(value) for value in person.values()) for person in people]
    path.write_text("\n".join(["visits,plan,renews", *lines]))


def scenario(folder: Path, table: dict[str, Any] = CONTRIBUTED, **changes: Any) -> ResolvedScenario:
    """Return a scenario about simulated people of a table, whose agents are in a file of the folder."""
    write(folder / "customers.csv", rows(60, seed=2))
    learner = {"name": "sgd", "loss": "logistic", "steps": 20, "clip": 1.0, "noise": 20.0, "diameter": 10.0}
    curator = {"n": PEOPLE, "kappa": 1.0, "eta": 0.4, "rounds": 2, "epsilon": 8.0, "delta": 1e-4, "learner": learner}
    tree = {
        "name": "renewals",
        "title": "Who renews, from members who give their records",
        "alpha": 0.1,
        "people": "simulated",
        "data": str(folder),
        "divergence": {"chi_squared": 1.5},
        "source": {"table": table},
        "target": {"table": {**TABLE, "files": ["customers.csv"]}},
        "curator": curator,
        "agents": {"count": 60, "batch": 20, "mechanism": {"name": "warner", "epsilon": 4.0}},
        **changes,
    }
    return resolve(parse(tree))


class Direct:
    """A curator that collects, without HTTP in between; ``carry`` may do something to what is sent."""

    def __init__(self, collection: Collection, carry: Callable[[Signed], Signed] = lambda signed: signed) -> None:
        self.collection, self.carry = collection, carry
        self.seen: list[Signed] = []

    def offer(self, curator: str) -> Offer:
        assert curator == self.collection.curator
        return Offer.parse(self.collection.offer.message)

    def contribute(self, signed: Signed, token: str) -> Signed:
        self.seen.append(signed)
        code = self.collection.admits(token)
        if code is None:
            raise Unauthorized("neither token nor code")
        return self.collection.accept(self.carry(signed), code)

    def withdraw(self, signed: Signed) -> Signed:
        self.seen.append(signed)
        return self.collection.withdraw(self.carry(signed))


def sealable(record: Fields, table: TableSource) -> bytes:
    """Return a record as it is sealed."""
    return messages.padded(messages.checked_fields(record, table), table)


def person(folder: Path, collection: Collection) -> Contributor:
    return Contributor(folder, collection.curator)


def give(folder: Path, collection: Collection, record: Fields, token: str = TOKEN) -> Contributor:
    """Let somebody contribute."""
    somebody = person(folder, collection)
    somebody.contribute(record, Direct(collection), token, lambda offer, texts: True)
    return somebody


def key_in(folder: Path) -> Identity:
    """Return the key of who contributes from a directory."""
    return Identity.load_or_create(folder / "identity.key")


def sealed(collection: Collection, who: Identity, name: str, record: Fields | bytes) -> Signed:
    """Return a contribution to the collection under this name: of a record, or of other bytes."""
    offer = Offer.parse(collection.offer.message)
    plaintext = record if isinstance(record, bytes) else sealable(record, offer.table)
    message = messages.seal(plaintext, offer, collection.curator, name, who.public)
    return who.sign(message.KIND, message.wire())


def fill(
    folder: Path, chosen: ResolvedScenario, people: list[Fields], keys: Sequence[Identity] | None = None
) -> list[Identity]:
    """Let people contribute in this order to the curator in a folder, without directories of their own.

    Returns:
        Their keys, by default fresh ones.
    """
    known = keys or [Identity.create() for _ in people]
    with collecting(folder, chosen, most=max(PEOPLE, len(people)), token=TOKEN) as collection:
        for place, (who, record) in enumerate(zip(known, people, strict=True)):
            collection.accept(sealed(collection, who, f"{place:032x}", record))
    return list(known)
