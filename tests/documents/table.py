"""Which documented command is run when, and what it must show. A command that stands in no row here fails a test.

A new command gets a row: in ``QUICK`` if it takes seconds, in ``SLOW`` (marker ``slow``) if up to a minute; else the
document says near it how many minutes or hours it takes, and it is only parsed. A row whose command no document prints
fails as well.
"""

from tests.documents import around
from tests.documents.jobs import Job, Step, Value, data, finished, job, newest, sequence

_DIGITS = r"\d*\.\d+(?:e-\d+)?"
"""Numbers with a fraction: the last places of a model may differ from processor to processor."""
_STATE = {"DIR": "ended/curator"}
_PARTIES = {"CURATOR": "ended/curator"}, {"REFEREE": "ended/referee"}

TOKENS = Step("export TANDEM_ENROLMENT_TOKEN=choose-one TANDEM_OPERATOR_TOKEN=choose-another")
WITNESSED_TOKENS = Step(f"{TOKENS.command} TANDEM_WITNESS_TOKEN=choose-a-third")
KEY = Step('export TANDEM_REFEREE_KEY="$(referee key)"')
PAGE = "open http://127.0.0.1:8100/?key="
ENROLLED = "is enrolled and waits for its question"
ENDED = ("the run ended (as planned|with all rounds or agents used): ",)
DONE = "the run ended as planned: "


def serving(command: str, until: str = "listens on", **values: Value) -> Step:
    """Return a step that goes on by itself."""
    return Step(command, values=values, until=until)


def thorough(*names: str, shows: str = "") -> tuple[Job, ...]:
    """Return runs of scenarios that the thorough tests do."""
    return tuple(finished(f"referee run {name}", shows, thorough=True) for name in names)


SHARED: dict[str, Value] = {"KEY": "referee.key", "URL": "sqlite:///shared.sqlite"}
SERVER: dict[str, Value] = {"KEY": "referee.key", "URL": around.server_url}
RUN_OF_5001 = "referee run ball --set agents.count=5001 --seed 1 --deployment http://127.0.0.1:8000 --output runs/"

TARGETS = ("install", "check", "format", "test", "test-slow", "test-all", "test-thorough", "evidence", "demo", "clean")

COLLECTING = {"pytest": "pytest --collect-only"}
"""What the printed commands would run is run by itself, in the same tier: they need only find it."""

QUICK: tuple[Job, ...] = (
    job("make help", *(rf"\b{target}\b" for target in TARGETS)),
    job("referee list", "scenarios: .*ball, .*protocols: .*learners: .*mechanisms: .*Next: referee plan NAME"),
    job("referee list queries", "loss .*residual .*score .*threshold "),
    job("referee plan ball", "Where they come from: .* violated accuracy: steps = "),
    job("referee load-test --print-scenario", "protocol: learn-and-test .*agents: .*count: 10000"),
    job("python deploy/packaging/sbom.py", '"bomFormat": "CycloneDX"', "pkg:pypi/numpy@"),
    job("referee budget", "no run has been charged to anybody|charged scenario people"),
)

