"""Pages that are written from elsewhere: API, commands, services and scenarios from the code, notebooks, a record."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import typer
from fastapi import FastAPI

import tandem
from common.scenario.scenario import Scenario

METHODS = ("get", "put", "post", "delete")
ROUTING = (
    "get_metadata_routing, set_fit_request, set_partial_fit_request, set_predict_request, set_score_request, score"
)
"""What scikit-learn adds to every estimator: its own pages explain it."""


def write(folder: Path) -> None:
    """Write all pages; one that is as it was is left alone, so that nothing is built again for it."""
    folder.mkdir(exist_ok=True)
    pages: dict[str, Callable[[], Iterator[str]]] = {
        "api": api,
        "commands": commands,
        "http": http,
        "scenario": scenario,
        "kinds": kinds,
    }
    for name, page in pages.items():
        _kept(folder / f"{name}.rst", "\n".join(page()) + "\n")
    from referee.view.diagrams import page as protocols

    _kept(folder / "protocols.md", protocols())
    from notebooks import page as shown

    for notebook in sorted((folder.parent / "notebooks").glob("*.ipynb")):
        _kept(folder / f"{notebook.stem}.md", shown(notebook))
    record = Path(__file__).parents[2] / "benchmarks" / "results" / "real.md"
    _kept(folder / "real.md", record.read_text("utf-8").replace("](../../docs/", "](../"))


def _kept(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def heading(text: str, line: str) -> Iterator[str]:
    """Yield a heading and an empty line."""
    yield from (text, line * len(text), "")


def literal(text: str, language: str = "text") -> Iterator[str]:
    """Yield a block of literal text."""
    yield f".. code-block:: {language}"
    yield ""
    yield from (f"   {line}".rstrip() for line in text.splitlines())
    yield ""


# The API --------------------------------------------------------------------------------------------------------------


def api() -> Iterator[str]:
    """Yield the page of what programs import."""
    yield from heading("Python", "=")
    yield "Programs import :mod:`tandem` and nothing else; everything else may change from version to version."
    yield ""
    for name in tandem.__all__:
        found = getattr(tandem, name)
        yield from heading(name, "-")
        yield f".. auto{'class' if isinstance(found, type) else 'function'}:: tandem.{name}"
        if isinstance(found, type):
            yield "   :members:"
            yield f"   :exclude-members: {ROUTING}"
        yield ""


# Commands -------------------------------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """Yield the page of all commands, each with its help."""
    from curator.cli import app as curator
    from issuer.cli import app as issuer
    from local_agent.cli import app as local_agent
    from referee.cli import app as referee
    from tandem.cli import app as browser

    yield from heading("Commands", "=")
    yield "What each command prints with ``--help``. An option ``--json`` prints one document and nothing else."
    yield ""
    agents = ("local-agent", local_agent), ("issuer", issuer)
    for name, app in (("referee", referee), ("curator", curator), *agents, ("tandem", browser)):
        yield from heading(name, "-")
        yield from _command(name, typer.main.get_command(app))


def _command(path: str, command: Any) -> Iterator[str]:
    context = command.make_context(path, [], resilient_parsing=True)
    yield from literal(str(command.get_help(context)))
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from heading(f"{path} {name}", "~" if " " not in path else '"')
        yield from _command(f"{path} {name}", inner)


# Services -------------------------------------------------------------------------------------------------------------


def http() -> Iterator[str]:
    """Yield the page of what the services take, from their own descriptions (OpenAPI)."""
    from referee.service.app import referee_app

    yield from heading("HTTP", "=")
    yield "Every service describes itself at ``/openapi.json``; this page is written from there. A refusal is a problem"
    yield "document (RFC 9457, ``application/problem+json``) with a type, a title and a detail that says what to do:"
    yield ""
    yield from _refusals(referee_app(_nobody(), _nobody()).openapi())
    with tempfile.TemporaryDirectory() as folder:
        for name, app in _services(Path(folder)):
            yield from heading(name, "-")
            yield from _service(app.openapi())


def _nobody() -> MagicMock:
    """Return who has a key, and is asked nothing: a description follows from the resources alone."""
    from common.crypto.identity import Identity

    return MagicMock(identity=Identity.create())


def _services(folder: Path) -> Iterator[tuple[str, FastAPI]]:
    from common.net.oblivious.relay import relay_app
    from curator.app import curator_app
    from curator.contributions.collection import collecting_app
    from issuer.issuer import issuer_app
    from referee.service.app import referee_app
    from referee.service.witness import witness_app

    nobody = _nobody()
    yield "referee", referee_app(nobody, nobody)
    yield "curator", curator_app(nobody)
    yield "curator that collects", collecting_app(nobody)
    yield "witness", witness_app(folder / "witness", "token")
    yield "issuer", issuer_app(nobody, folder)
    yield "relay", relay_app("http://127.0.0.1:8000")


def _service(description: Mapping[str, Any]) -> Iterator[str]:
    for path, found in description["paths"].items():
        for method in METHODS:
            if method in found:
                yield from heading(f"{method.upper()} {path}", "~")
                yield from _operation(found[method])


def _operation(operation: Mapping[str, Any]) -> Iterator[str]:
    yield (operation.get("description") or operation.get("summary", "")).strip()
    yield ""
    for given in operation.get("parameters", ()):
        needed = "" if given.get("required") else ", may be left out"
        yield f"- ``{given['name']}`` (in the {given['in']}{needed})"
    body = operation.get("requestBody", {}).get("content", {})
    for kind, content in body.items():
        yield f"- body: ``{kind}``{_called(content)}"
    for status, answer in sorted(operation["responses"].items()):
        kinds = [f"``{kind}``{_called(content)}" for kind, content in answer.get("content", {}).items()]
        if not _refuses(answer):
            yield f"- answers {status}{': ' if kinds else ''}{' or '.join(kinds)}"
    yield ""


def _refuses(answer: Mapping[str, Any]) -> bool:
    return "application/problem+json" in answer.get("content", {})


def _refusals(description: Mapping[str, Any]) -> Iterator[str]:
    """Yield what refusals mean, once: they mean the same everywhere."""
    found = {
        (status, answer["description"])
        for resource in description["paths"].values()
        for operation in resource.values()
        for status, answer in operation["responses"].items()
        if _refuses(answer)
    }
    yield from (f"- {status}: {meaning}" for status, meaning in sorted(found))
    yield ""


def _called(content: Mapping[str, Any]) -> str:
    reference = content.get("schema", {}).get("$ref", "")
    return f", {reference.rpartition('/')[2]}" if reference else ""


# Scenarios ------------------------------------------------------------------------------------------------------------


def scenario() -> Iterator[str]:
    """Yield the page of a scenario's keys, from the schema that it is read by."""
    schema = Scenario.model_json_schema()
    yield from heading("Keys of a scenario", "=")
    yield "Written from the schema that scenarios are read by; the page `Scenarios <../scenarios.html>`_ explains them."
    yield ""
    yield from _keys("Scenario", schema)
    for name, part in sorted(schema["$defs"].items()):
        if part.get("properties"):
            yield from _keys(name, part)


