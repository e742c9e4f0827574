"""A browser without a browser: asks the page's app in this process, and keeps its cookies."""

import asyncio
from html.parser import HTMLParser
from typing import Any

import httpx

from common.net.app import Service
from common.net.pages import Rules

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
        found = self.get(path)
        assert found.status_code == 200, found.text
        return found.text

    def post(self, path: str, fields: dict[str, str] | None = None, **parts: Any) -> httpx.Response:
        """Send a form of our own pages."""
        return self.ask(
            "POST", path, data={"token": RULES.form_token, **(fields or {})}, headers={"Origin": HERE}, **parts
        )


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
            if (
                name.startswith("on")
                or name == "style"
                or (
                    name in ("src", "href", "action", "formaction", "data", "srcset", "xlink:href", "poster")
                    and not inside
                )
            ):
                self.found.append(f"{name}={value}")


def outside(page: str) -> list[str]:
    """Return what a page would load from elsewhere or lead to elsewhere, and what it would run from its own text."""
    reader = _Outward()
    reader.feed(page)
    return reader.found
