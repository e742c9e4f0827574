"""Every service against its own description: whatever is sent, no fault of the service, and no undeclared answer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
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

from common.net.oblivious.encapsulation import REQUEST_TYPE
from common.net.oblivious.relay import relay_app
from curator.app import curator_app
from curator.contributions.collection import Collection, collecting, collecting_app
from issuer.issuer import REQUEST as TOKEN_REQUEST
from issuer.issuer import issuer_app
from tests.curator.contributions.given import scenario as contributed
from tests.support import TOKEN, Bench
from tests.tiers import for_each
from tests.vouched import an_issuer

for binary in (REQUEST_TYPE, TOKEN_REQUEST):
    schemathesis.serializer.alias(binary, "application/octet-stream")
CHECKS = [checks.not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
BOUNDED = settings(
    derandomize=True, database=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("openapi")
    with Bench(folder) as parties:
        parties.run()
        with an_issuer(folder / "issuer") as issuer:
            setattr(parties, "issuer", issuer)  # noqa: B010 - for this page alone
            yield parties


SERVICES = ("curator", "referee", "issuer", "relay")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    folder: Path = tmp_path_factory.mktemp("collecting")
    with collecting(folder / "curator", contributed(folder), token=TOKEN) as found:
        yield found


@for_each("examples", [2, pytest.param(25, marks=pytest.mark.thorough)])
def test_whatever_is_sent_to_who_collects_it_answers_as_described(collection, examples):
    check(collecting_app(collection), examples)
    assert collection.counts() == (0, 0)


@pytest.fixture(scope="module")
def apps(bench: Bench) -> dict[str, FastAPI]:
    referee = bench.app()
    relay = relay_app("http://referee.invalid", carrier=httpx.ASGITransport(referee))
    issuer = issuer_app(bench.issuer, bench.folder)  # type: ignore[attr-defined]
    return {"curator": curator_app(bench.curator), "referee": referee, "issuer": issuer, "relay": relay}


@for_each("party", SERVICES)
def test_every_error_is_described_as_a_problem_document(apps, party):
    described = apps[party].openapi()
    assert set(described["components"]["schemas"]["Problem"]["required"]) == {"type", "title", "status", "detail"}
    answers = [
        answer["content"]
        for path in described["paths"].values()
        for operation in path.values()
        for status, answer in operation["responses"].items()
        if int(status) >= 400
    ]
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert len(answers) > 20
    assert all(answer == problem for answer in answers)


@for_each("examples", [2, pytest.param(25, marks=pytest.mark.thorough)])
@for_each("party", SERVICES)
def test_whatever_is_sent_it_answers_as_described(apps, party, examples):
    check(apps[party], examples)


def check(app: FastAPI, examples: int) -> None:
    """Send so many examples of what an app says that each of its operations takes."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    seen: list[int] = []

    def send(case: schemathesis.Case[Any]) -> None:
        response = case.call(headers={"Authorization": f"Bearer {TOKEN}"})
        case.validate_response(response, checks=CHECKS)
        seen.append(response.status_code)

    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            seen.clear()
            settings(BOUNDED, max_examples=examples)(given(case=schema[path][method].as_strategy())(send))()
            assert seen, (method, path)
            assert all(status < 500 for status in seen), (method, path)