def kinds() -> Iterator[str]:
    """Yield the page of what stands behind each name of a learner, a distribution and a mechanism."""
    from common.data.distributions.base import DISTRIBUTIONS
    from common.learners.base import SETTINGS
    from common.local.mechanisms.mechanism import MECHANISMS

    yield from heading("Learners, distributions, mechanisms", "=")
    yield "The settings of each, by the names that a scenario uses; written from the code."
    yield ""
    registries = (("Learners", SETTINGS), ("Simulated people", DISTRIBUTIONS), ("Mechanisms of agents", MECHANISMS))
    for title, registry in registries:
        yield from heading(title, "-")
        for name in registry.shipped():
            yield from heading(name, "~")
            kind = registry[name]
            ours = [base for base in kind.__mro__ if base.__module__.startswith("common.")]
            described = [base for base in ours if "Attributes:" in vars(base).get("__doc__", "")]
            for base in described or [kind]:
                yield from literal(inspect.getdoc(base) or "")


def _keys(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield from heading(name, "-")
    yield schema.get("description", "").partition("\n")[0]
    yield ""
    yield ".. list-table::"
    yield "   :header-rows: 1"
    yield ""
    yield from ("   * - key", "     - takes", "     - left out")
    for key, found in schema.get("properties", {}).items():
        default = "must be given" if key in schema.get("required", ()) else f"``{json.dumps(found.get('default'))}``"
        yield f"   * - ``{key}``"
        yield f"     - {_takes(found)}"
        yield f"     - {default}"
    yield ""


def _takes(found: Mapping[str, Any]) -> str:
    if "$ref" in found:
        return f"`{found['$ref'].rpartition('/')[2]}`_"
    if "anyOf" in found:
        return " or ".join(_takes(one) for one in found["anyOf"])
    if "allOf" in found:
        return " and ".join(_takes(one) for one in found["allOf"])
    if "enum" in found:
        return ", ".join(f"``{json.dumps(one)}``" for one in found["enum"])
    if "const" in found:
        return f"``{json.dumps(found['const'])}``"
    kind = {"array": "list", "object": "mapping", "null": "nothing"}.get(
        found.get("type", ""), found.get("type", "any value")
    )
    if "items" in found:
        kind += f" of {_takes(found['items'])}"
    limits = {"minimum": ">=", "maximum": "<=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {found[name]:g}" for name, sign in limits.items() if name in found]
    return f"{kind}{', ' if bounds else ''}{', '.join(bounds)}"
