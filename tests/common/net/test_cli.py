"""What every command does first."""

import json
import os
import subprocess
import sys

import pytest

from common.net.cli import NEW_OBJECTS
from tests.tiers import for_each

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


@for_each("module", ["referee.cli", "curator.cli", "local_agent.cli", "issuer.cli", "tandem.cli"])
def test_a_command_looks_for_garbage_rarely(module):
    said = subprocess.run(
        [sys.executable, "-c", COUNT.format(module=module)], check=True, capture_output=True, text=True
    )
    assert said.stderr.splitlines()[-1] == str(NEW_OBJECTS)


PROGRAM = """
import logging
from common.net.cli import log_plainly
log_plainly()
log = logging.getLogger("tandem")
try:
    raise ValueError("first\\nsecond \\x1b[31m")
except ValueError:
    log.warning("peer said %s", "a\\n{\\x1b]0;title\\u202e", exc_info=True)
"""


def logged(wanted: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TANDEM_LOG_FORMAT": wanted}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=600)


def test_a_message_is_one_json_object_in_one_line() -> None:
    (line,) = logged("json").stderr.splitlines()
    said = json.loads(line)
    assert (said["level"], said["logger"]) == ("warning", "tandem")
    assert said["message"] == r"peer said a\x0a{\x1b]0;title\u202e"
    assert said["raised"].splitlines()[-1] == r"second \x1b[31m"
    assert said["time"].endswith("+00:00")


def test_plain_is_the_default() -> None:
    assert logged("").stderr == logged("plain").stderr
    assert logged("").stderr.splitlines()[0] == r"tandem: peer said a\x0a{\x1b]0;title\u202e"


@pytest.mark.parametrize("wanted", ["xml", "JSON"])
def test_another_format_is_refused(wanted: str) -> None:
    ended = logged(wanted)
    assert ended.returncode == 2
    assert ended.stderr == f"Bad usage: TANDEM_LOG_FORMAT is plain or json, found {wanted!r}\n"
