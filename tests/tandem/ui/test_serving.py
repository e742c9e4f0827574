"""The command ``tandem ui``: where it listens, and what it refuses before it does."""

from __future__ import annotations

from typer.testing import CliRunner

from tandem.cli import app
from tests.tiers import for_each


@for_each("host", ["0.0.0.0", "192.0.2.1", "example.org"])
def test_only_this_machine_is_served(host):
    done = CliRunner().invoke(app, ["ui", "--host", host])
    assert done.exit_code == 1
    assert "--host must be 127.0.0.1 or ::1" in done.stderr
    assert "ssh -L" in done.stderr
