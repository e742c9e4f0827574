"""Certificates of all parties for tests, and those of an authority that nobody believes."""

import datetime
from pathlib import Path

import pytest

from common.net import tls
from common.net.certificates import make_all, names_of

PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
"""When certificates were made that have ended since."""


def circle(folder: Path, *, days: int = 397, now: datetime.datetime | None = None) -> Path:
    """Make an authority and all certificates in a folder; returns it."""
    make_all(folder, names_of([]), days=days, now=now)
    return folder


def believe(monkeypatch: pytest.MonkeyPatch, folder: Path, client: str | None = "referee") -> None:
    """Have clients of this process believe an authority, and show a client's certificate if one is named."""
    monkeypatch.setenv(tls.CA, str(folder / "public" / "ca.pem"))
    if client is None:
        monkeypatch.delenv(tls.CLIENT_CERT, raising=False)
    else:
        monkeypatch.setenv(tls.CLIENT_CERT, str(folder / client / "client.pem"))
