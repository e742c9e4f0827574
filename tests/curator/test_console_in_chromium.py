"""The owner's console in a real browser: accessible, no wider than a phone, alone, and up to date by itself."""

from __future__ import annotations

import pytest

from curator.console import console_app
from tests.support import Bench
from tests.tandem.ui.chromium import Tab, chromium, rules, serving

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chromium")]
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 720}},
}


def test_the_console_is_accessible_fits_asks_nobody_else_and_follows_the_curator(tmp_path):
    with (
        chromium() as browser,
        Bench(tmp_path) as bench,
        serving(lambda port: console_app(tmp_path / "curator", rules(port))) as port,
    ):
        tab = Tab(browser, port)
        assert "Nothing was charged yet" in tab.page.text_content("main")
        assert tab.violations() == []
        bench.run()
        tab.page.wait_for_selector("table caption:has-text('Charges')")
        # It may have looked in the middle of the run, and looks again.
        tab.page.wait_for_function("document.querySelectorAll('svg.bars rect').length > 2")
        assert tab.violations() == []
        assert tab.wrong == []
        for look, options in LOOKS.items():
            tab = Tab(browser, port, **options)
            assert "publish nothing" in tab.page.text_content("#private")
            assert tab.violations() == [], look
            assert not tab.scrolls_sideways, look
            assert tab.wrong == [], look
