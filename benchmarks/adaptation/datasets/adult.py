"""Adult (census income): men are the public source, women the private target.

Rows of ``adult.data`` without a missing field: 20380 men, 9782 women. The paper has 14 inputs, so each category is
one number here, its place in the published list of values; one-hot columns do better.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np

from benchmarks.adaptation.datasets.base import Pair, Raw, found
from benchmarks.adaptation.datasets.scaling import scaled, unit
from common.core.arrays import Floats

SIZES = (6847, 978, 1957)
"""The paper's Table 7; it names 20379 source rows where there are 20380."""
RADIUS = 64.0
"""Beyond the length of every baseline's logistic fit, which is 21 at most: no method is kept shorter than another."""
SEX = 9
NUMBERS = {0: (17, 90), 2: (0, 1_500_000), 4: (1, 16), 10: (0, 100_000), 11: (0, 5_000), 12: (1, 99)}
"""Public bounds of age, fnlwgt, education-num, capital-gain, capital-loss and hours-per-week, by column."""
VALUES = {
    1: "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    3: "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th "
    "Doctorate 5th-6th Preschool",
    5: "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
    6: "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    7: "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    8: "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    9: "Female Male",
    13: "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece South "
    "China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
    "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia "
    "El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
}
"""The categories of the other columns in the order of ``adult.names``."""


def load(data: Path) -> Pair:
    """Read the complete rows, and split them by sex."""
    with lzma.open(found(data / "adult" / "adult.data.xz"), "rt") as lines:
        fields = [[field.strip() for field in line.split(",")] for line in lines if line.strip()]
    rows = np.array([row for row in fields if "?" not in row])
    features = np.column_stack([_column(rows[:, place], place) for place in range(14)])
    responses = np.where(rows[:, 14] == ">50K", 1.0, -1.0)
    men = rows[:, SEX] == "Male"
    source, target = (Raw(features[who], responses[who]) for who in (men, ~men))
    return scaled("adult", "classification", source, target, SIZES, RADIUS)


def _column(texts: np.ndarray[tuple[int], np.dtype[np.str_]], place: int) -> Floats:
    if place in NUMBERS:
        return unit(texts.astype(np.float64), *NUMBERS[place])
    codes = {value: code for code, value in enumerate(sorted(VALUES[place].split()))}
    return unit(np.array([codes[text] for text in texts], dtype=np.float64), 0, max(1, len(codes) - 1))
