"""Small made-up pairs: a source and a target that differ a little."""

import numpy as np

from benchmarks.adaptation.datasets.base import Raw
from benchmarks.adaptation.datasets.scaling import scaled


def raw(rows, shift=0.0, task="regression", seed=0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, 3)) * [1.0, 5.0, 0.2] + shift
    scores = features @ [0.1, -0.02, 0.3] + 0.05 * generator.normal(size=rows)
    responses = np.clip(scores, -1.0, 1.0) if task == "regression" else np.where(scores > 0.0, 1.0, -1.0)
    return Raw(features, responses)


def pair(task="regression", name="wind", copies=1):
    source, target = raw(300, 0.0, task, 1), raw(90, 0.3, task, 2)
    return scaled(name, task, source, target, (40, 20, 30), 2.0, copies)
