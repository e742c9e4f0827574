"""The compose file, for real: images are built, networks made, a scenario run to its result."""

import errno
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BASE = "python:3.11-slim-bookworm"
PEOPLE = 40_000
SETTINGS = {
    "TANDEM_SCENARIO": "ball",
    "TANDEM_SET": f"curator.n=50000 curator.rounds=3 curator.learner.steps=2000 agents.count={PEOPLE} baselines=[]",
    "TANDEM_SEED": "7",
}
SERVICES = ("curator", "referee", "local_agent")

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.xdist_group("docker")]


def command(*words: str, seconds: float = 60, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=seconds, check=False
    )


def succeed(*words: str, seconds: float = 60) -> str:
    done = command(*words, seconds=seconds, **SETTINGS)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def works(*words: str) -> bool:
    return shutil.which(words[0]) is not None and command(*words, seconds=300).returncode == 0


@pytest.fixture(scope="module")
def compose() -> tuple[str, ...]:
    """The Compose command of this machine, if there is an engine to go with it; the image is built."""
    if not works("docker", "info"):
        pytest.skip("no Docker engine answers on this machine (docker info fails)")
    found = next((c for c in (("docker", "compose"), ("docker-compose",)) if works(*c, "version")), None)
    if found is None:
        pytest.skip("there is a Docker engine, but neither `docker compose` nor `docker-compose`")
    if not works("docker", "image", "inspect", BASE) and not works("docker", "pull", "--quiet", BASE):
        pytest.skip(f"the base image {BASE} is neither on this machine nor can it be pulled")
    succeed(*found, "build", seconds=900)
    return found


@dataclass
class Project:
    """A compose project that is up and whose run has ended."""

    hosts: int
    containers: dict[str, list[str]]
    status: int
    output: str

    @property
    def running(self) -> list[str]:
        return [container for service in SERVICES for container in self.containers[service]]

    def result(self) -> Any:
        (line,) = self.output.splitlines()
        return json.loads(line)


@pytest.fixture(scope="module", params=[1, 4], ids=["one host", "four hosts"])
def project(request: pytest.FixtureRequest, compose: tuple[str, ...]) -> Iterator[Project]:
    call = (*compose, "--project-name", f"tandem-test-{secrets.token_hex(4)}")

    try:
        succeed(*call, "up", "--detach", "--scale", f"local_agent={request.param}", seconds=300)
        containers = {s: succeed(*call, "ps", "--all", "-q", s).split() for s in (*SERVICES, "run")}
        status = int(succeed("docker", "wait", *containers["run"], seconds=300))
        output = command("docker", "logs", *containers["run"]).stdout
        yield Project(request.param, containers, status, output)
    finally:
        command(*call, "down", "--volumes", "--timeout", "5", seconds=120)


def python(container: str, code: str) -> str:
    done = command("docker", "exec", container, "python", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def inspect(container: str, template: str) -> str:
    return command("docker", "inspect", "--format", template, container).stdout.strip()


def reaches(container: str, host: str, port: int) -> bool:
    code = f"""
import socket
try:
    socket.create_connection(({host!r}, {port}), 3).close()
except OSError:
    print("no")
else:
    print("yes")
"""
    return python(container, code) == "yes"


def test_the_run_prints_its_result_and_succeeds(project: Project) -> None:
    assert project.status == 0, project.output
    result = project.result()
    assert result["status"] in ("done", "exhausted")
    assert result["answer"] is not None
    assert 0 < result["agents"]["answered"] <= result["agents"]["asked"] <= PEOPLE * project.hosts


def test_every_host_brings_its_own_people(project: Project) -> None:
    assert len(project.containers["local_agent"]) == project.hosts
    assert project.result()["agents"]["enrolled"] == PEOPLE * project.hosts
    places = sorted(
        json.loads(python(agent, "print(open('/state/enrolment/claim.json').read())"))["first"]
        for agent in project.containers["local_agent"]
    )
    assert places == [PEOPLE * host for host in range(project.hosts)]


def test_agents_reach_the_referee_and_never_the_curator(project: Project) -> None:
    (curator,), (referee,) = project.containers["curator"], project.containers["referee"]
    (address,) = inspect(curator, "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}").split()
    assert reaches(referee, "curator", 8001)
    assert reaches(referee, address, 8001)
    agents = project.containers["local_agent"]
    with ThreadPoolExecutor(len(agents)) as together:  # a name that nobody knows takes its time to fail
        assert all(together.map(lambda agent: reaches(agent, "referee", 8000), agents))
        assert not any(together.map(lambda agent: reaches(agent, "curator", 8001), agents))
        assert not any(together.map(lambda agent: reaches(agent, address, 8001), agents))


def test_containers_are_healthy(project: Project) -> None:
    assert {inspect(c, "{{.State.Health.Status}}") for c in project.running} == {"healthy"}


def test_the_root_file_system_is_read_only(project: Project) -> None:
    for container in project.running:
        for place in ("/", "/opt/tandem", "/etc"):
            code = f"""
import errno, os
try:
    os.open({place!r} + "/written", os.O_CREAT | os.O_WRONLY)
except OSError as error:
    print(error.errno)
"""
            assert python(container, code) == str(errno.EROFS)


def test_nobody_is_root_nor_can_become_it(project: Project) -> None:
    for container in project.running:
        status = dict(
            line.split(":", 1) for line in python(container, "print(open('/proc/1/status').read())").splitlines()
        )
        assert "0" not in status["Uid"].split()
        assert status["NoNewPrivs"].strip() == "1"
        assert int(status["CapBnd"], 16) == int(status["CapEff"], 16) == 0
