"""A small network in PyTorch as a teacher: a function of its chunk and of its seed, on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Indices
from common.learners.torch_network import TorchNetworkSettings

_BATCH = 256  # rows that are looked at together


def room(settings: TorchNetworkSettings, dimension: int, classes: int, kept: int) -> int:
    """Return the bytes of one network while it is trained and asked, and of ``kept`` ones afterwards."""
    weights = settings.weights(dimension, classes)
    return 4 * (weights * (4 + kept) + _BATCH * (dimension + 3 * (settings.hidden + classes)))


def is_here() -> bool:
    """Tell whether PyTorch is installed."""
    return find_spec("torch") is not None


class TorchNetwork:
    """A network of these settings, with ``fit`` and ``predict`` as scikit-learn's classifiers have them.

    What is random, the first weights and the order of records, comes from a generator of its own.
    """

    def __init__(self, settings: TorchNetworkSettings, seed: int) -> None:
        self.settings, self.seed = settings, seed

    def fit(self, features: AnyArray, classes: Indices) -> None:
        """Train on features of shape (n, d) and classes of shape (n,), n >= 1."""
        import torch
        from torch.nn.functional import cross_entropy

        generator = torch.Generator().manual_seed(self.seed)
        self.known, numbers = np.unique(classes, return_inverse=True)

        def layer(inputs: int, outputs: int) -> list[Any]:
            weights = (2.0 * torch.rand(inputs + 1, outputs, generator=generator) - 1.0) * (inputs + 1) ** -0.5
            return [weights[:-1].clone().requires_grad_(), weights[-1].clone().requires_grad_()]

        hidden = self.settings.hidden
        self.layers = [*layer(features.shape[1], hidden), *layer(hidden, len(self.known))]
        adam = torch.optim.Adam(self.layers, lr=self.settings.rate)
        with _one_thread():
            for _ in range(self.settings.epochs):
                for batch in torch.randperm(len(features), generator=generator).split(_BATCH):
                    adam.zero_grad()
                    cross_entropy(self._scores(features[batch]), torch.tensor(numbers[batch])).backward()
                    adam.step()
        self.layers = [own.detach() for own in self.layers]

    def predict(self, points: AnyArray) -> Indices:
        """Return the class of each point, shape (m,), for points of shape (m, d)."""
        import torch

        with _one_thread(), torch.no_grad():
            blocks = (points[first : first + _BATCH] for first in range(0, len(points), _BATCH))
            return np.concatenate([self.known[self._scores(block).argmax(dim=1).numpy()] for block in blocks])

    def _scores(self, points: AnyArray) -> Any:
        import torch

        weights, thresholds, output, constants = self.layers
        return (torch.tensor(points, dtype=torch.float32) @ weights + thresholds).relu() @ output + constants


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sum in one order, whatever machine it is."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
