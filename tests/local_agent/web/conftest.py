from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploy.people import serving
from tests.local_agent.web.people import Person, page_of
from tests.local_agent.web.world import BROWSERS, PHONE, World, people
from tests.support import TOKEN
from tests.tandem.ui.asking import browser_of


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    with people(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Iterator[str]:
    """The link to a page whose referee is away."""
    folder = tmp_path_factory.mktemp("alone")
    assert page_of(folder, "https://referee.example")[0] == 0
    with serving(folder / "page") as address:
        yield f"{address}/#invitation={TOKEN}"


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module", params=BROWSERS)
def browser(request, downloads):
    with browser_of(request.param, downloads_path=str(downloads)) as found:
        yield found


@pytest.fixture
def person(browser, world) -> Callable[..., Person]:
    def made(*, script: str = "", **options: Any) -> Person:
        return Person(browser.new_context(**{**PHONE, **options}), world.link, script=script)

    return made


@pytest.fixture
def me(world, person) -> Person:
    """A person who reads the question of a run."""
    found = person()
    world.start()
    found.be_asked()
    return found
