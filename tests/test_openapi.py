"""Every service against its own description: whatever is sent, no fault of the service, and no undeclared answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from curator.service.app import curator_app
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.support import TOKEN, Bench

CHECKS = [
    checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
BOUNDED = settings(
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("openapi")
    with Bench(folder) as parties:
        parties.referee.allow("operator", TOKEN)
        parties.run()
        yield parties


def operations(app: FastAPI) -> list[str]:
    return sorted(f"{method.upper()} {path}" for path, item in app.openapi()["paths"].items() for method in item)


CURATOR = [
    "GET /v1/curator",
    "GET /v1/health",
    "PUT /v1/runs/{run}",
    "PUT /v1/runs/{run}/acknowledgement",
    "PUT /v1/runs/{run}/operations/{operation_id}",
]
REFEREE = [
    "GET /v1/health",
    "GET /v1/metrics",
    "GET /v1/referee",
    "GET /v1/runs/{run}",
    "GET /v1/runs/{run}/configuration",
    "GET /v1/runs/{run}/reports/{question}",
    "GET /v1/runs/{run}/transcript",
    "POST /v1/enrolments",
    "POST /v1/polls",
    "PUT /v1/packed-reports/{report_id}",
    "PUT /v1/reports/{report_id}",
    "PUT /v1/runs/{run}",
]


def app_of(party: str, bench: Bench) -> FastAPI:
    return curator_app(bench.curator) if party == "curator" else referee_app(bench.referee, Runner(bench.referee))


def test_nothing_is_left_out(bench):
    assert set(CURATOR) <= set(operations(app_of("curator", bench)))
    assert set(REFEREE) <= set(operations(app_of("referee", bench)))


@pytest.mark.parametrize("examples", [2, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("party", "operation"), [*(("curator", name) for name in CURATOR), *(("referee", name) for name in REFEREE)]
)
def test_whatever_is_sent_it_answers_as_described(bench, party, operation, examples):
    method, path = operation.split(" ")
    schema = schemathesis.openapi.from_asgi("/openapi.json", app_of(party, bench))
    seen: list[int] = []

    @settings(BOUNDED, max_examples=examples)
    @given(case=schema[path][method].as_strategy())
    def send(case: schemathesis.Case[Any]) -> None:
        response = case.call(headers={"Authorization": f"Bearer {TOKEN}"})
        case.validate_response(response, checks=CHECKS)
        seen.append(response.status_code)

    send()
    assert seen
    assert all(status < 500 for status in seen)
