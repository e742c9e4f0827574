"""What a wheel and the image are made of.

A wheel's import statements say the one name that all packages go below, and nothing else changes; of the image every
library is pinned as everywhere else, every file by its digest, and listed.
"""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from deploy.packaging import install, sbom
from deploy.packaging.backend import ROOT, owned, rewritten, stage
from deploy.packaging.install import NEEDED, find_uv, make_environment, settings, usable
from tests.common.test_light_start import HEAVY, tops
from tests.docker.test_compose import BASE
from tests.tiers import for_each

CHECKOUT = Path(__file__).parents[3]
PACKAGES = {"common", "curator"}

CHANGED = {
    "from common import x": "from tandem.common import x",
    "from common.a.b import x as common": "from tandem.common.a.b import x as common",
    "import common": "import tandem.common as common",
    "import common as c, os, curator": "import tandem.common as c, os, tandem.curator as curator",
    "import common.a as a": "import tandem.common.a as a",
    "import os; from curator import y": "import os; from tandem.curator import y",
    "def f():\n    from  common import x": "def f():\n    from  tandem.common import x",
    "from common.a import (\n    x,  # common\n    y,\n)": "from tandem.common.a import (\n    x,  # common\n    y,\n)",
    "\u00e9 = 1; from common import x": "\u00e9 = 1; from tandem.common import x",
}
KEPT = (
    '"""See common.a: from common import x."""\n# import common\nx = "from common import y"',
    "from commons import x\nimport commons",
    "from . import common\nfrom .common import x",
    "import os\ncommon = os.path\ncommon.join",
)


def test_absolute_imports_go_through_the_one_name_and_everything_else_stays_as_it_is():
    found = {code: rewritten(code.encode(), PACKAGES).decode() for code in (*CHANGED, *KEPT)}
    assert found == CHANGED | {code: code for code in KEPT}
    for code in ("import common.a", "import os, curator.b", "from \\\n  common import x"):
        with pytest.raises(ValueError, match="import"):  # what no one statement can say
            rewritten(code.encode(), PACKAGES)


def test_a_package_that_would_have_two_places_is_refused(tmp_path):
    for name in ("tandem", "tandem/common", "common"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.setuptools.packages.find]\ninclude = ["common*", "tandem*"]\n'
    )
    with pytest.raises(ValueError, match="one package"):
        stage(tmp_path, tmp_path / "stage")


