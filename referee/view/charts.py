"""Charts as SVG: text stays text, labels stand beside the data and never on it, and colour is never the only cue.

The colours are those of Okabe and Ito, which people with any common colour blindness can distinguish ("Color universal
design", 2008). Colours are set as attributes, which a page's style sheet may override for a dark background.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeVar

from common.core.plain import html, plain
from referee.runs import percents
from referee.runs.percents import PER_CENT, Unit
from referee.view.wording import ChartEntry, Interval, Round

_T = TypeVar("_T", int, float)
Scale = Callable[[_T], float]  # from a number to its position in pixels
BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
MAX_BARS = 60  # with more rounds the intervals are drawn as a band and the estimates as a line
MAX_POINTS = 240
"""Most points of such a band, about two pixels each. With more rounds, several share a point."""
_WIDTH, _LEFT, _RIGHT, _TOP, _PLOT = 720, 64, 176, 36, 240
_NARROW, _ROW = 360, 20  # a drawing for a phone: its width, and the height of a row below it
_ENDS = {False: "end", True: "start"}
_LINE = 16  # pixels between two labels beside each other's lines, at least


def by_round(
    rounds: Sequence[Round],
    level: float | None,
    losses: Sequence[ChartEntry],
    measure: str,
    *,
    name: str = "loss",
    unit: Unit = PER_CENT,
    narrow: bool = False,
) -> str:
    """Draw each round's estimate and interval against the level, and true losses as lines with names beside them.

    Returns an ``svg`` element in which all text is escaped; its ids begin with ``name``. A ``narrow`` one fits a phone:
    the names of lines stand below.
    """
    number = partial(percents.exact, unit=unit)
    lines = [(f"level {number(level)}", level, "level")] if level is not None else []
    lines += [(entry.name, entry.value, entry.kind) for entry in losses]
    top = _nice(max([r.estimate.high for r in rounds] + [value for _, value, _ in lines] + [0.01]))
    numbers = [r.number for r in rounds]
    first, last = min(numbers, default=1), max(numbers, default=1)
    width, left, right = (_NARROW, 48, 8) if narrow else (_WIDTH, _LEFT, _RIGHT)
    plot = width - left - right
    step = plot / max(1, last - first + 1)

    def x(number: int) -> float:
        return left + step * (number - first + 0.5)

    def y(value: float) -> float:
        return _TOP + _PLOT * (1 - value / top)

    halts = f"; the run halts once it is shown to be below {number(level)}" if level is not None else ""
    description = f"{measure}, for each of {len(rounds)} rounds, with intervals{halts}"
    end, below = width - right, _TOP + _PLOT + 48
    parts = [_text(0 if narrow else 8, 14, _truncated(measure, narrow), "start"), *_grid(top, y, number, left, end)]
    parts.append(_text(left + plot / 2, _TOP + _PLOT + 40, "round", "middle"))
    ticks = range(first, last + 1, max(1, math.ceil((last - first + 1) / (6 if narrow else 12))))
    parts += [_text(x(n), _TOP + _PLOT + 20, str(n), "middle") for n in ticks]
    places = _label_positions([y(value) for _, value, _ in lines])
    for row, ((label, value, kind), place) in enumerate(zip(lines, places, strict=True)):
        words = label if kind == "level" else f"{label}, {number(value)}"
        if narrow:
            parts.append(_line(kind, f"M{left} {y(value):.1f}H{end}M{left} {below + _ROW * row + 12}h24"))
            parts.append(_text(left + 32, below + _ROW * row + 16, words, "start", short=True))
        else:
            parts.append(_line(kind, f"M{left} {y(value):.1f}H{end}L{end + 10} {place:.1f}"))
            parts.append(_text(end + 14, place + 4, words, "start", short=True))
    parts += _band(rounds, x, y) if len(rounds) > MAX_BARS else _bars(rounds, x, y)
    parts += [
        f'<circle class="chosen" cx="{x(r.number):.1f}" cy="{y(r.estimate.value):.1f}" r="9" fill="none" '
        f'stroke="{BLUE}" stroke-width="2"/>'
        for r in rounds
        if r.chosen
    ]
    height = below + (_ROW * len(lines) + 8 if narrow else 0)
    return _svg(name, measure, description, (width, height), parts)


def compared(
    entries: Sequence[ChartEntry],
    level: float | None,
    measure: str,
    *,
    name: str = "compared",
    unit: Unit = PER_CENT,
    narrow: bool = False,
) -> str:
    """Draw a row for each entry: its interval, or its value; names stand left, numbers right.

    In a ``narrow`` chart, for a phone, both stand above.
    """
    row, left, right, width = (52, 16, 16, _NARROW) if narrow else (30, 196, _RIGHT, _WIDTH)
    height, number = row * len(entries), partial(percents.exact, unit=unit)
    ends = [entry.estimate.high if entry.estimate else entry.value for entry in entries]
    top = _nice(max([*ends, level or 0.0, 0.01]))
    plot = width - left - right

    def x(value: float) -> float:
        return left + plot * value / top

    parts = []
    for tick in _steps(top):
        parts.append(f'<path class="grid" d="M{x(tick):.1f} {_TOP}V{_TOP + height}" stroke="#ddd"/>')
        parts.append(_text(x(tick), _TOP + height + 18, number(tick), "middle"))
    if level is not None:
        parts.append(
            f'<path class="line level" d="M{x(level):.1f} {_TOP}V{_TOP + height}" stroke="{GREEN}" '
            'stroke-dasharray="6 4" stroke-width="1.5"/>'
        )
        parts.append(_text(x(level), 26, f"level {number(level)}", "middle"))
    for place, entry in enumerate(entries):
        y = _TOP + row * (place + (0.75 if narrow else 0.5))
        parts.append(_text(*((0, y - 14) if narrow else (left - 12, y + 4)), entry.name, _ENDS[narrow], short=True))
        if entry.estimate is not None:
            parts += [
                f'<path class="whisker" d="M{x(entry.estimate.low):.1f} {y:.1f}H{x(entry.estimate.high):.1f}" '
                f'stroke="{BLUE}" stroke-width="2"/>',
                f'<circle class="dot estimate" cx="{x(entry.value):.1f}" cy="{y:.1f}" r="5" fill="{BLUE}"/>',
            ]
        else:
            colour = VERMILION if entry.kind == "truth" else GREY
            parts.append(
                f'<rect class="dot {entry.kind}" x="{x(entry.value) - 5:.1f}" y="{y - 5:.1f}" width="10" height="10" '
                f'fill="{colour}"/>'
            )
        aside = (width, y - 14) if narrow else (width - right + 14, y + 4)
        parts.append(_text(*aside, _numbers(entry, unit), _ENDS[not narrow]))
    parts.append(_text(left + plot / 2, _TOP + height + 38, _truncated(measure, narrow), "middle"))
    description = f"{measure}: " + "; ".join(f"{entry.name} {_numbers(entry, unit)}" for entry in entries[:20])
    return _svg(name, measure, description, (width, _TOP + height + 46), parts)


def weights(terms: Sequence[tuple[str, float]], measure: str, *, name: str = "weights", narrow: bool = False) -> str:
    """Draw a bar for each weight, to the right of a common axis if it is positive and to its left if negative."""
    row, left, right, width = (44, 44, 44, _NARROW) if narrow else (28, 230, 90, _WIDTH)
    height, most = row * len(terms), max([abs(value) for _, value in terms] + [1e-300])
    low = min([value for _, value in terms] + [0.0]) / most
    high = max([value for _, value in terms] + [0.0]) / most
    scale = (width - left - right) / max(high - low, 1e-9)
    zero = left - low * scale
    parts = [_text(8, 14, _truncated(measure, narrow), "start")]
    parts.append(f'<path class="grid" d="M{zero:.1f} {_TOP}V{_TOP + height}" stroke="#ddd"/>')
    for place, (label, value) in enumerate(terms):
        y, length = _TOP + row * (place + (0.72 if narrow else 0.5)), scale * abs(value) / most
        begins = zero if value >= 0 else zero - length
        kind, colour = ("estimate", BLUE) if value >= 0 else ("truth", VERMILION)
        parts.append(
            f'<rect class="dot {kind}" x="{begins:.1f}" y="{y - 7:.1f}" width="{max(length, 1.0):.1f}" height="14" '
            f'fill="{colour}"/>'
        )
        parts.append(_text(*((0, y - 13) if narrow else (left - 50, y + 4)), label, _ENDS[narrow], short=True))
        end, side = (begins + length + 6, "start") if value >= 0 else (begins - 6, "end")
        parts.append(_text(end, y + 4, f"{value:+.3g}", side))
    description = f"{measure}: " + "; ".join(f"{label} {value:+.3g}" for label, value in terms[:20])
    return _svg(name, measure, description, (width, _TOP + height + 8), parts)


_STYLE = {
    "level": (GREEN, ' stroke-dasharray="6 4"'),
    "truth": (VERMILION, ""),
    "baseline": (GREY, ' stroke-dasharray="2 3"'),
    "estimate": (BLUE, ""),
}


def _numbers(entry: ChartEntry, unit: Unit) -> str:
    interval = entry.estimate
    return percents.exact(entry.value, unit) if interval is None else percents.ends(interval.low, interval.high, unit)


def _bars(rounds: Sequence[Round], across: Scale[int], down: Scale[float]) -> Iterator[str]:
    for r in rounds:
        x, low, high = across(r.number), down(r.estimate.low), down(r.estimate.high)
        way = f"M{x:.1f} {high:.1f}V{low:.1f}M{x - 4:.1f} {high:.1f}h8M{x - 4:.1f} {low:.1f}h8"
        yield f'<path class="whisker" d="{way}" stroke="{BLUE}" stroke-width="2" fill="none"/>'
        yield f'<circle class="dot estimate" cx="{x:.1f}" cy="{down(r.estimate.value):.1f}" r="4.5" fill="{BLUE}"/>'


def thinned(rounds: Sequence[Round]) -> list[tuple[int, Interval]]:
    """Return at most :data:`MAX_POINTS` points of a band, each at the last of several rounds.

    A point's interval contains those of all of its rounds; the first and the last round are points of their own.
    """
    if len(rounds) <= MAX_POINTS:
        return [(r.number, r.estimate) for r in rounds]
    first, *inner, last = rounds
    size = math.ceil(len(inner) / (MAX_POINTS - 2))
    points = []
    for group in ([first], *(inner[k : k + size] for k in range(0, len(inner), size)), [last]):
        low, high = min(r.estimate.low for r in group), max(r.estimate.high for r in group)
        points.append((group[-1].number, Interval(group[-1].estimate.value, low, high)))
    return points


def _band(rounds: Sequence[Round], across: Scale[int], down: Scale[float]) -> Iterator[str]:
    points = thinned(rounds)
    high = " ".join(f"{across(number):.1f},{down(interval.high):.1f}" for number, interval in points)
    low = " ".join(f"{across(number):.1f},{down(interval.low):.1f}" for number, interval in reversed(points))
    middle = " ".join(f"{across(number):.1f},{down(interval.value):.1f}" for number, interval in points)
    yield f'<polygon class="band" points="{high} {low}" fill="{BLUE}" fill-opacity="0.25"/>'
    yield f'<polyline class="middle" points="{middle}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>'


def _grid(top: float, y: Scale[float], number: Callable[[float], str], left: float, end: float) -> Iterator[str]:
    for tick in _steps(top):
        height = y(tick)
        yield f'<path class="grid" d="M{left} {height:.1f}H{end}" stroke="#ddd"/>'
        yield _text(left - 8, height + 4, number(tick), "end")


def _line(kind: str, way: str) -> str:
    colour, dash = _STYLE[kind]
    return f'<path class="line {kind}" d="{way}" stroke="{colour}"{dash} fill="none" stroke-width="1.5"/>'


def _nice(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(float(f"{m * power:.12g}") for m in (1, 2, 4, 5, 6, 8, 10, 20) if m * power >= value)


def _steps(top: float) -> list[float]:
    parts = 5 if float(f"{top:.0e}"[0]) in (1.0, 5.0) else 4
    return [float(f"{top * k / parts:.12g}") for k in range(parts + 1)]


def _label_positions(places: Sequence[float]) -> list[float]:
    """Return positions for labels so that none overlap, each near its own line, none below the end of the plot."""
    order = sorted(range(len(places)), key=lambda k: places[k])
    positions = list(places)
    for before, k in pairwise(order):
        positions[k] = max(positions[k], positions[before] + _LINE)
    limit = float(_TOP + _PLOT)
    for k in reversed(order):
        positions[k] = min(positions[k], limit)
        limit = positions[k] - _LINE
    return positions


def _text(x: float, y: float, words: str, anchor: str, *, short: bool = False) -> str:
    text = plain(words)
    cut = text if not short or len(text) <= 24 else text[:23] + "\u2026"
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html(cut)}</text>'


def _truncated(words: str, narrow: bool) -> str:
    most = 54 if narrow else 200  # most characters in a line of a drawing
    return words if len(words) <= most else words[: most - 1] + "\u2026"


def _svg(name: str, title: str, description: str, size: tuple[float, float], parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" viewBox="0 0 {size[0]} {size[1]:.0f}" '
        f'aria-labelledby="{name}-title {name}-desc" font-family="system-ui, sans-serif" font-size="13">'
        f'<title id="{name}-title">{html(title)}</title>'
        f'<desc id="{name}-desc">{html(description)}</desc>' + "".join(parts) + "</svg>"
    )
