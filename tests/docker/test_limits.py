"""Every container of the compose file has an end to its memory, its processes and its open files."""

from __future__ import annotations

import yaml

from tests.documents.reading import ROOT


def test_every_container_has_limits():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name, service in services.items():
        assert service["mem_limit"]
        assert service["pids_limit"] <= 256
        if name not in ("database", "proxy"):  # images of their own, which say it themselves
            assert service["ulimits"]["nofile"]["hard"] == 65536
