"""What ``referee init`` and ``check`` do with tables of one's own.

``init`` asks what no option says, and writes a scenario that explains itself; no question shows what a field holds.
``check`` shows what a run would make of a table, to its owner.
"""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import yaml

from common.core import strictyaml
from common.core.errors import BadData, BadMessage, BadScenario
from common.core.plain import nearest
from common.core.terminal import say
from common.data.examining import Examined, TableFinding, examine
from common.data.files import columns_of, is_typed, pieces
from common.data.population import locate
from common.data.tables import Category, Feature, Label, Layout, Missing, Number
from common.local.losses import Costs
from common.scenario.fitting import Advice, Start, advised, scenario_tree, usual_delta
from common.scenario.scenario import ResolvedScenario, Scenario, parse

_INDENT = "  "
_EXPLAINED = strictyaml.load((resources.files(__package__) / "first_scenario.yaml").read_text("utf-8"))
"""What stands above each key of a first scenario."""


class Ask(Protocol):
    """Put a question to a person and return the answer, or the default; raises where there is neither."""

    def __call__(self, question: str, default: str | None = None) -> str: ...


Accept = Callable[[Callable[[int], Scenario], int, str], object]
"""Accepts a scenario of so many people of the curator, or refuses it: :func:`deploy.checking.acceptable_of`."""


def _common_columns(source: Path, target: Path, layout: Layout) -> list[str]:
    """Return the columns that both have, in the order of the first."""
    if source.resolve() == target.resolve():
        raise BadScenario(f"S and T are the same file, {source}: no person may be on both sides, so give two files")
    here, there = (columns_of(file, layout) for file in (source, target))
    names = [column for column in dict.fromkeys(here) if column in there]
    if not names:
        right = f"is --separator {layout.separator!r} right?"
        raise BadData(f"{source.name} and {target.name} have no column in common: {right}")
    return names


def layout_of(separator: str, decimal: str, thousands: str, encoding: str, missing: Sequence[str]) -> Layout:
    """Return how the files are written, from the options that say it; empty where they do not."""
    if len(separator) != 1:
        raise BadScenario(f"--separator must be one character, found {separator!r}")
    given: dict[str, Any] = {"decimal": decimal, "thousands": thousands, "encoding": encoding}
    given["missing"] = [*Layout().missing, *missing] if missing else ()
    options = "--decimal, --thousands, --encoding and --missing-texts"
    return _parsed(options, Layout, separator=separator, **{key: value for key, value in given.items() if value})


def described(
    source: Path,
    target: Path,
    given: ColumnAnswers,
    budgets: tuple[float, float | None, float],
    layout: Layout,
    name: str,
    ask: Ask,
) -> Start:
    """Return what options and answers say of two tables.

    BadScenario if an option is wrong, or both files are the same. BadData if a file cannot be read, has no rows, or
    holds what no table takes in a column that is used.

    Args:
        budgets: epsilon and delta of the curator (None: :func:`usual_delta`), epsilon of an agent.
        layout: How the files are written: :func:`layout_of`.
        name: Of the scenario; empty: after the file.
        ask: Answers what no option says.
    """
    names = _common_columns(source, target, layout)
    n, agents = (_rows(file, layout) for file in (source, target))
    say(f"{source.name}: {n:,} rows; {target.name}: {agents:,} rows. Columns of both: {', '.join(names)}")
    if n > agents:
        say("S has more rows than T. S are the few who trust the curator with their records: are the two swapped?")
    say(WARNING)
    label = label_of(given, names, ask)
    costs = costs_of(given, ask)
    if given.id_column:
        _known(given.id_column, names, "--id")
    if given.id_column == label.column:
        raise BadScenario(f"--id {given.id_column}: this column is the label, and cannot say who is who")
    features = features_of(given, names, label.column, ask)
    used = {label.column, *(feature.column for feature in features), *filter(None, [given.id_column])}
    for file in filter(is_typed, (source, target)):
        _rows(file, layout, frozenset(used))
    epsilon, delta, agent_epsilon = budgets
    folder, (first, second) = _placed(source, target)
    own_name = re.sub(r"[^a-z0-9]+", "-", source.name.partition(".")[0].lower()).strip("-")[:64]
    return Start(
        name=name or own_name or "own-data",
        data=folder,
        source=first,
        target=second,
        n=n,
        agents=agents,
        label=label,
        features=features,
        epsilon=epsilon,
        delta=usual_delta(n) if delta is None else delta,
        agent_epsilon=agent_epsilon,
        layout=layout,
        costs=costs,
        id_column=given.id_column or None,
    )


