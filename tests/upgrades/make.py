"""Write what a release leaves on disk: a finished run's states and folder, and a referee with a run that waits.

It is run with the code of that release, never with today's::

    git worktree add /tmp/release v0.3.0
    python -m venv /tmp/venv
    /tmp/venv/bin/pip install -c /tmp/release/constraints.txt "/tmp/release[test]"
    cd /tmp/release
    PYTHONPATH=/tmp/release /tmp/venv/bin/python CHECKOUT/tests/upgrades/make.py OUT.tar.xz

The people are simulated, and the keys in the archive are of these simulated parties alone.
"""

import sys
import tarfile
import tempfile
from pathlib import Path

SMALL = ("agents.count=150", "agents.batch=50", "curator.n=60", "curator.rounds=1")
"""The tiny scenario of the release's own tests, smaller: an archive is to stay far below 100 KB."""
LEFT_OUT = ("lock", "features.npy", "labels.npy", "losses.npy", "people.npy")


def write(archive: Path) -> None:
    """Write the archive."""
    from tests.support import Bench, leave_folder, tiny  # of the release

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        chosen = tiny(*SMALL)
        with Bench(root / "ended", chosen) as bench:
            bench.run()
            leave_folder(root / "run", chosen, 1, bench.finished())
        with Bench(root / "waiting", chosen) as bench:
            bench.open()
        with tarfile.open(archive, "w:xz") as packed:
            for path in sorted(root.rglob("*")):
                if path.is_file() and path.name not in LEFT_OUT:
                    packed.add(path, path.relative_to(root), filter=_of_nobody)


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who wrote a file and when: the archive says what is in it, and nothing of the machine."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute())
