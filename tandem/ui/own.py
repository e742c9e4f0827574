"""Runs on the user's own tables: the form's fields in the format of ``referee init``, the forecast, and the run itself.

The browser sends fields, and this module passes them to the functions of the command. No page shows the content of a
table's field: pages have only names of columns, numbers of rows, and what the user typed.
"""

import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from common.core.durable import CLAIM, hold, make_folder, write_durably
from common.core.errors import BadInput, BadScenario, BudgetExceeded, NotFound, TandemError
from common.core.plain import plain
from common.crypto.identity import Identity
from common.data.files import columns_of
from common.data.tables import Layout
from common.lifetime.charging import USERS_OWN, Charging
from common.lifetime.ledger import PeopleLedger
from common.scenario import loading
from common.scenario.fitting import Advice, Start, advised
from common.scenario.scenario import ResolvedScenario
from deploy.checking import acceptable_of, checked, refusal
from deploy.deployment import OnProgress
from deploy.running import TABLES, carry_out
from referee.view import own_tables
from tandem.ui.folders import is_run

SCENARIO = Path("state") / "scenario.yaml"
"""Path in a run folder: the requested scenario, with which ``referee run`` resumes the run."""
Fields = Mapping[str, str]
DRAFT = r"own-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}"
SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".csv.xz", ".parquet", ".npz")
NAMES = {
    "source": "File S",
    "target": "File T",
    "separator": "Between two fields",
    "decimal": "Decimal mark",
    "thousands": "Thousands mark",
    "encoding": "Encoding",
    "missing_texts": "Texts that mean: not known",
    "label": "The column to predict",
    "above": "Above this number it is a yes",
    "response_low": "Its lowest value",
    "response_high": "Its highest value",
    "positive": "Its texts that mean yes",
    "negative": "Its texts that mean no",
    "id": "The column that says who is who",
    "times": "How many times worse",
    "epsilon": "Epsilon of each person in S",
    "delta": "Delta of each person in S",
    "agent_epsilon": "Epsilon of each person in T",
    "lifetime": "All runs together, each person",
    "name": "Name",
}
"""The labels of the form's fields."""
_OPTIONS = {f"--{name.replace('_', '-')}": name for name in NAMES} | {"--response": "response_low", "--costs": "times"}
"""The field of the form for an option of the command."""


class FieldProblem(BadInput, problem="field", title="Field not acceptable"):
    """An error in a field of the form; its member ``key`` names the field if it is a single one."""

    @property
    def key(self) -> str:
        return str(self.members.get("key", ""))


def field_problem(key: str, detail: str) -> FieldProblem:
    """Return the error for a field."""
    return FieldProblem(detail, key=key)


def in_form_terms(error: TandemError) -> FieldProblem:
    """Return an error of the command's functions, with the form's names in place of options."""
    if isinstance(error, FieldProblem):
        return error
    options = re.findall(r"--[a-z][a-z-]*", error.detail)
    key = next((_OPTIONS[option] for option in options if option in _OPTIONS), "")
    words = {**{option: f"'{NAMES[name]}'" for option, name in _OPTIONS.items()}, "--bounds": "the bounds"}
    words |= {"--categories": "the values", "--missing": "'An empty field says something'"}
    text = re.sub(r"--[a-z][a-z-]*", lambda option: words.get(option[0], option[0]), error.detail)
    return field_problem(key, text)


def new_draft() -> str:
    """Return a name for the folder of a new run on own tables."""
    return f"own-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def layout_from(fields: Fields) -> Layout:
    """Return the layout of the files, from the form."""
    separator = {"tab": "\t"}.get(fields.get("separator", ""), fields.get("separator", "") or ",")
    missing = tuple(own_tables.texts(fields.get("missing_texts", "")))
    decimal, thousands, encoding = (fields.get(key, "").strip() for key in ("decimal", "thousands", "encoding"))
    return own_tables.layout_of(separator, decimal, thousands, encoding, missing)


def files_from(fields: Fields) -> tuple[Path, Path]:
    """Return both files; ``FieldProblem`` if one is not named, or is no file."""
    paths = []
    for key in ("source", "target"):
        text = fields.get(key, "").strip()
        if not text:
            raise field_problem(key, f"'{NAMES[key]}' is missing: choose a file, or write where it is on this machine")
        path = Path(text).expanduser()
        if not path.is_file():
            raise field_problem(key, f"'{NAMES[key]}': there is no file {text!r} on this machine")
        paths.append(path)
    return paths[0], paths[1]


