"""What the curator keeps on disk beside its ledger: its key, its secret, and its weights."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from common.numerics.randomness import RandomSource
from common.wire.identity import Identity
from common.wire.state import durable_secret, hold
from curator.state.checkpoints import Checkpoints


class StateDirectory:
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
        with ExitStack() as opened:
            opened.callback(hold(folder).close)
            self.identity = Identity.load_or_create(folder / "identity.key")
            if seed is None:
                self.randomness = durable_secret(folder / "secret.key")
            else:
                self.randomness = RandomSource.seeded(seed, "curator")
            self.checkpoints = Checkpoints(folder, self.randomness.derive("weights").words(4).tobytes())
            opened.callback(self.checkpoints.close)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Wait until the weights are on disk, and let go of the directory."""
        self._opened.close()
