"""Modules of the agent in JavaScript, tried in Node."""

import json
import subprocess
from typing import Any

from local_agent.page import WEB


def in_node(script: str, given: Any = None) -> Any:
    """Return the JSON value that a module prints, and nothing else; it has ``given``, and imports from ``WEB/``."""
    head = 'import { readFileSync } from "node:fs";\nconst given = JSON.parse(readFileSync(0, "utf8"));\n'
    command = ["node", "--no-warnings", "--input-type=module", "-e", head + script.replace('"WEB/', f'"{WEB}/')]
    found = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=120)
    assert (found.returncode, found.stderr) == (0, "")
    return json.loads(found.stdout)
