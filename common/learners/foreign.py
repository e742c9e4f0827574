"""Teachers that are neither of ours nor of scikit-learn: settings of a small network in PyTorch, an optional extra."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from common.core.errors import BadScenario
from common.core.values import Value

MAX_WEIGHTS = 1 << 24  # of one network: with gradients and Adam's moments 256 MiB while it is trained


class TorchNetworkSettings(Value):
    """One hidden layer of ReLU, trained by Adam on the cross-entropy, in batches of 256 records.

    Attributes:
        hidden: Units, 1 to 4096.
        epochs: How often each record is seen, 1 to 10,000.
        rate: Adam's learning rate, in (0, 1].
    """

    NAME: ClassVar[str] = "TorchNetwork"

    hidden: int = Field(default=16, ge=1, le=4096)
    epochs: int = Field(default=100, ge=1, le=10_000)
    rate: float = Field(default=0.01, gt=0, le=1)

    def weights(self, dimension: int, classes: int) -> int:
        return self.hidden * (dimension + 1) + classes * (self.hidden + 1)

    def check(self, dimension: int, classes: int) -> None:
        """Refuse one that is too large to be tried, or trained: raise BadScenario."""
        found = self.weights(dimension, classes)
        if found > MAX_WEIGHTS:
            raise BadScenario(
                f"{self.NAME}: {found:,} weights are more than the {MAX_WEIGHTS:,} of a teacher: lower hidden"
            )
