"""Who may ask the local page: its own user's browser; what is refused, and what every answer forbids."""

from __future__ import annotations

import pytest

from common.net.page.guard import HEADERS
from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
from tests.tandem.ui.asking import HERE, KEY, RULES, Browser


@pytest.fixture
def stranger(runs) -> Browser:
    return Browser(ui_app(RunFolders(runs), RULES), admitted=False)


def test_the_printed_address_admits_and_hides_its_key(stranger):
    opened = stranger.get(f"/?key={KEY}")
    assert opened.status_code == 303
    assert opened.headers["location"] == "/"
    cookie = opened.headers["set-cookie"]
    assert KEY in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/"])
def test_the_way_back_leads_nowhere_else(stranger, path):
    opened = stranger.get(f"{HERE}{path}?key={KEY}&a=b")
    assert opened.headers["location"] == "/evil.example/?a=b"


@pytest.mark.parametrize("path", ["/", "/run/tiny", "/static/ui.css", "/nothing", "/?key=", "/?key=wrong"])
def test_without_the_key_nothing_is_shown(stranger, path):
    refused = stranger.get(path)
    assert refused.status_code == 403
    assert "Open the address that `tandem ui` printed" in refused.text
    assert "tiny" not in refused.text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example:8100", 421),
        ("127.0.0.1:8101", 421),
        ("127.0.0.1", 421),
        ("localhost.evil.example:8100", 421),
        ("", 400),
    ],
)
def test_another_host_is_refused(browser, host, status):
    """A page elsewhere whose name was made to resolve to this machine; and a request that names no host."""
    assert browser.get("/", headers={"Host": host}).status_code == status


def test_the_loopback_names_are_ours(browser):
    assert browser.get("/", headers={"Host": "localhost:8100"}).status_code == 200


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://127.0.0.1:9999", "https://127.0.0.1:8100"]
)
def test_a_form_of_another_site_is_refused(browser, origin):
    headers = {} if origin is None else {"Origin": origin}
    sent = browser.ask("POST", "/run/tiny/audit", data={"token": RULES.form_token}, headers=headers)
    assert sent.status_code == 403
    assert "another site" in sent.text


@pytest.mark.parametrize("path", ["/", "/run/tiny", "/static/ui.js", "/nothing", "/run/none"])
def test_every_answer_carries_the_strict_policy(browser, path):
    found = browser.get(path)
    for name, value in HEADERS.items():
        assert found.headers[name] == value
    assert "unsafe" not in found.headers["Content-Security-Policy"]


def test_a_refusal_and_a_fault_carry_it_as_well(stranger, browser, monkeypatch):
    assert "Content-Security-Policy" in stranger.get("/").headers
    monkeypatch.setattr(RunFolders, "listed", lambda self: 1 / 0)
    broken = browser.get("/")
    assert broken.status_code == 500
    assert "its log says more" in broken.text
    assert "division" not in broken.text
    assert "Content-Security-Policy" in broken.headers


def test_a_body_is_limited(browser):
    assert browser.post("/run/tiny/audit", {"more": "x" * 70_000}).status_code == 413
