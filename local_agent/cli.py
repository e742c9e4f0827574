"""``local-agent``: one person's agent, or a hosted population of many.

Each command imports its own modules, since one person's agent needs far fewer than a population.
"""

from __future__ import annotations

import json
import math
import secrets
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.core.errors import BadData, BadInput, BadMessage, ConsentWithheld, PeerUnavailable, TandemError
from common.core.terminal import deliver, deliver_json, say, say_lines, warn
from common.net.cli import TlsCa, application
from local_agent import cli_page
from local_agent import cli_services as shared

if TYPE_CHECKING:
    from common.local.naming import Names
    from common.local.records import Records
    from common.scenario.scenario import Scenario
    from local_agent.client import RefereeClient
    from local_agent.host import Host
    from local_agent.person.agent import Agent
    from local_agent.person.checking import HeldReceipt, ReportCheck
    from local_agent.person.consent import ActivityLog

app = application("A local agent: trusts no other party, and randomizes each answer, within a lifetime budget.")


_TOKENS = ["TANDEM_INDIVIDUAL_TOKEN", "TANDEM_ENROLMENT_TOKEN"]
Token = Annotated[
    str, typer.Option(envvar=_TOKENS, help="Enrolment token, or an invitation code of the referee.", show_default=False)
]


@dataclass(frozen=True)
class ConsentOptions:
    """Options for the budget that a person agrees to, and for how consent is requested."""

    epsilon: Annotated[float, typer.Option(help="Lifetime privacy budget, of all answers together.", min=0.0)] = 1.0
    once: Annotated[bool, typer.Option("--once", help="Stop after one answer; what is left can be spent later.")] = (
        False
    )
    max_delay: Annotated[float, typer.Option(help="Answer after a random delay of up to so many seconds.")] = 5.0
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree beforehand, for scripts: to questions of together at most --epsilon.")
    ] = False

    def delay(self) -> float:
        return secrets.randbelow(1 << 20) / (1 << 20) * self.max_delay

    def agreed(self) -> bool:
        return self.yes or typer.confirm("Answer this question?")


@app.command("answer")
def answer_command(
    *,
    record: Annotated[
        Path, typer.Argument(help='JSON file {"features": [...], "label": 1 or -1}; as "local-agent record" makes it.')
    ],
    token: Token,
    consent: ConsentOptions,
    asking: shared.RefereeOptions,
    state: Annotated[
        Path | None,
        typer.Option(help="State directory: key and the answered flag (default: agent, in this user's own)."),
    ] = None,
    patience: Annotated[float, typer.Option(help="Seconds to keep trying while the referee is away.")] = 60.0,
    kinds: shared.QuestionOptions,
    relay: shared.RelayOption = None,
    tls_ca: TlsCa = None,
) -> None:
    """Show what a referee asks about one person, ask for consent, and answer, until the lifetime budget is spent.

    After each answer the agent enrols again, and takes part in a later run if what is left of --epsilon pays for it.
    The answers together are protected by the sum of what they cost.

    Every kind of question that comes with Tandem is accepted; --accept and --refuse narrow that (referee list queries
    names the kinds). A referee learns at enrolment what is refused, and asks nobody where all refuse what a run needs.

    Example: local-agent answer me.json --epsilon 0.5 --referee http://127.0.0.1:8000
    """
    from local_agent.host import Host
    from local_agent.person.agent import ANSWERED, Agent
    from local_agent.person.consent import ActivityLog, Consent, check_terminal
    from local_agent.policy import PersonalPolicy, chosen_queries

    if not 0.0 < consent.epsilon < math.inf:
        raise BadInput(f"--epsilon must be positive and finite, found {consent.epsilon}")
    queries = chosen_queries(kinds.accept or (), kinds.refuse or ())
    person, names = read_record(record)
    state = shared.own_state(state)
    # An answer that was agreed to may be sent again without a terminal.
    check_terminal(consent.yes or (state / ANSWERED).exists())

    address = asking.referee if relay is None else f"{relay} (a relay stands there)"
    key = asking.referee_key or shared.pinned_key(state)
    with closing(shared.dial(asking.referee, relay, key, patience)) as client:
        policy = PersonalPolicy(shared.pin_key(state, asking.referee_key, client), consent.epsilon, queries=queries)
        agent, journal = Agent(person, policy, state, names), ActivityLog(state)
        asking_person = Consent(address, policy, journal, say_lines, consent.agreed)

        def log_answer() -> None:
            journal.write("answered", what_left=agent.sent, cost=agent.spent)
            say(f"local-agent has answered; {agent.spent}; what left: {agent.sent}")

        with closing(
            Host(agent, client, policy.referee, consent.delay, consent=asking_person, on_taken=log_answer)
        ) as host:
            host.enrol(token)
            journal.write("enrolled", referee=address, key=policy.referee)
            say("local-agent is enrolled and waits for its question")
            _answer_until_spent(host, client, agent, journal, once=consent.once)


