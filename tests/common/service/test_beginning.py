"""What every command does first."""

from __future__ import annotations

import subprocess
import sys

import pytest

from common.service.cli import NEW_OBJECTS

COUNT = """
import gc, sys
sys.argv = ["command", "--help"]
from {module} import main
try:
    main()
except SystemExit:
    pass
print(gc.get_threshold()[0], file=sys.stderr)
"""


@pytest.mark.parametrize("module", ["referee.cli", "curator.cli", "local_agent.cli", "issuer.cli", "tandem.cli"])
def test_a_command_looks_for_garbage_rarely(module):
    said = subprocess.run(
        [sys.executable, "-c", COUNT.format(module=module)], check=True, capture_output=True, text=True
    )
    assert said.stderr.splitlines()[-1] == str(NEW_OBJECTS)
