"""What is loaded, and what is not: help answers at once, and one person's agent stays small."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from common.numerics.kernels import interpreted, njit
from deploy.catalogue import KINDS, registered
from deploy.remote import Remote
from local_agent.host import Host
from local_agent.hosted.population import open_population
from referee.service.app import referee_app
from referee.service.referee import Referee
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, served, tiny
from tests.tiers import for_each

ROOT = Path(__file__).parents[2]
HEAVY = {"fastapi", "llvmlite", "matplotlib", "numba", "polars", "scipy", "sklearn", "sqlalchemy", "uvicorn"}
NOT_AN_AGENTS = {"planning", "problems", "tables"}
"""Packages of ours that have nothing to do with one person's answer, wherever they stand."""

HELP = """
import json, sys
from importlib import import_module
command = import_module(sys.argv[1]).app
from typer.testing import CliRunner
names = [found.name for found in command.registered_commands]
shown = [CliRunner().invoke(command, [*path, "--help"]).exit_code for path in ([], *([name] for name in names))]
print(json.dumps([shown, sorted(sys.modules)]))
"""

PLAN = """
import json, sys
from referee.cli import app
app(["plan", "ball"], standalone_mode=False)
print(json.dumps(sorted(sys.modules)))
"""

LIST = """
import json, sys
from referee.cli import app
app(["list", "--json"], standalone_mode=False)
print(json.dumps(sorted(sys.modules)))
"""

SERVICES = """
import json, sys
import curator.app, curator.startup, deploy.running, local_agent.hosted.population, referee.service.app
print(json.dumps(sorted(sys.modules)))
"""

ANSWER = """
import json, sys
from local_agent.cli import app
app(sys.argv[1:], standalone_mode=False)
print(json.dumps(sorted(sys.modules)))
"""

RELAYED = """
import json, sys
from local_agent.client import RelayedClient
RelayedClient("http://127.0.0.1:1", "0" * 64).close()
print(json.dumps(sorted(sys.modules)))
"""


