"""``referee init`` with the user's own tables: it asks questions, and writes a scenario with explanations.

No question shows the content of a field.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from common.core import strictyaml
from common.core.errors import BadData, BadMessage, BadScenario
from common.core.plain import command, nearest
from common.core.terminal import say
from common.data.files import columns_of, is_typed, pieces
from common.data.tables import Category, Feature, Label, Layout, Missing, Number
from common.local.losses import Costs
from common.scenario.fitting import Start, advised, scenario_tree, usual_delta
from common.scenario.scenario import Scenario, parse
from referee.view.asking import Ask, Wizard, looks_like
from referee.view.scenario_text import scenario_text

Accept = Callable[[Callable[[int], Scenario], int, str], object]
"""Accepts or refuses a scenario, given the curator's number of people: :func:`deploy.checking.acceptable_of`."""


def _common_columns(source: Path, target: Path, layout: Layout) -> list[str]:
    if source.resolve() == target.resolve():
        raise BadScenario(f"S and T are the same file, {source}: no person may be on both sides, so give two files")
    here, there = (columns_of(file, layout) for file in (source, target))
    names = [column for column in dict.fromkeys(here) if column in there]
    if repeated := [column for column in names if here.count(column) > 1 or there.count(column) > 1]:
        say(f"Columns that a file has more than once cannot be used: {', '.join(repeated)}. Rename them.")
        names = [column for column in names if column not in repeated]
    if not names:
        right = f"is --separator {layout.separator!r} right?"
        raise BadData(f"{source.name} and {target.name} have no column in common: {right}")
    return names


def layout_of(separator: str, decimal: str, thousands: str, encoding: str, missing: Sequence[str]) -> Layout:
    """Return the layout of the files from the options; an option that is empty leaves the default."""
    separator = "\t" if separator == r"\t" else separator  # a tab as messages spell it and shells pass it
    if len(separator) != 1:
        raise BadScenario(f"--separator must be one character, found {separator!r}")
    fields: dict[str, Any] = {"decimal": decimal, "thousands": thousands, "encoding": encoding}
    fields["missing"] = [*Layout().missing, *missing] if missing else ()
    options = "--decimal, --thousands, --encoding and --missing-texts"
    return _parsed(options, Layout, separator=separator, **{key: value for key, value in fields.items() if value})


@contextmanager
def _in_options() -> Iterator[None]:
    """In messages about a file, name the option instead of a key of ``layout``: there is no scenario file yet."""
    try:
        yield
    except BadData as error:
        raise BadData(re.sub(r"layout\.([a-z]+)(?:: )?", r"--\1 ", error.detail).rstrip()) from None


@_in_options()
def described(
    source: Path,
    target: Path,
    options: ColumnAnswers,
    budgets: tuple[float, float | None, float],
    layout: Layout,
    name: str,
    ask: Ask | Wizard,
) -> Start:
    """Return the :class:`Start` of a scenario for two tables, from options and answers.

    BadScenario if an option is wrong, or both files are the same. BadData if a file cannot be read, has no rows, or has
    invalid values in a column that is used.

    Args:
        budgets: epsilon and delta of the curator (None: :func:`usual_delta`), epsilon of an agent.
        layout: The layout of the files (:func:`layout_of`).
        name: The scenario's name; if empty, it is named after the file.
        ask: Answers what no option states; a Wizard asks again after a wrong answer.
    """
    names = _common_columns(source, target, layout)
    n, agents = (_rows(file, layout) for file in (source, target))
    say(f"{source.name}: {n:,} rows; {target.name}: {agents:,} rows. Columns of both: {', '.join(names)}")
    if n > agents:
        say("S has more rows than T. S are the few who trust the curator with their records: are the two swapped?")
    say(WARNING)
    epsilon, delta, agent_epsilon = budgets
    folder, (first, second) = _placed(source, target)
    start = partial(
        Start,
        name=name or name_of(source),
        data=folder,
        source=first,
        target=second,
        n=n,
        agents=agents,
        epsilon=epsilon,
        delta=usual_delta(n) if delta is None else delta,
        agent_epsilon=agent_epsilon,
        layout=layout,
    )
    find = partial(columns_from, options, names, start)
    answered = ask.through(find) if isinstance(ask, Wizard) else find(ask)
    for file in filter(is_typed, (source, target)):
        _rows(file, layout, frozenset(names) - frozenset(answered.left_out))
    return answered


