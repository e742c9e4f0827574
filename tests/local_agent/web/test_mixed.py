"""Agents in Python and people in browsers in one small run, over TLS: ``benchmarks.mixed`` is the large one."""

import shutil

import pytest

from benchmarks.browsers import COMMANDS, started, trusting
from benchmarks.mixed import measure
from common.net.certificates import make_all, names_of
from common.net.tls import CertificateFiles, server_context
from deploy.people import serving
from tests.local_agent.web.world import BROWSERS

INSTALLED = {name: any(map(shutil.which, commands)) for name, commands in COMMANDS.items()}


CERTUTIL = pytest.mark.skipif(
    shutil.which("certutil") is None, reason="no certutil here: apt-get install libnss3-tools"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", BROWSERS)
@CERTUTIL
def test_a_browser_opens_what_the_authority_has_certified_that_it_trusts_and_nothing_else(tmp_path, name):
    errors = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)").Error
    if not INSTALLED[name]:
        pytest.skip(f"no {name} is installed here")
    for each in ("own", "other"):
        make_all(tmp_path / each, names_of(()), days=30)
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("<h1>here</h1>")
    certified = CertificateFiles.of("page", tmp_path / "own" / "referee" / "server.pem", None)
    with serving(tmp_path / "page", server_context(certified)) as address:
        for each in ("own", "other"):
            authority, folder = tmp_path / each / "public" / "ca.pem", tmp_path / f"{each}-browser"
            with started(name, **trusting(name, authority, folder)) as browser:
                page = browser.new_page()
                if each == "own":
                    page.goto(address)
                    assert page.inner_text("h1") == "here"
                else:
                    with pytest.raises(errors, match=r"ERR_CERT_AUTHORITY_INVALID|SEC_ERROR_BAD_SIGNATURE"):
                        page.goto(address)


@pytest.mark.slow
@pytest.mark.xdist_group("chromium")
@CERTUTIL
@pytest.mark.skipif(not INSTALLED["chromium"], reason="no Chromium is installed here: apt-get install chromium")
def test_agents_in_python_and_people_in_browsers_answer_one_run_over_tls(tmp_path, capfd):
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    firefox = int(INSTALLED["firefox"])
    assert measure(tmp_path, 32, {"chromium": 4 - firefox, "firefox": firefox}), capfd.readouterr().out
