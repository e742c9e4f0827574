"""Every container of the compose file has an end to its memory, its processes and its open files."""

from __future__ import annotations

import yaml

from tests.documents.reading import ROOT


def test_every_container_has_limits():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert set(services) == {"curator", "referee", "local_agent", "run"}
    for service in services.values():
        assert service["mem_limit"].startswith("${TANDEM_")
        assert service["pids_limit"] <= 256
        assert service["ulimits"]["nofile"]["hard"] == 65536