def write(start: Start, output: Path, accept: Accept) -> Path:
    """Write the scenario to a new file, after reading, planning and accepting it as a run would.

    ``accept`` refuses what a run would refuse, and states how many rows would suffice.
    """
    if not (start.epsilon > 0 and start.agent_epsilon > 0 and 0 < start.delta < 1):
        raise BadScenario("--epsilon and --agent-epsilon must be positive, and --delta between 0 and 1")

    def text_of(people: int) -> str:
        sized = replace(start, n=people)
        return scenario_text(scenario_tree(sized), advised(sized))

    too_few = f"{start.n:,} row{'s' if start.n > 1 else ''} of S are too few for these budgets"
    accept(lambda people: parse(strictyaml.load(text_of(people))), start.n, too_few)
    text = text_of(start.n)
    try:
        with output.open("x", encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
            except OSError:
                output.unlink()  # it may be written in part
                raise
    except FileExistsError:
        raise _already(output) from None
    return output


def new_file(output: Path | None, source: Path, name: str) -> Path:
    """Return the scenario's file, by default named after the file S; refuse a wrong one before any question."""
    path = output or Path(f"{name or name_of(source)}.yaml")
    if path.suffix not in (".yaml", ".yml"):
        raise BadScenario(f"--output must end in .yaml, found {path}")
    if path.exists():
        raise _already(path)
    return path


def _already(output: Path) -> BadScenario:
    numbered = (output.with_stem(f"{output.stem}-{number}") for number in count(2))
    free = next(path for path in numbered if not path.exists())
    return BadScenario(
        f"{output} is there already, and is left as it is: `{command('referee', 'plan', output)}` goes on with it; "
        f"for a new one give another name, as `{command('--output', free)}`"
    )


def name_of(source: Path) -> str:
    """Return the name of a scenario, derived from its file S."""
    return re.sub(r"[^a-z0-9]+", "-", source.name.partition(".")[0].lower()).strip("-")[:64] or "own-data"


def _rows(file: Path, layout: Layout, columns: frozenset[str] = frozenset()) -> int:
    total = sum(len(piece.lines) for piece in pieces(file, layout, columns))
    if total == 0:
        raise BadData(f"{file.name}: there is no row below its header")
    return total


def _placed(source: Path, target: Path) -> tuple[str, tuple[str, str]]:
    paths = [Path(os.path.abspath(file)) for file in (source, target)]
    shared = Path(os.path.commonpath([file.parent for file in paths]))
    first, second = (file.relative_to(shared).as_posix() for file in paths)
    folder = shared.relative_to(Path.cwd()) if shared.is_relative_to(Path.cwd()) else shared
    return folder.as_posix(), (first, second)


_Answer = TypeVar("_Answer", Label, Number, Category, Layout)
WARNING = (
    "Bounds and categories become public with the scenario. Give what is known without the data (ages are 18 to 90, a "
    "form has three boxes): the least and greatest value of your own table would tell everybody about two people."
)


@dataclass(frozen=True)
class ColumnAnswers:
    """The values of the options about columns; empty where an option is not given."""

    label: str = ""
    positive: str = ""
    negative: str = ""
    above: str = ""
    response: str = ""
    bounds: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    id_column: str = ""
    skip: tuple[str, ...] = ()
    missing: str = ""
    costs: str = ""
    classes: str = ""


def columns_from(options: ColumnAnswers, names: Sequence[str], start: Callable[..., Start], ask: Ask) -> Start:
    """Return the :class:`Start` of a scenario, from the options about columns and, where there is none, from answers.

    A BadScenario is about the last answer.
    """
    stated = _stated_features(options, names)
    if options.costs:
        costs_of(options, ask)
    if options.classes or options.above or options.response or (options.positive and options.negative):
        _labelled(replace(options, label=options.label or names[0]), names, ask)  # errors that any column would cause
    label, response = _labelled(options, names, ask)
    listed = (*label.positive, *label.negative)
    if not (options.classes or options.negative or options.costs) and 3 <= len(listed) <= MOST_CLASSES:
        question = f"Are these {len(listed)} texts of {label.column!r} classes of their own (--classes; y or n)?"
        if ask(question, "n").strip().lower().startswith("y"):
            options = replace(options, classes=",".join(listed), positive="")
            label = _of_classes(options, label.column)
    if options.id_column == label.column:
        raise BadScenario(f"--id {options.id_column}: this column is the label, and cannot say who is who")
    if label.column in {feature.column for feature in stated}:
        raise BadScenario(f"column {label.column!r} is the label: each column is the label or one kind of feature")
    costs = None if response is not None else costs_of(options, ask)
    id_column, features = features_of(options, names, label.column, stated, ask)
    used = {label.column, id_column, *(feature.column for feature in features)}
    return start(
        label=label,
        response=response,
        costs=costs,
        id_column=id_column or None,
        features=features,
        classes=tuple(texts(options.classes)),
        left_out=tuple(name for name in names if name not in used),
    )


def _labelled(options: ColumnAnswers, names: Sequence[str], ask: Ask) -> tuple[Label, tuple[float, float] | None]:
    label, response = label_of(options, names, ask)
    if response is not None and options.costs:
        raise BadScenario("--costs are of mistakes about yes and no: a number that is predicted (--response) has none")
    return label, response


def costs_of(options: ColumnAnswers, ask: Ask) -> Costs | None:
    """Return the costs of the two kinds of mistakes; None if they are equal."""
    if options.classes:
        if options.costs:
            raise BadScenario("--costs: a miss and a false alarm are of two labels: leave it out beside --classes")
        return None
    question = "Which mistake is worse, and by how much (--costs)? A miss (yes taken for no) to a false alarm, as 10:1"
    text = options.costs or ask(question, "1:1")
    try:
        miss, false_alarm = (float(part) for part in text.split(":"))
        costs = Costs.parse({"miss": miss, "false_alarm": false_alarm})
    except ValueError:
        expected = "two numbers with a colon between them, such as 10:1"
        raise BadScenario(f"--costs must be {expected}, found {text!r}") from None
    except BadMessage as error:
        raise BadScenario(f"--costs {text}: {error.detail}") from None
    return None if miss == false_alarm else costs


def label_of(options: ColumnAnswers, names: Sequence[str], ask: Ask) -> tuple[Label, tuple[float, float] | None]:
    """Return the label and, if it is a number to predict, the public bounds of its column."""
    column = options.label or ask("Which column is to be predicted (--label)?")
    _check_column(column, names, "--label")
    if options.classes:
        return _of_classes(options, column), None
    positive, above, response = options.positive, options.above, options.response
    if sum(map(bool, (positive or options.negative, above, response))) > 1:
        raise BadScenario("give --positive and --negative, or --above, or --response: they exclude each other")
    if not (positive or above or response):
        answer = ask(_YES.format(column)).strip()
        if answer.startswith(">"):
            above = answer[1:].strip()
        elif _BOUNDS.fullmatch(answer):
            response = answer
        else:
            positive = answer
    if above:
        return _parsed("--above", Label, column=column, above=_finite(above, "--above")), None
    if response:
        ends = number(column, response, "--response")
        return Label(column=column, above=ends.default), (ends.low, ends.high)
    negative = options.negative or ask(f"Which texts of {column!r} mean no (--negative)?")
    both = {"positive": list(texts(positive)), "negative": list(texts(negative))}
    return _parsed("--positive and --negative", Label, column=column, **both), None


MOST_CLASSES = 10


def _of_classes(options: ColumnAnswers, column: str) -> Label:
    """Return the label of several classes; of the two label values that a table needs, the first class is one."""
    first, *rest = classes = list(texts(options.classes)) or [""]
    if options.positive or options.negative or options.above or options.response:
        raise BadScenario(
            "--classes are all texts of the label: leave --positive and --negative out, --above and --response too"
        )
    if not 3 <= len(classes) <= MOST_CLASSES or len(set(classes)) < len(classes):
        raise BadScenario(
            f"--classes wants 3 to {MOST_CLASSES} different texts with commas between them, found {options.classes!r}; "
            "of two, give --positive and --negative"
        )
    return _parsed("--classes", Label, column=column, positive=[first], negative=rest)


_YES = (
    "Which texts of {!r} mean yes, with commas between them (--positive)? Of a number: above what is it a yes, as >100 "
    "(--above), or its public bounds LOW:HIGH, to predict the number itself (--response)"
)
_BOUNDS = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?:[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?")


def _finite(text: str, option: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadScenario(f"{option} must be a finite number, with a point for its fraction, found {text!r}")
    return value


def _stated_features(options: ColumnAnswers, names: Sequence[str]) -> list[Feature]:
    """Return the features that the options state, and validate every option that names a column."""
    stated: list[Feature] = [number(*_split_column(text, names), named=True) for text in options.bounds]
    stated += [category(*_split_column(text, names), named=True) for text in options.categories]
    columns = [feature.column for feature in stated]
    for column in columns:
        _check_column(column, names, "--bounds or --categories")
        if columns.count(column) > 1:
            raise BadScenario(f"column {column!r} is given twice: each column is the label or one kind of feature")
    if options.id_column:
        _check_column(options.id_column, names, "--id")
    if options.id_column in columns:
        raise BadScenario(f"column {options.id_column!r} says who is who (--id), and is never learned from")
    for column in options.skip:
        _check_column(column, names, "--skip")
        if column in (*columns, options.label, options.id_column):
            raise BadScenario(f"--skip {column}: another option uses this column")
    for column in _missing_in(options.missing, names):
        _check_column(column, names, "--missing")
        if column in (options.label, options.id_column, *options.skip):
            raise _no_feature(column)
    return stated


def features_of(
    options: ColumnAnswers, names: Sequence[str], label: str, stated: Sequence[Feature], ask: Ask
) -> tuple[str, tuple[Feature, ...]]:
    """Return the id column, and the features in the order of the columns, from options or else from answers."""
    described = {label, options.id_column, *options.skip, *(feature.column for feature in stated)}
    id_column, features = options.id_column, list(stated)
    rest = [name for name in names if name not in described]
    if rest and not (stated and _leaves_out(rest, ask)):
        id_column, further = _ask_features(rest, id_column, ask)
        features += further
    if not features:
        raise BadScenario("no column is a feature: give --bounds COLUMN=LOW:HIGH or --categories COLUMN=VALUE,VALUE")
    answer = options.missing if stated or options.missing else ask(_EMPTY, _NONE)
    empty = _missing_in(answer, names)
    for column in empty:
        if column not in {feature.column for feature in features}:
            raise _no_feature(column)
    features += [Missing(column=column) for column in dict.fromkeys(empty)]
    return id_column, tuple(sorted(features, key=lambda feature: names.index(feature.column)))


def _missing_in(text: str, names: Sequence[str]) -> tuple[str, ...]:
    return () if text == _NONE and _NONE not in names else tuple(texts(text))


def _no_feature(column: str) -> BadScenario:
    return BadScenario(f"--missing: column {column!r} is no feature: give its --bounds or --categories as well")


def _leaves_out(rest: Sequence[str], ask: Ask) -> bool:
    named = ", ".join(map(repr, rest))
    many = f"Columns {named} are" if len(rest) > 1 else f"Column {named} is"
    question = f"{many} named by no option (--bounds, --categories, --id or --skip): leave out (y), or be asked (n)?"
    answer = ask(question).strip().lower()[:1]
    if answer not in ("y", "n"):
        raise BadScenario("answer y or n")
    return answer == "y"


def summary(start: Start) -> Iterator[str]:
    """Yield a summary of a first scenario, line by line."""
    label = start.label
    if start.response is not None:
        what = f"the number {label.column!r}, of {start.response[0]:g} to {start.response[1]:g}"
    elif start.classes:
        what = f"{label.column!r}: one of {', '.join(start.classes)}"
    elif label.above is not None:
        what = f"whether {label.column!r} is above {label.above:g}"
    else:
        what = f"{label.column!r}: yes is {', '.join(label.positive)}; no is {', '.join(label.negative)}"
    yield f"  predicted: {what}"
    yield f"  from: {'; '.join(map(_described_feature, start.features))}"
    if start.id_column is not None:
        yield f"  who is who: {start.id_column}"
    if start.left_out:
        yield f"  left out: {', '.join(start.left_out)}"
    yield (
        f"  budgets: epsilon {start.epsilon:g}, delta {start.delta:g} of the curator for the run; epsilon "
        f"{start.agent_epsilon:g} of each device for its one answer"
    )
    advice = advised(start)
    vague = () if advice.probabilities is None else (advice.probabilities,)
    yield from (f"  {sentence}." for sentence in (advice.sentences[0], *advice.warnings, *vague))


def _described_feature(feature: Feature) -> str:
    if isinstance(feature, Number):
        return f"{feature.column} ({feature.low:g} to {feature.high:g})"
    if isinstance(feature, Category):
        return f"{feature.column} ({', '.join('/'.join(group) for group in feature.groups)})"
    return f"whether {feature.column} is missing"


_EMPTY = "In which columns is an empty field to be a feature of its own, with commas between them (--missing)?"
_NONE = "none"


def _ask_features(names: Sequence[str], id_column: str, ask: Ask) -> tuple[str, list[Feature]]:
    features: list[Feature] = []
    for name in names:
        looks = looks_like(name)
        own, letters = ("", "n, c, s") if id_column else (", the id of people", "n, c, i, s")
        default = None if looks is None else "i" if looks == "an id" and not id_column else "s"
        proposed = "" if looks is None else f" By its name it is {looks}."
        kind = ask(f"Column {name!r}: number, category{own}, or skip ({letters})?{proposed}", default)
        kind = kind.strip().lower()[:1]
        if kind == "n":
            features.append(number(name, ask(f"Public bounds of {name!r}, LOW:HIGH?")))
        elif kind == "c":
            features.append(category(name, ask(f"Public values of {name!r}, with commas between them?")))
        elif kind == "i" and not id_column:
            id_column = name
        elif kind != "s":
            raise BadScenario(f"column {name!r} must be a number (n), a category (c) or skipped (s)")
    return id_column, features


def _split_column(text: str, names: Sequence[str]) -> tuple[str, str]:
    """Return the column of ``COLUMN=...``, whose name may contain an equals sign, and the text after it."""
    match = max((name for name in names if text.startswith(f"{name}=")), key=len, default="")
    column = match or text.partition("=")[0] * ("=" in text)
    return column, text.removeprefix(f"{column}=")


def number(column: str, bounds: str, option: str = "--bounds", *, named: bool = False) -> Number:
    """Return a feature with the bounds ``LOW:HIGH``; ``named``: the option has the column's name before them."""
    low, _, high = bounds.partition(":")
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = math.nan, math.nan
    prefix, example = ("COLUMN=", "age=") if named else ("", "")
    text = f"{column}={bounds}".removeprefix("=") if named else bounds
    if not (column and all(map(math.isfinite, ends))):
        raise BadScenario(f"{option} wants {prefix}LOW:HIGH with two finite numbers, as {example}18:90, found {text!r}")
    return _parsed(f"{option} {text}", Number, column=column, low=ends[0], high=ends[1])


def category(column: str, values: str, *, named: bool = False) -> Category:
    """Return a feature with the values ``VALUE,VALUE``; ``named`` as for :func:`number`."""
    listed = list(texts(values))
    prefix, example = ("COLUMN=", "sex=") if named else ("", "")
    text = f"{column}={values}".removeprefix("=") if named else values
    if not (column and listed):
        raise BadScenario(f"--categories wants {prefix}VALUE,VALUE, as {example}f,m, found {text!r}")
    return _parsed(f"--categories {text}", Category, column=column, values=listed)


def texts(text: str) -> Iterator[str]:
    """Yield the texts between commas; a text in double quotes may contain commas, as in a CSV file."""
    try:
        parts = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        why = "a text with a comma or quotes stands in double quotes, and its own quotes are doubled"
        raise BadScenario(f"{text!r} is no list of texts ({error}): {why}") from None
    return (part.strip() for part in parts if part.strip())


def _check_column(column: str, names: Collection[str], option: str) -> None:
    if column not in names:
        there = f"there are {', '.join(names)}"
        raise BadScenario(f"{option}: both tables must have column {column!r}{nearest(column, names)}; {there}")


def _parsed(option: str, kind: type[_Answer], **fields: object) -> _Answer:
    try:
        return kind.parse(fields)
    except BadMessage as error:
        raise BadScenario(f"{option}: {error.detail}") from None
