"""Every container of the compose file has an end to its memory and its processes; the engine limits open files."""

from __future__ import annotations

import yaml

from tests.documents.reading import ROOT


def test_every_container_has_limits():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name, service in services.items():
        assert service["mem_limit"]
        assert service["pids_limit"] <= 256
        # An engine starts no container with more than it may grant itself; a service takes all that it gets.
        assert "ulimits" not in service, name
