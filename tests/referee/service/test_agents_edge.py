"""What agents send is answered alike by the edge and by the app behind it."""

from __future__ import annotations

import httpx
import pytest

from common.core.errors import NotFound
from common.crypto.identity import Identity
from common.net import messages
from referee.collection import roster
from referee.service import agents_edge
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, seal, served
from tests.tiers import for_each

pytestmark = pytest.mark.usefixtures("each_store")


@for_each("short", [True, False])
def test_the_edge_and_the_app_answer_alike(tmp_path, short):
    somebody = Identity.create()
    enrolment = seal(somebody, messages.Enrolment(agents=1)).model_dump_json()
    stranger = Identity.create()
    poll = seal(stranger, messages.Poll(participant=stranger.public)).model_dump_json()
    with Bench(tmp_path) as bench:
        app = referee_app(bench.referee, Runner(bench.referee))
        if not short:
            app.edge.short.clear()
        with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
            told = client.post("/v1/enrolments", content=enrolment, headers={"Authorization": f"Bearer {TOKEN}"})
            assert told.status_code == 200
            assert told.json()["message"]["participant"] == somebody.public
            assert client.post("/v1/enrolments", content=enrolment).status_code == 401
            refused = client.post("/v1/polls", content=poll)
            assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (404, NotFound.problem)
            misplaced = client.put("/v1/reports/" + "0" * 32, content=poll)
            assert (misplaced.status_code, misplaced.headers["content-type"]) == (422, "application/problem+json")


def test_of_very_many_only_hosts_are_held(tmp_path, monkeypatch):
    monkeypatch.setattr(roster, "HELD", 3)
    monkeypatch.setattr(agents_edge, "HOLD", 0.05)
    individuals, host = [Identity.create() for _ in range(4)], Identity.create()
    with Bench(tmp_path) as bench:
        app = referee_app(bench.referee, Runner(bench.referee))
        with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=60) as client:

            def pause(who: Identity) -> float:
                poll = seal(who, messages.Poll(participant=who.public)).raw()
                told = client.post("/v1/polls", content=poll)
                assert told.status_code == 204
                return float(told.headers["retry-after"])

            for who, agents in ((individuals[0], 1), (host, 2)):
                bench.referee.enrol(seal(who, messages.Enrolment(agents=agents)), TOKEN)
            assert pause(individuals[0]) == pause(host) == 0.0  # three participants, with the bench's own host
            for who in individuals[1:]:
                bench.referee.enrol(seal(who, messages.Enrolment(agents=1)), TOKEN)
            monkeypatch.setattr(roster, "POLLS", 0.1)
            assert pause(host) == 0.0
            assert all(30.0 <= pause(who) <= 60.0 for who in individuals)


def test_pauses_share_what_a_referee_takes():
    assert roster.usual_pause(100_000) == pytest.approx(150.0)
    assert roster.usual_pause(10**9) == 0.75 * roster.LONGEST
