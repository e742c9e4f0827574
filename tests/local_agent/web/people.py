"""A scenario of people who answer in browsers, its page, and who serves that."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from local_agent.cli import app

KEY = "47bb4e3fff2a54f40609fab136fe9c4f17bffab53587642941e0dab34480173c"
TABLE = {
    "label": {"column": "sport", "positive": ["yes"], "negative": ["no"]},
    "features": [
        {"kind": "number", "column": "age", "low": 18, "high": 90},
        {"kind": "category", "column": "travels", "values": ["bicycle", ["car", "taxi"], "train"]},
    ],
}


def scenario_file(folder: Path, **agents: object) -> Path:
    """Write a scenario of one question to a few people, each with a record of their own."""
    tree = {
        "name": "people",
        "title": "How many go <by> bicycle",
        "protocol": "statistical-query",
        "people": "real",
        "alpha": 0.49,
        "problem": {"name": "statistical-query", "d": 4, "queries": [{"terms": [{"features": [1]}]}]},
        "source": {"table": {"files": ["members.csv"], **TABLE}},
        "target": {"table": {"files": ["people.csv"], **TABLE}},
        "curator": {"n": 10, "epsilon": 0.001, "delta": 0.0},
        "agents": {"count": 2, "deadline": 600, "mechanism": {"name": "warner", "epsilon": 1.0}, **agents},
        "data": str(folder),
    }
    path = folder / "scenario.yaml"
    path.write_text(json.dumps(tree))  # JSON is YAML, too
    return path


def page_of(folder: Path, referee: str, *more: str, key: str = KEY) -> tuple[int, str]:
    """Write the page of that scenario into a folder; return the command's status and output."""
    own = [str(scenario_file(folder)), "--output", str(folder / "page"), "--key", str(folder / "page.key")]
    found = CliRunner().invoke(app, ["page", *own, "--referee", referee, "--referee-key", key, *more])
    return found.exit_code, found.output
