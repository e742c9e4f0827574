"""Tandem: hybrid-model differential privacy. The public API, and the only top-level package of an installed Tandem.

``run``, ``plan`` and ``audit`` do what the command ``referee`` does; ``predict``, ``predict_proba``, ``describe``,
``export``, ``as_sklearn`` and ``load_model`` use the released model of a run; ``record_of`` makes an individual's
record; the estimators have the interface of scikit-learn; ``LabelStream`` queries a stream of labels that a run has
left open. :mod:`tandem.extend` has the names for authors of plug-ins, :mod:`tandem.privacy` those for a private choice
of the user's own. Each name is loaded on first use.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandem.estimators import (
        DomainAdapter,
        DomainAdapterRegressor,
        Guarantee,
        TransferClassifier,
        TransferRegressor,
    )
    from tandem.models import (
        DataNote,
        Model,
        as_sklearn,
        describe,
        export,
        load_model,
        predict,
        predict_proba,
        record_of,
    )
    from tandem.runs import Audit, Run, audit, plan, run
    from tandem.stream import LabelStream, StreamedLabel, consumer_key

__all__ = ["Audit", "DataNote", "DomainAdapter", "DomainAdapterRegressor", "Guarantee", "LabelStream", "Model", "Run"]
__all__ += ["StreamedLabel", "TransferClassifier", "TransferRegressor", "as_sklearn", "audit", "consumer_key"]
__all__ += ["describe", "export", "load_model", "plan", "predict", "predict_proba", "record_of", "run"]


@cache
def modules_of(file: str) -> dict[str, str]:
    """Return the module of each name that a file imports under TYPE_CHECKING, so that no second list is needed."""
    [block] = (node for node in ast.parse(Path(file).read_bytes()).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from common.core.machine import uninterrupted

        with uninterrupted():
            return getattr(import_module(modules_of(__file__)[name]), name)
    except ModuleNotFoundError as error:
        raise _hidden(error) from error


def _hidden(error: ModuleNotFoundError) -> ImportError:
    """Return an error that names the foreign module found in place of Tandem's; return any other error unchanged."""
    first = (error.name or "").partition(".")[0]
    path, root = getattr(sys.modules.get(first), "__file__", None), Path(__file__).resolve().parents[1]
    if path is None or Path(path).resolve().is_relative_to(root) or not (root / first / "__init__.py").exists():
        return error
    return ImportError(
        f"{path} has the name of a package of Tandem's: in a checkout, and where it is installed editable (make "
        "install), Python finds it first. Rename it, work in another folder, or install Tandem's wheel, which takes "
        "the one name tandem",
        name=error.name,
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
