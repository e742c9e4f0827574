"""A named table of plug-ins: one file each, listed, documented and contract-tested by being registered."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar

from common.core.errors import BadInput, BadMessage
from common.core.values import Value

T = TypeVar("T")
V = TypeVar("V", bound=Value)


class Registry(Generic[T]):
    """Names to classes (or factories) of one kind, found by importing every module of a package.

    Parameters
    ----------
    noun
        What the entries are ("mechanism", "learner", ...), for messages.
    module
        ``__name__`` of the module that declares the registry. The other modules of its package register themselves;
        they are imported lazily, at first use.
    """

    def __init__(self, noun: str, module: str) -> None:
        self.noun = noun
        self._package = module.rpartition(".")[0]
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
            for module in pkgutil.walk_packages(package.__path__, f"{self._package}."):
                importlib.import_module(module.name)

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


_ENTRY = re.compile(r'\.register\("([^"]+)"\)')


def declared(package: ModuleType) -> list[str]:
    """Return the names that the modules of a package register, sorted; read off their files, without importing them."""
    return sorted(name for source in _sources(resources.files(package)) for name in _ENTRY.findall(source))


def _sources(folder: Traversable) -> Iterator[str]:
    for place in folder.iterdir():
        if place.is_dir():
            yield from _sources(place)
        elif place.name.endswith(".py"):
            yield place.read_text("utf-8")


class Vocabulary(Registry[type[V]], Generic[V]):
    """A registry of value types, each with a field that says which one it is: the words that a party understands.

    Parameters
    ----------
    noun, module
        As for :class:`Registry`.
    field
        The field that names the type in its JSON form.
    """

    def __init__(self, noun: str, module: str, field: Literal["kind", "name"]) -> None:
        super().__init__(noun, module)
        self._field = field

    def accept(self, value: Any) -> Any:
        """Return a value as it is, anything else as :meth:`parse` reads it: for fields of other values."""
        return value if isinstance(value, Value) else self.parse(value)

    def parse(self, wire: Any) -> V:
        """Validate a value from its JSON form.

        Raises
        ------
        BadMessage
            If its type is unknown or a field is wrong.
        """
        name = wire.get(self._field) if isinstance(wire, dict) else None
        if not isinstance(name, str) or name not in self.names():
            raise BadMessage(f"no {self.noun} has the {self._field} {name!r:.80}; known: {', '.join(self.names())}")
        return self[name].parse(wire)
