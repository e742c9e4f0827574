"""Take the pictures of docs/ui.md and docs/gallery.md: a live run of ``ball``, the tutorial's run, a curator's console.

    python -m benchmarks.ui_pictures [--output DIR] [--seed 1]

Curator, referee, witness and hosted agents run as processes on this machine; the page is opened in Chromium (Debian's
package ``chromium``) by Playwright (extra ``dev``). It takes about two minutes. Exit status 1 if a page makes the
browser complain, or a picture has more than 100,000 bytes.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import Any

import curator
import local_agent
import referee
from benchmarks import browsers
from benchmarks.recording import printed
from common.core.errors import NotFound
from common.crypto.identity import Identity
from common.lifetime.charging import Charging
from common.net.app import Service
from common.net.connection import Limits
from common.net.pages import Rules
from common.net.server import Server, listen
from common.scenario import loading
from curator.console import console_app
from deploy.deployment import OnProgress
from deploy.processes import PartyProcess, free_port
from deploy.remote import operating
from deploy.running import carry_out
from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
from tandem.ui.live import RefereeWatch

ROOT = Path(__file__).parent.parent
MAX_BYTES = 100_000
ALONE = ["baselines=[]"]
"""Override to omit the comparisons, which take longer than the run itself."""
WIDE, PHONE = {"width": 1000, "height": 700}, {"width": 390, "height": 760}
PICTURES = (
    ("runs", "/", WIDE, "light"),
    ("verdict", "/run/mine", WIDE, "light"),
    ("verdict-phone", "/run/mine", PHONE, "dark"),
    ("result-dark", "/run/ball", WIDE, "dark"),
    ("result-phone", "/run/ball", PHONE, "light"),
    ("parties", "/run/ball/parties?at=5", WIDE, "light"),
    ("transcript", "/run/ball/transcript", WIDE, "light"),
    ("history", "/run/ball/history", WIDE, "light"),
    ("own", "/own", WIDE, "light"),
    ("plan", "/plan?scenario=ball", WIDE, "light"),
)
"""Pictures of the run folders: name, address, size, colours."""


@contextmanager
def referee_of(folder: Path, seed: int) -> Iterator[tuple[str, str]]:
    """Start a curator, a referee and hosted agents of ``ball``; yield the referee's address and operator token."""
    token = secrets.token_hex(16)
    tokens = {"TANDEM_ENROLMENT_TOKEN": secrets.token_hex(16), "TANDEM_OPERATOR_TOKEN": token}
    tokens["TANDEM_WITNESS_TOKEN"] = secrets.token_hex(16)
    ports = {name: str(free_port()) for name in ("witness", "curator", "referee")}
    address = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    sets = [part for each in ALONE for part in ("--set", each)]
    witnessed = ["--curator", address["curator"], "--witness", address["witness"]]
    key = Identity.load_or_create(folder / "referee" / "identity.key").public
    alone = ["--ephemeral", "--referee-key", key, *sets]
    commands = {
        "witness": [f"{referee.__name__}.cli", "witness", "--port", ports["witness"]],
        "curator": [f"{curator.__name__}.cli", "serve", "ball", "--port", ports["curator"], *alone],
        "referee": [f"{referee.__name__}.cli", "serve", "--port", ports["referee"], *witnessed],
        "agents": [f"{local_agent.__name__}.cli", "host", "ball", "--referee", address["referee"], *sets],
    }
    with ExitStack() as started:
        for name, arguments in commands.items():
            seeds = [] if name in ("referee", "witness") else ["--seed", str(seed)]
            party = PartyProcess(name, [*arguments, "--state", str(folder / name), *seeds], folder, tokens)
            started.callback(party.stop)
            party.wait_for("hosts" if name == "agents" else "listens on")
        yield address["referee"], token


