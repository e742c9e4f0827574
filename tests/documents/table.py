"""Which documented command is run when, and what it must show. A command that stands in no row here fails a test.

A new command gets a row: in ``QUICK`` if it takes seconds, in ``SLOW`` (marker ``slow``) if up to a minute, else in
``PARSED``; the document then says how long. A row whose command no document prints fails as well.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import polars
import yaml

from common.scenario.loading import load
from deploy.embedded import Embedded
from tests import postgres
from tests.docker.test_compose import DOCUMENTED
from tests.documents.jobs import Job, Step, data, finished, job, newest, result
from tests.documents.reading import ROOT, blocks, commands
from tests.documents.running import Clone, Done, wait_for
from tests.support import tiny

# What a reader has before a command ---------------------------------------------------------------------------------


@contextmanager
def _smallest_scenario(clone: Clone) -> Iterator[None]:
    (block,) = (b for b in blocks(ROOT / "docs" / "scenarios.md") if b.lines[0].startswith("name: renewals"))
    (clone.folder / "FILE.yaml").write_text(block.text)
    yield


@contextmanager
def _me(clone: Clone) -> Iterator[None]:
    (clone.folder / "me.json").write_text('{"features": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], "label": 1}')
    yield


@contextmanager
def _a_ledger(clone: Clone) -> Iterator[None]:
    """Provide the state directory of a curator whose run has ended."""
    Embedded(clone.folder / "ended").run(tiny(), 1, "run", lambda text, numbers: None)
    yield


@contextmanager
def _a_server(clone: Clone) -> Iterator[None]:
    """Provide an empty database of a PostgreSQL server."""
    server = postgres.start()
    try:
        clone.environment["EMPTY_DATABASE"] = server.database()
        yield
    finally:
        server.close()


def _server_url(clone: Clone) -> str:
    return f"'{clone.environment['EMPTY_DATABASE']}'"


@contextmanager
def _new_customers(clone: Clone) -> Iterator[None]:
    """Provide the rows that the page shows, and the fields that it names."""
    page = ROOT / "docs" / "models.md"
    (rows,) = (block for block in blocks(page) if block.lines[0].startswith("name,plan"))
    (clone.folder / "new-customers.csv").write_text(rows.text + "\n")
    (fields,) = re.findall(r"`(\{[^`]*\})`, null", page.read_text())
    (clone.folder / "my-fields.json").write_text(fields)
    yield


CLUSTER = "127.0.0.1:6399"


@contextmanager
def _a_cluster(clone: Clone) -> Iterator[None]:
    """Provide a Ray cluster of this machine alone, and a scenario that is small and held by two workers."""
    sizes = ["curator.n=1200", "curator.kappa=0.2", "curator.epsilon=60", "curator.learner.steps=300"]
    tree = load("ball", [*sizes, "curator.storage.workers=2"]).wire()
    (clone.folder / "scenario.yaml").write_text(yaml.safe_dump(tree))
    port = CLUSTER.partition(":")[2]
    start = f"ray start --head --block --port {port} --num-cpus 2 --include-dashboard false --disable-usage-stats"
    with tempfile.TemporaryDirectory(prefix="ray-") as folder, clone.background(f"{start} --temp-dir {folder}") as said:
        wait_for(said, "Ray runtime started")
        yield


# What commands leave ------------------------------------------------------------------------------------------------


def _as_on_the_front_page(clone: Clone, done: Done) -> None:
    """Compare the losses of this run with its row in the table of what is shipped."""
    (row,) = re.findall(r"\| `ball` \|[^|]*\|(.*)\|", (ROOT / "docs" / "shipped.md").read_text())
    printed = [float(cell.split()[0]) for cell in row.split("|")]
    truth = result(clone)["truth"]
    others = {name: found["loss_on_target"] for name, found in truth["baselines"].items()}
    found = [others["curator-only"], min(others["agents-only"], others["agents-once"]), truth["loss_on_target"]]
    # How many answers the tests take, and so the agents alone get, differs from processor to processor.
    for here, there, tolerance in zip([*found, others["optimum"]], printed, (0.03, 0.1, 0.03, 0.003), strict=True):
        assert abs(here - there) <= tolerance


def _both_labels(clone: Clone, done: Done) -> None:
    assert len(result(clone)["truth"]["tasks"]) == 2


def _what_the_demo_prints(clone: Clone, done: Done) -> None:
    printed = [command.text for command in commands() if command.document == "Makefile" and command.text[:5] != "make "]
    assert printed
    for text in printed:
        assert text.replace("$folder", newest(clone)) in done.output


def _what_fits_helps(clone: Clone, done: Done) -> None:
    alone, fitting = (float(share) for share in re.findall(r"errs on ([\d.]+)%", done.output))
    assert fitting < 0.7 * alone


def _adapting_helps(clone: Clone, done: Done) -> None:
    alone, adapted = (float(error) for error in re.findall(r"squared error ([\d.]+)", done.output))
    assert adapted < 0.9 * alone


def _as_in_the_page(clone: Clone, done: Done) -> None:
    assert done.output == (ROOT / "docs" / "protocols.md").read_text()


def _nothing_changed(clone: Clone, done: Done) -> None:
    assert all(
        (clone.folder / page.relative_to(ROOT)).read_bytes() == page.read_bytes() for page in ROOT.glob("*/*.py")
    )


def _the_same_pictures(clone: Clone, done: Done) -> None:
    for picture in (ROOT / "docs" / "pictures").glob("house*.svg"):
        assert (clone.folder / picture.relative_to(ROOT)).read_bytes() == picture.read_bytes()


def _the_same_page(clone: Clone, done: Done) -> None:
    page = ROOT / "docs" / "real.md"
    assert (clone.folder / page.relative_to(ROOT)).read_text() == page.read_text()


def _no_environment(clone: Clone, done: Done) -> None:
    assert not (clone.folder / ".venv").exists()


def _two_tables(clone: Clone, done: Done) -> None:
    tables = [
        polars.read_csv(clone.folder / "examples" / "own_data" / f"{name}.csv") for name in ("testers", "customers")
    ]
    assert all({"visits", "months", "plan", "renews"} <= set(table.columns) for table in tables)


def _a_record(clone: Clone, done: Done) -> None:
    record = json.loads((clone.folder / "me.json").read_text())
    assert (len(record["features"]), record["label"]) == (5, 1)


# The rows -----------------------------------------------------------------------------------------------------------

_DIGITS = r"\d*\.\d+(?:e-\d+)?"
"""Numbers with a fraction: the last places of a model may differ from processor to processor."""
_STATE = {"DIR": "ended/curator"}
_PARTIES = {"CURATOR": "ended/curator"}, {"REFEREE": "ended/referee"}

TARGETS = ("install", "check", "format", "test", "test-all", "evidence", "demo", "clean")

CORRECTIONS = sorted(path.stem for path in (ROOT / "benchmarks" / "corrections").glob("[a-z]*.py"))

QUICK: tuple[Job, ...] = (
    job("make help", *(rf"\b{target}\b" for target in TARGETS)),
    job("referee list", "scenarios: .*ball, .*protocols: .*learners: .*mechanisms: .*Next: referee plan NAME"),
    job("referee plan ball", "Where they come from: .* violated accuracy: steps = "),
    job("referee load-test --print-scenario", "protocol: learn-and-test .*agents: .*count: 10000"),
    job("referee budget", "no run has been charged to anybody|charged scenario people"),
)

SLOW: tuple[Job, ...] = (
    job("python -m benchmarks.private_choice --repetitions 0", "geometric, 30 +27.9 +120 +1.690 +2.419"),
    job("referee audit-privacy --only mechanism", "mechanism warner .* holds", "warner twice the epsilon .* caught"),
    Job(
        (
            Step("referee run ball --seed 2", ("status done: ",), check=_as_on_the_front_page),
            Step("referee audit runs/...", ("^not pinned: .* verified runs/ball-",), {"runs/...": newest}),
            Step("referee report runs/...", ("^ball: Error below 16% with 95% confidence",), {"runs/...": newest}),
        )
    ),
    finished("referee run ball --deployment processes", "baseline optimum"),
    Job(
        (
            Step(
                "make demo", ("status done: ", "verified runs/demo-", "Where to look next"), check=_what_the_demo_prints
            ),
            Step("ls $folder", ("reports result.json scenario.yaml state transcript.jsonl",), {"$folder": newest}),
            Step(".venv/bin/referee list", ("referee run NAME",)),
            Step(".venv/bin/referee plan ball", ("Where they come from",)),
            Step(
                ".venv/bin/referee run ball --set agents.mechanism.epsilon=1",
                ("each agent has epsilon = 1, delta = 0",),
            ),
        )
    ),
    job("make format", "files left unchanged", check=_nothing_changed, alone=True),
    job("make clean", check=_no_environment, alone=True),
    job("referee load-test --individuals 2000", "they agree", varies=r"[\d.,]+"),
    Job(
        (
            Step("export TANDEM_ENROLMENT_TOKEN=choose-one TANDEM_OPERATOR_TOKEN=choose-another"),
            Step(
                "referee serve --state one --key KEY --database URL &",
                values={"KEY": "referee.key", "URL": "sqlite:///shared.sqlite"},
                until="listens on",
            ),
            Step(
                "referee serve --state two --key KEY --database URL --role ingest --port 8003 &",
                values={"KEY": "referee.key", "URL": "sqlite:///shared.sqlite"},
                until="listens on",
            ),
        ),
        ports=(8000, 8003),
    ),
    Job(
        (
            Step("export TANDEM_ENROLMENT_TOKEN=choose-one TANDEM_OPERATOR_TOKEN=choose-another"),
            Step("referee serve --page 8100", until="open http://127.0.0.1:8100/?key="),
        ),
        ports=(8000, 8100),
    ),
    Job((Step("tandem ui", until="open http://127.0.0.1:8100/?key="),), ports=(8100,)),
    Job(
        (
            Step(
                "TANDEM_OPERATOR_TOKEN=choose-another tandem ui --referee http://127.0.0.1:8000",
                until="open http://127.0.0.1:8100/?key=",
            ),
        ),
        ports=(8100,),
    ),
    Job(
        (Step("curator console --state DIR", values=_STATE, until="open http://127.0.0.1:8101/?key="),),
        _a_ledger,
        ports=(8101,),
    ),
    Job(
        (
            Step("curator ledger verify --state DIR", ("^verified ended/curator: .* agreed by",), _STATE),
            Step("curator backup COPY --state DIR", ("COPY holds the ledger's",), _STATE),
            Step("curator restore COPY --state DIR", ("holds the ledger's .* entries again",), _STATE),
            Step("curator restore COPY --state DIR --close", ("holds the ledger's .* entries again",), _STATE),
        ),
        _a_ledger,
    ),
    Job(
        (
            Step("curator backup copies/curator --state CURATOR", ("holds the ledger's 13 entries",), _PARTIES[0]),
            Step("referee backup copies/referee --state REFEREE", ("a state directory to start from",), _PARTIES[1]),
            Step("curator ledger verify --state CURATOR", ("^verified ended/curator: 13 entries",), _PARTIES[0]),
            Step("curator restore copies/curator --state CURATOR", ("holds the ledger's 13 entries ag",), _PARTIES[0]),
            Step("mkdir lost"),
            Step("curator restore copies/curator --state lost", ("no head of this ledger is left",), status=1),
            Step("curator restore copies/curator --state lost --close", ("nothing more is released",)),
            Step("curator ledger verify --state lost", ("closed: the ledger was put back from a copy",)),
            Step("export TANDEM_ENROLMENT_TOKEN=choose-one TANDEM_OPERATOR_TOKEN=choose-another"),
            Step("referee serve --state copies/referee &", until="listens on"),
        ),
        _a_ledger,
        ports=(8000,),
    ),
    Job(
        (
            Step("export TANDEM_ENROLMENT_TOKEN=choose-one TANDEM_OPERATOR_TOKEN=choose-another"),
            Step(
                "referee serve --max-individuals 20000 --max-hosts 10 --people-per-host 1000000 &", until="listens on"
            ),
            Step("local-agent host ball --seed 1 --agents 1000 --state hosts/one", until="1000 people from number 0"),
            Step("local-agent host ball --seed 1 --agents 1000 --state hosts/two", until="from number 1000"),
        ),
        ports=(8000,),
    ),
    Job(
        (
            Step("export TANDEM_ENROLMENT_TOKEN=choose-one TANDEM_OPERATOR_TOKEN=choose-another"),
            Step(
                "TANDEM_DATABASE=URL referee serve --state one --key KEY &",
                values={"URL": _server_url, "KEY": "referee.key"},
                until="listens on",
            ),
            Step(
                "TANDEM_DATABASE=URL referee serve --state two --key KEY --role ingest --port 8003 &",
                values={"URL": _server_url, "KEY": "referee.key"},
                until="listens on",
            ),
        ),
        _a_server,
        ports=(8000, 8003),
    ),
    job(
        ".venv/bin/pytest -n 0 --log-cli-level=INFO tests/tandem/ui/test_in_chromium.py -k accessible",
        r"run/tiny: \d+ rules of axe held, 0 did not: .* 3 passed|skipped",
    ),
    job("kubectl kustomize deploy/kubernetes", "kind: NetworkPolicy", "kind: StatefulSet", needs="kubectl"),
    Job(
        (
            Step("export TANDEM_ENROLMENT_TOKEN=choose-one TANDEM_OPERATOR_TOKEN=choose-another"),
            Step("curator serve ball --seed 1", until=""),
            Step("local-agent host ball --seed 1", until=""),
            Step("referee serve &", until="listens on"),
            Step("local-agent answer me.json --epsilon 0.5 --yes", until="is enrolled and waits for its question"),
            Step(
                "referee run ball --seed 1 --deployment http://127.0.0.1:8000", ("status done: ", "15,541,333 enrolled")
            ),
        ),
        _me,
        ports=(8000, 8001),
    ),
    Job(
        (
            Step(
                "export TANDEM_ENROLMENT_TOKEN=choose-one TANDEM_OPERATOR_TOKEN=choose-another "
                "TANDEM_WITNESS_TOKEN=choose-a-third"
            ),
            Step("referee witness --state witnessed &", until="listens on"),
            Step("curator serve ball --set agents.count=5001 --seed 1", until=""),
            Step("local-agent host ball --set agents.count=5001 --agents 5000 --seed 1", until=""),
            Step("referee serve --witness http://127.0.0.1:8010 &", until="listens on"),
            Step(
                "local-agent answer me.json --epsilon 3 --yes --state me",
                until="is enrolled and waits for its question",
            ),
            Step(
                "referee run ball --set agents.count=5001 --seed 1 --deployment http://127.0.0.1:8000 "
                "--output runs/seen",
                ("status exhausted: ",),
            ),
            Step("local-agent check --witness http://127.0.0.1:8010 --state me", ("included .*; witnessed by ",)),
            Step(
                "referee audit runs/seen --witness http://127.0.0.1:8010 --receipt me/receipts",
                ("has seen it from .* to its end", "compared with 1 receipt: its report is there"),
            ),
        ),
        _me,
        ports=(8000, 8001, 8010),
    ),
    finished("referee run adult --set data=DIRECTORY", values={"DIRECTORY": data("adult")}, status="(done|exhausted)"),
    finished("referee run domain-adaptation", "squared loss on T, true 0.0"),
    finished("referee run domain-adaptation-nonconvex"),
    finished("referee run reverse-adaptation"),
    finished("referee run domain-adaptation --set data=DIRECTORY", values={"DIRECTORY": data("wind")}),
    Job(
        (
            Step("python examples/own_data/make_people.py ."),
            Step(
                "referee init testers.csv customers.csv --label renews "
                "--positive yes --negative no --bounds visits=0:30 --bounds months=0:60 "
                "--categories plan=basic,family,pro --epsilon 2 --agent-epsilon 2 --yes --output mine.yaml",
                ("mine.yaml: 20,000 people trust the curator, 50,000 their own device",),
            ),
            Step("referee check mine.yaml", ("PRIVATE: ", "Nothing stands in the way of a run")),
            Step("referee check mine.yaml --side T", ("PRIVATE: ", "Nothing stands in the way of a run")),
            Step("referee plan mine.yaml", ("What fits: protocol portfolio",)),
            Step("referee run mine.yaml --output runs/mine", ("status (done|exhausted): ",)),
            Step("referee audit runs/mine", ("verified runs/mine: ended (done|exhausted)",)),
            Step("referee run mine.yaml --output runs/again", ("Nothing was charged", "epsilon: 4.0"), status=1),
            Step(
                'referee run mine.yaml --set "curator.lifetime={epsilon: 4, delta: 2e-6}" --output runs/later',
                ("status (done|exhausted): ", "in 2 runs"),
            ),
            Step("referee budget", (r"2: \(4, 2e-06\)",)),
        )
    ),
    Job(
        (
            Step(".venv/bin/python examples/own_data/make_people.py", check=_two_tables),
            Step(".venv/bin/referee run examples/own_data/scenario.yaml", ("status (done|exhausted): ",)),
        )
    ),
    Job(
        (
            Step(".venv/bin/python examples/own_data/make_people.py", check=_two_tables),
            Step(
                "referee run examples/own_data/scenario.yaml --set people=simulated --set baselines=[] --seed 1 "
                "--output runs/renewals",
                ("status done: ",),
            ),
            Step("referee model runs/renewals", varies=_DIGITS),
            Step("referee predict runs/renewals new-customers.csv --probabilities", varies=_DIGITS),
            Step(
                "referee predict runs/... new.csv",
                ("renews yes no yes no",),
                {"runs/...": "runs/renewals", "new.csv": "new-customers.csv"},
            ),
            Step("referee export runs/renewals renewals.json"),
            Step("referee export runs/renewals renewals.onnx"),
            Step(
                "local-agent record examples/own_data/scenario.yaml my-fields.json --output me.json",
                check=_a_record,
            ),
        ),
        _new_customers,
    ),
    job(".venv/bin/python examples/estimators/renewals.py", varies=r"[\d.]+(?:e-\d+)?", check=_what_fits_helps),
    job(".venv/bin/python examples/estimators/adapt.py", varies=r"[\d.]+", check=_adapting_helps),
    finished("referee run hand-over", check=_both_labels),
    finished("referee run portfolio", "is shown to be"),
    finished(
        "referee run flights --set data=DIRECTORY",
        "is shown to be",
        values={"DIRECTORY": data("nyc_flights")},
        status="(done|exhausted)",
    ),
    job("python -m benchmarks.real --page docs/real.md --pictures docs/pictures/real", check=_the_same_page),
    Job(
        (
            Step("referee plan portfolio --set agents.count=617", ("gap 0.7248",)),
            Step("referee plan portfolio --set agents.count=600000", ("gap 0.02227",)),
            Step("referee plan portfolio --set curator.n=600 --set agents.count=600", ("What these sizes can give",)),
            Step("referee plan portfolio --set curator.n=600000 --set agents.count=600000", ("curator.rounds=2",)),
        )
    ),
    finished("referee run model-agnostic"),
    finished("referee run model-agnostic-transfer", status="(done|exhausted)"),
    finished("referee run model-agnostic --set data=DIRECTORY", values={"DIRECTORY": data("adult")}),
    finished("referee run model-agnostic-classes"),
    job("referee plan model-agnostic", "sigma"),
    job("referee plan FILE.yaml", "violated|keeps every bound", prepare=_smallest_scenario),
    job("referee plan parity-chooses-secret", "n, people of the curator|where they come from|Where they come from"),
    finished("referee run parity-chooses-secret --seed 2", "in truth correct"),
    finished("referee run parity-chooses-secret --seed 2 --set alone=agents", "in truth wrong"),
    finished("referee run parity", "loss on T, true 0.0000"),
    finished("referee run ball-lasso"),
    *(
        job(f"referee run {words}", status=status, varies=r"[\d.]+ [GMT]iB are available")
        for words, status in (
            ("ball-lasso --seed 1 --set curator.n=4000000000", 2),
            ("ball-lasso --seed 1 --set curator.n=4000000000 --set curator.storage.place=disk --output /srv/run", 2),
            ("halfspace --seed 1 --set curator.storage.numbers=fixed --set source.distribution.norm=null", 2),
            ("parity --seed 1 --set curator.storage.numbers=fixed", 1),
        )
    ),
    finished("referee run ball --set curator.storage.workers=2", needs="ray"),
    Job(
        (
            Step(
                "RAY_AUTH_MODE=token RAY_ADDRESS=HOST:PORT curator serve scenario.yaml",
                values={"HOST:PORT": CLUSTER},
                until="listens on",
            ),
        ),
        _a_cluster,
        ports=(8001, int(CLUSTER.partition(":")[2])),
        needs="ray",
    ),
    job("python -m referee.view.diagrams", check=_as_in_the_page),
    job("python -m benchmarks.house", check=_the_same_pictures),
    Job(tuple(Step(f"python -m benchmarks.corrections.{name}") for name in CORRECTIONS)),
    job(".venv/bin/pytest -n 0 tests/common/vocabulary/mechanisms", r"\d+ passed"),
    job(
        "python -m benchmarks.adaptation [--json] [--table N] [--figures] [--measure] [--data DIR] [--splits 10]",
        "Table 1",
        values={" [--json] [--table N] [--figures] [--measure] [--data DIR] [--splits 10]": ""},
    ),
)

PARSED: dict[str, dict[str, str]] = {
    "make evidence": {},
    "python -m benchmarks.ui_pictures": {},
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
    "python -m benchmarks.load_curve [--sizes 1000 3000 10000] [--picture FILE.svg] [--flower] [--json]": {
        "[--sizes 1000 3000 10000] [--picture FILE.svg] [--flower] [--json]": "--sizes 1000"
    },
    "referee load-test --individuals 10 --hosted 100000000 --hosts 2": {},
    **{
        f"referee load-test {options}": {}
        for options in (
            "--individuals 30000",
            "--individuals 100000",
            "--individuals 1000000",
            "--individuals 1000000 --json",
            "--individuals 18000 --schedule at-once",
        )
    },
    "python -m benchmarks.answer_times [--people 4000] [--json]": {},
    "referee audit-privacy": {},
    "referee audit-privacy --scale 10 --json": {},
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

IN_CI = ("make install", "make check", "make docs", "make test", "make test-all")
"""What ``.ci/run`` itself runs, line by line: an installation, and each tier of tests."""

CONTAINERS = DOCUMENTED
"""Run by ``tests/docker``, where there is an engine."""

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
    "pytest -k YOUR-NAME tests/common tests/curator tests/referee",
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
    "docs/accounting.md": ("P - a Q = s (B - b M)", "int P F_m0(", "K <= (m/2) e^", "delta = int_0^1 max"),
    "docs/architecture.md": ("curator  <---- signed requests", "common  <-  curator", "engine/          the way of"),
    "docs/corrections.md": ("eps* = m ln(1 + s", "(eps^2/2) ln(2T/beta)"),
    "docs/extending.md": ("[build-system]",),
    "docs/hand-over.md": ("s_t = min(", "Phi_t = KL("),
    "docs/hyperparameters.md": ("k mu^2/2 + (1 + eta)", "delta(epsilon) = int_0^1 max_x"),
    "docs/people.md": ("(k-1) rho <= ",),
    "docs/security.md": ("1/16 s + 1e-6 s c",),
    "docs/models.md": ("name,plan,visits",),
    "docs/privacy.md": ("p = tanh(epsilon/2)",),
}
"""Formulas, drawings and lines of a log: blocks in which there is nothing to run."""
