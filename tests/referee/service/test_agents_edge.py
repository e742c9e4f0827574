"""What agents send is answered alike by the edge and by the app behind it."""

from __future__ import annotations

import httpx
import pytest

from common.core.errors import NotFound
from common.wire import messages
from common.wire.identity import Identity
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, seal, served

pytestmark = pytest.mark.usefixtures("each_store")


@pytest.mark.parametrize("short", [True, False])
def test_the_edge_and_the_app_answer_alike(tmp_path, short):
    somebody = Identity.create()
    enrolment = seal(somebody, messages.Enrolment(agents=1)).model_dump_json()
    stranger = Identity.create()
    poll = seal(stranger, messages.Poll(participant=stranger.public)).model_dump_json()
    with Bench(tmp_path) as bench:
        app = referee_app(bench.referee, Runner(bench.referee))
        if not short:
            app.edge.short.clear()
        with served(app) as address, httpx.Client(base_url=address, trust_env=False) as client:
            told = client.post("/v1/enrolments", content=enrolment, headers={"Authorization": f"Bearer {TOKEN}"})
            assert told.status_code == 200
            assert told.json()["message"]["participant"] == somebody.public
            assert client.post("/v1/enrolments", content=enrolment).status_code == 401
            refused = client.post("/v1/polls", content=poll)
            assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (404, NotFound.problem)
            misplaced = client.put("/v1/reports/" + "0" * 32, content=poll)
            assert (misplaced.status_code, misplaced.headers["content-type"]) == (422, "application/problem+json")
