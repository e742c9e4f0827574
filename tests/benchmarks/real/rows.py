"""Rows made by hand."""

from typing import Any

from benchmarks.real.running import Row, interval


def row(method: str, *losses: float, shift: str = "wine-red", epsilon: float = 1.0, **more: Any) -> Row:
    """Return a row with these losses; without any it was refused."""
    low, high = interval(list(losses))
    mean = sum(losses) / len(losses) if losses else None
    return {
        "shift": shift,
        "method": method,
        "epsilon": epsilon,
        "n": 1_000,
        "agents": 2_000,
        "asked": len(losses),
        "settings": "",
        "share_source": 0.5,
        "share_target": 0.4,
        "mean": mean,
        "low": low,
        "high": high,
        "splits": len(losses),
        "losses": list(losses),
        "plan_seconds": 0.0,
        "split_seconds": 0.0,
        **more,
    }


def cells(*rows: Row) -> dict[str, Row]:
    return {one["method"]: one for one in rows}
