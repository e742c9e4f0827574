"""Entry points: what installed packages add to a registry, and how a broken or unfriendly one is refused."""

import signal
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from common.core.errors import BadMessage, BadPlugin
from common.core.machine import uninterrupted
from tests.plugins.installing import leave

_numbers = count()


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

    def plug_in(self, package: str, name: str, text: str | None = None) -> None:
        """Install a package of one module, with an entry of a name; by default the module registers such an animal."""
        self.write(f"{self.name}_{package}", self.animal(name) if text is None else text)
        self.install(package, {name: f"{self.name}_{package}"})

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
    shop.plug_in("kennel", "dog")
    assert shop.animals.names() == ["cat", "dog"]
    assert shop.animals.shipped() == ["cat"]
    assert shop.animals.parse({"kind": "dog"}).kind == "dog"


def test_nothing_is_imported_before_it_is_needed_and_nothing_by_its_name_in_a_message(shop: Shop) -> None:
    shop.plug_in("kennel", "dog")
    shop.write(f"{shop.name}_trap", "raise AssertionError('imported')")
    animals = shop.animals
    assert f"{shop.name}_kennel" not in sys.modules
    for wanted in (f"{shop.name}_trap", f"{shop.name}_trap:Trap", "../trap", "__class__"):
        with pytest.raises(BadMessage, match="no animal has the kind"):
            animals.parse({"kind": wanted})
    assert f"{shop.name}_kennel" in sys.modules
    assert f"{shop.name}_trap" not in sys.modules


CANNOT = "the animal '{1}' of package {0} 2.1 (module {2}_{0}) cannot be loaded: "
REFUSED = {
    ("kennel", "dog", "import a_library_that_is_not_installed"): (
        CANNOT + "ModuleNotFoundError: No module named 'a_library_that_is_not_installed'"
    ),
    ("jungle", "cat", None): (
        CANNOT + "animal 'cat' is registered twice, by {2}.cat.Cat and {2}_jungle.Cat: rename one of them"
    ),
    ("kennel", "hound", "registered = 0"): (
        "the animal 'hound' of package kennel 2.1 (module {2}_kennel) is not there: the module registers no such name"
    ),
}


@pytest.mark.parametrize("plug_in", REFUSED)
def test_a_plug_in_that_fails_or_takes_a_name_is_named_every_time(
    shop: Shop, plug_in: tuple[str, str, str | None]
) -> None:
    shop.plug_in(*plug_in)
    for ask in (shop.animals.names, lambda: shop.animals.parse({"kind": "cat"})):
        with pytest.raises(BadPlugin) as refused:
            ask()
        assert refused.value.detail == REFUSED[plug_in].format(*plug_in[:2], shop.name)


def test_of_a_package_that_is_there_twice_the_first_on_the_path_counts(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.plug_in("kennel", "dog")
    shop.install("kennel", {"wolf": "wolves"}, version="1.0", folder=tmp_path / "behind")
    monkeypatch.setattr(sys, "path", [sys.path[0], str(tmp_path / "behind"), *sys.path[1:]])
    assert shop.animals.names() == ["cat", "dog"]


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

    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(1) as thread:
        patched.setattr("builtins.cut_off_of_test", cut_off, raising=False)
        for _ in range(4):
            assert isinstance(thread.submit(lambda: shop.animals.names()).exception(), error | BadPlugin)
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
    with ThreadPoolExecutor(8) as threads:
        found = [threads.submit(lambda: shop.animals.names()) for _ in range(8)]
    assert [names.result() for names in found] == [["cat", "dog"]] * 8


def test_an_interrupt_waits_for_the_end_of_the_imports(shop: Shop) -> None:
    """Of a real signal; afterwards everything is there, and the handler is the one that was."""
    interrupt = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
    shop.write(f"{shop.name}.dog", interrupt + textwrap.dedent(shop.animal("dog")))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            shop.animals.names()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert f"{shop.name}.dog" in sys.modules
    assert shop.animals.names() == ["cat", "dog"]