def write(start: Start, output: Path, accept: Accept) -> Path:
    """Write the scenario to a new file, after it was read, planned and accepted as a run does it.

    ``accept`` refuses what a run would refuse, and says how many rows would do.
    """
    if not (start.epsilon > 0 and start.agent_epsilon > 0 and 0 < start.delta < 1):
        raise BadScenario("--epsilon and --agent-epsilon must be positive, and --delta between 0 and 1")
    if output.suffix not in (".yaml", ".yml"):
        raise BadScenario(f"--output must end in .yaml, found {output}")

    def text_of(people: int) -> str:
        sized = replace(start, n=people)
        return scenario_text(scenario_tree(sized), advised(sized))

    too_few = f"{start.n:,} row{'s' if start.n > 1 else ''} of S are too few for these budgets"
    accept(lambda people: parse(strictyaml.load(text_of(people))), start.n, too_few)
    text = text_of(start.n)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadScenario(f"{output} is there already, and is left as it is: give another --output") from None
    return output


def _rows(file: Path, layout: Layout, columns: frozenset[str] = frozenset()) -> int:
    found = sum(len(piece.lines) for piece in pieces(file, layout, columns))
    if found == 0:
        raise BadData(f"{file.name}: there is no row below its header")
    return found


def _placed(source: Path, target: Path) -> tuple[str, tuple[str, str]]:
    whole = [Path(os.path.abspath(file)) for file in (source, target)]
    shared = Path(os.path.commonpath([file.parent for file in whole]))
    first, second = (file.relative_to(shared).as_posix() for file in whole)
    folder = shared.relative_to(Path.cwd()) if shared.is_relative_to(Path.cwd()) else shared
    return folder.as_posix(), (first, second)


class _Quoted(str):
    """A text of a table: always in quotes, so that YAML takes no for a text and 1 for no number."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of tables in quotes, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out."""
        return True


_Dumper.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
)


def scenario_text(tree: Mapping[str, Any], advice: Advice) -> str:
    """Return a scenario as commented YAML."""
    head = [
        "A first scenario, written by `referee init` from public numbers: no record was looked at, rows were counted."
    ]
    head += ["All keys: docs/scenarios.md. What fits so many people (`referee plan` says it again):"]
    head += [f"  {sentence}." for sentence in advice.sentences]
    head += [f"  Warning: {warning}." for warning in advice.warnings]
    return "\n".join([*(line for text in head for line in _comment(text, 0)), *_mapping(tree, "", 0)]) + "\n"


def _mapping(tree: Mapping[str, Any], path: str, depth: int) -> Iterator[str]:
    for key, value in tree.items():
        here = f"{path}.{key}" if path else key
        if here in _EXPLAINED:
            yield from _comment(_EXPLAINED[here], depth)
        yield from _entry(key, value, here, depth)


def _entry(key: str, value: Any, here: str, depth: int) -> Iterator[str]:
    indent = _INDENT * depth
    nested = isinstance(value, Mapping) and any(isinstance(inner, Mapping | list) for inner in value.values())
    if nested or here == "curator.learner":
        yield f"{indent}{key}:"
        yield from _mapping(value, here, depth + 1)
    elif here.endswith(".features"):
        yield f"{indent}{key}:"
        for feature in value:
            yield f"{indent}{_INDENT}- {_flow(feature, quote=True)}"
    else:
        yield f"{indent}{key}: {_flow(value, quote='.table.' in here)}"


def _flow(value: Any, *, quote: bool) -> str:
    marked = _marked(value) if quote else value
    text = yaml.dump(
        marked, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=float("inf"), sort_keys=False
    )
    return text.removesuffix("...\n").strip("\n")  # other blanks may be the value's own, such as a no-break space


def _marked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: item if key == "kind" else _marked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(item) for item in value]
    return _Quoted(value) if isinstance(value, str) else value


def _comment(text: str, depth: int) -> Iterator[str]:
    lead = f"{_INDENT * depth}# {'  ' if text.startswith('  ') else ''}"
    words = " ".join(text.split())
    yield from textwrap.wrap(
        words, 115, initial_indent=lead, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False
    )


_Answer = TypeVar("_Answer", Label, Number, Category, Layout)
WARNING = (
    "Bounds and categories become public with the scenario. Give what is known without the data (ages are 18 to 90, a "
    "form has three boxes): the least and greatest value of your own table would tell everybody about two people."
)


@dataclass(frozen=True)
class ColumnAnswers:
    """What options say; empty where they do not."""

    label: str = ""
    positive: str = ""
    negative: str = ""
    bounds: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    id_column: str = ""
    missing: str = ""
    costs: str = ""


def costs_of(given: ColumnAnswers, ask: Ask) -> Costs | None:
    """Return what mistakes cost; None where both cost the same."""
    question = "Which mistake is worse, and by how much (--costs)? A miss (yes taken for no) to a false alarm, as 10:1"
    text = given.costs or ask(question, "1:1")
    try:
        miss, false_alarm = (float(part) for part in text.split(":"))
        costs = Costs.parse({"miss": miss, "false_alarm": false_alarm})
    except ValueError:
        raise BadScenario(
            f"--costs must be two numbers with a colon between them, such as 10:1, found {text!r}"
        ) from None
    except BadMessage as error:
        raise BadScenario(f"--costs {text}: {error.detail}") from None
    return None if miss == false_alarm else costs


