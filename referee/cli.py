"""``referee``: run scenarios, plan them, serve, and audit what was run.

Each command imports what it needs itself, so that none waits for what another one needs.
"""

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from common.core.errors import BadInput, BadScenario
from common.core.plain import command
from common.core.terminal import ask, deliver, deliver_json, say, say_command, say_lines, showing, warn
from common.net.cli import AsJson, Ledger, LedgerOptions, LedgerWitness, TlsCa, application
from deploy.load.options import Options
from referee import cli_results, cli_services

app = application(
    "The referee: asks a curator and many local agents, keeps every budget, writes down the answer.\n\n"
    "Start with: referee list, then referee run ball"
)

ScenarioArgument = Annotated[str, typer.Argument(help="A shipped scenario (referee list) or a YAML file.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. --set agents.mechanism.epsilon=1"),
]


@dataclass(frozen=True)
class DeploymentOptions:
    """Where the parties of a run are."""

    deployment: Annotated[
        str, typer.Option(help="embedded (one process), processes (real HTTP on this machine), or a referee's URL.")
    ] = "embedded"
    token: Annotated[str, typer.Option(envvar="TANDEM_OPERATOR_TOKEN", help="Operator token, for a URL.")] = ""


@dataclass(frozen=True)
class SpendingOptions:
    """Whether real people's budgets are spent without a question."""

    yes: Annotated[bool, typer.Option("--yes", help="Spend real people's budgets without asking, for scripts.")] = False
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Spend also where the forecast says that noise alone would decide.")
    ] = False


@app.command("run")
def run_command(
    *,
    scenario: ScenarioArgument,
    sets: Sets = None,
    there: DeploymentOptions,
    seed: Annotated[
        int | None, typer.Option(help="Seed of everything simulated; the same seed, the same run.", min=0)
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Run folder; an unfinished one is taken up where it was.", file_okay=False)
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option(help="Folder of an earlier run: the curator begins with its last weights.", file_okay=False),
    ] = None,
    spending: SpendingOptions,
    charged: LedgerOptions,
    as_json: AsJson = False,
    tls_ca: TlsCa = None,
) -> None:
    """Run a scenario to its result, and leave a run folder that can be audited.

    Before real people's budgets are spent it shows them with the forecast, and asks once.

    Progress is on stderr, with the time left and the trend of the loss: each round on a terminal, else rounds 1 to 10,
    20, 30, ..., 100, 200, ...

    Example: referee run ball --seed 1 --deployment processes
    """
    from common.scenario import loading
    from deploy.running import Charging, carry_out
    from referee.audit.audit import reweighs_of
    from referee.view import show
    from referee.view.asking import check_spending

    asked = loading.load(scenario, sets)
    if after is not None:
        asked = loading.handed_over(asked, reweighs_of(after))
    result = carry_out(
        asked,
        there.deployment,
        seed=seed,
        output=output,
        token=there.token,
        charging=Charging(charged.ledger, charged.ephemeral, charged.witnesses),
        watching=partial(show.live, quiet=as_json),
        agree=partial(check_spending, yes=spending.yes, anyway=spending.anyway),
    )
    if as_json:
        deliver_json(result)
    else:
        with showing("the result", f"it is stored: {command('referee', 'report', Path(result['run']))}"):
            show.result(asked, result)
    if result["status"] in ("refused", "failed", "cancelled"):
        warn(f"{result['status']}: {result['reason']}")
        raise typer.Exit(1)