def _answer_until_spent(host: Host, client: RefereeClient, agent: Agent, journal: ActivityLog, *, once: bool) -> None:
    try:
        shared.answer_until(
            host, client, lambda: host.finished or (once and host.counts["answered"] > 0), journal.refused
        )
    except ConsentWithheld:
        raise  # already in the log
    except TandemError as error:
        what = "stopped" if agent.unacknowledged is None else "not taken"
        journal.write(what, reason=error.problem, detail=error.detail)
        raise


@app.command("credential")
def credential_command(
    issuer: Annotated[str, typer.Option(help="Address of the issuer.")],
    code: Annotated[
        str, typer.Option(envvar="TANDEM_INVITATION", help="The invitation code that the issuer gave this person.")
    ],
    issuer_key: Annotated[
        Path, typer.Option(help="The issuer's public keys (its issuer.json), as everybody has them.", dir_okay=False)
    ],
    state: shared.State = None,
    patience: Annotated[float, typer.Option(help="Seconds to keep trying while the issuer is away.")] = 60.0,
    tls_ca: TlsCa = None,
) -> None:
    """Get an issuer's credential for this agent, with which it enrols afterwards (local-agent answer).

    The issuer knows whom it has invited, and signs without seeing for which agent; the referee sees the agent, and not
    who was invited. Both together see times: let some pass between this and the enrolment.

    Example: local-agent credential --issuer http://127.0.0.1:8011 --code ABCDEF-... --issuer-key issuer.json
    """
    from common.core.durable import hold
    from common.crypto.identity import Identity
    from common.crypto.vouching import read_issuer
    from local_agent.client import IssuerClient
    from local_agent.person.credential import obtain

    state = shared.own_state(state)
    key = read_issuer(issuer_key)
    with closing(hold(state)), closing(IssuerClient(issuer, patience=patience)) as client:
        identity = Identity.load_or_create(state / "identity.key")
        obtain(state, identity, client, code, key)
    say(f"local-agent has a credential of issuer {key.fingerprint()[:16]}... for the key {identity.public}")