@contextmanager
def page_of(app: Callable[[Rules], Service]) -> Iterator[Rules]:
    """Serve a page from a thread."""
    with listen("127.0.0.1", 0) as listener:
        rules = Rules(secrets.token_urlsafe(24), listener.getsockname()[1])
        running = Server(app(rules), Limits(100))
        thread = threading.Thread(target=running.run, args=(listener,))
        thread.start()
        try:
            yield rules
        finally:
            running.stop()
            thread.join()


class Camera:
    """Takes pictures of a page in a browser, and records the browser's error messages."""

    def __init__(self, browser: Any, rules: Rules, output: Path) -> None:
        self._browser, self._rules, self._output = browser, rules, output
        self.wrong: list[str] = []

    def take(self, name: str, path: str, size: dict[str, int], colours: str, wait_for: str = "h1") -> None:
        """Take one picture, once the element ``wait_for`` is on the page."""
        context = self._browser.new_context(viewport=size, color_scheme=colours)
        page = context.new_page()
        page.on("console", lambda said: self.wrong.append(f"{name}: {said.text}"))
        page.goto(f"http://{self._rules.hosts[0]}{path}{'&' if '?' in path else '?'}key={self._rules.key}")
        page.wait_for_selector(wait_for, timeout=180_000)
        page.evaluate("document.querySelector('.fields')?.scrollIntoView()")  # a plan's light is below its form
        file = self._output / f"{name}.png"
        page.screenshot(path=str(file))
        if file.stat().st_size > MAX_BYTES:
            self.wrong.append(f"{name}: {file.stat().st_size:,} bytes, at most {MAX_BYTES:,} are wanted")
        context.close()


def take_all(browser: Any, output: Path, seed: int) -> list[str]:
    """Run ``ball``, take all pictures, and return the problems found."""
    with tempfile.TemporaryDirectory(prefix="ui-pictures-") as place, ExitStack() as open_here:
        folder = Path(place)
        address, token = open_here.enter_context(referee_of(folder, seed))
        there = open_here.enter_context(operating(address, token, patience=3.0, timeout=30.0))
        open_here.enter_context(chdir(folder))  # so that no picture names a folder of this machine
        rules = open_here.enter_context(
            page_of(lambda rules: ui_app(RunFolders(Path("runs")), rules, RefereeWatch(there)))
        )
        camera, second = Camera(browser, rules, output), threading.Event()

        @contextmanager
        def watching(chosen: Any, drawn: int | None, place: Path) -> Iterator[OnProgress]:
            yield lambda text, numbers: second.set() if numbers.get("round", 0) >= 2 else None

        def run() -> None:
            asked, alone = loading.load("ball", ALONE), Charging(None, True)
            place = folder / "runs" / "ball"
            carry_out(asked, address, seed=seed, output=place, token=token, watching=watching, charging=alone)

        running = threading.Thread(target=run)
        running.start()
        if not second.wait(300):
            return ["the run did not come to its second round within five minutes"]
        name = there.runs()[0]["run"]
        camera.take("live", f"/referee/{name}", {"width": 1000, "height": 1000}, "light", "h1:has-text('Round')")
        running.join()
        for _ in printed(folder):
            """The tutorial's commands, which leave the run folder ``mine``."""
        for picture in PICTURES:
            camera.take(*picture, wait_for="#answer .cards" if picture[0] == "plan" else "h1")
        owners = open_here.enter_context(page_of(lambda rules: console_app(Path("curator"), rules)))
        console = Camera(browser, owners, output)
        console.take("console", "/", WIDE, "light")
        return camera.wrong + console.wrong


def main() -> int:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "pictures" / "ui")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    output = options.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    try:
        with browsers.started("chromium") as browser:
            wrong = take_all(browser, output, options.seed)
    except NotFound as error:
        print(f"the pictures cannot be taken: {error.detail}", file=sys.stderr)
        return 1
    for words in wrong:
        print(words, file=sys.stderr)
    for file in sorted(output.glob("*.png")):
        print(f"{file.name}: {file.stat().st_size:,} bytes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
