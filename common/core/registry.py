"""A named registry of plug-ins: registered classes are listed, documented and contract-tested."""

import importlib
import pkgutil
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from importlib.metadata import EntryPoint, distributions
from importlib.resources.abc import Traversable
from types import ModuleType
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from common.core.errors import BadInput, BadMessage, BadPlugin
from common.core.machine import uninterrupted
from common.core.plain import nearest
from common.core.values import Value

T = TypeVar("T")
V = TypeVar("V", bound=Value)


class Registry(Generic[T]):
    """A map from names to classes (or factories) of one kind, found by importing every module of a package.

    Installed packages add their own by entry points (docs/extending.md). A name in a message never causes an import.

    Args:
        noun: The kind of the entries ("mechanism", "learner", ...), for messages.
        module: ``__name__`` of the declaring module. The other modules of its package register themselves and are
            imported at first use.
        alone: Whether the declaring module has all entries: then no other module is imported.
        group: Name of the group of entry points, after ``tandem.``; by default the last name of the package, or of the
            declaring module if ``alone``.
    """

    def __init__(self, noun: str, module: str, *, alone: bool = False, group: str | None = None) -> None:
        self.noun = noun
        self._package = module if alone else module.rpartition(".")[0]
        self.group = group or self._package.rpartition(".")[2]
        self._entries: dict[str, T] = {}
        self._lock = threading.RLock()
        self._loading = False
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a class decorator that registers a class as ``name``; a name can be registered once.

        If a module whose import was interrupted is imported again, its class replaces the one from the first import.
        """

        def enter(entry: T) -> T:
            if name in self._entries and not _left_behind(self._entries[name], entry):
                both = f"{_origin(self._entries[name])} and {_origin(entry)}"
                raise BadPlugin(f"{self.noun} {name!r} is registered twice, by {both}: rename one of them")
            self._entries[name] = entry
            return entry

        return enter

    def _load(self) -> None:
        if self._loaded:
            return
        with uninterrupted(), self._lock:  # other threads wait for all entries; this one may use some while it loads
            if self._loading or self._loaded:
                return
            self._loading = True
            try:
                package = importlib.import_module(self._package)
                for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"{self._package}."):
                    importlib.import_module(module.name)
                for entry in installed(self.group):
                    import_plugin(entry, self.noun)
                    if entry.name not in self._entries:
                        name = describe_plugin(entry, self.noun)
                        raise BadPlugin(f"{name} is not there: the module registers no such name")
                self._loaded = True
            finally:
                self._loading = False

    def shipped(self) -> list[str]:
        """Return the names from the registry's own package, sorted, without those of plug-ins."""
        return [name for name, entry in self.items() if _origin(entry).startswith(f"{self._package}.")]

    def names(self) -> list[str]:
        self._load()
        return sorted(self._entries)

    def known(self, name: object) -> str:
        """Return the end of a message about an unknown name: the most similar name, and all names."""
        return f"{nearest(name, self.names())}; known: {', '.join(self.names())}"

    def __getitem__(self, name: str) -> T:
        self._load()
        if name not in self._entries:
            raise BadInput(f"no {self.noun} is called {name!r}{self.known(name)}")
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def items(self) -> list[tuple[str, T]]:
        return [(name, self[name]) for name in self]

    @contextmanager
    def extended(self, name: str, entry: T) -> Iterator[None]:
        """Register one more entry within the block: for audits and tests."""
        self._load()
        self.register(name)(entry)
        try:
            yield
        finally:
            del self._entries[name]


def declared(package: ModuleType, registry: str) -> list[str]:
    """Return the sorted names that a package's modules register in ``registry`` (``MECHANISMS``, ...); imports none."""
    entry = re.compile(rf'^@{registry}\.register\("([^"]+)"\)', re.MULTILINE)
    return sorted(name for source in _sources(resources.files(package)) for name in entry.findall(source))


def _sources(folder: Traversable) -> Iterator[str]:
    for place in folder.iterdir():
        if place.is_dir():
            yield from _sources(place)
        elif place.name.endswith(".py"):
            yield place.read_text("utf-8")


def _origin(entry: Any) -> str:
    return f"{entry.__module__}.{entry.__qualname__}"


def _left_behind(entry: Any, later: Any) -> bool:
    if _origin(entry) != _origin(later) or later.__module__ not in sys.modules:
        return False
    of_this_import = vars(sys.modules[later.__module__])
    return "." not in later.__qualname__ and of_this_import.get(later.__qualname__) is not entry


class RegisteredValue(Value):
    """A value of a registered type; its contract tests run on each of the examples."""

    examples: ClassVar[tuple[dict[str, Any], ...]]  # JSON forms of small valid instances, at least one

    # Compare fields only: arrays that a value caches cannot be compared with ==.
    def _content(self) -> tuple[Any, ...]:
        return (type(self), *(getattr(self, name) for name in type(self).model_fields))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegisteredValue) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return tuple(cls.parse(form) for form in cls.examples)


class TypeRegistry(Registry[type[V]], Generic[V]):
    """A registry of value types: an extensible tagged union, whose JSON form names the type in ``field``."""

    def __init__(self, noun: str, module: str, field: Literal["kind", "name"], *, group: str | None = None) -> None:
        super().__init__(noun, module, group=group)
        self._field = field

    def accept(self, value: Any) -> Any:
        """Return a value unchanged, and the parsed value of anything else: for fields of other values."""
        return value if isinstance(value, Value) else self.parse(value)

    def parse(self, wire: Any) -> V:
        """Validate a value from its JSON form; BadMessage names an unknown type or a wrong field."""
        name = wire.get(self._field) if isinstance(wire, dict) else None
        if not isinstance(name, str) or name not in self.names():
            raise BadMessage(f"no {self.noun} has the {self._field} {name!r:.80}{self.known(name)}")
        return self[name].parse(wire)


PREFIX = "tandem."  # of groups of entry points


def installed(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group that packages on the current path declare, without importing them."""
    return _scanned(tuple(sys.path)).get(PREFIX + group, ())


@cache
def _scanned(path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    # Only files that name one of Tandem's groups are parsed: this takes 2 ms instead of 20.
    groups: dict[str, tuple[EntryPoint, ...]] = {}
    packages: set[str] = set()
    for package in distributions(path=list(path)):
        if PREFIX not in (package.read_text("entry_points.txt") or "") or package.name in packages:
            continue
        packages.add(package.name)  # the first place on the path wins, as it does for imports
        for entry in package.entry_points:
            groups[entry.group] = (*groups.get(entry.group, ()), entry)
    return groups


def import_plugin(entry: EntryPoint, noun: str) -> None:
    """Import the module of an entry point, which registers its classes; BadPlugin names package and module."""
    try:
        entry.load()
    except Exception as error:
        reason = error.detail if isinstance(error, BadPlugin) else f"{type(error).__name__}: {error}"
        raise BadPlugin(f"{describe_plugin(entry, noun)} cannot be loaded: {reason}") from error


def describe_plugin(entry: EntryPoint, noun: str) -> str:
    """Return a text that names an entry point, its package and its module."""
    package = "an unknown package" if entry.dist is None else f"package {entry.dist.name} {entry.dist.version}"
    return f"the {noun} {entry.name!r} of {package} (module {entry.module})"