def columns_from(fields: Fields) -> list[str]:
    """Return the columns that both files have, in the order of S; raises as reading their first lines does."""
    source, target = files_from(fields)
    layout = layout_from(fields)
    target_columns = set(columns_of(target, layout))
    names = [name for name in dict.fromkeys(columns_of(source, layout)) if name in target_columns]
    if len(names) < 2:
        have = f"only column {names[0]!r}" if names else "no column"
        raise field_problem("separator", f"the two files have {have} in common: is '{NAMES['separator']}' right?")
    return names


def _positive(fields: Fields, key: str, usual: float | None = None, below: float = 1e6) -> float:
    text = fields.get(key, "").strip()
    if not text and usual is not None:
        return usual
    try:
        value = float(text)
    except ValueError:
        raise field_problem(key, f"'{NAMES[key]}' must be a number, such as 1 or 0.5, found {text!r}") from None
    if not 0.0 < value < below:
        raise field_problem(key, f"'{NAMES[key]}' must be above 0 and below {below:,.0f}, found {text}")
    return value


def lifetime_from(fields: Fields) -> tuple[float, float] | None:
    """Return epsilon and delta of all runs together; None if people take part once."""
    text = fields.get("lifetime", "").strip()
    if not text:
        return None
    try:
        epsilon, delta = (float(part) for part in text.split(","))
    except ValueError:
        epsilon = delta = -1.0
    if not (0.0 < epsilon < 1e6 and 0.0 <= delta < 1.0):
        raise field_problem(
            "lifetime", f"'{NAMES['lifetime']}' must be an epsilon and a delta, such as 8, 0.0002, found {text!r}"
        )
    return epsilon, delta


def costs_from(fields: Fields) -> str:
    """Return the cost ratio of a miss to a false alarm in the command's format; empty if both cost the same."""
    worse = fields.get("worse", "same")
    if worse not in ("miss", "false alarm"):
        return ""
    times = _positive(fields, "times")
    return f"{times!r}:1" if worse == "miss" else f"1:{times!r}"


def answers_from(fields: Fields, names: list[str]) -> own_tables.ColumnAnswers:
    """Return the form's answers about the columns; ``FieldProblem`` names a wrong column."""
    kind_of_label = fields.get("predict", "texts")
    for key in ("label", *_PREDICTED.get(kind_of_label, _PREDICTED["texts"])):
        if not fields.get(key, "").strip():
            raise field_problem(key, f"'{NAMES[key]}' is missing")
    bounds, categories, missing, skipped = [], [], [], []
    for name in names:
        kind = fields.get(f"kind:{name}", "")
        if name in (fields["label"], fields.get("id")):
            continue
        if not kind and fields.get("rest") == "number":
            bounds.append(name + _bounds(fields, "", "rest_"))
            continue
        if kind not in ("number", "category"):
            skipped.append(name)
            continue
        if kind == "number":
            bounds.append(name + _bounds(fields, f":{name}"))
        else:
            text = fields.get(f"values:{name}", "").strip()
            if not text:
                raise field_problem(f"values:{name}", f"column {name!r}: write its public values, with commas between")
            categories.append(f"{name}={text}")
        if fields.get(f"empty:{name}"):
            missing.append(name)
    if not bounds and not categories:
        first = next((name for name in names if name != fields["label"]), names[0])
        what = "say of one column at least that it is a number or a category: nothing can be learned otherwise"
        raise field_problem(f"kind:{first}", what)
    texts, above, number = (kind_of_label == kind for kind in ("texts", "above", "response"))
    return own_tables.ColumnAnswers(
        label=fields["label"],
        positive=fields["positive"] if texts else "",
        negative=fields["negative"] if texts else "",
        above=fields["above"] if above else "",
        response=_bounds(fields, "", "response_")[1:] if number else "",
        bounds=tuple(bounds),
        categories=tuple(categories),
        id_column=fields.get("id", ""),
        skip=tuple(skipped),
        missing=",".join(missing),
        costs="" if number else costs_from(fields),
    )


_PREDICTED = {"texts": ("positive", "negative"), "above": ("above",), "response": ("response_low", "response_high")}
"""The fields that the label requires, by the kind of prediction."""
_WHOSE_BOUNDS = {"rest_": "all other columns", "response_": "the column to predict"}