@app.command("list")
def list_command(
    kind: Annotated[
        str,
        typer.Argument(
            help="Say more of one kind: scenarios, protocols, problems, operations, learners, mechanisms, queries, "
            "hypotheses, distributions."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List what there is, by kind: the shipped scenarios, and all that a scenario may name.

    Exit status 0; 2 if there is no such kind. With --json: the scenarios, or the names and sentences of one kind.

    Example: referee list learners
    """
    import scenarios
    from common.core.plain import nearest
    from deploy.catalogue import KINDS, explained, registered
    from referee.view import listing

    if kind not in ("", "scenarios", *KINDS):
        kinds = ["scenarios", *KINDS]
        raise BadScenario(f"there is no kind {kind!r}{nearest(kind, kinds)} to list; there are: {', '.join(kinds)}")
    if kind in KINDS:
        entries = explained(kind)
        deliver_json(entries) if as_json else listing.entries(entries)
    elif as_json:
        shipped = [scenarios.heading(name) for name in scenarios.names()]
        deliver_json([{"name": s.name, "title": s.title, "description": s.description} for s in shipped])
    elif kind == "scenarios":
        listing.scenarios([scenarios.heading(name) for name in scenarios.names()])
    else:
        listing.overview(scenarios.names(), registered())


@app.command("plan")
def plan_command(scenario: ScenarioArgument, sets: Sets = None, as_json: AsJson = False) -> None:
    """Print how many people a scenario needs, by the paper's and by the tight bounds, and what it violates.

    A plan may show what no run would begin with, for want of people or of budget: then it has the run's own words.

    Example: referee plan ball --set alpha=0.05
    """
    from common.scenario import loading
    from deploy.checking import checked, refusal
    from referee.view import show

    chosen = loading.load(scenario, sets)
    refused = refusal(checked(chosen))
    document = {**show.plans(chosen), "refused": refused and refused.detail}
    deliver_json(document) if as_json else show.plan_table(chosen, document)


@dataclass(frozen=True)
class ColumnOptions:
    """What two tables mean: the label, and what is publicly known of their columns."""

    label: Annotated[str, typer.Option(help="The column to predict.")] = ""
    positive: Annotated[str, typer.Option(metavar="TEXT,...", help="Its texts that mean yes.")] = ""
    negative: Annotated[str, typer.Option(metavar="TEXT,...", help="Its texts that mean no.")] = ""
    above: Annotated[str, typer.Option(metavar="NUMBER", help="Or, of a number: above this it is a yes.")] = ""
    response: Annotated[
        str, typer.Option(metavar="LOW:HIGH", help="Or: predict the number itself, within public bounds.")
    ] = ""
    classes: Annotated[str, typer.Option(metavar="TEXT,...", help="Or all its texts, 3 to 10, to tell them apart.")] = (
        ""
    )
    costs: Annotated[
        str, typer.Option(metavar="MISS:FALSE", help="What a missed yes and a false alarm cost (default: 1:1).")
    ] = ""
    bounds: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=LOW:HIGH", help="A number and its public bounds; repeat it.")
    ] = None
    categories: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE,...", help="A category and its public values; repeat it.")
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,...", help="Columns in which an empty field is a feature of its own."),
    ] = None
    id_column: Annotated[
        str,
        typer.Option(
            "--id", metavar="COLUMN", help="A column that says who is who, by which further runs know people."
        ),
    ] = ""
    skip: Annotated[list[str] | None, typer.Option(metavar="COLUMN,...", help="Columns to leave out.")] = None


@dataclass(frozen=True)
class BudgetOptions:
    """The privacy of both sides."""

    epsilon: Annotated[float, typer.Option(help="Privacy of S for the whole run; smaller is more private.")] = 1.0
    delta: Annotated[float | None, typer.Option(help="Its delta (default: a power of ten, at most 1/(10 n)).")] = None
    agent_epsilon: Annotated[float, typer.Option(help="Privacy of each agent's one answer.")] = 1.0


@dataclass(frozen=True)
class FileOptions:
    """How the files are written."""

    separator: Annotated[str, typer.Option(help="Between the fields of a text file.")] = ","
    decimal: Annotated[str, typer.Option(metavar="MARK", help="Of numbers written as text: . or a comma.")] = ""
    thousands: Annotated[str, typer.Option(metavar="MARK", help="Between groups of three digits, if any.")] = ""
    encoding: Annotated[str, typer.Option(help="Of a text file (default: utf-8), such as windows-1252.")] = ""
    missing_texts: Annotated[
        list[str] | None, typer.Option(metavar="TEXT,...", help="Further texts that mean: not known, such as NA,-")
    ] = None


@app.command("init")
def init_command(
    *,
    source: Annotated[Path, typer.Argument(metavar="S", help="Table of the curator's people: .csv, .parquet, .npz.")],
    target: Annotated[Path, typer.Argument(metavar="T", help="Table of the agents' people, with the same columns.")],
    columns: ColumnOptions,
    budgets: BudgetOptions,
    files: FileOptions,
    name: Annotated[str, typer.Option(help="Of the scenario (default: of the file S).")] = "",
    output: Annotated[Path | None, typer.Option(help="Write here (default: NAME.yaml).", dir_okay=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; what no option says is an error.")] = False,
) -> None:
    """Write a first scenario for two tables of your own: asks for what no option says, and explains each key.

    It reads the names of the columns and counts rows; bounds and categories are asked for, never taken from the data.
    A wrong answer is asked for again, and < goes back. --yes refuses columns that no option names. A text that holds a
    comma stands in double quotes. Exit status 0: written; 1: a table cannot be read, or a question is not answered;
    2: an option is wrong, or the file is there already.

    Example: referee init testers.csv customers.csv --label renews --positive yes --negative no --bounds visits=0:30
    """
    from deploy.checking import acceptable_of
    from referee.view import own_tables
    from referee.view.asking import Wizard
    from referee.view.own_tables import described, write

    options = asdict(columns) | {"missing": ",".join(columns.missing or ())}
    options |= {key: tuple(options[key] or ()) for key in ("bounds", "categories")}
    options["skip"] = tuple(own_tables.texts(",".join(columns.skip or ())))
    answers = own_tables.ColumnAnswers(**options)
    epsilons = (budgets.epsilon, budgets.delta, budgets.agent_epsilon)
    missing = tuple(own_tables.texts(",".join(files.missing_texts or ())))
    layout = own_tables.layout_of(files.separator, files.decimal, files.thousands, files.encoding, missing)
    output = own_tables.new_file(output, source, name)
    start = described(source, target, answers, epsilons, layout, name, _refuse if yes else Wizard(ask))
    written = write(start, output, acceptable_of)
    say(f"{written}: {start.n:,} people trust the curator, {start.agents:,} their own device")
    for line in own_tables.summary(start):
        say(line)
    say("Next, of which the second is for the keeper of the data alone:")
    for name_of_next in ("plan", "check", "run"):
        say_command("referee", name_of_next, written, lead="  ")


def _refuse(question: str, default: str | None = None) -> str:
    if default is None:
        raise BadScenario(f"--yes, and no option says it: {question}")
    return default


@app.command("check")
def check_command(
    scenario: Annotated[str, typer.Argument(help="A YAML file, or a shipped scenario with --set data=DIRECTORY.")],
    sets: Sets = None,
    side: Annotated[
        Literal["S", "T"] | None,
        typer.Option(help="One table alone: S, the curator's people, or T, the agents' (default: both)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a scenario and its tables as a run does, for the keeper of the records alone: the output is private.

    Shows what a run would refuse (broken rows, no UTF-8, fields that are no number), what it would take
    otherwise than meant (other case, one class only), and what would be clipped, unlisted or missing. Nothing is
    written and nothing is sent. Exit status 0: a run begins; 1: something must be fixed, and standard error has the
    line with which a run would end; 2: wrong scenario. Whether the people have budget left, referee budget shows.

    Example: referee check my-scenario.yaml --side T
    """
    from common.scenario import loading
    from deploy.checking import checked, refusal
    from referee.view import checked_tables

    asked = loading.load(scenario, sets)
    sides = checked_tables.sides_of(asked, side)
    chosen = checked(asked)
    examined = {one: checked_tables.examined(chosen, one) for one in sides}
    refused = refusal(chosen, sides)
    sound = refused is None and all(one.sound for one in examined.values())
    if as_json:
        deliver_json(checked_tables.document(chosen, examined, sound))
    else:
        for line in checked_tables.lines(chosen, examined, sound):
            say(line)
    if refused is not None:
        raise refused
    if not sound:
        raise typer.Exit(1)


Url = Annotated[str, typer.Option("--url", help="Address of the referee.")]
OperatorToken = Annotated[str, typer.Option(envvar="TANDEM_OPERATOR_TOKEN", help="Operator token.", show_default=False)]
RunArgument = Annotated[str, typer.Argument(help="Name of a run, as referee runs lists it.")]


@app.command("runs")
def runs_command(
    token: OperatorToken, url: Url = "http://127.0.0.1:8000", as_json: AsJson = False, tls_ca: TlsCa = None
) -> None:
    """List a referee's runs, oldest first: how each stands, and who or what it waits for.

    Example: TANDEM_OPERATOR_TOKEN=... referee runs --url http://127.0.0.1:8000
    """
    from deploy.remote import operating
    from referee.view import listing as view

    with operating(url, token) as client:
        runs = client.runs()
    deliver_json(runs) if as_json else say_lines(view.runs_table(runs))


@app.command("cancel")
def cancel_command(
    run: RunArgument,
    token: OperatorToken,
    url: Url = "http://127.0.0.1:8000",
    as_json: AsJson = False,
    tls_ca: TlsCa = None,
) -> None:
    """Cancel a run, and wait until it has ended: at once if it has not begun, else before its next message.

    What was released stays released, and what was spent stays spent: agents that were asked are not asked again, and
    the curator's budget stays with the run. The result says so.

    Example: TANDEM_OPERATOR_TOKEN=... referee cancel ball-1a2b3c4d
    """
    from deploy.remote import operating

    with operating(url, token) as client:
        result = client.cancel(run)
    deliver_json(result) if as_json else say(f"run {run} {result.get('status')}: {result.get('reason')}")


@app.command("logs")
def logs_command(
    run: RunArgument,
    token: OperatorToken,
    url: Url = "http://127.0.0.1:8000",
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run has ended.")] = False,
    tls_ca: TlsCa = None,
) -> None:
    """Print what a run has done so far: a line for each entry of its transcript, and what it says of its progress.

    Example: TANDEM_OPERATOR_TOKEN=... referee logs ball-1a2b3c4d --follow
    """
    from deploy.remote import operating
    from referee.view import listing as view

    with operating(url, token) as client:
        for lines in client.log(run, follow):
            for line in view.logged(*lines):
                say(line)


@app.command("budget")
def budget_command(ledger: Ledger = None, ledger_witness: LedgerWitness = None, as_json: AsJson = False) -> None:
    """Show what runs from here have cost the people of their curators, over all runs of the same people.

    Example: referee budget --json
    """
    from deploy.running import spent_by_people
    from referee.view import show

    folder, runs = spent_by_people(ledger, tuple(ledger_witness or ()))
    deliver_json(runs) if as_json else show.budget_table(folder, runs)


@dataclass(frozen=True)
class TargetOptions:
    """A referee that runs, and the tokens that it takes."""

    url: Annotated[
        str | None, typer.Option(help="A referee that runs (tokens: environment); by default one is started here.")
    ] = None
    token: Annotated[str, typer.Option(envvar="TANDEM_OPERATOR_TOKEN", help="Operator token, for --url.")] = ""
    enrolment: Annotated[str, typer.Option(envvar="TANDEM_ENROLMENT_TOKEN", help="Enrolment token, for --url.")] = ""


@app.command("load-test")
def load_test_command(
    *,
    load: Options,
    there: TargetOptions,
    print_scenario: Annotated[
        bool,
        typer.Option(
            "--print-scenario", help="Print the scenario that the curator of a deployment at --url must serve, and end."
        ),
    ] = False,
    as_json: AsJson = False,
    tls_ca: TlsCa = None,
) -> None:
    """Load a referee with very many agents, and check that what it acknowledged is stored and counted.

    Every individual enrols, polls and reports, each with a key and requests of its own; then the run is audited. A
    deployment at --url needs a curator that serves the test's scenario:

    referee load-test --individuals 1000 --print-scenario > load.yaml, then
    curator serve load.yaml --seed 1 --referee-key KEY

    Example: referee load-test --individuals 100000
    """
    from deploy.load import show
    from deploy.load.testing import LoadTarget, load_test, scenario_file

    if load.schedule == "at-once":
        load = replace(load, connections=load.individuals)
    if print_scenario:
        deliver(scenario_file(load), end=False)
        return
    target = None if there.url is None else LoadTarget(there.url, there.token, there.enrolment)
    with show.live(quiet=as_json) as watch:
        document = load_test(load, watch, target)
    deliver_json(document) if as_json else show.result(document)
    if not document["agree"]:
        raise typer.Exit(1)


@app.command("audit-privacy")
def audit_privacy_command(
    scale: Annotated[
        float, typer.Option(help="Multiplies the trials of every case: more find smaller leaks.", min=0.01, max=1e4)
    ] = 1.0,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Only cases with this in their name.")] = "",
    as_json: AsJson = False,
) -> None:
    """Measure lower bounds on epsilon of every registered mechanism, those of plug-ins too.

    The shipped code runs on two neighbouring inputs, and so does a twin of it that is broken on purpose, which must be
    caught. Exit status 1 if a claim is broken or a twin is not caught. A checkout audits learners, operations, agents
    and a curator's whole transcript as well: python -m benchmarks.audits.

    Example: referee audit-privacy
    """
    from deploy.auditing import cases, report

    try:
        rows = report(cases(), only=only, scale=scale, write=None if as_json else say)
    except BadInput as error:
        raise typer.BadParameter(error.words, param_hint="--only") from None
    if as_json:
        deliver_json([row.document() for row in rows])
    if not all(row.expected for row in rows):
        raise typer.Exit(1)


for further in (*cli_results.COMMANDS, *cli_services.COMMANDS):
    app.command(further.__name__.removesuffix("_command"))(further)


main = app  # of the entry point (tandem.commands)


if __name__ == "__main__":
    main()
