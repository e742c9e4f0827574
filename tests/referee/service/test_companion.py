"""The page that a referee serves: in a process of its own, which shows the referee's runs and never outlives it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from deploy.processes import free_port

TOKENS = {"TANDEM_ENROLMENT_TOKEN": "choose-one", "TANDEM_OPERATOR_TOKEN": "choose-another"}
pytestmark = pytest.mark.slow


def serving(folder: Path, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "referee.cli", "serve", "--state", str(folder), "--port", "0", "--page", str(port)]
    return subprocess.Popen(command, env={**os.environ, **TOKENS}, stdout=subprocess.PIPE, text=True)


def address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+/\?key=\S+", line):
            return found[0]
    raise AssertionError("no page came up")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_page_shows_the_referee_and_ends_with_it(tmp_path, end):
    port = free_port()
    process = serving(tmp_path / "referee", port)
    try:
        link = address(process)
        with httpx.Client(trust_env=False, timeout=60, follow_redirects=True) as browser:
            page = browser.get(link).text
            assert "has no runs yet" in page
            assert TOKENS["TANDEM_OPERATOR_TOKEN"] not in page
            assert httpx.get(link.partition("?")[0], trust_env=False, timeout=60).status_code == 403
            process.send_signal(end)
            process.wait(120)
            until = time.monotonic() + 120
            while True:
                try:
                    browser.get(link)
                except httpx.TransportError:
                    break
                assert time.monotonic() < until, "the page outlives its referee"
                time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
