"""Entry points: what installed packages add to a registry, and how a broken or unfriendly one is refused."""

import gc
import pkgutil
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from common.core.errors import BadMessage, BadPlugin
from common.core.machine import uninterrupted
from common.core.registry import Registry
from tests.plugins.installing import leave

_numbers = count()
GROUPS = ("protocols", "demands", "operations", "learners", "mechanisms", "queries", "hypotheses", "distributions")
Write = Callable[..., None]


class Shop:
    """A package with a registry of animals, in a directory of its own that is on the path, and plug-ins beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"animals_of_test_{next(_numbers)}"
        self.write(self.name, "")
        self.write(
            f"{self.name}.base",
            """
            from typing import Literal
            from common.core.registry import TypeRegistry
            from common.core.values import Value

            class Animal(Value):
                kind: str

            ANIMALS = TypeRegistry("animal", __name__, "kind")
            """,
        )
        self.write(f"{self.name}.cat", self.animal("cat"))

    def write(self, module: str, text: str) -> None:
        place = self.folder.joinpath(*module.split("."))
        path = place / "__init__.py" if module == self.name else place.with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")

    def animal(self, kind: str) -> str:
        return f"""
            from typing import Literal
            from {self.name}.base import ANIMALS, Animal

            @ANIMALS.register("{kind}")
            class {kind.capitalize()}(Animal):
                kind: Literal["{kind}"] = "{kind}"
            """

    def install(self, package: str, entries: dict[str, str], version: str = "2.1", folder: Path | None = None) -> None:
        metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        groups = {"console_scripts": {package: "nothing:here"}, f"tandem.{self.name}": entries}
        leave(folder or self.folder, package, version, metadata, groups)

    def kennel(self) -> None:
        self.write(f"{self.name}_dogs", self.animal("dog"))
        self.install("kennel", {"dog": f"{self.name}_dogs"})

    @property
    def animals(self) -> Any:
        return import_module(f"{self.name}.base").ANIMALS


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    opened = Shop(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield opened
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_an_installed_package_adds_its_own(shop: Shop) -> None:
    shop.kennel()
    assert shop.animals.names() == ["cat", "dog"]
    assert shop.animals.shipped() == ["cat"]
    assert shop.animals.parse({"kind": "dog"}).kind == "dog"


def test_nothing_is_imported_before_it_is_needed_and_nothing_by_its_name_in_a_message(shop: Shop) -> None:
    shop.write(f"{shop.name}_dogs", shop.animal("dog"))
    shop.write(f"{shop.name}_trap", "raise AssertionError('imported')")
    shop.install("kennel", {"dog": f"{shop.name}_dogs"})
    animals = shop.animals
    assert f"{shop.name}_dogs" not in sys.modules
    for wanted in (f"{shop.name}_trap", f"{shop.name}_trap:Trap", "../trap", "__class__"):
        with pytest.raises(BadMessage, match="no animal has the kind"):
            animals.parse({"kind": wanted})
    assert f"{shop.name}_dogs" in sys.modules
    assert f"{shop.name}_trap" not in sys.modules


def test_a_module_that_fails_is_named_with_its_package_every_time(shop: Shop) -> None:
    shop.write(f"{shop.name}_dogs", "import a_library_that_is_not_installed")
    shop.install("kennel", {"dog": f"{shop.name}_dogs"})
    for _ in range(2):
        with pytest.raises(BadPlugin) as refused:
            shop.animals.names()
        assert refused.value.detail == (
            f"the animal 'dog' of package kennel 2.1 (module {shop.name}_dogs) cannot be loaded: "
            "ModuleNotFoundError: No module named 'a_library_that_is_not_installed'"
        )
    with pytest.raises(BadPlugin):
        shop.animals.parse({"kind": "cat"})


def test_a_name_that_is_taken_is_refused_naming_both(shop: Shop) -> None:
    shop.write(f"{shop.name}_tiger", shop.animal("cat"))
    shop.install("jungle", {"cat": f"{shop.name}_tiger"})
    with pytest.raises(BadPlugin) as refused:
        shop.animals.names()
    assert refused.value.detail == (
        f"the animal 'cat' of package jungle 2.1 (module {shop.name}_tiger) cannot be loaded: animal 'cat' is "
        f"registered twice, by {shop.name}.cat.Cat and {shop.name}_tiger.Cat: rename one of them"
    )


def test_an_entry_that_registers_something_else_is_refused(shop: Shop) -> None:
    shop.write(f"{shop.name}_dogs", shop.animal("dog"))
    shop.install("kennel", {"hound": f"{shop.name}_dogs"})
    with pytest.raises(BadPlugin, match=r"'hound' of package kennel 2.1 .* is not there: the module registers no such"):
        shop.animals.names()


def test_of_a_package_that_is_there_twice_the_first_on_the_path_counts(shop: Shop, tmp_path: Path) -> None:
    behind = tmp_path / "behind"
    shop.kennel()
    shop.install("kennel", {"wolf": "wolves"}, version="1.0", folder=behind)
    sys.path.insert(1, str(behind))
    try:
        assert shop.animals.names() == ["cat", "dog"]
    finally:
        sys.path.remove(str(behind))


def test_an_entry_of_a_documented_group_need_enter_one_registry_only() -> None:
    """Else it is refused by a registry of which its author never heard."""
    for room in ("common", "curator", "referee"):
        for module in pkgutil.walk_packages(import_module(room).__path__, f"{room}."):
            if module.name.endswith(".base"):
                import_module(module.name)
    gc.unfreeze()  # what was there when tests were collected is not listed otherwise
    demanding: dict[str, set[str]] = {group: set() for group in GROUPS}
    for registry in (found for found in gc.get_objects() if issubclass(type(found), Registry)):
        if registry._package.split(".")[0] in ("common", "curator", "referee"):
            demanding.setdefault(registry.group, set()).add(registry.noun)
    assert {group: nouns for group, nouns in demanding.items() if group in GROUPS and len(nouns) != 1} == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError, SystemExit])
def test_imports_that_were_cut_off_are_done_again(shop: Shop, error: type[BaseException]) -> None:
    """In the middle of a module that has registered something already, of the package and of a plug-in; in a thread."""
    cut = textwrap.dedent(shop.animal("dog")) + f"import builtins\nbuiltins.cut_off_of_test({error.__name__})\n"
    shop.write(f"{shop.name}.dog", cut)
    shop.write(f"{shop.name}_fox", cut.replace("dog", "fox").replace("Dog", "Fox"))
    shop.install("forest", {"fox": f"{shop.name}_fox"})
    calls = count()

    def cut_off(raised: type[BaseException]) -> None:
        if next(calls) % 3 != 2:  # twice in each module, then not
            raise raised

    failed: list[BaseException] = []

    def ask() -> None:
        try:
            shop.animals.names()
        except BaseException as stopped:  # noqa: BLE001 - that is what is cut off
            failed.append(stopped)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("builtins.cut_off_of_test", cut_off, raising=False)
        for at in range(4):
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
            assert len(failed) == at + 1
        assert shop.animals.names() == ["cat", "dog", "fox"]
        assert shop.animals["dog"] is import_module(f"{shop.name}.dog").Dog
        assert shop.animals.parse({"kind": "fox"}).kind == "fox"


@pytest.mark.parametrize("second", ["Dog", "Hound"])
def test_one_name_for_two_classes_of_a_module_is_refused(shop: Shop, second: str) -> None:
    dog = textwrap.dedent(shop.animal("dog"))
    shop.write(f"{shop.name}.dog", dog + dog.replace("Dog", second))
    for _ in range(2):
        with pytest.raises(BadPlugin, match="animal 'dog' is registered twice"):
            shop.animals.names()


def test_threads_that_ask_first_at_the_same_time_all_see_everything(shop: Shop) -> None:
    shop.write(f"{shop.name}.dog", "import time\ntime.sleep(0.05)\n" + textwrap.dedent(shop.animal("dog")))
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(shop.animals.names())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["cat", "dog"]] * 8


def test_an_interrupt_waits_for_the_end_of_the_imports(shop: Shop) -> None:
    """Of a real signal; afterwards everything is there, and the handler is the one that was."""
    shop.write(
        f"{shop.name}.dog", "import signal\nsignal.raise_signal(signal.SIGINT)\n" + textwrap.dedent(shop.animal("dog"))
    )
    before = signal.getsignal(signal.SIGINT)
    try:
        for handler in (signal.default_int_handler, signal.SIG_IGN):
            signal.signal(signal.SIGINT, handler)
            if handler is signal.SIG_IGN:
                with uninterrupted():
                    signal.raise_signal(signal.SIGINT)
            else:
                with pytest.raises(KeyboardInterrupt):
                    shop.animals.names()
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert f"{shop.name}.dog" in sys.modules
    assert shop.animals.names() == ["cat", "dog"]
