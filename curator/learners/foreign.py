"""Teachers that do not come from scikit-learn: classes of the curator's operator, and a small network in PyTorch.

An operator's class is in a Python file; no package needs to be installed. The operator names it when starting the
curator, by ``curator serve --classifier NAME=FILE.py:CLASS`` or in the environment variable ``TANDEM_CLASSIFIERS``. A
scenario, which may come from others, contains only the name ``own:NAME`` and cannot name a file. Only a teacher's votes
leave it, and the aggregation adds noise to them. So the guarantee holds for any class whose object is a function of the
input of ``fit``, of its parameters and of its seed. It does not hold for a class that keeps state from one object to
the next. The code runs with the curator's rights: it sees records, and nothing prevents it from writing them to a file
or to a network. Name only a class that may read the records.
"""

import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Indices
from common.core.errors import BadInput
from common.learners.scikit import TorchNetworkSettings

VARIABLE = "TANDEM_CLASSIFIERS"
_CLASSES: dict[str, type[Any]] = {}


def name_classifier(text: str) -> None:
    """Load the class ``NAME=FILE.py:CLASS``; BadInput if it does not exist or lacks ``fit`` or ``predict``."""
    name, equals, place = text.partition("=")
    file, colon, kind = place.rpartition(":")
    if not (equals and colon and name.isidentifier() and kind.isidentifier()):
        raise BadInput(f"a classifier of your own is NAME=FILE.py:CLASS, found {text[:80]!r}")
    _CLASSES[name] = _load_class(Path(file), kind)


def _load_class(file: Path, kind: str) -> type[Any]:
    spec = importlib.util.spec_from_file_location(f"own_classifiers_{len(_CLASSES)}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise BadInput(f"{file} is no Python file: give NAME=FILE.py:CLASS")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the operator's own code
        raise BadInput(f"{file} cannot be loaded: {type(error).__name__}: {error}") from None
    classifier = getattr(module, kind, None)
    if not (
        isinstance(classifier, type)
        and callable(getattr(classifier, "fit", None))
        and callable(getattr(classifier, "predict", None))
    ):
        raise BadInput(f"{file} has no class {kind} with fit(features, classes) and predict(features)")
    return classifier


@cache
def _load_from_environment() -> None:
    for text in os.environ.get(VARIABLE, "").split():
        name_classifier(text)


def is_named(name: str) -> bool:
    """Return whether this process has a class of that name."""
    _load_from_environment()
    return name in _CLASSES


def missing_class(name: str) -> str:
    """Return the message that this process has no class of that name, with the remedy."""
    return f"no class is named {name} here: give curator serve --classifier {name}=FILE.py:CLASS"


def make(name: str, parameters: dict[str, Any], seed: int) -> Any:
    """Return a new object of the class, with ``random_state`` as its seed if it takes that; ValueError if it fails."""
    if not is_named(name):
        raise ValueError(missing_class(name))
    kind = _CLASSES[name]
    seeded = "random_state" in inspect.signature(kind).parameters and parameters.get("random_state") is None
    try:
        return kind(**{**parameters, **({"random_state": seed} if seeded else {})})
    except Exception as error:  # noqa: BLE001 - as above; no record has been seen
        raise ValueError(f"own:{name} cannot be made: {type(error).__name__}: {error}") from None


_BATCH = 256  # rows in a batch


def room(settings: TorchNetworkSettings, dimension: int, classes: int, stored: int) -> int:
    """Return the memory, in bytes, of one network in training and prediction, and of ``stored`` ones afterwards."""
    weights = settings.weights(dimension, classes)
    return 4 * (weights * (4 + stored) + _BATCH * (dimension + 3 * (settings.hidden + classes)))


def has_torch() -> bool:
    """Return whether PyTorch is installed."""
    return find_spec("torch") is not None


class TorchNetwork:
    """A network with these settings; ``fit`` and ``predict`` are like those of scikit-learn's classifiers.

    The initial weights and the order of records come from its own random generator.
    """

    def __init__(self, settings: TorchNetworkSettings, seed: int) -> None:
        self.settings, self.seed = settings, seed

    def fit(self, features: AnyArray, classes: Indices) -> None:
        """Train on features of shape (n, d) and classes of shape (n,), n >= 1."""
        import torch
        from torch.nn.functional import cross_entropy

        generator = torch.Generator().manual_seed(self.seed)
        self.class_values, numbers = np.unique(classes, return_inverse=True)

        def layer(inputs: int, outputs: int) -> list[Any]:
            weights = (2.0 * torch.rand(inputs + 1, outputs, generator=generator) - 1.0) * (inputs + 1) ** -0.5
            return [weights[:-1].clone().requires_grad_(), weights[-1].clone().requires_grad_()]

        hidden = self.settings.hidden
        self.layers = [*layer(features.shape[1], hidden), *layer(hidden, len(self.class_values))]
        adam = torch.optim.Adam(self.layers, lr=self.settings.rate)
        with _one_thread():
            for _ in range(self.settings.epochs):
                for batch in torch.randperm(len(features), generator=generator).split(_BATCH):
                    adam.zero_grad()
                    cross_entropy(self._scores(features[batch]), torch.tensor(numbers[batch])).backward()
                    adam.step()
        self.layers = [layer_weights.detach() for layer_weights in self.layers]

    def predict(self, points: AnyArray) -> Indices:
        """Return the class of each point, shape (m,), for points of shape (m, d)."""
        import torch

        with _one_thread(), torch.no_grad():
            blocks = (points[first : first + _BATCH] for first in range(0, len(points), _BATCH))
            return np.concatenate([self.class_values[self._scores(block).argmax(dim=1).numpy()] for block in blocks])

    def _scores(self, points: AnyArray) -> Any:
        import torch

        weights, thresholds, output, constants = self.layers
        return (torch.tensor(points, dtype=torch.float32) @ weights + thresholds).relu() @ output + constants


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread, so that sums have the same order on every machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
