"""Sums of squares, factor and solution against NumPy's."""

import numpy as np

from curator.numerics.cholesky import add_squares, factor, padded, solve
from tests.tiers import for_each


@for_each(("dtype", "accuracy"), [(np.float32, 2e-4), (np.float64, 1e-12)])
@for_each(("width", "count"), [(1, 3), (16, 40), (37, 500), (201, 900)])
def test_solutions_are_those_of_the_equations(width, count, dtype, accuracy):
    generator = np.random.default_rng(width)
    rows = np.zeros((count, padded(width)), dtype=dtype)
    rows[:, :width] = generator.normal(size=(count, width))
    matrix = np.eye(len(rows[0]), dtype=dtype)
    add_squares(matrix, rows, 1.0)
    add_squares(matrix, rows[:1], -1.0)
    expected = np.eye(len(rows[0])) + rows[1:].T.astype(np.float64) @ rows[1:]
    np.testing.assert_allclose(np.triu(matrix), np.triu(expected), rtol=0, atol=accuracy * count)
    values = np.zeros(len(matrix), dtype=dtype)
    values[:width] = generator.normal(size=width)
    solution = np.linalg.solve(expected, values.astype(np.float64))
    assert factor(matrix)
    solve(matrix, values)
    np.testing.assert_allclose(values, solution, rtol=0, atol=20 * accuracy * np.abs(solution).max())


def test_what_is_not_positive_definite_has_no_factor():
    matrix = np.eye(16)
    add_squares(matrix, np.ones((1, 16)), -1.0)
    assert not factor(matrix)
    assert not factor(np.full((16, 16), np.nan))