def _bounds(fields: Fields, suffix: str, prefix: str = "") -> str:
    """Return the bounds of a number in the command's format after a column's name; ``suffix`` is ``:COLUMN``."""
    ends, subject = [], f"column {suffix[1:]!r}" if suffix else _WHOSE_BOUNDS[prefix]
    for end, words in (("low", "the lowest value"), ("high", "the highest value")):
        key = f"{prefix}{end}{suffix}"
        text = fields.get(key, "").strip()
        try:
            ends.append(float(text))
        except ValueError:
            problem = "is missing" if not text else f"must be a number, found {text!r}"
            raise field_problem(key, f"{subject}: {words} {problem}") from None
    if not ends[0] < ends[1]:
        raise field_problem(f"{prefix}low{suffix}", f"{subject}: the lowest value must be below the highest")
    return f"={ends[0]!r}:{ends[1]!r}"


def _unanswered(question: str, default: str | None = None) -> str:
    if default is None:
        raise BadScenario(f"the form does not say: {question}")
    return default


@dataclass(frozen=True)
class Forecast:
    """The forecast before anything is spent: a summary of the input, the advice, and the scenario to run."""

    start: Start
    advice: Advice
    asked: Any
    text: str
    refused: str

    @property
    def swapped(self) -> bool:
        return self.start.n > self.start.agents


def forecast_from(fields: Fields) -> Forecast:
    """Return the forecast for a form; FieldProblem, in the form's words, if an input is wrong."""
    try:
        names = columns_from(fields)
        source, target = files_from(fields)
        answers = answers_from(fields, names)
        delta = _positive(fields, "delta", below=1.0) if fields.get("delta", "").strip() else None
        budgets = (_positive(fields, "epsilon", 1.0), delta, _positive(fields, "agent_epsilon", 1.0))
        name = re.sub(r"[^a-z0-9]+", "-", fields.get("name", "").lower()).strip("-")[:64]
        start = own_tables.described(source, target, answers, budgets, layout_from(fields), name, _unanswered)
        start = replace(start, lifetime=lifetime_from(fields))
        with tempfile.TemporaryDirectory(prefix="tandem-own-") as folder:
            file = own_tables.write(start, Path(folder) / "scenario.yaml", acceptable_of)
            scenario, text = loading.load(str(file)), file.read_text("utf-8")
        refused = refusal(checked(scenario), ("S", "T"))
    except TandemError as error:
        raise in_form_terms(error) from None
    return Forecast(start, advised(start), scenario, text, "" if refused is None else refused.detail)


@dataclass
class OwnRun:
    """A run that this server executes.

    Attributes:
        notes: Its progress notes, and after how many seconds each came.
        problem: Why it ended without a result; empty while it has not.
        stopping: The user has stopped it: it ends at its next progress note, and can be resumed later.
    """

    name: str
    forecast: Forecast
    began: float
    notes: list[tuple[float, str]] = field(default_factory=list)
    problem: str = ""
    ended: bool = False
    stopping: bool = False
    seconds: float = 0.0

    @property
    def title(self) -> str:
        return self.forecast.start.name

    @property
    def people(self) -> str:
        return f"{self.forecast.start.n:,} people of S, {self.forecast.start.agents:,} of T"


