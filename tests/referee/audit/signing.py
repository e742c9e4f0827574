"""A transcript changed and signed anew, as only its referee can."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common.core import canonical
from common.wire.identity import Identity
from common.wire.transcript import Entry, append

Bodies = list[tuple[str, dict[str, Any]]]


def identity_of(folder: Path) -> Identity:
    return Identity.load_or_create(folder / "state" / "referee" / "identity.key")


def resign(folder: Path, run: Path, lie: Callable[[Bodies], Bodies]) -> None:
    """Change the transcript as only the referee itself can: every hash and signature is right again."""
    path, signer = run / "transcript.jsonl", identity_of(folder)
    entries = [Entry.parse(canonical.decode(line.encode())) for line in path.read_text("utf-8").split("\n")[:-1]]
    last: Entry | None = None
    lines = []
    for kind, body in lie([(entry.kind, entry.body) for entry in entries]):
        last = append(last, kind, body, signer)
        lines.append(last.line() + "\n")
    path.write_text("".join(lines))
    result = json.loads((run / "result.json").read_bytes())
    if last is not None and "result" in last.body:
        result.update(last.body["result"])
    (run / "result.json").write_text(json.dumps(result))