@app.command("key")
def key_command(state: shared.State = None) -> None:
    """Print the public key of an agent or host, which is its name; one is made if there is none yet.

    An issuer needs a host's key for a grant (issuer grant).

    Example: local-agent key --state hospital
    """
    from common.crypto.identity import Identity

    state = shared.own_state(state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    say(Identity.load_or_create(state / "identity.key").public)


@app.command("log")
def log_command(
    state: shared.State = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, as they are stored.")] = False,
) -> None:
    """Print what one person's agent was asked, what it answered, and what was declined or refused, oldest first.

    Example: local-agent log
    """
    from local_agent.person.consent import entries, entry_in_words

    for entry in entries(shared.own_state(state)):
        deliver_json(entry) if as_json else say(entry_in_words(entry))


@app.command("record")
def record_command(
    scenario: Annotated[
        str, typer.Argument(help="Shipped scenario or YAML file; its target table says how fields become features.")
    ],
    fields: Annotated[
        Path | None,
        typer.Argument(help='JSON file of the person\'s own fields by column: {"age": 39, ...}; null: not known.'),
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None,
    simulated: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="In place of fields: draw the record of this simulated person.", min=0),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of simulated people.", min=0)] = 1,
    output: Annotated[
        Path | None, typer.Option(help="Write the record here, for its owner alone (default: stdout).", dir_okay=False)
    ] = None,
) -> None:
    """Make one person's record from the fields that the person knows, as a row of the scenario's table would become.

    It is what "local-agent answer" takes. The record names the columns that it was made of: a run about others is
    refused. Nothing is sent, and no table is read. With --simulated it is the record of a person whom a host of this
    scenario would simulate with this seed under this number, for trying an agent out.

    Example: local-agent record examples/own_data/scenario.yaml my-fields.json --output me.json
    """
    from common.core.durable import write_durably
    from common.data.tables import record_of
    from common.local.naming import Names
    from common.scenario import loading

    if (fields is None) == (simulated is None):
        raise BadInput("give either a file of the person's fields, or --simulated NUMBER")
    named = {}
    if fields is not None:
        table = loading.described_people(scenario, sets).table
        record = record_of(_read_fields(fields), table)
        named = {"names": Names.of_table(table.wire()).wire()}
    elif simulated is not None:
        record = _simulated(loading.load(scenario, sets), seed, simulated)
    text = json.dumps({"features": record.features[0].tolist(), "label": int(record.labels[0]), **named})
    if output is None:
        deliver(text)
    else:
        write_durably(output, f"{text}\n".encode(), mode=0o600)


def _simulated(scenario: Scenario, seed: int, number: int) -> Records:
    import numpy as np

    from common.data.population import open_records
    from common.numerics.randomness import subseed

    if scenario.target.distribution is None:
        raise BadInput("the people of this scenario come from a table: give a file of the person's fields")
    people = open_records(scenario.target, None, subseed(seed, "target"), number + 1)
    return people.records(np.array([number]), None)


def _read_fields(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()).items())
    except (OSError, ValueError, RecursionError):
        raise BadData(f"{path} cannot be read as JSON") from None
    except AttributeError:
        raise BadData(f'{path} must hold the person\'s fields by column, {{"age": 39, ...}}') from None


def read_record(path: Path) -> tuple[Records, Names | None]:
    """Read one person's record and, if "local-agent record" has written them, the names of its features and label.

    BadData states why the file cannot be used, never its contents.
    """
    import numpy as np

    from common.local.naming import Names
    from common.local.records import Records

    try:
        tree = json.loads(path.read_bytes())
        if tree["label"] not in (-1, 1):
            raise ValueError("another label")
        with np.errstate(over="ignore"):
            features = np.array([tree["features"]], dtype=np.float32)
        record = Records(features, np.array([tree["label"]], dtype=np.int8)).check()
    except (OSError, UnicodeDecodeError):
        raise BadData(f"{path} cannot be read as a JSON record") from None
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise BadData(
            f'{path} must hold {{"features": [numbers], "label": 1 or -1}}: "local-agent record SCENARIO {path.name}" '
            "makes that of fields by the names of columns"
        ) from None
    try:
        return record, Names.parse(tree["names"]) if "names" in tree else None
    except (ValueError, TypeError, RecursionError, BadMessage):
        raise BadData(f'{path}: "names" cannot be read: make the record again with "local-agent record"') from None


@dataclass(frozen=True)
class CheckOptions:
    """Options for the referee and witness that are asked about receipts, and for the time limits."""

    referee: shared.Referee = "http://127.0.0.1:8000"
    witness: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A witness, which must have seen the history that the referee shows."),
    ] = None
    within: Annotated[
        float | None,
        typer.Option(
            help="Seconds after a report was sent, by this device's clock, in which the referee must show it, and the "
            "witness have seen that (default: a day).",
            min=0.0,
            max=1e9,
        ),
    ] = None
    relay: shared.RelayOption = None
    patience: Annotated[
        float,
        typer.Option(help="Seconds to keep trying while the referee is away; each report may take ten more.", min=0.0),
    ] = 10.0


