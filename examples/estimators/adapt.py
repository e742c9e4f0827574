"""A regression for a region of which few private records are known, helped by the public records of another."""

from __future__ import annotations

import sys

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error

from tandem import DomainAdapterRegressor

HERE, ELSEWHERE = np.array([0.6, -0.4, -0.2, 0.3, 0.0]), np.array([0.6, -0.4, 0.3, 0.0, 0.0])


def region(count: int, weights: np.ndarray, shift: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Invent people of a region: five features in [-1, 1], and a response that is linear but for a little noise."""
    generator = np.random.default_rng(seed)
    X = np.clip(0.3 * generator.normal(size=(count, 5)) + shift, -1, 1)
    return X, X @ weights + 0.1 * generator.normal(size=count)


def main(seed: int = 0) -> None:
    """Compare the public region's model with the adapted one, on people of the region that it is for."""
    public, mine = region(8000, ELSEWHERE, 0.2, 1), region(4000, HERE, -0.2, 2)
    population, judges = region(8000, HERE, -0.2, 3), region(8000, HERE, -0.2, 4)
    alone = LinearRegression().fit(*public)
    model = DomainAdapterRegressor(epsilon=1.0, agent_epsilon=2.0, random_state=seed)
    model.fit(*mine, public=public, population=population)
    for words, found in (("the public region's model", alone), ("adapted", model)):
        print(f"{words}: mean squared error {mean_squared_error(judges[1], found.predict(judges[0])):.3f}")
    print(f"the region's own answers say at most {model.estimate_.high:.3f}; {model.guarantee_}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
