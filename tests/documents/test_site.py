"""The documents become a site without a warning, which needs nothing from outside and names what the code has."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tandem

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.xdist_group("site")  # which is built once


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="sphinx is not installed (extra dev)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs/site", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_every_document_is_a_page_that_can_be_reached(site: Path) -> None:
    front = (site / "index.html").read_text()
    for document in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")]:
        page = document.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / page).is_file()
        if page.parent == Path("."):
            assert f'href="{page}"' in front or page.name == "index.html"


@pytest.mark.slow
def test_a_page_asks_for_nothing_from_outside(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\bsrc=\"([^\"]+)\"", page.read_text())
        loaded += re.findall(r"<link[^>]*rel=\"stylesheet\"[^>]*href=\"([^\"]+)\"", page.read_text())
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], page


@pytest.mark.slow
def test_the_reference_names_what_there_is(site: Path) -> None:
    api = (site / "reference" / "api.html").read_text()
    assert all(f'id="tandem.{name}"' in api for name in tandem.__all__)
    commands = (site / "reference" / "commands.html").read_text()
    assert all(f"<h3>{name}<" in commands for name in ("referee run", "curator serve", "local-agent answer"))
    assert "--strict" in commands
    http = (site / "reference" / "http.html").read_text()
    assert all(path in http for path in ("PUT /v1/reports/", "PUT /v1/runs/{run}/operations/", "GET /v1/heads/"))
    assert "chi_squared" in (site / "reference" / "scenario.html").read_text()
