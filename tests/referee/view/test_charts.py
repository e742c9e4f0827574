"""Drawings: text is text, labels do not lie on each other or on data, and hostile names are text."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from referee.view.charts import MAX_BARS, MAX_POINTS, by_round, compared, thinned
from referee.view.values import Entry, Interval, Round
from tests.tiers import for_each

EVIL = "</text><script>alert(1)</script>\x1b\x00\u202e&\"'"
SVG = "{http://www.w3.org/2000/svg}"


def rounds(count: int) -> list[Round]:
    return [Round(n, Interval(0.2, 0.1, 0.3), 10, "", chosen=n == count) for n in range(1, count + 1)]


def baselines(*values: float) -> list[Entry]:
    return [Entry(f"way {k}", value, "baseline") for k, value in enumerate(values)]


@for_each("count", [0, 1, 3, MAX_BARS + 1, 1000])
def test_a_drawing_is_xml_with_a_title_a_description_and_its_axes_named(count):
    drawn = ElementTree.fromstring(by_round(rounds(count), 0.16, baselines(0.1), "loss on T"))
    texts = ["".join(text.itertext()) for text in drawn.iter(f"{SVG}text")]
    assert drawn.attrib["role"] == "img"
    assert drawn.attrib["aria-labelledby"] == "loss-title loss-desc"
    assert {child.attrib.get("id") for child in drawn} >= {"loss-title", "loss-desc"}
    assert {"round", "loss on T", "level 0.16"} <= set(texts)
    assert len(texts) < 60  # ticks do not grow with the rounds


def test_labels_stand_apart_right_of_the_data_within_the_drawing():
    drawn = ElementTree.fromstring(by_round(rounds(3), 0.1001, baselines(0.1, 0.1, 0.1002, 0.0, 0.001, 0.6), "loss"))
    labels = [t for t in drawn.iter(f"{SVG}text") if "way" in (t.text or "") or "level" in (t.text or "")]
    places = sorted(float(label.attrib["y"]) for label in labels)
    assert len(places) == 7
    assert min(b - a for a, b in pairwise(places)) >= 15.9
    assert all(float(label.attrib["x"]) > 720 - 176 for label in labels)
    dots = [float(dot.attrib["cx"]) for dot in drawn.iter(f"{SVG}circle")]
    assert max(dots) < 720 - 176
    height = float(drawn.attrib["viewBox"].split()[3])
    assert places[0] > 0
    assert places[-1] < height


def test_an_interval_is_drawn_where_its_numbers_are():
    drawn = by_round([Round(1, Interval(0.25, 0.0, 0.5), 1, "")], None, [], "loss")
    high, low = re.search(r'class="whisker" d="M[\d.]+ ([\d.]+)V([\d.]+)M', drawn).groups()
    middle = re.search(r'class="dot estimate" cx="[\d.]+" cy="([\d.]+)"', drawn).group(1)
    assert float(middle) == pytest.approx((float(low) + float(high)) / 2, abs=0.1)
    assert (float(high), float(low)) == (36.0, 276.0)  # the whole of the axis from 0 to 0.5


@for_each("count", [MAX_POINTS, MAX_POINTS + 1, 1000, 10_007])
def test_many_rounds_share_points_that_hold_their_intervals(count):
    many = [Round(n, Interval(0.5, 0.5 - 1 / n, 0.5 + (n % 7) / 20), 10, "") for n in range(1, count + 1)]
    points = thinned(many)
    assert len(points) <= MAX_POINTS
    assert (points[0], points[-1]) == ((1, many[0].estimate), (count, many[-1].estimate))
    before = 0
    for number, found in points:
        own = many[before:number]
        assert found.low == min(r.estimate.low for r in own)
        assert found.high == max(r.estimate.high for r in own)
        before = number
    assert len(by_round(many, 0.16, [], "loss")) < 20_000


def test_hostile_names_are_text():
    entries = [Entry(EVIL, 0.1, "baseline"), Entry(EVIL, 0.2, "estimate", Interval(0.2, 0.1, 0.3))]
    for drawn in (by_round(rounds(2), 0.1, entries, EVIL), compared(entries, 0.1, EVIL)):
        ElementTree.fromstring(drawn)
        assert "<script" not in drawn
        assert "\x1b" not in drawn
        assert "\x00" not in drawn
        assert "\u202e" not in drawn


def test_a_comparison_has_a_line_for_each():
    entries = [Entry(f"run {k}", k / 10, "estimate", Interval(k / 10, 0, k / 5)) for k in range(4)]
    drawn = ElementTree.fromstring(compared(entries, None, "loss"))
    texts = ["".join(text.itertext()) for text in drawn.iter(f"{SVG}text")]
    assert [t for t in texts if t.startswith("run")] == ["run 0", "run 1", "run 2", "run 3"]
    assert "0.0000 to 0.6000" in texts