def python(code: str, *arguments: str, **environment: str) -> str:
    """Run code in a process of its own, and return the last line that it says."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def tops(modules: list[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@for_each("module", ["curator.cli", "local_agent.cli", "referee.cli"])
def test_help_loads_nothing_heavy(module):
    shown, modules = json.loads(python(HELP, module))
    assert shown == [0] * len(shown)
    assert len(shown) > 1
    assert not tops(modules) & HEAVY


def test_a_list_loads_no_plug_in_and_nothing_heavy():
    modules = json.loads(python(LIST))
    assert not tops(modules) & HEAVY
    assert not [
        name for name in modules if name.rpartition(".")[0] in {package.__name__ for package, _ in KINDS.values()}
    ]


def test_a_plan_loads_no_service_and_neither_draws_people_nor_reads_tables():
    assert not tops(json.loads(python(PLAN))) & {"fastapi", "numba", "polars", "starlette", "uvicorn"}


def test_only_who_reads_a_table_waits_for_what_reads_tables():
    assert not tops(json.loads(python(SERVICES))) & {"polars"}


def test_the_names_that_files_declare_are_those_that_are_registered():
    from common.data.distributions.base import DISTRIBUTIONS
    from common.local.hypotheses.hypothesis import HYPOTHESES
    from common.local.mechanisms.mechanism import MECHANISMS
    from common.local.queries.query import QUERIES
    from common.operations.operation import OPERATIONS
    from common.protocols.base import PROBLEMS
    from curator.learners.base import LEARNERS
    from referee.protocols.base import PROTOCOLS

    registries = [PROTOCOLS, PROBLEMS, OPERATIONS, LEARNERS, MECHANISMS, QUERIES, HYPOTHESES, DISTRIBUTIONS]
    assert list(registered().values()) == [registry.names() for registry in registries]  # type: ignore[attr-defined]


def test_an_agent_answers_a_real_question_without_loading_more_than_it_needs(tmp_path):
    """From its first line to its last, over real HTTP, to the report that the referee takes."""
    chosen = tiny("agents.count=600", "agents.batch=600", "curator.rounds=1", "agents.deadline=600")
    (tmp_path / "me.json").write_text(json.dumps({"features": [0.1] * 8, "label": 1}))
    with Bench(tmp_path / "bench", chosen) as bench:  # for its curator alone: the referee below is the one that serves
        referee = Referee(tmp_path / "referee", bench.curator)
        referee.registrar.allow("enrolment", TOKEN)
        referee.registrar.allow("operator", TOKEN)
        runner = Runner(referee)
        runner.start()
        with served(referee_app(referee, runner)) as address:
            people = open_population(chosen, tmp_path / "people", 1, referee.identity.public, 599)
            host = Host(people, referee, referee.identity.public)
            host.enrol(TOKEN)
            said: list[str] = []
            arguments = ["answer", str(tmp_path / "me.json"), "--epsilon", "2", "--referee", address]
            arguments += ["--yes", "--max-delay", "0.05", "--state", str(tmp_path / "me")]
            agent = threading.Thread(
                target=lambda: said.append(python(ANSWER, *arguments, TANDEM_ENROLMENT_TOKEN=TOKEN))
            )
            agent.start()
            while referee.registrar.roster.agents < 600 and agent.is_alive():
                agent.join(0.05)
            remote = Remote(address, TOKEN, patience=600)
            asked = threading.Thread(target=lambda: [None for _ in iter(host.step, True)])
            asked.start()
            finished = remote.run(chosen, 1, "run", lambda text, numbers: None)
            for thread in (agent, asked):
                thread.join()
            remote.close()
        host.close()
        runner.stop()
        referee.close()
    assert finished.result["agents"]["answered"] == 600
    modules = json.loads(said[0])
    assert "local_agent.person.agent" in modules
    assert not tops(modules) & HEAVY
    assert not [name for name in modules if NOT_AN_AGENTS & set(name.split("."))]


@pytest.mark.slow
def test_a_relay_is_asked_without_loading_more_than_its_cryptography():
    modules = json.loads(python(RELAYED))
    assert "pyhpke" in modules
    assert not tops(modules) & HEAVY
    assert not [name for name in modules if NOT_AN_AGENTS & set(name.split("."))]


def test_a_person_s_record_is_made_without_what_reads_tables(tmp_path):
    """Only the description of the target's table is read, by what an agent's own device has."""
    (tmp_path / "fields.json").write_text(json.dumps({"visits": 12, "months": None, "plan": "pro", "renews": "no"}))
    scenario, output = str(ROOT / "examples" / "own_data" / "scenario.yaml"), tmp_path / "me.json"
    arguments = ["record", scenario, str(tmp_path / "fields.json"), "--output", str(output)]
    modules = json.loads(python(ANSWER, *arguments))
    record = json.loads(output.read_text())
    assert (record["features"], record["label"]) == ([float(np.float32(0.4)), 0.5, 0.0, 0.0, 1.0], -1)
    assert [named["column"] for named in record["names"]["features"]] == ["visits", "months", "plan", "plan", "plan"]
    assert output.stat().st_mode & 0o777 == 0o600
    assert not tops(modules) & HEAVY
    assert not {"common.scenario.plan", "common.data.files", "common.data.loading"} & set(modules)


def test_loops_are_plain_functions_for_single_records_only():
    calls: list[str] = []

    @njit
    def total(values):
        found = 0.0
        for value in values:
            found += value
        return found

    plain, total.plain = total.plain, lambda values: calls.append("plain") or plain(values)  # type: ignore[attr-defined]
    values = np.array([0.1, 0.2, 0.3])
    assert total(values) == plain(values)
    assert calls == []
    with interpreted():
        assert total(values) == plain(values)
    assert calls == ["plain"]
    total(values)
    assert calls == ["plain"]
