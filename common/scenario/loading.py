"""Scenarios from YAML: the shipped ones and files, with their forms for real people, and overrides."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import scenarios
from common.core import strictyaml
from common.core.errors import BadData, BadMessage, BadScenario, NotFound
from common.core.folder import SCENARIO, names, read
from common.core.plain import nearest
from common.data.population import locate
from common.data.schema import described
from common.data.tables import TableSource
from common.net.cli import version
from common.operations.operation import Reweigh
from common.protocols.base import USUAL
from common.scenario.scenario import Scenario, parse

_KINDS_OF_PEOPLE = {"distribution", "table"}  # a tree with either replaces another tree as a whole


def shipped() -> list[str]:
    """Return the names of the shipped scenarios, sorted."""
    return scenarios.names()


@dataclass(frozen=True)
class DescribedPeople:
    """What a scenario states to the people whom it asks: its title, their table, its protocol and mechanism."""

    title: str
    table: TableSource
    protocol: str
    mechanism: str | None


def described_people(name_or_path: str, overrides: list[str] | None = None) -> DescribedPeople:
    """Return what a scenario states to its people; simulated people are refused.

    Only the table is checked, so that an individual's device needs no other part of the scenario.
    """
    tree = _tree(name_or_path, overrides)
    target = tree.get("target")
    table = target.get("table") if isinstance(target, dict) else None
    if table is None:
        raise BadScenario(
            "target.table: the people of this scenario are simulated, so no table says how fields become features"
        )
    try:
        parsed = TableSource.parse(table)
    except BadMessage as error:
        raise BadScenario(f"target.table: {error.detail}") from None
    agents = tree.get("agents")
    mechanism = agents.get("mechanism") if isinstance(agents, dict) else None
    name = mechanism.get("name") if isinstance(mechanism, dict) else None
    return DescribedPeople(str(tree.get("title", "")), parsed, str(tree.get("protocol", USUAL)), name)


def load(name_or_path: str, overrides: list[str] | None = None) -> Scenario:
    """Read a shipped scenario or a YAML file and apply ``KEY=VALUE`` overrides (dotted keys, YAML values).

    A file may describe the same experiment with real people under its key ``real``: if ``data`` is given, that tree is
    merged over the rest, key by key (lists and null replace the old value), before the overrides. Its own ``data`` is
    the name of a folder, which is looked up in the given directory. A BadScenario names the first unknown key or wrong
    value, and its position.
    """
    return parse(_tree(name_or_path, overrides), partial(_place, name_or_path, overrides or []))


def _place(name_or_path: str, overrides: list[str], path: Sequence[int | str], kind: str) -> str:
    if name_or_path in shipped():
        return ""
    # What an option has set is in no file.
    parts = [str(part) for part in path]
    set_keys = (override.partition("=")[0].split(".") for override in overrides)
    if any(parts[: len(key)] == key for key in set_keys):
        return ""
    text = read(Path(name_or_path), SCENARIO).decode("utf-8")
    position = strictyaml.place(text, path) or strictyaml.place(text, ("real", *path[:1]))
    location = f"{name_or_path}, line {position[0]}, column {position[1]}" if path and position else name_or_path
    newer = "; a key of a newer version is unknown to this one, " + version() if kind == "extra_forbidden" else ""
    return f" ({location}{newer})"


_LISTED = 10  # most files that are named


def _tree(name_or_path: str, overrides: list[str] | None) -> dict[str, Any]:
    if name_or_path in shipped():
        text = scenarios.text(name_or_path)
    else:
        path = Path(name_or_path)
        if path.suffix not in (".yaml", ".yml"):
            raise BadScenario(
                f"no shipped scenario is called {name_or_path!r}{nearest(name_or_path, shipped())}; "
                f"there are: {', '.join(shipped())}"
            )
        try:
            text = read(path, SCENARIO).decode("utf-8")
        except NotFound:
            files = names(path.parent) if path.parent.is_dir() else []
            available = [name for name in files if name.endswith((".yaml", ".yml"))]
            listing = f": there are {', '.join(available[:_LISTED])}" if available else ""
            raise BadScenario(f"there is no scenario {name_or_path}{nearest(path.name, available)}{listing}") from None
        except (BadData, UnicodeDecodeError) as error:
            raise BadScenario(f"cannot read {name_or_path}: {error}") from error
    try:
        tree = strictyaml.load(text, aliases=True)
    except yaml.YAMLError as error:
        raise BadScenario(f"{name_or_path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise BadScenario(f"{name_or_path} must be a mapping of keys, found {type(tree).__name__}")
    changes: dict[str, Any] = {}
    for override in overrides or []:
        _override(changes, override)
    real = tree.pop("real", None)
    if real is not None and not isinstance(real, dict):
        raise BadScenario(f"real must be a mapping of keys, found {type(real).__name__}")
    folder = changes.get("data", tree.get("data"))
    if real is not None and folder is not None:
        tree = _merge(tree, real)
    for override in overrides or []:
        _override(tree, override)
    if real is not None and isinstance(folder, str) and (Path(folder) / str(real.get("data", ""))).is_dir():
        tree["data"] = str(Path(folder) / str(real.get("data", "")))
    return _with_schemas(tree, name_or_path)


def _merge(tree: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    both = {key: value for key, value in tree.items() if key not in upper}
    for key, value in upper.items():
        lower = tree.get(key)
        if isinstance(value, dict) and isinstance(lower, dict) and not _KINDS_OF_PEOPLE & value.keys():
            both[key] = _merge(lower, value)
        else:
            both[key] = value
    return both


def _with_schemas(tree: dict[str, Any], name_or_path: str) -> dict[str, Any]:
    # What tables name as their schema is a file beside the scenario, or in its data directory.
    sections = {side: tree.get(side) for side in ("source", "target", "public")}
    tables = {
        side: section["table"] for side, section in sections.items() if isinstance(section, dict) and "table" in section
    }
    if not any(isinstance(table, dict) and "schema" in table for table in tables.values()):
        return tree
    folders = [Path(name_or_path).parent, *([locate(str(tree["data"]))] if tree.get("data") else [])]
    return tree | {side: tree[side] | {"table": described(table, folders)} for side, table in tables.items()}


def altered(scenario: Scenario, overrides: Sequence[str]) -> Scenario:
    """Return a scenario with ``KEY=VALUE`` overrides applied, as :func:`load` applies them."""
    tree = scenario.wire()
    for override in overrides:
        _override(tree, override)
    return parse(tree)


def handed_over(scenario: Scenario, reweighs: Sequence[Reweigh]) -> Scenario:
    """Return a scenario that begins with the weights after these reweighs, which follow those that it already names."""
    weights = [reweigh.wire() for reweigh in (*scenario.handed_over, *reweighs)]
    return parse({**scenario.wire(), "handed_over": weights})


def _override(tree: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise BadScenario(f"--set wants KEY=VALUE, found {override!r}")
    try:
        value = strictyaml.load(text, aliases=True)
    except yaml.YAMLError:
        raise BadScenario(f"--set {key}: {text!r} is not a YAML value") from None
    *parents, last = key.split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
        if not isinstance(tree, dict):
            raise BadScenario(f"--set {key}: {parent} holds a value, not a mapping")
    with suppress(ValueError):  # YAML 1.1 reads 1e-6 as text too; a number in quotation marks stays text
        value = float(value) if value == text.strip() else value
    tree[last] = value
