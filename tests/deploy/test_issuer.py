"""An issuer, a referee that enrols nobody without its word, a person and a host, over real HTTP, by their commands."""

import json
import threading
from contextlib import closing

import pytest
from typer.testing import CliRunner

from deploy.remote import Remote
from issuer.cli import app as issuer_command
from issuer.issuer import Issuer, issuer_app
from local_agent.cli import app as agent_command
from local_agent.client import RefereeClient
from local_agent.host import Host
from local_agent.hosted.population import open_population
from local_agent.person.credential import keep_grant
from referee.cli import app as referee_command
from referee.service.app import referee_app
from referee.service.referee import Referee
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, leave_folder, served, tiny

FEW = ("protocol=learn-and-test", "agents.count=600", "agents.batch=600", "curator.rounds=1", "agents.deadline=600")


def does(command, *arguments: object, status: int = 0) -> str:
    done = CliRunner().invoke(command, [str(a) for a in arguments], env={"TANDEM_ENROLMENT_TOKEN": TOKEN})
    assert done.exit_code == status, done.output
    return done.output


@pytest.mark.slow
def test_an_individual_and_a_host_enrol_by_an_issuers_word_and_the_audit_says_whose(tmp_path):
    chosen, invited = tiny(*FEW), tmp_path / "issuer"
    me, state, people = tmp_path / "me.json", tmp_path / "me", tmp_path / "people"
    me.write_text(json.dumps({"features": [0.1] * 8, "label": 1}))
    (code,) = does(issuer_command, "invite", "--state", invited).split()
    host_key = does(agent_command, "key", "--state", people).strip()
    grant = tmp_path / "grant.json"
    grant.write_text(
        does(issuer_command, "grant", host_key, "--name", "City Hospital", "--people", 1000, "--state", invited)
    )
    with Bench(tmp_path / "bench", chosen) as bench, closing(Issuer(invited)) as issuer:
        referee = Referee(tmp_path / "referee", bench.curator, issuers=[issuer.public])
        referee.allow("enrolment", TOKEN)
        referee.allow("operator", TOKEN)
        runner = Runner(referee)
        runner.start()
        key = referee.identity.public
        with served(referee_app(referee, runner)) as address, served(issuer_app(issuer, invited)) as issuing:
            answering = ["answer", me, "--epsilon", 2, "--referee", address, "--max-delay", 0.05, "--yes"]
            answering += ["--state", state]
            assert "an issuer must vouch for each participant" in does(agent_command, *answering, status=1)
            obtaining = ["credential", "--issuer", issuing, "--issuer-key", invited / "issuer.json", "--state", state]
            said = does(agent_command, *obtaining, "--code", code.lower())
            assert f"has a credential of issuer {issuer.public.fingerprint()[:16]}..." in said
            does(agent_command, *obtaining, "--code", code, status=1)  # it has one
            again = [*obtaining[:-1], tmp_path / "somebody", "--code", code]
            assert "was used for another request" in does(agent_command, *again, status=1)
            population = open_population(chosen, people, 1, key, 599)
            keep_grant(people, population.identity, grant, 599)
            with (
                closing(RefereeClient(address, patience=600)) as client,
                closing(Host(population, client, key)) as host,
            ):
                host.enrol(TOKEN)
                said_by_me: list[str] = []
                command = threading.Thread(target=lambda: said_by_me.append(does(agent_command, *answering)))
                command.start()

                def work() -> None:
                    while not host.step():
                        pass

                asked = threading.Thread(target=work)
                asked.start()
                with closing(Remote(address, TOKEN, patience=600)) as remote:
                    finished = remote.run(chosen, 1, "run", lambda text, numbers: None)
                for thread in (asked, command):
                    thread.join()
        runner.stop()
        referee.close()
    assert "local-agent has answered" in said_by_me[0]
    run = leave_folder(tmp_path / "run", chosen, 1, finished)
    name = issuer.public.fingerprint()[:16]
    told = does(referee_command, "audit", run, "--issuer", invited / "issuer.json")
    assert f"issuer {name}... vouches for 1 individual and 599 people of City Hospital (at most 1,000)\n" in told
    assert "no issuer vouches" not in told
    assert "which may be anybody" in does(referee_command, "audit", run)
    assert does(issuer_command, "show", "--state", invited).endswith("1 invitation codes, 1 credentials issued\n")
