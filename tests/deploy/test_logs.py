"""Structured logs of a whole run: each line is JSON and names the run, and none holds anything private."""

from __future__ import annotations

import base64
import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from common.core.plain import JsonFormatter
from common.data.population import open_records
from common.numerics.randomness import subseed
from deploy import embedded
from tests.support import tiny


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """Gather what every logger says at every level, as ``TANDEM_LOG_FORMAT=json`` writes it."""
    text, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonFormatter())
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield text
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


def forms(raw: bytes) -> set[str]:
    return {raw.hex(), base64.b64encode(raw).decode().rstrip("="), base64.urlsafe_b64encode(raw).decode().rstrip("=")}


def private(state: Path, chosen) -> set[str]:
    """Return what no line may hold: keys, tokens, every feature of the sample in each of its spellings, raw answers."""
    found = {embedded._TOKEN}
    for key in state.rglob("*.key"):
        found |= forms(key.read_bytes())
    for side, spec, count in (("curator", chosen.source, chosen.curator.n), ("agents", chosen.target, 200)):
        name = "source" if side == "curator" else "target"
        people = open_records(spec, None, subseed(1, name), count, None)
        features = people.records(np.arange(count), None).features.ravel()
        spelled = {f"{value:.{digits}g}" for value in features for digits in (5, 6, 8)} | {
            repr(float(v)) for v in features
        }
        found |= {word for word in spelled if len(word) >= 7}
    for report in state.rglob("*.report"):
        body = report.read_bytes().partition(b"\n")[2]
        found |= forms(body) if len(body) >= 8 else set()
    return found


def leaks(line: str, secrets: set[str]) -> set[str]:
    """Return which secrets a line holds; a list of three numbers or more counts as records."""
    found = {word for word in secrets if word in line}
    return found | set(re.findall(r"\[[-\d.e]+(?:[, ]+[-\d.e]+){2,}", line))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[list[str], set[str]]:
    state, chosen = tmp_path_factory.mktemp("state"), tiny()
    with logged() as text:
        embedded.Embedded(state).run(chosen, 1, "run-7", lambda text, numbers: None)
    return text.getvalue().splitlines(), private(state, chosen)


@pytest.mark.slow
def test_every_line_of_a_run_is_json_and_names_it(run):
    lines = [json.loads(line) for line in run[0]]
    ours = [line for line in lines if line["logger"].startswith("tandem")]
    assert {line["logger"] for line in ours} == {"tandem.referee", "tandem.curator", "tandem.agent"}
    assert all(line["run"] == "run-7" for line in ours)
    said = [line["message"] for line in ours]
    assert said[0] == "the run begins, or goes on"
    assert said[-1] == "the run has ended: exhausted"
    assert "the run has the budget" in said
    assert sum("is charged as" in message for message in said) == sum("is released" in message for message in said) > 2


def test_no_line_holds_anything_private(run):
    lines, secrets = run
    assert len(secrets) > 10_000
    assert [found for line in lines if (found := leaks(line, secrets))] == []


@pytest.mark.slow
def test_a_leak_would_be_found(run):
    """The test above can fail: a line with one feature, one key or one row is caught."""
    _, secrets = run
    for word in sorted(secrets)[:: len(secrets) // 50]:
        assert leaks(f'{{"message": "bad record {word}"}}', secrets)
    assert leaks('{"message": "row [0.25, -1.0, 3]"}', set())
