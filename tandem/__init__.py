"""Tandem: hybrid-model differential privacy. The public face, and the one name that an installed Tandem has.

``run``, ``plan`` and ``audit`` do what the command ``referee`` does; the estimators fit in the manner of scikit-learn.
:mod:`tandem.extend` has what authors of plug-ins import, :mod:`tandem.privacy` what a choice of one's own needs.
Importing this package loads nothing else: each name is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandem.estimators import DomainAdapter, DomainAdapterRegressor, Guarantee, TransferClassifier
    from tandem.runs import Audit, Run, audit, plan, run

__all__ = [
    "Audit",
    "DomainAdapter",
    "DomainAdapterRegressor",
    "Guarantee",
    "Run",
    "TransferClassifier",
    "audit",
    "plan",
    "run",
]

_RUNS = frozenset({"Audit", "Run", "audit", "plan", "run"})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".runs" if name in _RUNS else ".estimators", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
