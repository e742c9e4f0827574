import shutil
from pathlib import Path

import pytest

from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
from tests.tandem.ui.asking import RULES, Browser


@pytest.fixture
def runs(undisturbed, tmp_path) -> Path:
    """A directory with the folder of one finished run, ``tiny``, which a test may change."""
    shutil.copytree(undisturbed[0] / "run", tmp_path / "runs" / "tiny")
    return tmp_path / "runs"


@pytest.fixture
def browser(runs) -> Browser:
    return Browser(ui_app(RunFolders(runs), RULES))
