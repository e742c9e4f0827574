"""The PostgreSQL server that load tests, kills and tests start for themselves."""

import threading

import pytest

from tests.postgres import start


@pytest.mark.slow
def test_a_server_that_another_thread_has_started_again_stays_when_that_thread_ends():
    """Otherwise whoever kills parties from a thread of its own would take the server along when it is done."""
    server = start()
    try:
        killer = threading.Thread(target=server.crash)
        killer.start()
        killer.join()
        for _ in range(20):
            assert server.execute("SELECT 1") == [(1,)]
    finally:
        server.close()
