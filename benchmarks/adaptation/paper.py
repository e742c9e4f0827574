"""The numbers that the paper prints: (mean, deviation) by table, data set and method."""

from __future__ import annotations

Number = tuple[float, float]

RELATIVE_ERROR = {
    "wind": {
        "KMM": (1.009, 0.035),
        "DM": (1.009, 0.045),
        "SBest": (0.985, 0.018),
        "CnvxAdap": (0.985, 0.019),
    },
    "gas_drift": {
        "KMM": (0.441, 0.034),
        "DM": (0.381, 0.028),
        "SBest": (0.374, 0.023),
        "CnvxAdap": (0.342, 0.023),
    },
}
"""Tables 1 and 3: mean squared error, 1 for training on the target."""

ACCURACY = {
    "adult": {
        "train on source": (88.44, 0.61),
        "train on target": (91.09, 0.54),
        "KMM": (74.62, 0.64),
        "SBest": (91.17, 0.66),
        "NCnvxAdap": (91.38, 0.49),
    },
    "south_german_credit": {
        "train on source": (74.16, 1.64),
        "train on target": (76.40, 1.17),
        "KMM": (74.43, 1.65),
        "SBest": (77.78, 0.95),
        "NCnvxAdap": (77.96, 1.31),
    },
}
"""Tables 2 and 6: per cent of labels found."""

NOT_AT_HAND = ("Airline", "News", "Slice", "Accent", "CIFAR-100", "CIFAR-10", "SVHN", "ImageNet")
"""Rows of the same tables whose data is not at hand."""
