"""Which mutants are run: a stratified sample that stays the same where the code does."""

from __future__ import annotations

import hashlib
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from benchmarks.mutants.operators import Mutation, mutations
from benchmarks.mutants.targets import ORDERED, ROOT, Target, targets

EQUIVALENTS = Path(__file__).parent / "equivalents.toml"


@dataclass(frozen=True)
class Equivalent:
    """Changes of a line, all that begin so, that change no behaviour; and why."""

    line: str
    change: str
    why: str

    def covers(self, mutant: Mutant) -> bool:
        """Say whether it speaks of this mutant."""
        return mutant.mutation.text == self.line and mutant.mutation.change.startswith(self.change)


@dataclass(frozen=True)
class Mutant:
    """A mutation of a target."""

    target: Target
    mutation: Mutation

    @property
    def key(self) -> str:
        """Name of the mutant in the results."""
        return self.mutation.key(self.target.area, self.target.path.name)

    @property
    def source(self) -> str:
        """The mutated file."""
        return self.mutation.applied(self.target.path.read_text())

    def __str__(self) -> str:
        return f"{self.target.path.relative_to(ROOT)}:{self.mutation.line}: {self.mutation.change}"


def every_mutant() -> list[Mutant]:
    """Return all mutants of all targets."""
    return [
        Mutant(target, mutation)
        for target in targets()
        for mutation in mutations(target.path.read_text(), ordered=target.area in ORDERED)
    ]


def equivalents() -> list[Equivalent]:
    """Return the list of what changes no behaviour."""
    return [Equivalent(**entry) for entry in tomllib.loads(EQUIVALENTS.read_text()).get("equivalent", [])]


def chosen(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return ``count`` of the mutants: as many of every area as of any other, and within it of every operator.

    Each is placed by a hash of the seed and its own key, so an edit elsewhere hardly changes who is chosen.
    """
    areas: dict[str, dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for mutant in sorted(mutants, key=lambda mutant: _place(seed, mutant.key)):
        areas[mutant.target.area][mutant.mutation.kind].append(mutant)
    return _in_turn([_in_turn(list(kinds.values())) for kinds in areas.values()])[:count]


def _in_turn(lists: list[list[Mutant]]) -> list[Mutant]:
    """Take one of each list, again and again."""
    return [mutant for mutant in chain.from_iterable(zip_longest(*lists)) if mutant is not None]


def _place(seed: int, key: str) -> bytes:
    return hashlib.sha256(f"{seed} {key}".encode()).digest()
