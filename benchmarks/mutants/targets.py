"""What is mutated, by area, and which tests count: the one table to edit when files move."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTIES = ("curator", "issuer", "local_agent", "referee")
PACKAGES = ("common", *PARTIES, "deploy", "tandem", "tests", "benchmarks", "scenarios")
"""Top-level packages whose imports count."""

AREAS: dict[str, tuple[str, ...]] = {
    "accountants and theorems": (
        "common/privacy/*accountants.py",
        "common/privacy/theorems/**/*.py",
        *(f"common/privacy/{name}.py" for name in ("budget", "events", "rounding")),
    ),
    "agents' mechanisms": ("common/**/mechanisms/*.py",),
    "sequential tests, intervals": (
        "common/statistics/evidence.py",
        "common/statistics/intervals.py",
    ),
    "learners": (
        "common/learners/*.py",
        "curator/learners/half_spaces.py",
        "curator/mechanisms/access.py",
        *(f"curator/learners/{name}.py" for name in ("rules", "model_agnostic", "chosen")),
    ),
    "adaptation": tuple(f"curator/learners/{name}.py" for name in ("adaptation", "noisy_descent", "domains")),
    "curator's noise and draws": ("curator/mechanisms/**/*.py",),
    "sampling": (
        "common/data/population.py",
        "curator/sample/**/*.py",
    ),
    "people's ledger": tuple(f"common/lifetime/{name}.py" for name in ("ledger", "account", "charging")),
    "digests of people": ("common/lifetime/recognition.py",),
    "append-only log": ("common/log/*.py",),
    "finalists": ("common/statistics/finalists.py",),
    "liars": ("common/statistics/robustness.py",),
    "protocols": ("referee/protocols/**/*.py",),
    "certificates": (
        "common/privacy/budget.py",
        "referee/audit/certificates.py",
        "referee/audit/games.py",
        "referee/audit/recomputing.py",
    ),
    "ledger and curator": (
        "curator/**/ledger.py",
        "curator/curator.py",
        "curator/engine.py",
    ),
    "votes": ("curator/learners/teacher*.py",),
    "operations": ("curator/operations.py",),
    "agents": ("local_agent/person/agent.py", "local_agent/answers.py", "local_agent/policy.py"),
}
"""Patterns of files by area. ``**`` also stands for no folder at all."""

ORDERED = ("ledger and curator", "people's ledger", "append-only log", "agents", "operations")
"""Areas in which the order of statements is the guarantee: adjacent ones are exchanged there."""

FAST = ("-m", "not slow and not thorough and not docker")
"""How pytest is told to leave out what is not in the fast tier."""
OTHER_TIERS = ("tests/audit/", "tests/docker/", "tests/benchmarks/", "tests/tandem/")
"""Tests that take long, or that are about something else."""


_LEAST = 200
"""Bytes of a file that holds more than a docstring."""


@dataclass(frozen=True)
class Target:
    """A file to mutate."""

    path: Path
    area: str


def targets(root: Path = ROOT) -> list[Target]:
    """Return every file to mutate, in the order of the areas; a file belongs to the first area that names it.

    Raises:
        ValueError: If a pattern matches no file: it moved, and its mutants would be left out in silence.
    """
    found: dict[Path, Target] = {}
    for area, patterns in AREAS.items():
        for pattern in patterns:
            paths = [path for path in sorted(root.glob(pattern)) if path.stat().st_size > _LEAST]
            if not paths:
                raise ValueError(f"no file matches {pattern!r} of {area!r}: edit benchmarks/mutants/targets.py")
            for path in paths:
                found.setdefault(path, Target(path, area))
    return list(found.values())
