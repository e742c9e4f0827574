"""Printed commands that the documents' jobs do not run, each with the reason, and blocks that are no commands."""

from tests.docker.test_compose import DOCUMENTED, PINNED
from tests.documents.reading import ROOT

PARSED: dict[str, dict[str, str]] = {
    "make evidence": {},
    "make test": {},
    "make test-all": {},
    "make test-thorough": {},
    "python -m benchmarks.ui_pictures": {},
    "python -m benchmarks.slowest_tests": {},
    "referee run halfspace": {},
    "referee load-test --individuals 20000": {},
    "referee run ball-paper-nonprivate": {},
    "referee run ball-paper-size": {},
    "referee run ball-paper-size --seed 1": {},
    **{f"python -m benchmarks.figures {number}": {} for number in (1, 2, 3)},
    "python -m benchmarks.people [--runs 100] [--points NAME ...] [--json]": {},
    "python -m benchmarks.people.reductions [--runs 30] [--json]": {},
    "python -m benchmarks.parity [--repetitions 50] [--epsilon 0.5] [--most 6000000] [--json]": {},
    "python -m benchmarks.hand_over [--runs 20] [--people 3000000] [--json]": {},
    "python -m benchmarks.floors [GROUP ...] [--json]": {"GROUP ...": "answers"},
    "python -m benchmarks.step_limits [--n 100000000] [--json]": {},
    "python -m benchmarks.mutants [--count 200] [--seed 1] [--only PATTERN] [--list] [--retry] [--trusted] [--json]": {
        "PATTERN": "rdp"
    },
    "python -m benchmarks.scaling [--most 1000000000] [--folder DIRECTORY] [--json]": {},
    "python -m benchmarks.cluster [--json]": {},
    "python -m benchmarks.fitting": {},
    "python -m benchmarks.load_curve --from FILE.jsonl --picture FILE.svg": {},
    "python -m benchmarks.enrolled --sizes 10000 10000000 10000 --individuals 30000": {},
    "python -m benchmarks.enrolled --paired --sizes 10000 10000000 --individuals 20480": {},
    "python -m benchmarks.histories": {},
    "python -m benchmarks.histories --bug NAME": {},
    "python -m benchmarks.histories --hostile --count 100000": {},
    "python -m benchmarks.histories --hostile --seed 700": {},
    "python -m benchmarks.fuzz --only answers --count 950000 --seed 31": {},
    "python -m benchmarks.fuzz --only folders --count 50000 --seed 31": {},
    "python -m benchmarks.model": {},
    "python -m benchmarks.model --quick": {},
    "python -m benchmarks.relayed": {},
    "python -m benchmarks.rounds": {},
    "python -m benchmarks.floods": {},
    "python -m benchmarks.kills [--kills 200] [--postgresql] [--seed 1] [--json]": {},
    "python -m benchmarks.faults [--only PATTERN] [--json]": {"PATTERN": "clock"},
    "python -m benchmarks.load_curve [--sizes 1000 3000 10000] [--picture FILE.svg] [--flower] [--json]": {
        "[--sizes 1000 3000 10000] [--picture FILE.svg] [--flower] [--json]": "--sizes 1000"
    },
    "referee load-test --individuals 10 --hosted 100000000 --hosts 2": {},
    **{
        f"referee load-test {options}": {}
        for options in (
            "--connections 512",
            "--individuals 20000 --connections 256",
            "--individuals 1000000 --connections 512 --json",
            "--individuals 10000 --connections 512 --idle 100000 --idle-seconds 60",
            "--individuals 10 --hosted 1000000000 --hosts 10",
            "--individuals 18000 --schedule at-once",
        )
    },
    "python -m benchmarks.answer_times [--people 4000] [--json]": {},
    "python -m benchmarks.cheats [NAME ...] [--json]": {"NAME ...": "liars"},
    "python -m benchmarks.fuzz [--count 1000000] [--seed 1] [--seconds S] [--json]": {"S": "600"},
    "python -m benchmarks.audits": {},
    "python -m benchmarks.audits --scale 10 --json": {},
    **{
        f"python -m benchmarks.{name}": {}
        for name in (
            "repair", "real", "tightness [--json]", "adaptive_pair",
            "adaptation_rates", "adaptation_speed", "private_choice", "worst_choice", "model_agnostic", "synergy",
            "synergy --theorem", "synergy --cost", "frequencies", "heavy_hitters", "adaptation.unconverged",
            "adaptation.clips",
        )
    },
}  # fmt: skip
"""Takes long, and the document says so near it: only parsed. With values for what stands for something."""

