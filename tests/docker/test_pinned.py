"""Images on a base that is named by its digest, from a real registry; and one that hands out something else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from deploy.processes import free_port
from tests.docker.test_compose import BASE, ROOT, Compose, command, compose, works

__all__ = ["compose"]
PINNED = "docker compose --env-file deploy/docker/pinned.env build"
DIGEST = re.compile(r"TANDEM_BASE=(?P<name>\S+)@(?P<digest>sha256:[0-9a-f]{64})\n")
DOCKERFILES = ("deploy/docker/Dockerfile", "deploy/docker/database/Dockerfile", "deploy/docker/proxy/Dockerfile")


def test_the_base_of_every_image_is_one_that_can_be_named_by_its_digest():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    built = [service["build"] for service in services.values() if "build" in service]
    assert {build["args"]["BASE"] for build in built} == {f"${{TANDEM_BASE:-{BASE}}}"}
    assert {str(Path(build["context"]) / build.get("dockerfile", "Dockerfile")) for build in built} == {*DOCKERFILES}
    for file in DOCKERFILES:
        stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", (ROOT / file).read_text(), re.MULTILINE)
        assert {base for base, _ in stages} == {"${BASE}"}


def test_the_pinned_base_is_the_default_one_by_its_digest():
    found = DIGEST.search((ROOT / "deploy/docker/pinned.env").read_text())
    assert found
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", found["name"])


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
    return compose.call(printed, seconds=1500)


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.xdist_group("docker")
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


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.xdist_group("docker")
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
