"""A copy of the project to run documented commands in."""

import pytest

from tests.documents.running import Clone, clone


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """One copy for all commands: each run leaves a folder of its own there."""
    return clone(tmp_path_factory.mktemp("documents") / "tandem")


@pytest.fixture
def own_copy(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A copy that nothing else uses, for what changes it or the environment."""
    return clone(tmp_path_factory.mktemp("documents") / "tandem")