def label_of(given: ColumnAnswers, names: Sequence[str], ask: Ask) -> Label:
    """Return the label: its column, and the texts that mean yes and no."""
    column = given.label or ask("Which column is to be predicted (--label)?")
    _known(column, names, "--label")
    positive = given.positive or ask(f"Which texts of {column!r} mean yes, with commas between them (--positive)?")
    negative = given.negative or ask(f"Which texts of {column!r} mean no (--negative)?")
    both = {"positive": list(texts(positive)), "negative": list(texts(negative))}
    return _parsed("--positive and --negative", Label, column=column, **both)


def features_of(given: ColumnAnswers, names: Sequence[str], label: str, ask: Ask) -> tuple[Feature, ...]:
    """Return the features in the order of the columns: those of the options, or if there are none, column by column."""
    stated: list[Feature] = [*(number(text) for text in given.bounds), *(category(text) for text in given.categories)]
    columns = [feature.column for feature in stated]
    for column in columns:
        _known(column, names, "--bounds or --categories")
        if column == label or columns.count(column) > 1:
            why = "is the label" if column == label else "is given twice"
            raise BadScenario(f"column {column!r} {why}: each column is the label or one kind of feature")
    if given.id_column in columns:
        raise BadScenario(f"column {given.id_column!r} says who is who (--id), and is never learned from")
    found = stated or list(_asked([name for name in names if name not in (label, given.id_column)], ask))
    if not found:
        raise BadScenario("no column is a feature: give --bounds COLUMN=LOW:HIGH or --categories COLUMN=VALUE,VALUE")
    empty = tuple(texts(given.missing if stated or given.missing else ask(_EMPTY)))
    for column in empty:
        if column not in {feature.column for feature in found}:
            raise BadScenario(f"--missing: column {column!r} is no feature: give its --bounds or --categories as well")
    found += [Missing(column=column) for column in dict.fromkeys(empty)]
    return tuple(sorted(found, key=lambda feature: names.index(feature.column)))


_EMPTY = "In which columns is an empty field to be a feature of its own, with commas between them (--missing; or none)?"


def _asked(names: Sequence[str], ask: Ask) -> Iterator[Feature]:
    for name in names:
        kind = ask(f"Column {name!r}: number, category, or skip (n, c, s)?").strip().lower()[:1]
        if kind == "n":
            yield number(f"{name}={ask(f'Public bounds of {name!r}, LOW:HIGH?')}")
        elif kind == "c":
            yield category(f"{name}={ask(f'Public values of {name!r}, with commas between them?')}")
        elif kind != "s":
            raise BadScenario(f"column {name!r} must be a number (n), a category (c) or skipped (s)")


def number(text: str) -> Number:
    """Return a feature from ``COLUMN=LOW:HIGH``."""
    column, _, bounds = text.rpartition("=")
    low, _, high = bounds.partition(":")
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = math.nan, math.nan
    if not (column and all(map(math.isfinite, ends))):
        raise BadScenario(f"--bounds wants COLUMN=LOW:HIGH with two finite numbers, as age=18:90, found {text!r}")
    return _parsed(f"--bounds {text}", Number, column=column, low=ends[0], high=ends[1])


def category(text: str) -> Category:
    """Return a feature from ``COLUMN=VALUE,VALUE``."""
    column, _, values = text.partition("=")
    listed = tuple(texts(values))
    if not (column and listed):
        raise BadScenario(f"--categories wants COLUMN=VALUE,VALUE, as sex=f,m, found {text!r}")
    return _parsed(f"--categories {text}", Category, column=column, values=list(listed))


def texts(text: str) -> Iterator[str]:
    """Yield what stands between commas."""
    return (part.strip() for part in text.split(",") if part.strip())


def _known(column: str, names: Collection[str], option: str) -> None:
    if column not in names:
        there = f"there are {', '.join(names)}"
        raise BadScenario(f"{option}: both tables must have column {column!r}{nearest(column, names)}; {there}")


def _parsed(option: str, kind: type[_Answer], **fields: object) -> _Answer:
    try:
        return kind.parse(fields)
    except BadMessage as error:
        raise BadScenario(f"{option}: {error.detail}") from None


Side = Literal["S", "T"]
SIDES: tuple[Side, ...] = ("S", "T")

PRIVATE = (
    "PRIVATE: this was computed from people's records, without any noise. It is for their keeper alone, and was "
    "written nowhere else: do not put it into a scenario, a ticket or a chat."
)
_HEADINGS = {
    "stops": "A run stops at these:",
    "mistake": "A run goes on with these, and probably not as it was meant:",
    "note": "The public rules say what these become (docs/scenarios.md, Tables):",
}


