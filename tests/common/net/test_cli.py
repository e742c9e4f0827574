"""What every command does first."""

import json
import os
import subprocess
import sys

from common.net.cli import NEW_OBJECTS

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


def ran(program: str, form: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TANDEM_LOG_FORMAT": form}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)


def test_a_command_looks_for_garbage_rarely():
    for module in ("referee.cli", "curator.cli", "local_agent.cli", "issuer.cli", "tandem.cli"):
        assert ran(COUNT.format(module=module)).stderr.splitlines()[-1] == str(NEW_OBJECTS), module


def test_a_message_is_plain_or_one_json_object_in_one_line_and_another_format_is_refused() -> None:
    said = json.loads(ran(PROGRAM, "json").stderr)
    assert (said["level"], said["logger"], said["time"][-6:]) == ("warning", "tandem", "+00:00")
    assert said["message"] == r"peer said a\x0a{\x1b]0;title\u202e"
    assert said["raised"].splitlines()[-1] == r"second \x1b[31m"
    assert ran(PROGRAM).stderr.splitlines()[0] == r"tandem: peer said a\x0a{\x1b]0;title\u202e"
    assert ran(PROGRAM, "plain").stderr == ran(PROGRAM).stderr
    refused = ran(PROGRAM, "JSON")
    assert refused.stderr == "Bad usage: TANDEM_LOG_FORMAT is plain or json, found 'JSON'\n"
    assert refused.returncode == 2
