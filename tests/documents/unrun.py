"""Printed commands that the documents' jobs do not run, each with the reason, and blocks that are no commands.

What takes minutes or hours, as the document says near it, is only parsed.
"""

from tests.docker.test_compose import DOCUMENTED, PINNED
from tests.documents.reading import ROOT

VALUES = {
    "GROUP ...": "answers",
    "NAME ...": "liars",
    "[--sizes 1000 3000 10000] [--picture FILE.svg] [--flower] [--json]": "--sizes 1000",
}
"""What is put where a usage says what may stand there."""

IN_CI = ("make install", "make check", "make test COVERAGE=1", "make test-slow")
"""What ``.ci/run`` itself runs: an installation, and then the checks beside each tier of tests once."""

SITE = ("make docs",)
"""Run by ``tests/documents/test_python.py``."""

IN_A_BROWSER = ("make people",)
"""Run by ``tests/local_agent/web/test_in_browsers.py``, in the place of a person."""

CORRECTIONS = tuple(
    f"python -m benchmarks.corrections.{path.stem}"
    for path in sorted((ROOT / "benchmarks" / "corrections").glob("[a-z]*.py"))
)
"""Run by ``tests/benchmarks/test_benchmarks.py``, which compares all that they print."""

CONTAINERS = (*DOCUMENTED, PINNED)
"""Run by ``tests/docker``, where there is an engine; the last with a digest that a registry on the machine has."""

EXTRAS = tuple(f"pip install 'tandem-hybrid[{extra}]'" for extra in ("onnx", "ray", "compare", "postgresql", "torch"))
"""Installs from an index: the extra must exist."""

NAMES = (
    "kill -9",
    "referee runs",  # these three need a referee's address and token: tests/referee/service/test_operating.py runs them
    "referee logs RUN",
    "referee cancel RUN",
    "local-agent host --workers",
    "referee audit FOLDER",
    "python -m benchmarks.NAME",
    "ray start",
    "ray get-auth-token --generate",
    "pip install .",
    "pip install tandem_hybrid-VERSION-py3-none-any.whl",  # tests/deploy/packaging/test_packaging.py installs it
    'TANDEM_ONLY=YOUR-NAME pytest -k "contract or every" tests/common tests/curator tests/referee',
    "git clone URL tandem && cd tandem",
    "git switch -c two-coins",
)
"""Text that names a command, and is none to be typed as it stands. Tables of benchmarks have a test of their own."""

SHOWN = {
    "paper        tight": "referee plan ball",
    "the testers' model errs on": ".venv/bin/python examples/estimators/renewals.py",
    "the public region's model": ".venv/bin/python examples/estimators/adapt.py",
}
"""Blocks that show what a command prints, by how they begin."""

NO_CODE = {
    "docs/accounting.md": (*("P - a Q = s (B - b M)", "int P F_m0(", "delta = int_0^1 max"),),
    "docs/adaptation.md": ("alpha L_S + (1 - alpha) L_T",),
    "docs/architecture.md": ("curator  <---- signed requests", "common  <-  curator"),
    "docs/convex.md": ("agents:\n  loss: hinge",),
    "docs/corrections.md": ("eps* = m ln(1 + s", "(eps^2/2) ln(2T/beta)"),
    "docs/hand-over.md": ("s_t = min(", "Phi_t = KL("),
    "docs/index.md": ("1,627 agents reported", "verified runs/mine"),
    "docs/running.md": ("refused: no enrolled agent",),
    "docs/models.md": ("name,plan,visits",),
    "docs/privacy.md": ("p = tanh(epsilon/2)",),
}
"""Formulas, drawings and lines of a log: blocks in which there is nothing to run."""
