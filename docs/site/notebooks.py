"""The notebooks as pages of the site: their text, their code, and the outputs that they are stored with.

A test runs each notebook and compares what it shows with what is stored, so nothing is executed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SHOWN = ("image/svg+xml", "text/html", "text/plain")
"""Which form of an output is shown: the first that there is."""
STYLE = """
.output{border-left:3px solid var(--color-brand-primary);margin:1em 0;padding-left:1em}
.output h1,.output h2,.output h3{font-size:1.1em;margin:.6em 0}
.output svg{background:#fff;color:#111;color-scheme:light;max-width:100%}
"""
"""An output stands apart from the text; its drawings are made for a light page."""


def page(notebook: Path) -> str:
    """Return a notebook as MyST Markdown."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    source = f"This page is the notebook `docs/notebooks/{notebook.name}`, with its stored outputs.\n"
    first, *rest = ["".join(part) for cell in cells for part in _cell(cell)]
    heading, _, text = first.partition("\n")
    return "\n".join([heading, "", source, f"`````{{raw}} html\n<style>{STYLE}</style>\n`````\n", text, *rest])


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield f"{text}\n"
        return
    yield f"```python\n{text}\n```\n"
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            yield from _literal("".join(output["text"]))
            continue
        kind = next(kind for kind in SHOWN if kind in output["data"])
        found = "".join(output["data"][kind])
        if kind == "text/plain":
            yield from _literal(found)
        else:
            yield f'`````{{raw}} html\n<div class="output">\n{found}\n</div>\n`````\n'


def _literal(text: str) -> Iterator[str]:
    if text.strip():
        yield f"```text\n{text.rstrip()}\n```\n"
