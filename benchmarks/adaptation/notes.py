"""What a reader of a table's row must know: how it was measured, and why it differs from the paper's."""

from __future__ import annotations

from benchmarks.adaptation.points import SPLITS, Point

_DATASETS = {
    "wind": "target: January (the paper does not say which month)",
    "gas_drift": "target: batch 6 for the paper's batch 7, which is not at hand; its 613 rows alone train well",
    "gas_drift, batch 5": "target: batch 5, with 49 training rows",
    "wine_quality": "not in the paper",
    "adult": "",
    "south_german_credit": "",
}
_COPIES = {
    "none": "",
    "leaky": "as the paper: 8 copies of each row before the split, so test rows were trained on",
    "clean": "rows copied after the split: no row on two sides; 88 distinct test rows",
}


_EARLIER = (
    "before: from 0, residuals clipped at Lambda r + 1, scores at .25",
    "before: from 0, Lambda 16 on Adult and 8 on German",
)


def note(point: Point, splits: int, months: tuple[float, float] | None, *, earlier: bool = False) -> str:
    """Return the note of a point's row; ``months`` is the range over the months that wind's target may be."""
    parts = [_DATASETS[point.dataset], _COPIES[point.copies]]
    if months is not None:
        parts.append(f"means {months[0]:.3f} to {months[1]:.3f} over the seven months of 31 days")
    if point.method.endswith("tuned for free"):
        parts.append("not private: settings chosen on validation rows at no cost, as the paper")
    if point.method.endswith("chosen privately"):
        parts.append("(epsilon, .01)-DP, the choice of settings included")
    if point.copies != "none" and ", epsilon " in point.method:
        parts.append("each copy counted as a person: a real one has 8 times the mu")
    if earlier:
        parts.append(_EARLIER[point.method.startswith("NCnvxAdap")])
    if splits < SPLITS:
        parts.append(f"{splits} splits only")
    return "; ".join(part for part in parts if part)
