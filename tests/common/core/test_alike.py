"""JSON values that differ in the last bits of a number, and in nothing else, are alike."""

from common.core.canonical import alike

VALUE = {"high": 0.25, "bins": [1.0, 3e20], "agents": 10**12, "name": "model", "done": True, "gap": None}


def test_last_bits_are_no_difference_and_everything_else_is():
    assert alike(VALUE, {**VALUE, "high": 0.25 + 2.0**-50, "bins": (1, 3.0000000000000005e20)})
    for change in (
        {"high": 0.25 + 1e-8}, {"bins": [1.0]}, {"bins": [1.0, 3.0001e20]}, {"agents": 10**12 + 1},
        {"name": "models"}, {"done": 1}, {"gap": 0.0}, {"more": 1},
    ):  # fmt: skip
        assert not alike(VALUE, {**VALUE, **change}), change