SLOW: tuple[Job, ...] = (
    job("python -m benchmarks.private_choice --repetitions 0", "geometric, 30 +27.9 +120 +1.690 +2.419"),
    job("referee audit-privacy", "mechanism warner .* holds", "warner twice the epsilon .* caught"),
    job("python -m benchmarks.histories --seed 17", "all that must hold holds", thorough=True),  # a test plays seed 2
    job("python -m benchmarks.model --without charged_before_release", "a charge comes before its release", status=1),
    sequence(
        Step("referee run ball --seed 2", (DONE,), check=around.as_on_the_front_page),
        Step("referee audit runs/...", ("^not pinned: .* verified runs/ball-",), {"runs/...": newest}),
        Step(
            "referee report runs/...",
            ("^ball: A test shows with 95% confidence that the model errs on less than 16% of the population",),
            {"runs/...": newest},
        ),
    ),
    finished("referee run ball --deployment processes", "baseline optimum", thorough=True),  # as make demo does
    sequence(
        Step(
            "make demo",
            (
                DONE,
                "verdict A test shows with 95% confidence that the model errs on",
                "verified runs/demo-",
                "Where to look next",
            ),
            check=around.what_the_demo_prints,
        ),
        Step("ls $folder", ("reports result.json scenario.yaml state transcript.jsonl",), {"$folder": newest}),
        Step(".venv/bin/referee list", ("referee run NAME",)),
        Step(".venv/bin/referee plan ball", ("Where they come from",)),
    ),
    finished(
        ".venv/bin/referee run ball --set agents.mechanism.epsilon=1",
        "each agent has epsilon = 1, delta = 0",
        thorough=True,
    ),
    sequence(
        Step("curator invite --count 2 --state members > codes"),
        serving("curator collect members.yaml --state members &"),
        Step('export TANDEM_CONTRIBUTION_TOKEN="$(head -n 1 codes)"'),
        Step(
            "curator contribute me.json --curator-key KEY --state me --yes",
            ("these 3 fields, and no other", "is kept by the curator; the receipt is in"),
            {"KEY": around.key_of_who_collects},
        ),
        Step("curator contribute --withdraw --state me", ("is deleted; the receipt is in",)),
        Step(
            "curator serve members.yaml --state members --referee-key KEY",
            ("2000 people are wanted, and fewer have contributed: go on collecting",),
            {"KEY": "0" * 64},
            status=1,
        ),
        prepare=around.members,
        ports=(8002,),
    ),
    job("make format", "files left unchanged", check=around.unchanged("*/*.py"), alone=True),
    job("make clean", check=around.no_environment, alone=True),
    job(
        "referee load-test --individuals 2000",
        "phase requests a second p50 ms .* enrol .* poll .* report .* audit ",
        "2,000 acknowledged, 2,000 stored, 2,000 counted: they agree",
        "signature checks a second",
        thorough=True,
    ),
    sequence(
        TOKENS,
        serving("referee serve --state one --key KEY --database URL &", **SHARED),
        serving("referee serve --state two --key KEY --database URL --role ingest --port 8003 &", **SHARED),
        ports=(8000, 8003),
    ),
    sequence(TOKENS, serving("referee serve --page 8100", PAGE), ports=(8000, 8100)),
    sequence(serving("tandem ui", PAGE), ports=(8100,)),
    sequence(
        Step("curator backup copies/curator --state CURATOR", ("holds the ledger's 13 entries",), _PARTIES[0]),
        Step("referee backup copies/referee --state REFEREE", ("a state directory to start from",), _PARTIES[1]),
        Step(
            "curator ledger verify --state CURATOR", ("^verified ended/curator: 13 entries.* agreed by",), _PARTIES[0]
        ),
        Step("curator restore copies/curator --state CURATOR", ("holds the ledger's 13 entries ag",), _PARTIES[0]),
        Step("curator restore copies/curator --state lost", ("no head of this ledger is left",), status=1),
        Step("curator restore copies/curator --state lost --close", ("nothing more is released",)),
        Step("curator ledger verify --state lost", ("closed: the ledger was put back from a copy",)),
        TOKENS,
        serving("referee serve --state copies/referee &"),
        serving(
            "local-agent host ball --seed 1 --agents 1000 --state hosts/one --witness hosts.heads",
            "local-agent hosts 1000 people",
        ),
        Step("curator console --state DIR", values=_STATE, until="open http://127.0.0.1:8101/?key="),
        prepare=around.a_ledger,
        ports=(8000, 8101),
    ),
    sequence(
        TOKENS,
        KEY,
        serving(
            "referee serve --max-individuals 20000 --max-hosts 10 --people-per-host 1000000 "
            "--allow-origin https://people.example &"
        ),
        serving("local-agent host ball --seed 1 --agents 1000 --state hosts/one", "1000 people from number 0"),
        serving("local-agent host ball --seed 1 --agents 1000 --state hosts/two", "from number 1000"),
        Step("referee invite --count 50 > codes"),
        serving(
            'TANDEM_INDIVIDUAL_TOKEN="$(head -n 1 codes)" local-agent answer me.json --epsilon 3 --yes --state me',
            ENROLLED,
        ),
        Step("referee invitations", ("50 invitation codes, 1 used",)),
        Step(
            "referee invite --count 50 --page https://people.example/ --referee https://referee.example --output sheet",
            ("print sheet/invitations.html, one piece for each of 50 people",),
        ),
        serving("TANDEM_OPERATOR_TOKEN=choose-another tandem ui --referee http://127.0.0.1:8000", PAGE),
        prepare=around.me,
        ports=(8000, 8100),
    ),
    sequence(
        TOKENS,
        serving("TANDEM_DATABASE=URL referee serve --state one --key KEY &", **SERVER),
        serving("TANDEM_DATABASE=URL referee serve --state two --key KEY --role ingest --port 8003 &", **SERVER),
        prepare=around.a_server,
        ports=(8000, 8003),
    ),
    job(
        ".venv/bin/pytest -n 0 --log-cli-level=INFO tests/tandem/ui/test_in_chromium.py -k accessible",
        r"\d+/\d+ tests collected",
        values=COLLECTING,
    ),
    job("kubectl kustomize deploy/kubernetes", "kind: NetworkPolicy", "kind: StatefulSet", needs="kubectl"),
    sequence(
        Step("referee certificates tls", ("made tls/curator/server.pem",)),
        TOKENS,
        Step("export TANDEM_TLS_CA=tls/public/ca.pem"),
        KEY,
        serving(
            "curator serve hypothesis-testing --seed 1 --tls-cert tls/curator/server.pem "
            "--tls-client-ca tls/curator/ca.pem",
            "",
        ),
        Step("export TANDEM_TLS_CERT=tls/referee/server.pem TANDEM_TLS_CLIENT_CERT=tls/referee/client.pem"),
        serving("referee serve --curator https://127.0.0.1:8001 &", "listens on https://"),
        Step(
            "local-agent host hypothesis-testing --agents 632 --seed 1 --referee https://127.0.0.1:8000",
            until="local-agent hosts 632 people",
        ),
        Step("local-agent record hypothesis-testing --simulated 632 --output me.json"),
        Step("local-agent answer me.json --referee https://127.0.0.1:8000", until=ENROLLED, typed="y"),
        Step(
            "referee run hypothesis-testing --seed 1 --deployment https://127.0.0.1:8000",
            (DONE, "633 of 633 people were asked, 633 answered"),
        ),
        Step("local-agent log", ("agreed .* answered ",)),
        Step("local-agent check --referee https://127.0.0.1:8000", ("included",)),
        ports=(8000, 8001),
    ),
    sequence(
        TOKENS,
        KEY,
        Step('export CONSUMER="$(tandem consumer-key)"'),
        serving(
            "curator serve model-agnostic-stream --seed 1 --consumer-key $CONSUMER", "consumers give --curator-key"
        ),
        serving("referee serve &"),
        serving("local-agent host model-agnostic-stream --agents 5000 --seed 1 --state host", "hosts 5000 people"),
        Step(
            "referee run model-agnostic-stream --seed 1 --deployment http://127.0.0.1:8000",
            (DONE, "at no further cost the curator's stream takes 2,000"),
        ),
        Step(
            "tandem ask points.csv --curator-key KEY",
            ("^0 .20 unstable answers and 1999 questions are left. 1 .20 unstable answers and 1998",),
            {"KEY": around.key_for_consumers},
        ),
        prepare=around.points,
        ports=(8000, 8001),
    ),
    sequence(
        Step(
            "referee certificates tls --host curator=203.0.113.1 --host referee=203.0.113.2 --host witness=203.0.113.3",
            ("made tls/authority/ca.pem, which holds until", "tls/authority stays here, with its key"),
        ),
        WITNESSED_TOKENS,
        serving("referee witness --state witnessed --tls-cert tls/witness/server.pem &", "listens on https://"),
        Step("export TANDEM_TLS_CA=tls/public/ca.pem"),
        KEY,
        Step(
            "curator serve ball --seed 1 --tls-cert tls/curator/server.pem --tls-client-ca tls/curator/ca.pem", until=""
        ),
        Step(
            "referee serve --curator https://127.0.0.1:8001 --witness https://127.0.0.1:8010 "
            "--tls-cert tls/referee/server.pem --tls-client-cert tls/referee/client.pem &",
            until="listens on https://",
        ),
        serving("local-agent host ball --seed 1 --referee https://127.0.0.1:8000", "people from number 0"),
        Step("referee runs --url https://127.0.0.1:8000"),
        Step("referee certificates tls", ("made tls/curator/server.pem", "kept tls/authority/ca.pem")),
        ports=(8000, 8001, 8010),
    ),
    sequence(
        WITNESSED_TOKENS,
        serving("referee witness --state witnessed &"),
        KEY,
        serving("curator serve ball --set agents.count=5001 --seed 1", ""),
        serving("local-agent host ball --set agents.count=5001 --agents 5000 --seed 1", ""),
        serving("referee serve --witness http://127.0.0.1:8010 &"),
        serving("local-agent relay --referee http://127.0.0.1:8000 &", "relay listens on http://127.0.0.1:8020"),
        serving("local-agent answer me.json --epsilon 3 --yes --state me --relay http://127.0.0.1:8020", ENROLLED),
        Step(f"{RUN_OF_5001}seen", ENDED),
        Step("local-agent check --witness http://127.0.0.1:8010 --state me", ("included .*; witnessed by ",)),
        Step(
            "referee audit runs/seen --witness http://127.0.0.1:8010 --receipt me/receipts",
            ("has seen it from .* to its end", "compared with 1 receipt: its report is there"),
        ),
        prepare=around.me,
        ports=(8000, 8001, 8010, 8020),
    ),
    sequence(
        TOKENS,
        Step("issuer invite --count 1 --state invited > code"),
        serving("issuer serve --state invited &"),
        Step("local-agent key --state hospital > hospital.key"),
        Step('issuer grant "$(cat hospital.key)" --name "City Hospital" --people 5000 --state invited > grant.json'),
        Step(
            'local-agent credential --issuer http://127.0.0.1:8011 --code "$(cat code)" '
            "--issuer-key invited/issuer.json --state me",
            ("local-agent has a credential of issuer ",),
        ),
        KEY,
        serving("curator serve ball --set agents.count=5001 --seed 1", ""),
        Step(
            "local-agent host ball --set agents.count=5001 --agents 5000 --seed 1 --state hospital --grant grant.json",
            until="",
        ),
        serving("referee serve --issuer invited/issuer.json &"),
        serving("local-agent answer me.json --epsilon 3 --yes --state me", ENROLLED),
        Step(f"{RUN_OF_5001}vouched", ENDED),
        Step(
            "referee audit runs/vouched --issuer invited/issuer.json",
            ("vouches for 1 individual and 5,000 people of City Hospital",),
        ),
        Step("issuer show --state invited", ("1 invitation codes, 1 credentials issued",)),
        prepare=around.me,
        ports=(8000, 8001, 8011),
    ),
    finished(
        "referee run adult --set data=DIRECTORY",
        values={"DIRECTORY": data("adult")},
        status="(done|exhausted)",
        thorough=True,
    ),
    finished("referee run domain-adaptation", "squared loss on T, true 0.0", thorough=True),
    finished(
        "referee run domain-adaptation --set curator.learner.bound_share=0.1", "squared loss on T is at", thorough=True
    ),
    *thorough("domain-adaptation-nonconvex", "domain-adaptation-network", "reverse-adaptation"),
    *thorough("adaptation-few-labels", "unsupervised-adaptation", "discrepancy"),
    finished("referee run domain-adaptation --set data=DIRECTORY", values={"DIRECTORY": data("wind")}),
    sequence(
        Step("python examples/own_data/make_people.py ."),
        Step(
            "referee init testers.csv customers.csv --label renews "
            "--positive yes --negative no --bounds visits=0:30 --bounds months=0:60 "
            "--categories plan=basic,family,pro --id member --epsilon 2 --agent-epsilon 2 --yes --output mine.yaml",
            ("mine.yaml: 20,000 people trust the curator, 50,000 their own device",),
        ),
        Step("referee check mine.yaml", ("PRIVATE: ", "Nothing stands in the way of a run")),
        Step("referee check mine.yaml --side T", ("PRIVATE: ", "Nothing stands in the way of a run")),
        Step("referee plan mine.yaml", ("What fits: protocol portfolio",)),
        TOKENS,
        KEY,
        serving("curator serve mine.yaml --set agents.count=12"),
        serving("referee serve &"),
        Step("local-agent record mine.yaml my-fields.json --output me.json", check=around.a_record),
        serving("local-agent answer me.json --epsilon 2 --yes", ENROLLED),
        Step("referee run mine.yaml --output runs/mine --yes", ENDED),
        Step("referee audit runs/mine", ("verified runs/mine: ended (done|exhausted)",)),
        Step("referee run mine.yaml --output runs/again --yes", ("Nothing was charged", "epsilon: 4.0"), status=1),
        Step(
            'referee run mine.yaml --set "curator.lifetime={epsilon: 4, delta: 2e-6}" --output runs/later --yes',
            (*ENDED, "in 2 runs"),
        ),
        Step("referee budget", (r"2: \(4, 2e-06\)",)),
        Step("mkdir few"),
        Step("python examples/own_data/make_people.py few quits"),
        Step(
            "referee init few/testers.csv few/customers.csv --label quits --positive yes --negative no "
            "--bounds visits=0:30 --bounds months=0:60 --categories plan=basic,family,pro --id member --costs 24:1 "
            "--epsilon 2 --agent-epsilon 2 --yes --output few.yaml",
            ("a miss costs 24, a false alarm 1",),
        ),
        Step(
            "referee run few.yaml --output runs/few --yes",
            (*ENDED, "costs [0-9.]+ a hundred people, where a miss costs 24"),
        ),
        Step("referee predict runs/few few/customers.csv --output labels.csv", check=around.few_are_found),
        Step("referee report runs/few --output few.html", check=around.a_report),
        prepare=around.new_customers,
        ports=(8000, 8001),
    ),
    sequence(
        KEY,
        Step(
            "local-agent page examples/own_data/scenario.yaml --referee https://referee.example --output page",
            ("the page is in page: ",),
        ),
        Step("local-agent check-page page", ("files is as [0-9a-f]{64} has signed it",)),
    ),
    sequence(
        Step(".venv/bin/python examples/own_data/make_people.py", check=around.two_tables),
        Step(".venv/bin/referee run examples/own_data/scenario.yaml", ENDED),
        Step(
            "referee run examples/own_data/scenario.yaml --set people=simulated --set baselines=[] --seed 1 "
            "--output runs/renewals",
            (DONE,),
        ),
        Step("referee model runs/renewals", varies=_DIGITS),
        Step("referee predict runs/renewals new-customers.csv --probabilities", varies=_DIGITS),
        Step("referee predict runs/renewals new-customers.csv --cost-of-miss 20 --cost-of-false-alarm 1"),
        Step(
            "referee predict runs/... new.csv",
            ("renews yes no yes yes",),
            {"runs/...": "runs/renewals", "new.csv": "new-customers.csv"},
        ),
        Step("referee export runs/renewals renewals.json"),
        Step("referee export runs/renewals renewals.onnx"),
        Step(
            "local-agent record examples/own_data/scenario.yaml my-fields.json --output me.json", check=around.a_record
        ),
        prepare=around.new_customers,
        thorough=True,
    ),
    job(".venv/bin/python examples/estimators/renewals.py", varies=r"[\d.]+(?:e-\d+)?", check=around.what_fits_helps),
    job(".venv/bin/python examples/estimators/adapt.py", varies=r"[\d.]+", check=around.adapting_helps, thorough=True),
    finished("referee run hand-over", check=around.both_labels, thorough=True),
    *thorough("portfolio", "portfolio-classes", "portfolio-regression", shows="is shown with 95% confidence to be"),
    finished(
        "referee run flights --set data=DIRECTORY",
        "is shown with 95% confidence to be",
        values={"DIRECTORY": data("nyc_flights")},
        status="(done|exhausted)",
        thorough=True,
    ),
    job(
        "python -m benchmarks.real --page benchmarks/results/real.md --pictures docs/pictures/real",
        prepare=around.public_data_sets,
        check=around.unchanged("benchmarks/results/real.md"),
        thorough=True,  # measures the first split of every row again
    ),
    sequence(
        Step("referee plan portfolio --set agents.count=600000", ("gap 0.01097",)),
        Step("referee plan portfolio --set curator.n=600 --set agents.count=600", ("What these sizes can give",)),
        thorough=True,
    ),
    *thorough("model-agnostic", "model-agnostic-stream"),
    finished("referee run model-agnostic-transfer", status="(done|exhausted)", thorough=True),
    finished("referee run model-agnostic --set data=DIRECTORY", values={"DIRECTORY": data("adult")}, thorough=True),
    finished("referee run model-agnostic-classes", thorough=True),
    job("referee plan model-agnostic", "sigma"),
    job("referee plan FILE.yaml", "violated|keeps every bound", prepare=around.smallest_scenario),
    job("referee plan parity-chooses-secret", "n, people of the curator|where they come from|Where they come from"),
    finished("referee run parity-chooses-secret --seed 2", "in truth correct", thorough=True),
    finished("referee run parity-chooses-secret --seed 2 --set alone=agents", "in truth wrong", thorough=True),
    finished("referee run statistical-query --seed 1", "in truth correct"),
    *thorough("ball-lasso", "convex-hinge --seed 2", "convex-squared --seed 2"),
    job(
        "referee run ball-lasso --seed 1 --set curator.n=4000000000",
        r"a sample of 4,000,000,000 people of 400 bytes needs 1494.1 GiB of memory, [\d.]+ [GMT]iB are available: "
        r"keep the rows on disk \(curator.storage.place: disk\)",
        status=2,
    ),
    finished("referee run ball --set curator.storage.workers=2", needs="ray", thorough=True),
    sequence(
        KEY,
        Step(
            "RAY_AUTH_MODE=token RAY_ADDRESS=HOST:PORT curator serve scenario.yaml",
            values={"HOST:PORT": around.CLUSTER},
            until="listens on",
        ),
        prepare=around.a_cluster,
        ports=(8001, int(around.CLUSTER.partition(":")[2])),
        needs="ray",
    ),
    job("python -m referee.view.diagrams", check=around.as_in_the_page),
    job("python -m benchmarks.house", "product files"),
    job("python -m benchmarks.house --list", "product files", thorough=True),
    job("python -m benchmarks.house --draw", check=around.unchanged("docs/pictures/house*.svg")),
    job(".venv/bin/pytest -n 0 tests/common/local/mechanisms", r"\d+ tests collected", values=COLLECTING),
    job(
        "python -m benchmarks.adaptation [--json] [--table N] [--figures] [--measure] [--data DIR] [--splits 10]",
        "Table 1",
        values={" [--json] [--table N] [--figures] [--measure] [--data DIR] [--splits 10]": ""},
    ),
)
