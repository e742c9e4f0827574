"""The key that signs an undisturbed run."""

from __future__ import annotations

from pathlib import Path

from common.wire.identity import Identity


def identity_of(folder: Path) -> Identity:
    return Identity.load_or_create(folder / "state" / "referee" / "identity.key")
