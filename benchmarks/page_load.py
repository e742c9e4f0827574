"""Measure how long the page of people takes from load to its form, and what it waits for on the way.

    python -m benchmarks.page_load [--loads 15]

Each load is of a fresh context, from a server on this machine; the medians are of Chromium and of Firefox ESR.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import browsers
from deploy.people import serving
from tests.local_agent.web.people import page_of

NOTICE = """
new MutationObserver(() => { if (document.querySelector('form')) window.formAt ??= performance.now(); })
  .observe(document, { childList: true, subtree: true });
"""
PARTS = """() => ({
  html: performance.getEntriesByType('navigation')[0].responseEnd,
  modules: Math.max(...performance.getEntriesByType('resource').map((each) => each.responseEnd)),
  form: window.formAt,
})"""


def loaded(browser: Any, address: str) -> dict[str, float]:
    """Return the milliseconds from the start of a load until its HTML, all its modules, and its form are loaded."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(NOTICE)
    page.goto(address)
    page.wait_for_selector("form")
    found: dict[str, float] = page.evaluate(PARTS)
    context.close()
    return found


def main() -> int:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--loads", type=int, default=15)
    loads = parser.parse_args().loads
    with tempfile.TemporaryDirectory(prefix="page-load-") as folder, browsers.driver() as playwright:
        (Path(folder) / "page").mkdir()
        page_of(Path(folder), "http://127.0.0.1:9")  # the form sends no request to this address
        with serving(Path(folder) / "page") as address:
            for name in browsers.COMMANDS:
                browser = getattr(playwright, name).launch(**browsers.launching(name))
                rows = [loaded(browser, address) for _ in range(loads)]
                parts = (f"{part} after {median(row[part] for row in rows):.0f} ms" for part in rows[0])
                print(f"{name}: {', '.join(parts)}", flush=True)
                browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
