"""What the image is made of: every library pinned as everywhere else, every file by its digest, and listed."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from deploy.packaging import install, sbom
from tests.documents.reading import ROOT

LOCKED = (ROOT / "deploy" / "docker" / "requirements.txt").read_text()
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    lines = install.versions(CONSTRAINTS).splitlines()
    return {plain(name): version for name, _, version in (line.partition("==") for line in lines)}


def test_every_version_is_that_of_the_constraints():
    elsewhere = {"colorama", "tzdata"}  # of other systems: nobody has installed them here
    for part in sbom.components(LOCKED):
        assert part["name"] in elsewhere or pinned()[part["name"]] == part["version"]


def test_every_file_is_pinned_by_its_digest():
    requirements = re.split(r"\n(?=[A-Za-z])", LOCKED.split("\n", 1)[1])
    assert len(requirements) == len(sbom.components(LOCKED)) > 40
    for requirement in requirements:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", requirement), requirement


def test_every_file_of_every_library_is_pinned_where_people_install():
    assert len(install.pinned(CONSTRAINTS)) > 150
    for said in install.pinned(CONSTRAINTS).values():
        assert re.fullmatch(r"\S+==\S+( --hash=sha256:[0-9a-f]{64})+", said), said


@pytest.mark.slow
def test_a_file_with_another_digest_is_not_installed(tmp_path):
    """A real uv, an index of one package, and constraints that name another file."""
    with zipfile.ZipFile(tmp_path / "only_here-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("only_here-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: only-here\nVersion: 1.0\n")
        wheel.writestr("only_here-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("only_here-1.0.dist-info/RECORD", "")
    held = hashlib.sha256((tmp_path / "only_here-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    uv = install.find_uv([sys.executable, "-m", "pip"], Path(sys.executable).parents[1])
    assert uv is not None
    command = [uv, "pip", "install", "--no-index", "--find-links", str(tmp_path), "--no-cache", "only-here"]
    for number, (digest, status) in enumerate(((held, 0), ("0" * 64, 1))):
        constraints = tmp_path / f"{number}.txt"
        constraints.write_text(f"only-here==1.0 --hash=sha256:{digest}\n")
        target = ["--target", str(tmp_path / str(number)), "--python", sys.executable]
        done = subprocess.run(
            [*command, *target], env=os.environ | {"UV_CONSTRAINT": str(constraints)}, capture_output=True, text=True
        )
        assert (done.returncode, "Hash mismatch" in done.stderr) == (status, bool(status)), done.stderr


def test_it_has_all_that_the_project_needs_and_what_builds_it():
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["postgresql"], "setuptools"]
    names = {plain(re.split(r"[\[;<>= ]", want)[0]) for want in wanted}
    assert names <= {part["name"] for part in sbom.components(LOCKED)}


def test_the_image_takes_nothing_else():
    recipe = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
    installs = [line for line in recipe.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert "--no-deps --no-build-isolation" in installs[1]


@pytest.mark.parametrize("change", [("numpy==", "numpy==9"), ("# What", "# That")])
def test_the_list_is_a_function_of_the_file(change):
    listed = sbom.document(LOCKED, PROJECT)
    assert listed == sbom.document(LOCKED, PROJECT)
    assert listed["serialNumber"] != sbom.document(LOCKED.replace(*change), PROJECT)["serialNumber"]
    assert {part["purl"] for part in listed["components"]} == set(listed["dependencies"][0]["dependsOn"])
    assert all(re.fullmatch(r"pkg:pypi/[a-z0-9-]+@[0-9][^@]*", part["purl"]) for part in listed["components"])
