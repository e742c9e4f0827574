"""Vectors of the wire (docs/wire.md): what must come of given bytes, questions, records and proofs, in JSON.

``python -m tests.vectors`` writes the files beside this one. What each case must come to is stated where it is made, by
hand where it is a refusal or a rule of its own, by the code where it is a number; :mod:`tests.vectors.test_vectors`
puts every case through the agent, and through the agent in JavaScript (``tests/local_agent/web``).
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
MOST = 500_000  # bytes of all files together


def written(tree: dict[str, Any]) -> str:
    """Return a file's text: one line for each case, so that a change shows which ones it is about."""
    parts = []
    for name, value in tree.items():
        if isinstance(value, list) and value:
            lines = ",\n".join(json.dumps(each, ensure_ascii=False, allow_nan=False) for each in value)
            parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read(name: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return tree
