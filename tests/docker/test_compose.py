"""The compose file, for real: its documented commands exactly as they are printed, with their defaults."""

import errno
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from common.scenario.loading import load
from deploy.checking import checked
from deploy.processes import free_port
from tests.documents.reading import ROOT

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.xdist_group("chromium")]

BASE = "python:3.11-slim-bookworm"
SERVICES = ("curator", "referee", "local_agent", "individuals")
SCENARIO = "ball-few-agents"
INDIVIDUALS = 8
HOSTS = 4
UP = "docker compose up --build --exit-code-from run"
UP_FOUR = f"docker compose up --build --exit-code-from run --scale local_agent={HOSTS}"
AUDIT = "docker compose run --rm --no-deps run referee audit /runs/ball-few-agents-1"
DOWN = "docker compose down --volumes"
LOAD = "docker compose --env-file deploy/docker/load.env --profile scale --profile load"
UP_LOAD = f"{LOAD} up --build --exit-code-from load load"
DOWN_LOAD = f"{LOAD} down --volumes"
DOCUMENTED = (UP, UP_FOUR, AUDIT, DOWN, UP_LOAD, DOWN_LOAD)
"""The documents' commands that this file runs; a test of the documents finds them there."""


BUILD = 1000
"""Seconds that a build and a run may take: less than a test may, so that what they have shown until then is told."""


