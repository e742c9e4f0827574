"""Tandem: hybrid-model differential privacy. The public face, and the one name that an installed Tandem has.

``run``, ``plan`` and ``audit`` do what the command ``referee`` does; ``predict``, ``predict_proba``, ``describe``,
``export``, ``as_sklearn`` and ``load_model`` use what a run has released; ``record_of`` makes an individual's record;
the estimators fit in the manner of scikit-learn. :mod:`tandem.extend` has what authors of plug-ins import,
:mod:`tandem.privacy` what a choice of one's own needs.
Importing this package loads nothing else: each name is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandem.estimators import DomainAdapter, DomainAdapterRegressor, Guarantee, TransferClassifier
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

__all__ = [
    "Audit",
    "DataNote",
    "DomainAdapter",
    "DomainAdapterRegressor",
    "Guarantee",
    "Model",
    "Run",
    "TransferClassifier",
    "as_sklearn",
    "audit",
    "describe",
    "export",
    "load_model",
    "plan",
    "predict",
    "predict_proba",
    "record_of",
    "run",
]

_RUNS = frozenset({"Audit", "Run", "audit", "plan", "run"})
_MODELS = frozenset(
    {"DataNote", "Model", "as_sklearn", "describe", "export", "load_model", "predict", "predict_proba", "record_of"}
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = ".runs" if name in _RUNS else ".models" if name in _MODELS else ".estimators"
    return getattr(import_module(place, __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
