"""Pin each file of each library by its SHA-256: ``lock.py`` writes constraints.txt and deploy/docker/requirements.txt.

It takes the versions of constraints.txt (write a new one there as ``name==version``) and asks the package index for the
digests of all their files (uv must be on the PATH, or beside this Python). Afterwards neither ``make install`` nor the
image installs a file with another digest, whoever serves the index.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONSTRAINTS, LOCK = Path("constraints.txt"), Path("deploy/docker/requirements.txt")
BUILD = "setuptools>=77\n"  # builds the wheel of the project itself
HEADER = "# What the image is made of, written by deploy/packaging/lock.py from pyproject.toml and constraints.txt.\n"


def lock() -> None:
    """Write both files."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        raise SystemExit("uv is needed: make check puts one into .venv")
    with tempfile.TemporaryDirectory() as folder:
        build, output = Path(folder) / "build.in", Path(folder) / "requirements.txt"
        build.write_text(BUILD)
        words = ["--generate-hashes", "--no-header", "--no-annotate", "--quiet", "--output-file", str(output)]
        pins = ["--no-deps", "--python-version", "3.11.9"]  # pins of other versions of Python may differ
        subprocess.run([uv, "pip", "compile", str(CONSTRAINTS), *pins, *words], cwd=ROOT, check=True)
        (ROOT / CONSTRAINTS).write_text(output.read_text())
        output.unlink()
        image = ["--extra", "postgresql", "--constraint", str(CONSTRAINTS), "--python-version", "3.11", "--universal"]
        subprocess.run([uv, "pip", "compile", "pyproject.toml", str(build), *image, *words], cwd=ROOT, check=True)
        (ROOT / LOCK).write_text(HEADER + output.read_text())


if __name__ == "__main__":
    lock()
