"""Debian's headless browsers, driven by Playwright (extra ``dev``): Chromium, and Firefox ESR by BiDi."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from common.core.errors import NotFound

COMMANDS = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "firefox": ("firefox-esr", "firefox")}
"""The possible command names of each browser."""
OPTIONS: dict[str, dict[str, Any]] = {"chromium": {"args": ["--no-sandbox"]}, "firefox": {"channel": "moz-firefox"}}
STARTING = """#!/bin/sh
last=
for each; do
  [ "$last" = -profile ] || [ "$last" = --profile ] && cp {database}/* "$each/"
  last=$each
done
exec {browser} "$@"
"""
COLOURS = Path(__file__).with_name("colours.cjs")


def launching(name: str) -> dict[str, Any]:
    """Return the options with which Playwright launches a browser of this machine; NotFound if it has none."""
    found = next((path for command in COMMANDS[name] if (path := shutil.which(command))), None)
    if found is None:
        raise NotFound(f"no {name} is installed here: apt-get install {COMMANDS[name][0]}")
    return {**OPTIONS[name], "executable_path": found}


def trusting(name: str, authority: Path, folder: Path) -> dict[str, Any]:
    """Return the options with which a browser also trusts an authority, and verifies each certificate against it.

    ``folder`` is new: a database of NSS that holds the authority's certificate, which Chromium finds in its home and
    Firefox in its profile. NotFound if there is no browser, or no certutil.
    """
    certutil = shutil.which("certutil")
    if certutil is None:
        raise NotFound("no certutil is installed here: apt-get install libnss3-tools")
    options, database = launching(name), folder / ".pki" / "nssdb"
    database.mkdir(parents=True)
    for words in (["-N", "--empty-password"], ["-A", "-n", "authority", "-t", "C,,", "-i", str(authority)]):
        subprocess.run([certutil, "-d", f"sql:{database}", *words], check=True, capture_output=True)
    if name == "chromium":
        return {**options, "env": {**os.environ, "HOME": str(folder)}}
    # Playwright chooses the profile's folder itself, so the profile is filled when the browser starts.
    start = folder / "start"
    start.write_text(STARTING.format(database=shlex.quote(str(database)), browser=options["executable_path"]))
    start.chmod(0o700)
    return {**options, "executable_path": str(start)}


@contextmanager
def driver() -> Iterator[Any]:
    """Start Playwright; NotFound if it is not installed."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NotFound("Playwright is not installed: pip install 'tandem-hybrid[dev]'") from None
    running = sync_playwright()
    with patch.dict(os.environ, {"NODE_OPTIONS": f"--require {COLOURS}"}):
        started = running.start()
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def started(name: str, **more: Any) -> Iterator[Any]:
    """Start a browser by its name, with more options of Playwright's; NotFound if this machine has none."""
    options = {**launching(name), **more}
    with driver() as playwright:
        browser = getattr(playwright, name).launch(**options)
        try:
            yield browser
        finally:
            browser.close()
