"""Play every cheat with the real parties, and print what the audit prints about the run that they publish.

    python -m benchmarks.cheats [NAME ...] [--json]

Each is audited as a stranger would (no key is known), and strictly, with both keys known from elsewhere; where
somebody holds a receipt, or a witness is asked, with these too. Keys, hashes, times and folders differ from run to run:
KEY, TIME, URL and RUN stand for them. A minute.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.cheats.playing import CHEATS
from referee.cli import app

_VARIES = (
    (r"[0-9a-f]{12,}(\.\.\.)?", "KEY"),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} UTC", "TIME"),
    (r"at 1[0-9]{9} that", "at TIME that"),
    (r"http://[0-9.:]+", "URL"),
)


def played(name: str) -> dict[str, object]:
    """Play one cheat; return what was done, and by audit its exit status and lines."""
    with tempfile.TemporaryDirectory(prefix="cheats-") as place, ExitStack() as opened:
        found = CHEATS[name](Path(place), opened)
        audits = {}
        for called, options in found.audits.items():
            done = CliRunner().invoke(app, ["audit", str(found.run), *options])
            text = done.output.replace(str(found.run), "RUN")
            for pattern, word in _VARIES:
                text = re.sub(pattern, word, text)
            audits[called] = {"status": done.exit_code, "lines": text.splitlines()}
    return {"name": name, "done": found.done, "audits": audits}


def lines(document: dict[str, object]) -> Iterator[str]:
    """Yield a cheat as text."""
    yield f"=== {document['name']}"
    yield str(document["done"])
    audits = document["audits"]
    assert isinstance(audits, dict)
    for called, audit in audits.items():
        yield f"--- {called}: exit status {audit['status']}"
        yield from audit["lines"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description="Parties that cheat, and what the audit prints.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(CHEATS)}; all by default")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in CHEATS]
    if unknown:
        parser.error(f"there is no cheat {unknown[0]!r}; there are: {', '.join(CHEATS)}")
    found = [played(name) for name in options.names or CHEATS]
    if options.json:
        print(json.dumps(found))
        return
    for document in found:
        print("\n".join(lines(document)), end="\n\n")


if __name__ == "__main__":
    main()