def ours() -> set[str]:
    return owned(CHECKOUT, tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8")))


@pytest.mark.slow
def test_no_string_names_a_module_of_ours():
    """It would be wrong in a wheel: such names are derived from ``__name__``."""
    dotted = re.compile(rf"(?:{'|'.join(sorted(ours() - {ROOT}))})\.[a-z_][a-z0-9_]*(?=\.|$)")
    for path in (path for package in ours() for path in (CHECKOUT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = dotted.match(node.value)
                assert named is None or find_spec(named[0]) is None, f"{path}:{node.lineno}: {node.value!r}"


def configured(tmp_path: Path, text: str, **environment: str) -> str:
    """What the real pip prints of a configuration file and an environment."""
    (tmp_path / "pip.conf").write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env=kept | {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_what_pip_is_configured_with_is_passed_on_and_the_nearest_counts(tmp_path):
    """The addresses are of .invalid, a domain that nobody can have (RFC 2606), and are dialled by nobody."""
    text = (
        "[install]\nindex-url = https://two.invalid/simple\n[global]\nindex-url = https://one.invalid/simple\n"
        "find-links = /a /b\nconstraint = /c.txt\ntimeout = 3\n"
        "extra-index-url =\n    https://three.invalid/simple\n    https://four.invalid/it's\n"
        "[download]\nindex-url = https://other.invalid/simple\n"
    )
    expected = settings(configured(tmp_path, "")) | {  # what this machine is configured with stays
        "UV_DEFAULT_INDEX": "https://two.invalid/simple",
        "UV_INDEX": "https://three.invalid/simple https://four.invalid/it's",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/a,/b",
        "UV_CONSTRAINT": "/c.txt",
        "UV_HTTP_TIMEOUT": "3",
    }
    assert settings(configured(tmp_path, text)) == expected
    found = settings(configured(tmp_path, text, PIP_INDEX_URL="https://three.invalid"))
    assert found == expected | {"UV_DEFAULT_INDEX": "https://three.invalid"}


def only_here(links: Path) -> Path:
    """Make a wheel of one empty module; return its file."""
    file, about = links / "only_here-1.0-py3-none-any.whl", "only_here-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr("only_here.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: only-here\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return file


def this_uv() -> str:
    uv = find_uv([sys.executable, "-m", "pip"], Path(sys.executable).parents[1])
    assert uv is not None
    return uv


@pytest.mark.slow
def test_uv_installs_from_where_pip_would(tmp_path):
    """A real uv, which knows of no index but what pip's configuration names."""
    target = tmp_path / "target"
    only_here(tmp_path)
    told = settings(configured(tmp_path, f"[global]\nno-index = true\nfind-links = {tmp_path}\n"))
    command = [this_uv(), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(target), "only-here"]
    subprocess.run(command, env=os.environ | told | {"UV_CACHE_DIR": str(tmp_path / "cache")}, check=True)
    assert (target / "only_here.py").exists()


@pytest.mark.slow
def test_where_no_uv_can_be_had_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    fresh = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    assert find_uv([sys.executable, "-m", "pip", "--python", str(fresh / "bin" / "python")], fresh) is None


def test_the_oldest_python_is_the_one_that_the_project_names():
    asked = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    assert asked == f">={NEEDED[0]}.{NEEDED[1]}"
    assert f"sys.version_info < {NEEDED}" in (CHECKOUT / "Makefile").read_text("utf-8")


def old(python: Path) -> None:
    """Leave what an environment of an older Python is, as far as anybody can tell by asking it."""
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n", "utf-8")
    python.chmod(0o755)


def gone(python: Path) -> None:
    """Leave what an environment is whose Python was uninstalled."""
    python.parent.mkdir(parents=True)
    python.symlink_to(python.parent / "python3.0")


@pytest.mark.slow
@pytest.mark.parametrize("left", [old, gone])
def test_an_environment_whose_python_is_too_old_or_gone_is_made_anew(tmp_path, capfd, left):
    folder = tmp_path / ".venv"
    left(folder / "bin" / "python")
    assert not usable(folder / "bin" / "python")
    make_environment(folder)
    assert usable(folder / "bin" / "python")
    assert "is made anew" in capfd.readouterr().err
    (folder / "kept").touch()
    make_environment(folder)
    assert (folder / "kept").exists()
    assert capfd.readouterr().err == ""


@for_each("left", [old, gone, None])
def test_make_does_not_trust_the_stamp_of_such_an_environment(tmp_path, left):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((CHECKOUT / name).read_bytes())
    python = tmp_path / ".venv" / "bin" / "python"
    if left is None:
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
    else:
        left(python)
    (tmp_path / ".venv" / "installed").touch()
    command = ["make", "--dry-run", "install", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ("install.py .venv" in done.stdout) == (left is not None)


def test_an_old_python_makes_no_environment(tmp_path):
    code = "import sys, runpy; sys.version_info = (3, 9, 1); runpy.run_path(sys.argv[1], run_name='__main__')"
    command = [sys.executable, "-c", code, str(CHECKOUT / "deploy/packaging/install.py"), str(tmp_path / "made"), ""]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, (tmp_path / "made").exists()) == (1, False)
    assert done.stderr.startswith("Tandem needs Python 3.11 or newer")


BUILD = """
import sys
sys.path.insert(0, "deploy/packaging")
import backend
print(getattr(backend, sys.argv[1])(sys.argv[2]))
"""


def built(checkout: Path, kind: str, folder: Path) -> Path:
    """Build as a front end does: a process in the checkout, with the backend's folder on its path."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(folder)], cwd=checkout, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(CHECKOUT, "build_wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; what it depends on is this environment's, but not its way to the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, str(wheel)], env=clean(), check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder


def clean() -> dict[str, str]:
    """This environment's variables without those that lead to the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))}


def run(environment: Path, folder: Path, command: str, *arguments: str) -> str:
    words = [str(environment / "bin" / command), *arguments]
    done = subprocess.run(words, cwd=folder, env=clean(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow
def test_it_owns_one_name_and_no_module_of_it_imports_a_bare_one(wheel):
    bare, names = ours() - {ROOT}, contents(wheel)
    assert {"common", "curator", "deploy", "issuer", "local_agent", "referee", "scenarios"} == bare
    assert {name for name in tops([name.replace("/", ".", 1) for name in names]) if "-" not in name} == {ROOT}
    assert len({name.partition("/")[0] for name in names}) == 2  # and its own description
    code = {name: content for name, content in names.items() if name.endswith(".py")}
    assert len(code) > 200
    for name, content in code.items():
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                assert str(node.module).partition(".")[0] not in bare, name
            if isinstance(node, ast.Import):
                assert not tops([alias.name for alias in node.names]) & bare, name


@pytest.mark.slow
def test_a_source_distribution_builds_the_same_wheel(wheel, tmp_path):
    checkout, source = tmp_path / "checkout", tmp_path / "source"
    for name in ours():
        shutil.copytree(CHECKOUT / name, checkout / name, dirs_exist_ok=True)
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, checkout)
    with tarfile.open(built(checkout, "build_sdist", tmp_path)) as archive:
        archive.extractall(source, filter="data")
    assert contents(built(next(source.iterdir()), "build_wheel", tmp_path)) == contents(wheel)


@pytest.mark.slow
def test_commands_work_outside_the_checkout(environment, tmp_path):
    assert "subsample-test-reweigh" in run(environment, tmp_path, "referee", "list")
    assert json.loads(run(environment, tmp_path, "referee", "plan", "ball", "--json"))["scenario"] == "ball"
    # It has no learner, whose loops would be compiled: nothing is compiled yet in a new environment.
    options = ["--seed", "1", "--deployment", "processes", "--output", "run", "--json"]
    assert json.loads(run(environment, tmp_path, "referee", "run", "two-laws", *options))["agents"]["answered"] > 0
    assert json.loads(run(environment, tmp_path, "referee", "audit", "run", "--json"))["verified"] is True


@pytest.mark.slow
def test_it_installs_into_an_empty_environment_and_its_extras_can_be_had(wheel, tmp_path):
    """README's first line, with versions of the constraints; heavy extras are resolved and not downloaded."""
    python = tmp_path / "empty" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "empty")], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    uv = find_uv(pip, tmp_path / "empty")
    if uv is None:
        pytest.skip("there is no package index from which uv can be had")
    configuration = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=True).stdout
    environment = {**settings(configuration), **clean()}
    install = [uv, "pip", "install", "--python", str(python), "--constraint", str(CHECKOUT / "constraints.txt")]
    subprocess.run([*install, f"{wheel}[onnx,postgresql]"], env=environment, check=True)
    assert "scenarios:" in " ".join(run(tmp_path / "empty", tmp_path, "referee", "list").split())
    run(tmp_path / "empty", tmp_path, "python", "-c", "import onnxruntime, psycopg, tandem.referee.cli")
    (metadata,) = (content.decode() for name, content in contents(wheel).items() if name.endswith("/METADATA"))
    extras = set(re.findall(r"^Provides-Extra: (.*)$", metadata, re.MULTILINE)) - {"dev"}
    assert extras >= {"compare", "figures", "onnx", "postgresql", "ray"}
    subprocess.run([*install, "--dry-run", f"{wheel}[{','.join(sorted(extras))}]"], env=environment, check=True)


@pytest.mark.slow
def test_it_starts_as_lightly_as_the_checkout(environment, tmp_path):
    """Importing a party runs the face's own module first: it must not load what only its functions need."""
    for module in ("referee.cli", "local_agent.person.agent"):
        code = f"import {ROOT}.{module}, json, sys; print(json.dumps(sorted(sys.modules)))"
        assert not tops(json.loads(run(environment, tmp_path, "python", "-c", code))) & HEAVY


LOCKED = (CHECKOUT / "deploy" / "docker" / "requirements.txt").read_text()
CONSTRAINTS = (CHECKOUT / "constraints.txt").read_text()
SERVICES = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())["services"]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_version_is_that_of_the_constraints():
    elsewhere = {"colorama", "tzdata"}  # of other systems: nobody has installed them here
    lines = install.versions(CONSTRAINTS).splitlines()
    pinned = {plain(name): version for name, _, version in (line.partition("==") for line in lines)}
    for part in sbom.components(LOCKED):
        assert part["name"] in elsewhere or pinned[part["name"]] == part["version"]


def test_every_file_of_every_library_is_pinned_by_its_digest_in_the_image_and_where_people_install():
    requirements = re.split(r"\n(?=[A-Za-z])", LOCKED.split("\n", 1)[1])
    assert len(requirements) == len(sbom.components(LOCKED)) > 40
    assert len(install.pinned(CONSTRAINTS)) > 150
    for said in (*requirements, *install.pinned(CONSTRAINTS).values()):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", said), said


@pytest.mark.slow
def test_a_file_with_another_digest_is_not_installed(tmp_path):
    """A real uv, an index of one package, and constraints that name another file."""
    held = hashlib.sha256(only_here(tmp_path).read_bytes()).hexdigest()
    command = [this_uv(), "pip", "install", "--no-index", "--find-links", str(tmp_path), "--no-cache", "only-here"]
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
    recipe = (CHECKOUT / "deploy" / "docker" / "Dockerfile").read_text()
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


def test_every_container_has_limits():
    for name, service in SERVICES.items():
        assert service["mem_limit"]
        assert service["pids_limit"] <= 256
        # An engine starts no container with more than it may grant itself; a service takes all that it gets.
        assert "ulimits" not in service, name


def test_the_base_of_every_image_is_one_that_can_be_named_by_its_digest():
    built = [service["build"] for service in SERVICES.values() if "build" in service]
    assert {build["args"]["BASE"] for build in built} == {f"${{TANDEM_BASE:-{BASE}}}"}
    files = {Path(build["context"]) / build.get("dockerfile", "Dockerfile") for build in built}
    assert files == {path.relative_to(CHECKOUT) for path in (CHECKOUT / "deploy" / "docker").rglob("Dockerfile")}
    for file in files:
        assert set(re.findall(r"^FROM (\S+)", (CHECKOUT / file).read_text(), re.MULTILINE)) == {"${BASE}"}
    pinned = (CHECKOUT / "deploy" / "docker" / "pinned.env").read_text()
    assert re.search(r"^TANDEM_BASE=python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}$", pinned, re.MULTILINE)
