"""Read what documents print: commands, Python, and what they say comes out.

A document is a Markdown page, the Makefile (its help, and what ``make demo`` prints) or the compose file's comments.
Whatever looks like code in it is of exactly one kind; what is of none is ``unknown``, and a test fails.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PROGRAMS = (
    "referee", "curator", "local-agent", "issuer", "tandem", "make", "docker", "docker-compose", "python", "python3",
    "pip", "uv", "pytest", "ruff", "mypy", "git", "export", "cd", "ls", "cp", "mkdir", "cat", "curl", "kill", "ray",
    "kubectl", "jq",
)  # fmt: skip
"""What may begin a command; a path to one of them, as ``.venv/bin/referee``, is one of them."""
_WORD = r"(?:[\w./-]*/)?(?:" + "|".join(PROGRAMS) + ")"
COMMAND = re.compile(rf"(?:[A-Z_]+=\S* )*{_WORD}(?: (?![=<-]|- )\S.*| -.*)?$")
_BEGINS = re.compile(rf"(?:\$ )?(?:[A-Z_]+=\S* )*{_WORD}(?= [^\s<=]|\s*$|\s\s)")
_MARKDOWN = MarkdownIt("commonmark").enable("table")

Kind = Literal["shell", "python", "data", "picture", "unknown"]


@dataclass(frozen=True)
class Printed:
    """A command in a document.

    Attributes:
        text: The command itself, without prompt and without the words beside it.
        beside: What a reader sees near it: the words beside it, its block and the paragraphs around that, or its
            paragraph.
        shows: The lines printed below it as its output.
    """

    document: str
    line: int
    text: str
    beside: str
    shows: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Block:
    """Lines of a document that are set apart as code."""

    document: str
    line: int
    kind: Kind
    lines: tuple[str, ...]
    around: str

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {next(filter(None, self.lines), '')}"


def pages() -> list[Path]:
    """Return the Markdown pages for readers; not the changelog of former versions, and none that the site writes."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    return sorted(page for page in found if page.name != "CHANGELOG.md" and page.parent.name != "reference")


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page: fenced ones, and those indented by four spaces after an empty line."""
    name, text = _name(page), page.read_text("utf-8")
    lines, found = text.splitlines(), list[Block]()
    for token in _MARKDOWN.parse(text):
        if token.type in ("fence", "code_block") and token.map is not None:
            body, (begin, end) = token.content.splitlines(), token.map
            around = "\n".join([*_paragraph(lines, begin - 1, -1), *body, *_paragraph(lines, end, 1)])
            found.append(Block(name, begin + 1, _kind(token.info.strip(), body), tuple(body), around))
    return found


@cache
def commands() -> tuple[Printed, ...]:
    """Return every command that is printed anywhere; two modules of tests ask for them while they are collected."""
    found = [command for page in pages() for command in of_page(page)]
    return (*found, *_of_makefile(), *_of_compose())


def mentions() -> list[Printed]:
    """Return every option that a page names by itself, such as ``--json``."""
    return [span for page in pages() for span in _spans(page) if span.text.startswith("--")]


def tokens(line: str) -> list[str]:
    """Return the words of an output line, without the lines that a table is drawn with."""
    return re.sub(r"[─-╿|]", " ", line).split()


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


def _paragraph(lines: list[str], at: int, step: int) -> list[str]:
    """Return the paragraph next to a block, seen from the line after (or before) it."""
    while 0 <= at < len(lines) and not lines[at].strip():
        at += step
    found = []
    while 0 <= at < len(lines) and lines[at].strip():
        found.append(lines[at])
        at += step
    return found[::step]


def _kind(language: str, body: list[str]) -> Kind:
    if language in ("sh", "bash", "shell", "console") or (not language and _BEGINS.match(body[0])):
        return "shell"
    if language == "python" or (not language and re.match(r"(from|import) [\w.]+", body[0])):
        return "python"
    if language == "mermaid" or language.startswith("{"):  # a directive of the site, such as a table of contents
        return "picture"
    try:
        tree = yaml.safe_load("\n".join(body))
    except yaml.YAMLError:
        return "unknown"
    return "data" if isinstance(tree, dict | list) else "unknown"


def of_page(page: Path) -> Iterator[Printed]:
    """Yield the commands of a page: those of its blocks, then those between backquotes."""
    for block in blocks(page):
        if block.kind == "shell":
            yield from _of_block(block)
    yield from (span for span in _spans(page) if COMMAND.match(span.text) and " " in span.text)


def _of_block(block: Block) -> Iterator[Printed]:
    """Yield a block's commands. If one has a prompt all have, and the other lines are output."""
    lines = _joined(block.lines)
    prompt = any(line.startswith("$ ") for _, line in lines)
    for place, (number, line) in enumerate(lines):
        if prompt and line.startswith("$ "):
            rest = [text for _, text in lines[place + 1 :]]
            end = next((i for i, text in enumerate(rest) if text.startswith("$ ")), len(rest))
            shows = tuple(text for text in rest[:end] if text.strip())
            yield Printed(block.document, block.line + number, line[2:], block.around, shows)
        elif not prompt and line.strip() and not line.startswith("#"):
            text, beside = _split(line)
            yield Printed(block.document, block.line + number, text, f"{beside}\n{block.around}")


def _joined(lines: tuple[str, ...]) -> list[tuple[int, str]]:
    """Join lines that end with a backslash to the next."""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        if found and found[-1][1].endswith("\\"):
            found[-1] = found[-1][0], f"{found[-1][1][:-1].rstrip()} {line.strip()}"
        else:
            found.append((number, line))
    return found


def _split(line: str) -> tuple[str, str]:
    """Part a command from the words beside it, two spaces or more away."""
    text, *beside = re.split(r"\s{2,}(?:# )?", line.strip(), maxsplit=1)
    return text, "".join(beside)


def _spans(page: Path) -> Iterator[Printed]:
    """Yield what stands between backquotes in a paragraph or in the row of a table; it may go over two lines."""
    name, text = _name(page), page.read_text("utf-8")
    lines = text.splitlines()
    for token in _MARKDOWN.parse(text):
        if token.type == "inline" and token.map is not None:
            line, paragraph = token.map[0] + 1, "\n".join(lines[slice(*token.map)])
            for child in token.children or ():
                if child.type == "code_inline":
                    yield Printed(name, line, " ".join(child.content.split()), paragraph)
                line += child.type == "softbreak"


def _of_makefile() -> Iterator[Printed]:
    """Yield ``make``'s targets with a help text, and the commands that ``make demo`` prints at its end."""
    for number, line in enumerate((ROOT / "Makefile").read_text("utf-8").splitlines(), start=1):
        if target := re.match(r"([a-z-]+):[^#]*## (.*)", line):
            yield Printed("Makefile", number, f"make {target[1]}", target[2])
        elif printed := re.match(r"\t  (['\"])  (.*)\1(?: \\)?$", line):
            yield from _command("Makefile", number, printed[2].replace("$(BIN)", ".venv/bin").replace("$$", "$"))


def _of_compose() -> Iterator[Printed]:
    for number, line in enumerate((ROOT / "docker-compose.yml").read_text("utf-8").splitlines(), start=1):
        if comment := re.match(r"#   (\S.*)", line):
            yield from _command("docker-compose.yml", number, comment[1])


def _command(document: str, number: int, line: str) -> Iterator[Printed]:
    text, beside = _split(line)
    if COMMAND.match(text):
        yield Printed(document, number, text, beside)
