"""A browser without a browser: asks the page's app in this process, and keeps its cookies."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import httpx
import pytest

from benchmarks import browsers
from common.core.errors import NotFound
from common.net.app import Service
from common.net.connection import Limits
from common.net.pages import Rules
from common.net.server import Server, listen

KEY = "the-key-of-this-test-1234"
RULES = Rules(KEY, 8100)
HERE = "http://127.0.0.1:8100"


class Browser:
    """What a user's browser sends, after the address with the key was opened (unless ``admitted`` is False)."""

    def __init__(self, app: Service, *, admitted: bool = True) -> None:
        self._app = app
        self._cookies = {RULES.cookie: KEY} if admitted else {}

    def ask(self, method: str, path: str, **parts: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            carried = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=carried, base_url=HERE, cookies=self._cookies) as client:
                return await client.request(method, path, **parts)

        return asyncio.run(asked())

    def get(self, path: str, **parts: Any) -> httpx.Response:
        return self.ask("GET", path, **parts)

    def page(self, path: str) -> str:
        """Return a page, in which nothing leads elsewhere and nothing is a command to a terminal."""
        found = self.get(path)
        assert found.status_code == 200, found.text
        assert (outside(found.text), "\x1b" in found.text) == ([], False), path
        return found.text

    def post(self, path: str, fields: dict[str, str] | None = None, **parts: Any) -> httpx.Response:
        sent = {"token": RULES.form_token, **(fields or {})}
        return self.ask("POST", path, data=sent, headers={"Origin": HERE}, **parts)


class _Outward(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in ("style", "iframe", "object", "embed", "base") or (tag == "script" and "src" not in given):
            self.found.append(f"<{tag}>")
        for name, value in attributes:
            place = (value or "").strip()
            inside = place == "data:," or place[:1] == "#" or (place[:1] == "/" and place[1:2] not in ("/", "\\"))
            leads = name in ("src", "href", "action", "formaction", "data", "srcset", "xlink:href", "poster")
            if name.startswith("on") or name == "style" or (leads and not inside):
                self.found.append(f"{name}={value}")


def outside(page: str) -> list[str]:
    """Return what a page would load from elsewhere or lead to elsewhere, and what it would run from its own text."""
    reader = _Outward()
    reader.feed(page)
    return reader.found


log = logging.getLogger("tests.axe")


@contextmanager
def browser_of(name: str = "chromium", **options: Any) -> Iterator[Any]:
    """Start a browser; skips where there is none."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    try:
        browsers.launching(name)
    except NotFound as error:
        pytest.skip(error.detail)
    with browsers.started(name, **options) as browser:
        yield browser


@contextmanager
def serving(make: Any, port: int = 0) -> Iterator[int]:
    """Serve what ``make`` returns for its port, from a thread; gives the port."""
    listener = listen("127.0.0.1", port)
    port = listener.getsockname()[1]
    app: Service = make(port)
    running = Server(app, Limits(1000), grace=1.0)
    thread = threading.Thread(target=running.run, args=(listener,))
    thread.start()
    try:
        yield port
    finally:
        running.stop()
        thread.join(120)
        listener.close()


def rules(port: int) -> Rules:
    return Rules(KEY, port)


class Tab:
    """One page of a browser, which notes what must not happen: errors in its console, requests to elsewhere."""

    def __init__(self, browser: Any, port: int, **options: Any) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(120_000)  # how long anything takes says how busy the machine is
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda said: self._note(said.type in ("error", "warning"), said.text))
        self.page.on("pageerror", lambda error: self._note(True, str(error)))
        self.page.on("request", lambda asked: self._note(not asked.url.startswith((self.address, "data:")), asked.url))
        self.page.goto(f"{self.address}/?key={KEY}")

    def _note(self, wrong: bool, words: str) -> None:
        if wrong:
            self.wrong.append(words)

    def open(self, path: str) -> Any:
        self.page.goto(self.address + path)
        return self.page

    def violations(self) -> list[str]:
        """Return what axe-core finds on the page as it stands."""
        return violations(self.page)

    @property
    def scrolls_sideways(self) -> bool:
        return scrolls_sideways(self.page)


def violations(page: Any) -> list[str]:
    """Return what axe-core finds on a page as it stands, and log which of its rules held."""
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed (extra dev)")
    if not page.evaluate("'axe' in window"):
        page.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run()")
    passed = sorted(each["id"] for each in found["passes"])
    log.info(
        "%s: %d rules of axe held, %d did not: %s", page.url, len(passed), len(found["violations"]), ", ".join(passed)
    )
    return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]


def scrolls_sideways(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
