"""Run a printed command to its end, and compare what it shows with its row and with what the documents print of it."""

import re

from tests.documents import unrun
from tests.documents.jobs import Step
from tests.documents.reading import Block, blocks, commands, pages, tokens
from tests.documents.running import Clone, Done

PRINTED = commands()


def finish(step: Step, clone: Clone, line: str) -> None:
    """Run a command to its end and compare what it shows; it is run again as often as its row allows."""
    for left in reversed(range(step.tries)):
        done = clone.run(line, step.seconds)
        assert done.status == step.status, f"{line}\n{done.output[-3000:]}"
        try:
            for pattern in step.shows:
                assert re.search(pattern, done.words), f"{line} does not show {pattern!r}\n{done.output[-3000:]}"
            compare(step, done)
            if step.check is not None:
                step.check(clone, done)
        except AssertionError:
            if not left:
                raise
        else:
            return


def compare(step: Step, done: Done) -> None:
    """Find every line that a document prints as this command's output in what it printed now."""
    shown = [line for printed in PRINTED if printed.text == step.command for line in printed.shows]
    for start, command in unrun.SHOWN.items():
        if command == step.command:
            shown += [line for block in _blocks(start) for line in block.lines if line.strip()]
    lines = [" ".join(tokens(line)) for line in done.output.splitlines()]
    for line in shown:
        text = " ".join(tokens(line))
        pattern = re.escape(text)
        if step.varies is not None:
            pattern = f"(?:{step.varies})".join(re.escape(piece) for piece in re.split(step.varies, text))
        assert any(re.search(pattern, found) for found in lines), f"no line of the output is {text!r}:\n{done.output}"


def _blocks(start: str) -> list[Block]:
    return [block for page in pages() for block in blocks(page) if block.text.strip().startswith(start)]
