"""What the curator keeps on disk beside its ledger: its key, its secret, and its weights."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from common.arrays import AnyArray
from common.identity import Identity
from common.randomness import RandomSource
from common.state import durable_secret, hold


class Vault:
    """The curator's state directory.

    Parameters
    ----------
    folder
        Created (mode 0700) if absent.
    seed
        Public seed for simulated people; None draws a durable secret from the operating system.

    Raises
    ------
    BadInput
        If another process works on the same directory.
    """

    def __init__(self, folder: Path, seed: int | None) -> None:
        self._lock = hold(folder)
        self._folder = folder
        self.identity = Identity.load_or_create(folder / "identity.key")
        if seed is None:
            self.randomness = durable_secret(folder / "secret.key")
        else:
            self.randomness = RandomSource.seeded(seed, "curator")

    def close(self) -> None:
        """Let go of the directory."""
        self._lock.close()

    def store_weights(self, updates: int, scores: AnyArray) -> None:
        """Write the weights after so many updates durably, then drop older ones."""
        part = self._folder / "weights.part.npy"
        with part.open("wb") as file:
            np.save(file, scores)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self._folder / f"weights-{updates}.npy")
        for old in self._folder.glob("weights-*.npy"):
            if old.name != f"weights-{updates}.npy":
                old.unlink()

    def load_weights(self, updates: int) -> AnyArray | None:
        """Return the weights after exactly so many updates, if they are stored whole."""
        path = self._folder / f"weights-{updates}.npy"
        try:
            loaded: AnyArray = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return loaded