def sides_of(scenario: Scenario, wanted: Side | None) -> tuple[Side, ...]:
    """Return the sides whose tables are to be checked: the one that is wanted, else all that have a table here."""
    why: dict[Side, str] = {}
    for side in SIDES:
        people = scenario.source if side == "S" else scenario.target
        if people.table is not None and people.table.contributed:
            why[side] = f"side {side} of {scenario.name} contributes: each record is checked before it is sent"
        elif people.table is None or scenario.data is None:
            why[side] = f"side {side} of {scenario.name} has simulated people: there is no table to check"
    found = tuple(side for side in ((wanted,) if wanted else SIDES) if side not in why)
    if not found:
        raise BadScenario(why[wanted or "S"])
    return found


def examined(chosen: ResolvedScenario, side: Side) -> Examined:
    """Return what is found in the table of a side, which has one."""
    people, wanted = (chosen.source, chosen.curator.n) if side == "S" else (chosen.target, chosen.agents.count)
    if people.table is None or chosen.data is None:
        raise AssertionError("the sides with a table are asked for before")
    return examine(locate(chosen.data), people.table, wanted)


def document(found: Mapping[Side, Examined], sound: bool) -> dict[str, Any]:
    """Return what was found as JSON: of one side, or of S with T beside it under its letter; whether a run begins."""
    first, *others = [_document(side, one) for side, one in found.items()]
    beside = {"compared": list(compared(found))} if others else {}
    return {"private": PRIVATE, **first, "sound": sound, **{other["side"]: other for other in others}, **beside}


def _document(side: Side, found: Examined) -> dict[str, Any]:
    return {
        "side": side,
        "sound": found.sound,
        "rows": found.rows,
        "kept": found.kept,
        "labels": {"positive": found.positive, "negative": found.negative},
        "findings": [asdict(finding) for finding in found.findings],
    }


def lines(scenario: Scenario, found: Mapping[Side, Examined], sound: bool) -> Iterator[str]:
    """Yield what was found, line by line; at the end, whether a run begins."""
    yield PRIVATE
    for side, one in found.items():
        table = (scenario.source if side == "S" else scenario.target).table
        yield from _of_a_side(side, ", ".join(table.files if table is not None else ()), one)
    beside = list(compared(found))
    if beside:
        yield "S beside T:"
        yield from (f"  {line}" for line in beside)
    yield "Nothing stands in the way of a run." if sound else "Fix this before a run."


def compared(found: Mapping[Side, Examined]) -> Iterator[str]:
    """Yield what only both tables together show, where both were looked at."""
    if len(found) < len(SIDES):
        return
    source, target = found["S"], found["T"]
    if source.kept > target.kept:
        yield f"S has {source.kept:,} rows, T {target.kept:,}: S are the few who trust the curator; are they swapped?"

    def columns(side: Examined, kind: str) -> dict[str, int]:
        return {one.column: one.count for one in side.findings if one.kind == kind and one.column is not None}

    flat = columns(target, "constant")
    for column in columns(source, "constant"):
        if column not in flat:
            yield f"column {column!r} is the same in all rows of S alone: leave it out if that is publicly known"
    for kind, words in (("unlisted", "values that are not listed"), ("missing", "missing values")):
        here = columns(source, kind)
        for column, count in columns(target, kind).items():
            if column not in here:
                yield f"column {column!r} has {words} in T alone ({count:,}): no model of S knows them"


def _of_a_side(side: Side, files: str, found: Examined) -> Iterator[str]:
    for finding in found.findings:
        if finding.kind == "clipped" and 2 * finding.count >= found.kept:
            clipped = f"{finding.count:,} of {found.kept:,} rows of column {finding.column!r} of {side}"
            yield f"WARNING: the bounds clip {clipped}: people differ in little there; look for a wrong unit"
    labels = f"{found.positive:,} positive, {found.negative:,} negative"
    yield f"{side} ({files}): {found.rows:,} rows, {found.kept:,} kept, {labels}"
    for severity, heading in _HEADINGS.items():
        here = [finding for finding in found.findings if finding.severity == severity]
        if here:
            yield heading
            for finding in here:
                yield f"  {_place(finding)}: {finding.what}"
                yield f"    -> {finding.remedy}"


def _place(finding: TableFinding) -> str:
    where = [finding.file] if finding.file else []
    where += [f"column {finding.column!r}"] if finding.column else []
    if finding.lines:
        named = ", ".join(str(line) for line in finding.lines)
        more = ", ..." if finding.count > len(finding.lines) else ""
        where.append(f"{finding.count:,} row{'s' if finding.count != 1 else ''} (line {named}{more})")
    return ", ".join(where) or "the table"
