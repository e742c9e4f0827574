"""Estimates in words. An interval that holds nearly every loss says so, and no lucky middle is printed as a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from referee.protocols.base import VAGUE


def in_words(found: Mapping[str, float], places: int = 4) -> str:
    """Return an estimate (value, low, high) in words, its numbers with so many decimal places."""
    low, high = (f"{found[end]:.{places}f}" for end in ("low", "high"))
    if found["high"] - found["low"] > VAGUE:
        return f"somewhere from {low} to {high}: too few agents answered about it to tell"
    return f"{found['value']:.{places}f}, in {low} to {high}"


def ends_in_words(low: float, high: float) -> str:
    """Return an interval with four decimal places, its ends rounded outward."""
    return f"[{math.floor(low * 1e4 + 1e-9) / 1e4:.4f}, {math.ceil(high * 1e4 - 1e-9) / 1e4:.4f}]"


def judged_in_words(judged: Mapping[str, Any]) -> str:
    """Return what the agents say of a candidate (its estimate, and how many were asked), in words."""
    return f"{in_words(judged['estimate'])}, {judged['asked']:,} agents"
