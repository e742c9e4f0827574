"""Dashboard and alerts ask for what services show, each alert has its remedy in the docs, and nothing is private."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from curator.app import curator_app
from local_agent.metrics import exposed
from tests.curator.given import LEARN, request
from tests.support import TOKEN, Bench, fetch, served

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
ENDS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
WATCHING = "a-token-for-metrics"
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds."""


Samples = dict[str, list[tuple[dict[str, str], float]]]


def read(text: str) -> Samples:
    """Read Prometheus' text format: the labels and values of each name, also of those that have none."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        names: Samples = {f"{family.name}{end}": [] for end in ENDS[family.type]}
        assert not names.keys() & found.keys(), f"{family.name} stands there twice"
        found |= names
        for sample in family.samples:
            found[sample.name].append((sample.labels, sample.value))
    return found


def asked(address: str, token: str) -> httpx.Response:
    return fetch("GET", f"{address}/v1/metrics", headers={"Authorization": f"Bearer {token}"})


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> dict[str, str]:
    """What each party shows in the middle of a run, and behind it."""
    found: dict[str, str] = {}
    with Bench(tmp_path_factory.mktemp("parties")) as bench:
        bench.referee.registrar.allow("metrics", WATCHING)
        with (
            served(bench.app()) as referee,
            served(curator_app(bench.curator, WATCHING)) as curator,
            exposed(bench.host, 2.0, 0) as host,
        ):
            bench.meanwhile(lambda: found.update(referee=asked(referee, WATCHING).text))
            bench.run()
            fetch("GET", f"{curator}/v1/nothing")
            found["ended"] = asked(referee, WATCHING).text
            found["curator"] = asked(curator, WATCHING).text
            found["host"] = fetch("GET", f"http://127.0.0.1:{host}/metrics").text
    return found


@pytest.fixture(scope="module")
def shown(texts) -> dict[str, set[str]]:
    """The labels of each metric's name."""
    labels: dict[str, set[str]] = defaultdict(set)
    for text in texts.values():
        for name, samples in read(text).items():
            labels[name].update(*(sample.keys() for sample, _ in samples))
    return labels


def expressions() -> list[tuple[str, str]]:
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    asking = [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]
    return [(rule["alert"], rule["expr"]) for rule in rules] + asking


def test_what_is_asked_for_is_shown(shown):
    dynamic = {"reason", "problem", "operation", "outcome", "kind", "le"}  # nothing was refused here, say
    for where, expression in expressions():
        names = set(re.findall(r"\b(?:tandem_[a-z_]+|up)\b", expression))
        assert names, where
        assert names - {"up"} <= shown.keys(), where
        mentioned = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\"", expression))
        for group in re.findall(r"\bby \(([^)]*)\)", expression):
            mentioned |= {name.strip() for name in group.split(",")}
        assert mentioned - OF_PROMETHEUS - dynamic <= set().union(*(shown.get(name, set()) for name in names)), where
        assert expression.count("(") == expression.count(")"), where


def test_every_metric_that_is_shown_is_on_the_dashboard_or_in_the_docs(shown):
    said = "\n".join(expression for _, expression in expressions()) + (ROOT / "docs" / "operations.md").read_text()
    bare = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown if not name.startswith("tandem_enrolment_")}
    assert {name for name in bare if name not in said} == set()


def test_every_alert_has_a_summary_and_a_remedy():
    page = (ROOT / "docs" / "operations.md").read_text()
    document = yaml.safe_load((FOLDER / "alerts.yml").read_text())
    assert set(document) == {"groups"}
    rules: list[dict[str, Any]] = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 15
    for rule in rules:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule["for"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"] == f"docs/operations.md, {rule['alert']}"
        assert f"| `{rule['alert']}` |" in page


def test_a_run_is_seen(texts):
    meanwhile, ended = read(texts["referee"]), read(texts["ended"])
    states = {labels["state"]: value for labels, value in ended["tandem_runs"]}
    assert (states["exhausted"], states["failed"]) == (1, 0)
    agents = {labels["state"]: value for labels, value in meanwhile["tandem_run_agents"]}
    assert agents["asked"] > 0
    assert ended["tandem_run_agents"] == []  # by run only while it is under way: runs may be very many
    assert ended["tandem_lease_held"] == [({}, 1.0)]
    assert ended["tandem_reports_accepted_total"][0][1] == 3  # one host, three questions
    host = read(texts["host"])
    assert host["tandem_host_questions_answered_total"] == [({}, 3.0)]
    assert host["tandem_host_epsilon_spent_max"] == [({}, 2.0)]


def test_each_token_opens_its_own(tmp_path):
    with Bench(tmp_path) as bench:
        bench.referee.registrar.allow("metrics", WATCHING)
        with (
            served(bench.app()) as referee,
            served(curator_app(bench.curator, WATCHING)) as curator,
            served(curator_app(bench.curator)) as closed,
        ):
            assert [asked(referee, token).status_code for token in (TOKEN, WATCHING, "y", "x")] == [200, 200, 401, 401]
            assert [asked(curator, token).status_code for token in (TOKEN, WATCHING, "y", "x")] == [401, 200, 401, 401]
            assert [asked(closed, token).status_code for token in (TOKEN, WATCHING, "y", "x")] == 4 * [401]
            runs = {"Authorization": f"Bearer {WATCHING}"}
            assert fetch("GET", f"{referee}/v1/runs", headers=runs).status_code == 401


def test_a_curators_metrics_are_the_same_for_any_sample(tmp_path):
    """Two samples, the same requests: nothing differs but times and room on the disk."""

    def seen(seed: int) -> dict[str, Any]:
        with Bench(tmp_path / str(seed), seed=seed) as bench:
            bench.open()
            signed = request(bench, "0", LEARN)
            with served(curator_app(bench.curator, WATCHING)) as address:
                body = signed.model_dump_json()
                path = f"{address}/v1/runs/run/operations/0"
                for _ in range(2):
                    assert fetch("PUT", path, content=body).is_success
                found = read(asked(address, WATCHING).text)
        machine = {"tandem_disk_free_bytes", "tandem_database_bytes"}
        times = {name for name in found if name.startswith("tandem_curator_operation_seconds") and name[-5:] != "count"}
        assert found["tandem_curator_operations_total"] == [({"operation": "learn", "outcome": "released"}, 2.0)]
        assert 0 < found["tandem_curator_budget_share"][0][1] <= 1
        return {name: samples for name, samples in found.items() if name not in machine | times}

    assert seen(1) == seen(2)
