"""What goes wrong between parties names the party, the address, the key or token, and what to do."""

import httpx
import pytest
from typer.testing import CliRunner

from common.core.errors import Forged, PeerMisbehaved, Unauthorized
from common.crypto.identity import Identity, verify
from common.net.client import Client
from local_agent.cli import app as agent_command
from local_agent.client import RefereeClient
from referee.cli import app as referee_command
from referee.service.app import referee_app
from referee.service.referee import CuratorClient
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, served, tiny
from tests.tiers import for_each

CHOSEN = ("agents.count=600", "agents.batch=600", "curator.rounds=1")
RUNNER = CliRunner()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with Bench(tmp_path_factory.mktemp("bench"), tiny(*CHOSEN)) as bench:
        bench.referee.allow("operator", TOKEN)
        with served(referee_app(bench.referee, Runner(bench.referee))) as found:
            yield found


@for_each(("kind", "party"), [(CuratorClient, "curator"), (RefereeClient, "referee"), (Client, "service")])
def test_another_service_at_the_address_is_called_so(kind, party):
    transport = httpx.MockTransport(lambda request: httpx.Response(404, json={"detail": "Not Found"}))
    client = kind("http://elsewhere:8001", transport=transport)
    with pytest.raises(PeerMisbehaved) as caught:
        client.request("PUT", "/v1/runs/run")
    for words in (
        "PUT http://elsewhere:8001/v1/runs/run",
        "404 (Not Found)",
        f"is not the {party}",
        "check the address",
    ):
        assert words in caught.value.detail
    client.close()


def test_a_wrong_operator_token_is_said_by_which_referee_and_which_token_to_take(address):
    done = RUNNER.invoke(referee_command, ["runs", "--url", address, "--token", "an-old-token"])
    assert done.exit_code == 1
    for words in (f"the referee at {address}", "valid operator token", "was replaced", "TANDEM_OPERATOR_TOKEN"):
        assert words in done.stderr
    assert "an-old-token" not in done.stderr


def test_a_wrong_enrolment_token_ends_an_agent_at_once(address, tmp_path):
    me = tmp_path / "me.json"
    me.write_text('{"features": [0.5, 0.5], "label": 1}')
    given = [
        "answer",
        str(me),
        "--yes",
        "--referee",
        address,
        "--token",
        "wrong-token",
        "--state",
        str(tmp_path / "me"),
    ]
    done = RUNNER.invoke(agent_command, given)
    assert done.exit_code == 1
    assert f"the referee at {address}" in done.stderr
    assert "TANDEM_ENROLMENT_TOKEN" in done.stderr


@pytest.mark.parametrize("command", [["answer", "ME", "--yes"], ["host", "ball"]])
def test_an_agent_that_has_pinned_another_key_ends_at_once_and_says_both(address, tmp_path, command):
    (tmp_path / "me.json").write_text('{"features": [0.5, 0.5], "label": 1}')
    command = [str(tmp_path / "me.json") if word == "ME" else word for word in command]
    other = Identity.create().public
    given = [*command, "--referee", address, "--token", TOKEN, "--state", str(tmp_path / "s"), "--referee-key", other]
    done = RUNNER.invoke(agent_command, given)
    assert done.exit_code == 1
    for words in (f"the referee at {address}", f"expected {other[:16]}...", "has pinned", "--state"):
        assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_key_that_signed_and_was_not_expected_says_whose_was():
    mine, other = Identity.create(), Identity.create()
    with pytest.raises(Forged, match=rf"this 'poll' is signed by {mine.public[:16]}.*the curator's key: do this"):
        verify(mine.sign("poll", {}), "poll", other.public, "the curator's key: do this")


def test_a_token_that_a_later_start_replaced_is_no_longer_taken(tmp_path):
    with Bench(tmp_path, tiny(*CHOSEN)) as bench:
        bench.referee.allow("operator", "first-token")
        bench.referee.allow("operator", "second-token")
        with pytest.raises(Unauthorized, match="was replaced"):
            bench.referee.registrar.authorize("operator", "first-token")


def test_a_run_at_a_url_where_nobody_is_or_another_service_is_ends_at_once(tmp_path):
    given = ["run", "ball", "--token", TOKEN, "--output", str(tmp_path / "run"), "--deployment"]
    done = RUNNER.invoke(referee_command, [*given, "http://127.0.0.1:9"])
    assert done.exit_code == 1
    assert "cannot connect to http://127.0.0.1:9" in done.stderr
    assert "is the referee running there?" in done.stderr


def test_a_run_with_a_wrong_token_ends_before_anything_is_created(address, tmp_path):
    given = ["run", "ball", "--token", "wrong", "--output", str(tmp_path / "run"), "--deployment", address]
    done = RUNNER.invoke(referee_command, given)
    assert done.exit_code == 1
    assert f"the referee at {address}" in done.stderr
    assert done.stderr.count("\n") == 1
