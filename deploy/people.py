"""Take part yourself: two hundred invented people, and a page on which you are one more (``make people``)."""

import csv
import random
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import local_agent
import referee
from common.core.machine import python_environment, python_module
from common.core.terminal import say
from deploy.processes import PartyProcess, new_tokens, services

HERE = Path(__file__).parents[1] / "examples" / "people"
OF_CURATOR, INVENTED = 10, 200


def invent_people(folder: Path) -> None:
    """Write the curator's table, and the table of the other agents."""
    source = random.Random(1)
    for name, count in (("members", OF_CURATOR), ("people", INVENTED)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["age", "minutes", "travels", "sport"])
            for _ in range(count):
                minutes = source.randrange(5, 90)
                travels = "bicycle" if source.random() < 20 / (20 + minutes) else source.choice(["car", "train"])
                rows.writerow([source.randrange(18, 70), minutes, travels, source.choice(["yes", "no"])])


class SilentFileHandler(SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def handle(self) -> None:
        """Serve a connection; ignore a lost one."""
        with suppress(OSError):
            super().handle()

    def log_message(self, *words: object) -> None:
        """Log nothing."""


class Files(ThreadingHTTPServer):
    """Serves files; its queue has room for all of a page's requests, as a browser retries a refused one much later."""

    request_queue_size = 128


@contextmanager
def serving(folder: Path, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve a folder of static files to this machine; yield its address."""
    server = Files(("127.0.0.1", 0), partial(SilentFileHandler, directory=str(folder)))
    if tls is not None:  # each connection shakes hands in its own thread
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def main(output: Path, *, once: bool) -> None:
    """Start the parties and your page, complete one run, audit it; stay until interrupted unless ``once``."""
    with ExitStack() as until_the_end:
        work = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="tandem-people-")))
        tokens = new_tokens()
        (work / "page").mkdir()
        invent_people(work)
        page = until_the_end.enter_context(serving(work / "page"))
        scenario, of_referee = [str(HERE / "scenario.yaml"), "--set", f"data={work}"], f"{referee.__name__}.cli"

        def run(module: str, *arguments: str, stdout: int | None = None) -> str:
            command, environment = [*python_module(module), *arguments], {**python_environment(), **tokens}
            done = subprocess.run(command, env=environment, check=True, text=True, stdout=stdout)  # noqa: S603 - our own
            return str(done.stdout)

        own = ["--ledger", str(work / "ledger"), "--seed", "1"]
        offered = ["--page", "0", "--allow-origin", page]
        parties, options = until_the_end.enter_context(services(work, tokens, [*scenario, *own], offered))
        parties["curator"].wait_for("listens on")
        parties["referee"].wait_for("listens on")
        runs = parties["referee"].wait_for("open http").removeprefix("open ")
        agents = ["host", *scenario, *own, *options, "--state", str(work / "agents")]
        agents += ["--set", f"agents.count={INVENTED}"]
        parties["agents"] = PartyProcess("agents", [f"{local_agent.__name__}.cli", *agents], work, tokens)
        parties["agents"].wait_for("hosts")
        page_options = ["--texts", str(HERE / "texts.json"), "--epsilon", "2", "--key", str(work / "page.key")]
        run(f"{local_agent.__name__}.cli", "page", *scenario, *options, *page_options, "--output", str(work / "page"))
        inviting = ["invite", "--page", f"{page}/", *options[:2], "--state", str(work / "referee")]
        say(f"Answer here: {run(of_referee, *inviting, stdout=subprocess.PIPE).strip()}")
        say(f"See how it comes in: {runs}")
        run(of_referee, "run", *scenario, "--deployment", options[1], "--yes", "--output", str(output))
        run(of_referee, "audit", str(output))
        if not once:
            say("Your page can check now that your answer is counted. Ctrl-C ends all that was started here.")
            threading.Event().wait()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), once="--once" in sys.argv)
    except KeyboardInterrupt:
        say("ended")
