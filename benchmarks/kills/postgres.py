"""A real PostgreSQL server of this process's own: a cluster in a temporary folder, on a Unix socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg

PLACES = ("/usr/lib/postgresql", "/usr/local/lib/postgresql", "/opt/postgresql")
"""Where packages put the server: a folder for each version, with ``bin`` in it."""

ROOM = 1 << 30
"""Bytes that must be free in memory for a cluster to be there; else it is on the disk."""


def binaries() -> Path | None:
    """Return the folder of the newest server's programs, None if there is none on this machine."""
    found = [path.parent for place in PLACES for path in Path(place).glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    return max(found, key=lambda path: float(path.parent.name), default=Path(on_path).parent if on_path else None)


class Server:
    """One server, with its defaults: what is committed is on disk. It ends with this process, however that ends."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        memory = Path("/dev/shm")
        roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM
        self._folder = Path(
            tempfile.mkdtemp(prefix="pg-", dir=memory if roomy else None)
        )  # a socket's path must be short
        self._names = count()
        # The kernel ends it when the thread that has started it ends: this one lasts as long as the process.
        self._starter = ThreadPoolExecutor(1, "postgresql")
        # A server refuses to be root; its package has made a user for it.
        self._as: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(self._folder, "postgres", "postgres")
            self._as = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        initdb = [*self._as, str(programs / "initdb"), "-D", str(self._data), "-U", "postgres", "-A", "trust"]
        subprocess.run(
            [*initdb, "-E", "UTF8", "--locale=C", "--no-sync"], check=True, stdout=subprocess.DEVNULL, cwd="/"
        )
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @staticmethod
    def _with(user: list[str]) -> list[str]:
        """Return what a server that must not outlive this process is started with."""
        return [*(user or ["setpriv"]), "--pdeathsig", "INT"] if shutil.which("setpriv") else []

    def start(self) -> None:
        """Start it, and wait until it can be used."""
        options = [
            "-D",
            str(self._data),
            "-k",
            str(self._folder),
            "-c",
            "listen_addresses=",
            "-c",
            "max_connections=200",
        ]
        with (self._folder / "log").open("ab") as log:
            start = partial(subprocess.Popen[bytes], stdout=log, stderr=log, cwd="/")
            command = [*self._with(self._as), str(self._programs / "postgres"), *options]
            self._process = self._starter.submit(start, command).result()
        deadline = time.monotonic() + 60
        while True:
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self._folder / "log").read_text("utf-8")) from None
                time.sleep(0.02)
            else:
                return

    def processes(self) -> list[int]:
        """Return the ids of the server's processes but its first: those of its sessions, and those that write."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(pid) for pid in children.read_text("ascii").split()]

    def crash(self) -> None:
        """Kill its first process without a word, and start it again once its other ones have noticed."""
        self._process.kill()
        self._process.wait()
        deadline = time.monotonic() + 60
        while True:
            try:
                self.start()
            except RuntimeError:  # others still hold its memory
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT ends all sessions in order, SIGQUIT is a crash."""
        self._process.send_signal(how)
        self._process.wait(60)

    def close(self) -> None:
        """Stop it, and forget what it held."""
        if self._process.poll() is None:
            self.stop(signal.SIGQUIT)
        self._starter.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)

    def execute(self, command: str) -> list[tuple[object, ...]]:
        """Execute one command as the superuser; return the rows if there are any."""
        where = f"host={self._folder} user=postgres dbname=postgres"
        with psycopg.connect(where, autocommit=True) as connection:
            cursor = connection.execute(command)
            return cursor.fetchall() if cursor.description else []

    def database(self) -> str:
        """Return the URL of an empty database: a schema of its own, which takes no time and no room."""
        name = f"test_{next(self._names)}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"postgresql+psycopg://postgres@/postgres?host={quote(str(self._folder))}&options=-csearch_path%3D{name}"
