"""Numbers in an address that no list has: an answer or a refusal, and no fault of the service."""

from __future__ import annotations

import httpx
import pytest

from common.crypto.identity import Identity
from common.log.receipts import Checkpoint
from referee.service.app import referee_app
from referee.service.runner import Runner
from referee.service.witness import witness_app
from tests.support import TOKEN, Bench, seal, served
from tests.tiers import for_each

NUMBERS = [0, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@for_each("after", NUMBERS)
def test_a_witness_is_asked_from_a_place_that_no_list_has(after, tmp_path):
    referee = Identity.create()
    said = Checkpoint(run="run", configuration="0" * 64, entries=1, hash="0" * 64, root="0" * 64, time=1)
    with (
        served(witness_app(tmp_path, TOKEN)) as address,
        httpx.Client(base_url=address, trust_env=False, timeout=60) as client,
    ):
        place, raw = f"/v1/runs/{referee.public}/run", seal(referee, said).raw()
        assert client.put(place, content=raw, headers=HEADERS).status_code == 200
        answer = client.get(place, params={"after": after})
    assert answer.status_code in (200, 422)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with Bench(tmp_path_factory.mktemp("bench")) as bench:
        bench.referee.allow("operator", TOKEN)
        bench.run()
        with (
            served(referee_app(bench.referee, Runner(bench.referee))) as address,
            httpx.Client(base_url=address, headers=HEADERS, trust_env=False, timeout=60) as found,
        ):
            yield found


@for_each("after", NUMBERS)
@for_each("path", ["", "/checkpoints", "/transcript"])
def test_a_referee_is_asked_from_a_place_that_no_list_has(path, after, client):
    answer = client.get(f"/v1/runs/run{path}", params={"after": after})
    assert answer.status_code in (200, 422)


@for_each("most", NUMBERS)
def test_a_referee_is_asked_for_more_than_a_list_has(most, client):
    answer = client.get("/v1/runs/run/transcript", params={"after": 1, "most": most})
    assert answer.status_code in (200, 422)
