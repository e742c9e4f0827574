"""What the curator keeps on disk: its ledger and key, its secret, and its weights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from common.log.journal import Journal
from common.numerics.randomness import RandomSource
from common.wire.state import durable_secret, hold
from common.wire.witness import Witness
from curator.state.checkpoints import Checkpoints


class StateDirectory:
    """The curator's state directory.

    Parameters
    ----------
    folder
        Created (mode 0700) if absent.
    seed
        Public seed for simulated people; None draws a durable secret from the operating system.
    policy
        Digest of what the curator agrees to.
    witnesses
        Where the heads of its ledger go, too.

    Raises
    ------
    BadInput
        If another process works on the same directory.
    BrokenLedger
        As :class:`common.log.journal.Journal`.
    """

    def __init__(self, folder: Path, seed: int | None, policy: str, witnesses: Sequence[Witness] = ()) -> None:
        with ExitStack() as opened:
            opened.callback(hold(folder).close)
            self.folder = folder
            self.journal = Journal(folder, {"policy": policy}, witnesses)
            opened.callback(self.journal.close)
            self.identity = self.journal.identity
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
