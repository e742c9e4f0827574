"""Cases of one test: a loop that names all that failed, and which of them the quick tests leave to the slow ones."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tests.chance import drawn_from

Param = type(pytest.param())


def thinned(cases: Iterable[Any], keep: int, *, several: bool = False, rest: Any = pytest.mark.slow) -> list[Any]:
    """Return all cases, of which all but ``keep``, spread evenly, are marked slow; the first one stays.

    Args:
        cases: Values of the parameter, or of ``pytest.param``.
        several: Whether each is a tuple of values of several parameters.
        rest: Their mark instead of slow.
    """
    every = [c if isinstance(c, Param) else pytest.param(*c) if several else pytest.param(c) for c in cases]
    kept = {place * len(every) // keep for place in range(keep)}
    return [
        case if place in kept else pytest.param(*case.values, marks=(*case.marks, rest), id=case.id)
        for place, case in enumerate(every)
    ]


def for_each(
    names: str | tuple[str, ...], cases: Iterable[Any], *, ids: Sequence[Any] | Callable[[Any], Any] = str
) -> Callable[[Any], Any]:
    """Try all cases in one test, which reports every one that failed with its parameters.

    Takes what ``pytest.mark.parametrize`` takes; on a class it holds for each of its tests with these parameters.
    Cases with the same marks make one test. What a case draws follows from its name; each has a ``tmp_path`` and a
    ``monkeypatch`` of its own, and shares other fixtures with the other cases.
    """
    keys = (names,) if isinstance(names, str) else names
    tiers: dict[str, Any] = {}
    for place, case in enumerate(cases):
        param = case if isinstance(case, Param) else pytest.param(*([case] if isinstance(names, str) else case))
        named = [ids(value) for value in param.values] if callable(ids) else [ids[place]]
        label = ascii(param.id or ", ".join(str(name)[:100] for name in named))[1:-1]
        tier = "+".join(mark.name for mark in param.marks)
        tiers.setdefault(tier, pytest.param([], marks=param.marks, id=tier or "quick"))
        tiers[tier].values[0].append((label, dict(zip(keys, param.values, strict=True))))
    several = list(tiers) != [""]

    def decorate(test: Any) -> Any:
        if isinstance(test, type):
            for name, method in list(vars(test).items()):
                if name.startswith("test") and set(keys) <= set(inspect.signature(method).parameters):
                    setattr(test, name, decorate(method))
            return test

        @functools.wraps(test)
        def run(*self: Any, **fixtures: Any) -> None:
            _try_all(test, self, fixtures.pop(hidden) if several else tiers[""].values[0], fixtures)

        hidden = f"cases_of_{'_'.join(keys)}"
        signature = inspect.signature(test)
        parameters = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        if several:
            parameters.append(inspect.Parameter(hidden, inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return pytest.mark.parametrize(hidden, tiers.values())(run) if several else run

    return decorate


def _try_all(test: Any, self: tuple[Any, ...], cases: list[tuple[str, dict[str, Any]]], shared: dict[str, Any]) -> None:
    failures: list[BaseException] = []
    skipped: list[BaseException] = []
    for place, (label, values) in enumerate(cases):
        own = dict(shared)
        with pytest.MonkeyPatch.context() as patched, drawn_from(f"{test.__qualname__} {label}"):
            if "monkeypatch" in own:
                own["monkeypatch"] = patched
            if "caplog" in own:
                own["caplog"].clear()
            if "tmp_path" in own:
                own["tmp_path"] = own["tmp_path"] / str(place)
                own["tmp_path"].mkdir()
            try:
                test(*self, **own, **values)
            except pytest.skip.Exception as reason:
                skipped.append(reason)
            except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - raised below, with its case
                failure.add_note(f"with {', '.join(values)} = {label}")
                failures.append(failure)
    if len(failures) == 1 or (skipped and len(skipped) == len(cases)):
        raise (failures or skipped)[0]
    if failures:
        named = "; ".join(failure.__notes__[-1] for failure in failures)  # since plug-ins of pytest leave groups out
        raise BaseExceptionGroup(f"{len(failures)} of {len(cases)} cases failed: {named}"[:4000], failures)
