"""A real PostgreSQL server for the tests, or the reason why there is none."""

import pytest

from benchmarks.kills.postgres import Server, binaries

__all__ = ["Server", "binaries", "start"]


def start() -> Server:
    """Return a server that was started now; skips the test where there is none on this machine."""
    programs = binaries()
    if programs is None:
        pytest.skip("there is no PostgreSQL server here (Debian: apt-get install postgresql)")
    return Server(programs)
