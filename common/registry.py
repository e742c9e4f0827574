"""A named table of plug-ins: one file each, listed, documented and contract-tested by being registered."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from common.errors import BadInput

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to classes (or factories) of one kind, found by importing every module of a package.

    Parameters
    ----------
    noun
        What the entries are ("mechanism", "learner", ...), for messages.
    package
        The package whose modules register themselves; imported lazily, at first use.
    """

    def __init__(self, noun: str, package: str) -> None:
        self.noun = noun
        self._package = package
        self._entries: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Class decorator: enter the class under ``name``; a name can be taken once."""

        def enter(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.noun} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return enter

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._package}.{module.name}")

    def names(self) -> list[str]:
        """Return all names, sorted."""
        self._load()
        return sorted(self._entries)

    def __getitem__(self, name: str) -> T:
        self._load()
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(self.names())
            raise BadInput(f"no {self.noun} is called {name!r}; known: {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def items(self) -> list[tuple[str, T]]:
        """Return (name, entry) pairs, sorted by name."""
        return [(name, self[name]) for name in self.names()]
