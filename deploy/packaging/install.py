"""Make a virtual environment with Tandem in it, editable: ``install.py FOLDER EXTRA,...``.

It uses uv, which installs the same constraints in a tenth of the time and accepts only files whose SHA-256 is listed
there: the uv on the PATH, or one from the package index, whose file is verified, too. If uv is not available or fails,
it uses pip, which verifies files only if the project itself has a digest, which an editable one cannot have. Standard
library only, because this runs before anything is installed.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CONSTRAINTS = "constraints.txt"

NEEDED = (3, 11)  # the oldest Python that Tandem supports, the same as in pyproject.toml

SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}
"""The uv variable for each option of pip, because uv does not read pip's configuration."""

SECTIONS = ("global", "install", ":env:")  # sections of pip's configuration for ``pip install``, the last overrides


def settings(configuration: str) -> dict[str, str]:
    """Return uv's environment from the output of ``pip config list``.

    Its lines are ``SECTION.OPTION='VALUE'``; of several for one option the last of :data:`SECTIONS` counts.
    The items of a list are separated by newlines or blanks.
    """
    environment: dict[str, str] = {}
    lines = [line.partition("=") for line in configuration.splitlines()]
    for section in SECTIONS:
        for name, _, value in lines:
            where, _, option = name.rpartition(".")
            if where == section and option in SETTINGS:
                variable = SETTINGS[option]
                separator = "," if variable == "UV_FIND_LINKS" else " "
                environment[variable] = separator.join(str(ast.literal_eval(value)).split())
    if "UV_INDEX" in environment:
        # Like pip, take the best version of all indexes, not the first index that has the package.
        environment["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return environment


def pinned(constraints: str) -> dict[str, str]:
    """Return the constraint of each package, digests included: ``name==version --hash=...``."""
    lines = constraints.replace("\\\n", " ").splitlines()
    return {line.partition("==")[0]: " ".join(line.split()) for line in lines if line and not line.startswith("#")}


def versions(constraints: str) -> str:
    """Return constraints without digests, one line per package."""
    return "".join(re.sub(r" --hash=\S+", "", line) + "\n" for line in pinned(constraints).values())


def find_uv(pip: list[str], folder: Path) -> str | None:
    """Return the path of uv: on the PATH, or installed into the environment by pip; None if there is none."""
    path = shutil.which("uv")
    if path is None:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(pinned(Path(CONSTRAINTS).read_text())["uv"].replace(" --hash", " \\\n --hash"))
            file.flush()
            if _succeeds([*pip, "install", "--quiet", "--quiet", "--require-hashes", "--requirement", file.name]):
                path = shutil.which("uv", path=str(folder / "bin"))
    return path


def usable(python: Path) -> bool:
    """Return whether an interpreter exists, runs, and has a version that Tandem supports."""
    asks = f"import sys; sys.exit(sys.version_info < {NEEDED})"
    try:
        return _succeeds([str(python), "-c", asks])
    except OSError:
        return False


def make_environment(folder: Path) -> None:
    """Make the environment; replace one whose Python is missing or too old, which cannot be installed into."""
    if usable(folder / "bin" / "python"):
        return
    if folder.exists():
        sys.stderr.write(f"{folder} has no Python {'.'.join(map(str, NEEDED))} or newer: it is made anew\n")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)


def install(folder: Path, extras: str) -> None:
    """Make the environment if there is none that can be used, and install into it."""
    make_environment(folder)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    what = ["--editable", f".[{extras}]"]
    uv = find_uv(pip, folder)
    if uv is not None:
        configured = subprocess.run([*pip, "config", "list"], check=False, capture_output=True, text=True).stdout
        environment = settings(configured) | os.environ
        environment["UV_CONSTRAINT"] = f"{CONSTRAINTS} {environment.get('UV_CONSTRAINT', '')}".strip()
        if _succeeds([uv, "pip", "install", "--quiet", "--python", python, *what], environment):
            return
    sys.stderr.write(
        "uv cannot be had or failed: pip installs instead, which takes a minute or two and compares no digests ...\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(versions(Path(CONSTRAINTS).read_text()))
        file.flush()
        subprocess.run([*pip, "install", "--quiet", "--quiet", "--constraint", file.name, *what], check=True)


def _succeeds(command: list[str], environment: dict[str, str] | None = None) -> bool:
    return subprocess.run(command, check=False, env=environment).returncode == 0


if __name__ == "__main__":
    if sys.version_info < NEEDED:
        needed, version = ".".join(map(str, NEEDED)), sys.version.split()[0]
        sys.exit(f"Tandem needs Python {needed} or newer, found {version}: say which with make PYTHON=...")
    install(Path(sys.argv[1]), sys.argv[2])
