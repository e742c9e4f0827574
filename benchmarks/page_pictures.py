"""Take the pictures of docs/howto/page.md: what a person sees, on a phone and a desk, and what ``make people`` prints.

    python -m benchmarks.page_pictures [--output DIR]

It runs ``make people`` and takes part in it, in Debian's Chromium by Playwright (extra ``dev``), in two minutes. The
files have at most 150,000 bytes together; exit status 1 if they have more, or the page complains.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks import browsers
from benchmarks.house import ROOT
from benchmarks.recording import PAUSE, SCROLL, Printed, broken, picture
from common.core.errors import NotFound, RunFailed

MAX_BYTES = 150_000
PHONE, DESK = {"width": 360, "height": 720}, {"width": 1000, "height": 760}
LOOKS = {"phone": (PHONE, "light"), "phone-dark": (PHONE, "dark"), "desk": (DESK, "light"), "desk-dark": (DESK, "dark")}


class People:
    """A running ``make people``."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "deploy.people", str(folder / "run")]
        own = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own, cwd=ROOT)
        self._begun = time.monotonic()
        self.lines = [Printed(0.0, "$ make people")]

    def wait_for(self, text: str) -> str:
        """Return the next line that begins with a text; RunFailed if it ends before."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at = min(time.monotonic() - self._begun, self.lines[-1].at + PAUSE)
            self.lines.append(Printed(max(at, self.lines[-1].at + SCROLL), line.rstrip("\n")))
            if line.startswith(text):
                return line.strip()
        raise RunFailed("make people has ended")

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


class Camera:
    """Takes the pictures of each step of one browser tab, in all variants (``look``)."""

    def __init__(self, page: Any, output: Path) -> None:
        self._page, self._output = page, output
        self.files: list[Path] = []
        self.wrong: list[str] = []
        page.on("console", lambda said: self.wrong.append(said.text))

    def take(self, name: str, look: str, *, whole: bool = False) -> None:
        """Take the picture of a step, in few colours; ``whole``: the full page, beyond the screen."""
        size, colours = LOOKS[look]
        self._page.set_viewport_size(size)
        self._page.emulate_media(color_scheme=colours)
        if self._page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            self.wrong.append(f"{name}: wider than {size['width']} pixels")
        file = self._output / f"{name}-{look}.png"
        with Image.open(io.BytesIO(self._page.screenshot(full_page=whole))) as taken:
            few = taken.convert("RGB").quantize(16, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            few.save(file, optimize=True)
        self.files.append(file)


def take_all(browser: Any, people: People, output: Path) -> Camera:
    """Take part, and take the pictures on the way."""
    page = browser.new_context(viewport=LOOKS["phone"][0]).new_page()
    page.set_default_timeout(120_000)
    camera = Camera(page, output)
    page.goto(people.wait_for("Answer here: ").split()[-1])
    page.fill("#field-0", "41")
    page.fill("#field-1", "20")
    page.select_option("#field-2", label="by bicycle")
    page.select_option("#field-3", label="yes")
    page.focus("#field-1")
    page.evaluate("scrollTo(0, 0)")
    camera.take("form", "phone")
    camera.take("form", "desk-dark")
    page.get_by_role("button", name="Go on: see what is asked").click()
    page.wait_for_selector("h2:text-is('Your question')")
    camera.take("question", "phone-dark", whole=True)
    page.get_by_role("button", name="Answer", exact=True).click()
    people.wait_for("Your page can check now")
    page.get_by_role("button", name="Check that it is counted").click()
    page.wait_for_selector("text=Your answer is counted as it was sent.")
    camera.take("answered", "desk", whole=True)
    camera.files.append(output / "people.svg")
    camera.files[-1].write_text(picture(broken(people.lines), "make people"), "utf-8")
    return camera


def main() -> int:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "pictures" / "page")
    output = parser.parse_args().output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="page-pictures-") as folder,
            browsers.started("chromium") as browser,
            closing(People(Path(folder))) as people,
        ):
            camera = take_all(browser, people, output)
    except NotFound as error:
        print(f"the pictures cannot be taken: {error.detail}", file=sys.stderr)
        return 1
    total = sum(file.stat().st_size for file in camera.files)
    print(f"{len(camera.files)} pictures, {total:,} bytes")
    if total > MAX_BYTES:
        camera.wrong.append(f"at most {MAX_BYTES:,} bytes are wanted")
    for words in camera.wrong:
        print(words, file=sys.stderr)
    return 1 if camera.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