IN_CI = ("make install", "make check", "make test COVERAGE=1", "make test-slow")
"""What ``.ci/run`` itself runs, line by line: an installation, and each tier of tests once."""

SITE = ("make docs",)
"""Run by ``tests/documents/test_site.py``."""

CORRECTIONS = tuple(
    f"python -m benchmarks.corrections.{path.stem}"
    for path in sorted((ROOT / "benchmarks" / "corrections").glob("[a-z]*.py"))
)
"""Run by ``tests/benchmarks/test_benchmarks.py``, which compares all that they print."""

CONTAINERS = (*DOCUMENTED, PINNED)
"""Run by ``tests/docker``, where there is an engine; the last with a digest that a registry on the machine has."""

EXTRAS = tuple(f"pip install 'tandem-hybrid[{extra}]'" for extra in ("onnx", "ray", "compare", "postgresql"))
"""Installs from an index: the extra must exist."""

NAMES = (
    "kill -9",
    "referee runs",  # these three need a referee's address and token: tests/referee/service/test_operating.py runs them
    "referee logs RUN",
    "referee cancel RUN",
    "referee serve --max-individuals",
    "local-agent host --workers",
    "referee audit FOLDER",
    "python -m benchmarks.NAME",
    "python -m benchmarks.",
    "ray start",
    "pip install .",
    'TANDEM_ONLY=YOUR-NAME pytest -k "contract or every" tests/common tests/curator tests/referee',
    "git clone URL tandem && cd tandem",
    "git switch -c two-coins",
)
"""Text that names a command, and is none to be typed as it stands. Tables of benchmarks have a test of their own."""

SHOWN = {
    "paper        tight": "referee plan ball",
    "phase   requests  a second": "referee load-test --individuals 2000",
    "the testers' model errs on": ".venv/bin/python examples/estimators/renewals.py",
    "the public region's model": ".venv/bin/python examples/estimators/adapt.py",
}
"""Blocks that show what a command prints, by how they begin."""

RECORDS = {"== in workers: done after 3 rounds": "benchmarks/results/cluster.txt"}
"""Blocks that are taken from a record of a long run."""

NO_CODE = {
    "docs/accounting.md": (
        *("P - a Q = s (B - b M)", "int P F_m0(", "K <= (m/2) e^", "delta = int_0^1 max"),
        *("e^{-m0^2/8} int w(t)", "G <= G0 + h1 |M1|", "(e p + f q)^2", "g(K, F) = E"),
    ),
    "docs/architecture.md": ("curator  <---- signed requests", "common  <-  curator", "engine.py        the way of"),
    "docs/audit-evidence.md": ("=== ",),
    "docs/corrections.md": ("eps* = m ln(1 + s", "(eps^2/2) ln(2T/beta)"),
    "docs/extending.md": ("[build-system]",),
    "docs/hand-over.md": ("s_t = min(", "Phi_t = KL("),
    "docs/hyperparameters.md": ("k mu^2/2 + (1 + eta)", "delta(epsilon) = int_0^1 max_x"),
    "docs/people.md": ("(k-1) rho <= ",),
    "docs/running.md": ("refused: no enrolled agent",),
    "docs/security.md": ("1/16 s + 1e-6 s c",),
    "docs/models.md": ("name,plan,visits",),
    "docs/privacy.md": ("p = tanh(epsilon/2)",),
}
"""Formulas, drawings and lines of a log: blocks in which there is nothing to run."""