@app.command("check")
def check_command(
    *,
    asked: CheckOptions,
    state: shared.State = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line a report.")] = False,
    tls_ca: TlsCa = None,
) -> None:
    """Check that what left this device is counted as it was sent: the referee must prove it, for every receipt.

    A receipt is the referee's signed word that it has stored a report. If what the referee shows does not hold that
    report, the receipt proves that it was left out: hand it to whoever audits the run (referee audit --receipt).

    The newest checkpoint of each run stays in the state directory: the history that is shown the next time must begin
    with it. Without --witness the referee could show others another history, in which the report is not.

    Exit status 0: every report is counted as it was sent, in a history that the referee has signed and, with --witness,
    that the witness confirms; 1: a report is left out or changed, another history is shown, the time of --within is
    over, or it could not be checked; 3: nothing is wrong so far, but a report is not shown yet, and the time of
    --within is not over; 4: a report is counted, in a history that the witness does not confirm yet, and the time of
    --within is not over.

    Example: local-agent check --referee http://127.0.0.1:8000 --witness http://127.0.0.1:8010
    """
    from local_agent.person import checking

    if asked.relay is not None and asked.witness is not None:
        raise BadInput("--witness would be asked past --relay, from this device's address: give one of the two")
    within = checking.WITHIN if asked.within is None else asked.within
    findings = _check_receipts(asked, shared.own_state(state), within)
    for finding in findings:
        deliver_json(finding.document()) if as_json else say(checking.in_words(finding, within))
    if asked.witness is None:
        warn(
            "no witness was asked: that the referee shows others another history, without these reports, cannot be "
            "excluded. Name one that neither referee nor curator runs, with --witness URL"
        )
    if status := checking.exit_status(findings):
        warn(checking.summary(findings))
        raise typer.Exit(status)


def _check_receipts(asked: CheckOptions, state: Path, within: float) -> list[ReportCheck]:
    from common.crypto.identity import Identity
    from common.net.client import WitnessClient
    from common.net.transport import DeadlinePassed, time_limit
    from local_agent.person import checking
    from local_agent.person.checking import held_receipts, seen_checkpoint, store_seen

    receipts = list(held_receipts(state))
    key, identity = shared.pinned_key(state), Identity.load_or_create(state / "identity.key")
    if key is None:
        raise BadData(f"{state} has no pinned referee: name another directory with --state")
    limit = asked.patience + checking.SECONDS * len(receipts)
    with closing(shared.dial(asked.referee, asked.relay, key, asked.patience)) as client, ExitStack() as opened:
        cached = None
        if asked.witness is not None:
            witness = WitnessClient(asked.witness, patience=asked.patience)
            cached = checking.CachedWitness(opened.enter_context(closing(witness)))

        def check(receipt: HeldReceipt) -> ReportCheck:
            previous = seen_checkpoint(state, receipt.run)
            finding = checking.check(receipt, identity, client, key, cached, previous, within=within)
            other = finding.status == checking.OTHER
            path = (
                None if finding.checkpoint is None else store_seen(state, receipt.run, finding.checkpoint, other=other)
            )
            why = f"{finding.why}; both are kept, the other one in {path}"
            return replace(finding, why=why) if path and other else finding

        try:
            with time_limit(limit):
                return [check(receipt) for receipt in receipts]
        except DeadlinePassed:
            raise PeerUnavailable(
                f"{client.url} and the witness have not answered about {len(receipts):,} reports in {limit:,.0f} s: "
                "ask who runs them, or give a longer --patience"
            ) from None


app.command("host")(shared.host_command)
app.command("relay")(shared.relay_command)
app.command("page")(cli_page.page_command)
app.command("check-page")(cli_page.check_page_command)


main = app  # for the entry point (tandem.commands)


if __name__ == "__main__":
    main()
