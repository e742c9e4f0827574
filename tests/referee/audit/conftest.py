"""What tests of the audit tamper with."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def run(undisturbed, tmp_path) -> Path:
    """A copy of the undisturbed run's folder, to be tampered with."""
    return Path(shutil.copytree(undisturbed[0] / "run", tmp_path / "run"))