class OwnRuns:
    """The runs that this server executes, one at a time, each into its folder in the directory of run folders."""

    def __init__(self, root: Path, charging: Charging = USERS_OWN) -> None:
        self.root = root
        self._charging = charging
        self._lock = threading.Lock()
        self._runs: dict[str, OwnRun] = {}
        self._chosen: dict[str, IO[bytes]] = {}

    def remove_left_behind(self) -> None:
        """Remove tables that were chosen for runs which never began, unless another server still holds them."""
        for state in self.root.glob("own-*/state"):
            draft = state.parent
            if re.fullmatch(DRAFT, draft.name) and (state / TABLES).is_dir() and not (draft / CLAIM).exists():
                with suppress(BadInput), hold(state):
                    shutil.rmtree(draft, ignore_errors=True)

    def get(self, name: str) -> OwnRun:
        """Return a run; ``NotFound`` if this server has begun none of that name."""
        if name not in self._runs:
            raise NotFound(f"this server has begun no run {name!r}")
        return self._runs[name]

    @property
    def begun(self) -> Collection[str]:
        return self._runs.keys()

    def check_root(self) -> None:
        """Refuse a directory that is a run folder itself: it must not contain other runs."""
        if is_run(self.root):
            raise BadInput(f"this page shows the run folder {self.root} alone: start tandem ui with --runs DIRECTORY")

    @property
    def under_way(self) -> OwnRun | None:
        return next((run for run in tuple(self._runs.values()) if not run.ended), None)

    def keep(self, draft: str, side: str, name: str, content: bytes) -> Path:
        """Store a file chosen in the browser in the private state of the run's folder, readable by this user only."""
        short = re.sub(r"[^\w.-]+", "-", name.rpartition("/")[2].rpartition("\\")[2])[-80:].lstrip(".-")
        if not short.lower().endswith(SUFFIXES):
            raise field_problem(side, f"{plain(name)!r} is no table: its name must end in {', '.join(SUFFIXES)}")
        folder = self.root / draft / "state" / TABLES / {"source": "S", "target": "T"}[side]
        self.check_root()
        if (self.root / draft / CLAIM).exists():
            raise BadInput("this run has begun: its tables stay as they are")
        make_folder(self.root)
        for directory in (*reversed(folder.parents[:3]), folder):
            make_folder(directory, mode=0o700)
        with self._lock:  # both files may arrive at the same time
            if draft not in self._chosen:
                self._chosen[draft] = hold(self.root / draft / "state")
        for path in folder.iterdir():
            path.unlink()
        write_durably(folder / short, content, mode=0o600)
        return folder / short

    def start(self, draft: str, forecast: Forecast) -> OwnRun:
        """Begin a run; ``BadInput`` while another one is in progress, or if this one has begun already."""
        self.check_root()
        with self._lock:
            if self.under_way is not None:
                raise BadInput(f"the run {self.under_way.name} goes on: one at a time, so wait for its end")
            if draft in self._runs and not self._runs[draft].problem:
                raise BadInput(f"the run {draft} has begun already")
            run = self._runs[draft] = OwnRun(draft, forecast, time.monotonic())
        threading.Thread(target=self._carry_out, args=(run,), daemon=True, name="own-run").start()
        return run

    def go_on(self, name: str) -> OwnRun:
        """Resume a run that has no result, in its folder; raises as :meth:`start` does."""
        return self.start(name, self.get(name).forecast)

    def stop(self, name: str) -> OwnRun:
        """Stop a run as Ctrl-C stops ``referee run``; BadInput if it has ended."""
        run = self.get(name)
        if run.ended:
            raise BadInput(f"the run {name} has ended")
        run.stopping = True
        return run

    def _carry_out(self, run: OwnRun) -> None:
        def check_stopped() -> None:
            if run.stopping:
                raise KeyboardInterrupt

        def add_note(text: str, numbers: Mapping[str, float]) -> None:
            run.notes.append((time.monotonic() - run.began, plain(text)))
            check_stopped()

        @contextmanager
        def watching(resolved: ResolvedScenario, seed: int | None, folder: Path) -> Iterator[OnProgress]:
            make_folder(folder / "state", mode=0o700)
            write_durably(folder / SCENARIO, run.forecast.text.encode(), mode=0o600)
            yield add_note

        folder = self.root / run.name
        options: dict[str, Any] = {"seed": None, "output": folder, "token": "", "charging": self._charging}
        options["agree"] = lambda chosen: check_stopped()
        try:
            result = carry_out(run.forecast.asked, "embedded", watching=watching, **options)
            if result["status"] in ("refused", "failed", "cancelled"):
                run.problem = plain(str(result["reason"]))
        except KeyboardInterrupt:
            if not (folder / "result.json").exists():
                run.problem = self._spent(run, folder)
        except TandemError as error:
            hint = f" On this page: '{NAMES['lifetime']}'" if isinstance(error, BudgetExceeded) else ""
            run.problem = plain(error.detail) + hint
        except BaseException as error:  # noqa: BLE001 - the waiting page must show it; the thread must not stop
            run.problem = f"a fault of Tandem: {type(error).__name__}"
        run.seconds, run.ended = time.monotonic() - run.began, True

    def _spent(self, run: OwnRun, folder: Path) -> str:
        """Return what a stopped run has charged, according to the ledger of people."""
        ledger, start = PeopleLedger(self._charging.folder, self._charging.witnesses), run.forecast.start
        charged, parties = [], {"curator": f"{start.n:,} people of S", "agents": f"{start.agents:,} people of T"}
        try:
            for party, people in parties.items():
                key = folder / "state" / party / "identity.key"
                if key.exists() and ledger.folder.exists() and ledger.knows(Identity.load_or_create(key).public):
                    charged.append(people)
        except TandemError as error:
            return f"what was charged stays charged, and cannot be shown: {error.detail}"
        if not charged:
            return "no person was charged"
        who = " and ".join(charged)
        return f"the budgets of {who} are charged and stay so, and what was released stays released"

    def close(self) -> None:
        for draft, lock in self._chosen.items():
            if not (self.root / draft / CLAIM).exists():
                shutil.rmtree(self.root / draft, ignore_errors=True)
            lock.close()