def command(*words: str, seconds: float = 60, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | variables
    try:
        return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        shown = [(said or b"").decode(errors="replace")[-2000:] for said in (late.stdout, late.stderr)]
        raise AssertionError(f"{' '.join(words)} did not end within {seconds} s\n" + "\n".join(shown)) from late


def works(*words: str) -> bool:
    return shutil.which(words[0]) is not None and command(*words, seconds=300).returncode == 0


@dataclass(frozen=True)
class Compose:
    """The Compose command of this machine, on a project of its own beside any that is up already."""

    name: tuple[str, ...]
    project: str

    def call(self, printed: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command as it is printed, with the name that Compose has here."""
        words = printed.removeprefix("docker compose ").split()
        return command(*self.name, *words, seconds=seconds, COMPOSE_PROJECT_NAME=self.project)

    def succeed(self, printed: str, seconds: float = 120) -> str:
        done = self.call(printed, seconds)
        assert done.returncode == 0, f"{printed}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def compose() -> Iterator[Compose]:
    """Compose, if there is an engine to go with it."""
    if not works("docker", "info"):
        pytest.skip("no Docker engine answers on this machine (docker info fails)")
    found = next((c for c in (("docker", "compose"), ("docker-compose",)) if works(*c, "version")), None)
    if found is None:
        pytest.skip("there is a Docker engine, but neither `docker compose` nor `docker-compose`")
    if not works("docker", "image", "inspect", BASE) and not works("docker", "pull", "--quiet", BASE):
        pytest.skip(f"the base image {BASE} is neither on this machine nor can it be pulled")
    project = Compose(found, f"tandem-test-{os.getpid()}")
    try:
        yield project
    finally:
        project.call(f"{DOWN_LOAD} --timeout 5")


@dataclass
class Project:
    """A compose project whose run has ended, and whose services are up once more."""

    containers: dict[str, list[str]]
    again: dict[str, Any]

    @property
    def running(self) -> list[str]:
        return [container for service in SERVICES for container in self.containers[service]]


def result_in(output: str) -> dict[str, Any]:
    """Return the result in what `up` shows: the one JSON document of the service `run`, behind its name."""
    (line,) = (line for line in output.splitlines() if '{"scenario": ' in line)
    found: dict[str, Any] = json.loads(line[line.index("{") :])
    return found


@pytest.fixture(scope="module")
def ended(compose: Compose) -> tuple[dict[str, Any], str]:
    """What the default command shows, and an audit of what it left."""
    shown = compose.succeed(UP, seconds=BUILD)
    found = result_in(shown), compose.succeed(AUDIT)
    assert 0 < shown.count("local-agent has answered") <= INDIVIDUALS  # each has the referee's receipt then
    return found


@pytest.fixture(scope="module")
def project(compose: Compose, ended: tuple[dict[str, Any], str]) -> Iterator[Project]:
    """`up` again, after which the services stay."""
    compose.succeed("docker compose up --detach", seconds=300)
    containers = {s: compose.succeed(f"docker compose ps --all -q {s}").split() for s in (*SERVICES, "run")}
    (run,) = containers["run"]
    assert command("docker", "wait", run, seconds=600).stdout.strip() == "0"
    yield Project(containers, json.loads(command("docker", "logs", run).stdout.splitlines()[-1]))
    compose.succeed(DOWN)


def python(container: str, code: str) -> str:
    done = command("docker", "exec", container, "python", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def inspect(container: str, template: str) -> str:
    return command("docker", "inspect", "--format", template, container).stdout.strip()


def reaches(container: str, host: str, port: int) -> bool:
    code = f"import socket; s = socket.socket(); s.settimeout(3); print(s.connect_ex(({host!r}, {port})))"
    return command("docker", "exec", container, "python", "-c", code).stdout.strip() == "0"


def test_the_default_command_prints_a_result_that_an_audit_verifies(ended: tuple[dict[str, Any], str]) -> None:
    (result, audit), people = ended, int(checked(load(SCENARIO)).agents.count)
    assert result["status"] == "done"
    assert result["answer"] is not None
    assert 0 < result["agents"]["answered"] <= result["agents"]["asked"] <= people
    assert result["agents"]["enrolled"] == people + INDIVIDUALS
    assert audit.startswith("not pinned: the referee and the curator of this folder")
    assert "\nverified /runs/ball-few-agents-1: ended done" in audit
    assert "left_out" not in result["truth"]
    assert set(result["truth"]["baselines"]) == set(load(SCENARIO).baselines)


def test_up_again_takes_the_same_run_up(project: Project, ended: tuple[dict[str, Any], str]) -> None:
    first, changing = ended[0], dict.fromkeys(("seconds", "peak_memory_bytes", "truth"))
    assert project.again | changing == first | changing
    assert project.again["truth"]["loss_on_target"] == first["truth"]["loss_on_target"]


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


def test_containers_are_healthy_read_only_and_of_nobody_who_is_or_can_become_root(project: Project) -> None:
    for container in project.running:
        assert inspect(container, "{{.State.Health.Status}}") == "healthy"
        for place in ("/", "/opt/tandem", "/etc"):
            code = f"""
import os
try:
    os.open({place!r} + "/written", os.O_CREAT | os.O_WRONLY)
except OSError as error:
    print(error.errno)
"""
            assert python(container, code) == str(errno.EROFS)
        lines = python(container, "print(open('/proc/1/status').read())").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        assert "0" not in status["Uid"].split()
        assert status["NoNewPrivs"].strip() == "1"
        assert int(status["CapBnd"], 16) == int(status["CapEff"], 16) == 0


@pytest.mark.thorough
def test_four_hosts_bring_four_times_as_many_people(compose: Compose) -> None:
    """That hosts are numbered one after the other is tried without containers by what documents print."""
    compose = Compose(compose.name, f"{compose.project}-four")
    try:
        first, people = result_in(compose.succeed(UP_FOUR, seconds=BUILD)), int(checked(load(SCENARIO)).agents.count)
        assert first["status"] == "done"
        assert first["agents"]["enrolled"] == HOSTS * people + INDIVIDUALS
        compose.succeed(f"docker compose up --detach --scale local_agent={HOSTS}", seconds=300)
        agents = compose.succeed("docker compose ps -q local_agent").split()
        claimed = (json.loads(python(agent, "print(open('/state/enrolment/claim.json').read())")) for agent in agents)
        assert sorted(claim["first"] for claim in claimed) == [people * host for host in range(HOSTS)]
    finally:
        compose.call(f"{DOWN} --timeout 5")


@pytest.mark.thorough
def test_two_processes_on_a_server_behind_a_proxy_take_what_individuals_and_hosts_say(compose: Compose) -> None:
    """Everything that was acknowledged is stored and counted; nobody but the referee's processes reaches the server."""
    compose = Compose(compose.name, f"{compose.project}-load")  # its curator has another scenario, and so other volumes
    try:
        shown = compose.succeed(UP_LOAD, seconds=BUILD)
        assert re.search(r"12,000 acknowledged, 12,000 stored,\s.*12,000 counted: they agree", shown, re.DOTALL)
        compose.succeed(f"{LOAD} up --detach load_hosts", seconds=300)
        (agent,) = compose.succeed(f"{LOAD} ps -q load_hosts").split()
        assert reaches(agent, "proxy", 8000)
        assert not reaches(agent, "database", 5432)
        assert not reaches(agent, "driver", 8000)
    finally:
        compose.call(f"{DOWN_LOAD} --timeout 5")


PINNED = "docker compose --env-file deploy/docker/pinned.env build"


@dataclass
class Registry:
    """A registry on this machine, which holds the base image."""

    address: str
    storage: Path
    digest: str

    @property
    def base(self) -> str:
        return f"{self.address}/python@{self.digest}"

    @property
    def manifest(self) -> Path:
        """The file that the digest is of."""
        kind, value = self.digest.split(":")
        return self.storage / "docker/registry/v2/blobs" / kind / value[:2] / value / "data"

    def forget(self) -> None:
        """Have the engine forget what it knows by this registry's names."""
        for name in (self.base, f"{self.address}/python:base"):
            command("docker", "image", "rm", "--no-prune", name)


@pytest.fixture(scope="module")
def registry(compose: Compose, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    if shutil.which("docker-registry") is None:
        pytest.skip("there is no registry on this machine (Debian: apt-get install docker-registry)")
    folder, address = tmp_path_factory.mktemp("registry"), f"127.0.0.1:{free_port()}"
    config = {"version": 0.1, "http": {"addr": address}, "storage": {"filesystem": {"rootdirectory": f"{folder}/data"}}}
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    with (folder / "log").open("wb") as log:
        serving = subprocess.Popen(["docker-registry", "serve", f"{folder}/config.yml"], stdout=log, stderr=log)
    try:
        for _ in range(600):
            with suppress(httpx.TransportError):
                httpx.get(f"http://{address}/v2/", trust_env=False, timeout=60)
                break
            time.sleep(0.1)
        assert works("docker", "tag", BASE, f"{address}/python:base")
        assert works("docker", "push", "--quiet", f"{address}/python:base")
        known = json.loads(command("docker", "inspect", "--format", "{{json .RepoDigests}}", BASE).stdout)
        (digest,) = (name.partition("@")[2] for name in known if name.startswith(f"{address}/"))
        found = Registry(address, folder / "data", digest)
        yield found
        found.forget()
    finally:
        serving.terminate()
        serving.wait()


def built_on(compose: Compose, base: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the printed command, with another digest in the place of the printed file's."""
    (folder / "pinned.env").write_text(f"TANDEM_BASE={base}\n")
    printed = PINNED.replace("deploy/docker/pinned.env", str(folder / "pinned.env"))
    return compose.call(printed, seconds=BUILD)


def test_images_are_built_on_the_base_with_that_digest_and_on_no_other(compose, registry, tmp_path):
    done = built_on(compose, registry.base, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    layers = "{{json .RootFS.Layers}}"
    base, image = (
        json.loads(command("docker", "inspect", "--format", layers, n).stdout) for n in (BASE, "tandem:local")
    )
    assert image[: len(base)] == base
    nowhere = f"{registry.address}/python@sha256:{'0' * 64}"
    refused = built_on(compose, nowhere, tmp_path)
    assert refused.returncode != 0
    assert "manifest" in refused.stdout + refused.stderr


def test_a_registry_that_hands_out_something_else_under_that_digest_is_found_out(compose, registry, tmp_path):
    registry.forget()
    held = registry.manifest.read_bytes()
    registry.manifest.write_bytes(held.replace(b"application/", b"application/ ", 1))
    try:
        done = built_on(compose, registry.base, tmp_path)
        assert done.returncode != 0
        assert command("docker", "image", "inspect", registry.base).returncode != 0
    finally:
        registry.manifest.write_bytes(held)
