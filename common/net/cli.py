"""The common base of the commands: on an error, one line on stderr and the right exit status."""

import errno
import functools
import gc
import inspect
import io
import logging
import os
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, ParamSpec, TypeVar, get_type_hints

import typer

from common.core import machine
from common.core.errors import MAKE_ROOM, BadInput, BadScenario, TandemError
from common.core.plain import JsonFormatter, PlainFormatter, one_line
from common.core.terminal import say, warn
from common.net import tls

ENDS_WITH_STDIN = "TANDEM_ENDS_WITH_STDIN"  # environment variable, set for the processes that a deployment starts
REFEREE_KEY = "TANDEM_REFEREE_KEY"  # environment variable: public key of the referee whose requests are accepted
LOG_FORMAT = "TANDEM_LOG_FORMAT"  # environment variable: ``plain`` (the default) or ``json``, one object per line
LOG_LEVEL = "TANDEM_LOG_LEVEL"  # environment variable: ``info``, ``warning`` (the default) or ``error``
# Options of the commands that charge people's budgets: in which ledger, and whether at all.
Ledger = Annotated[
    Path | None,
    typer.Option(
        "--ledger", help="Directory of the ledger of people over all runs (default: in this user's state directory)."
    ),
]
LedgerWitness = Annotated[
    list[str] | None,
    typer.Option(
        "--ledger-witness",
        metavar="PLACE",
        envvar="TANDEM_LEDGER_WITNESS",
        help="Where the heads of the ledger of people go, too, so that an older copy of it is noticed: a file on "
        "another disk, or http://HOST:PORT/v1/heads/NAME of a referee witness (token in TANDEM_WITNESS_TOKEN).",
    ),
]
P = ParamSpec("P")
R = TypeVar("R")


EXIT_STATUSES = {
    0: "done",
    1: "the command failed, was refused, or found something wrong: one line on stderr says what, where, and what to do",
    2: "wrong usage: an option, an argument or the scenario; nothing was started",
    3: "local-agent check: not shown yet; referee audit --strict: the result depends on those who did not answer",
    4: "local-agent check: counted, but the witness does not confirm it yet",
    130: "interrupted; the same command with the same folder resumes",
    141: "the reader of the output has stopped reading, as head does",
}
"""The meaning of each exit status of every command; the same as in help and docs/commands.md."""
EXIT_HELP = "Exit status: " + "; ".join(f"{status} {meaning}" for status, meaning in EXIT_STATUSES.items()) + "."


def version() -> str:
    """Return the installed version, or that the code runs from a checkout that is not installed."""
    from common.core.version import release

    return release() or "from a checkout that is not installed"


def _print_version(context: typer.Context, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        say(f"{context.info_name} {version()}")
        raise typer.Exit


class Application(typer.Typer):
    """A command with subcommands, each of which may have groups of options, and reports every error in one line.

    The help of each ends with the meaning of its exit status.
    """

    def command(  # type: ignore[override]  # the settings are those of typer.Typer.command
        self, name: str | None = None, **settings: Any
    ) -> Callable[[Callable[..., R]], Callable[..., R]]:
        """Return the decorator of a command's function (:func:`grouped`, :func:`fail_clearly`)."""
        register = super().command(name, epilog=EXIT_HELP, **settings)
        return lambda command: register(fail_clearly(grouped(command)))

    def __call__(self, *args: Any, **further: Any) -> Any:
        begin()
        try:
            return super().__call__(*args, **further)
        except KeyboardInterrupt:  # before a command begins; a command itself reports what it has kept
            raise SystemExit(130) from None


def application(summary: str) -> Application:
    """Return a command with the common options: ``--version``, completion, plain help, "did you mean"."""
    app = Application(
        help=summary,
        epilog=EXIT_HELP,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help loads in half the time of framed help
    )

    @app.callback(help=summary)
    def of_every_command(
        _: Annotated[
            bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version, and end.")
        ] = False,
    ) -> None:
        """Hold what all commands have in common."""

    return app


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a write when the disk is full, or a quota or the maximum size of a file is reached."""


def fail_clearly(command: Callable[P, R]) -> Callable[P, R]:
    """Turn a TandemError into one line on stderr and exit status 1 (2 if a scenario or option is wrong)."""

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            database = sys.modules.get("sqlalchemy.exc")  # if it is not loaded, no error comes from a database
            status = 1
            if isinstance(error, TandemError):
                _say(error.title, error.words)
                status = 2 if isinstance(error, BadScenario) else 1
            elif isinstance(error, BrokenPipeError):  # no error: the reader has closed the pipe
                status = 141
            elif isinstance(error, OSError):
                full = error.errno in _FULL
                _say("File or device not usable", str(error) + MAKE_ROOM * full)
            elif database is not None and isinstance(error, database.DatabaseError):
                why = str(getattr(error, "orig", error))
                _say("Database not usable", why + MAKE_ROOM * ("disk" in why))
            elif isinstance(error, MemoryError):
                _say("Not enough memory", f"{error}; plan for fewer people, or use a larger machine")
            elif isinstance(error, KeyboardInterrupt):
                _say("Interrupted", "what was acknowledged is kept; the same command with the same folder goes on")
                status = 130
            else:
                raise
            raise typer.Exit(status) from None

    return guarded


def end_with_stdin() -> None:
    """End this process when its standard input ends, if :data:`ENDS_WITH_STDIN` is set: no orphan outlives a parent."""
    if os.environ.get(ENDS_WITH_STDIN):
        machine.end_with_stdin()


def has_terminal() -> bool:
    """Return whether a person can read a question on the terminal and answer it."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _say(title: str, detail: str) -> None:
    warn(f"{title}: {one_line(detail)}")


MEMORY, SECONDS = 512 << 20, 60.0  # limits, in bytes and seconds, of a command that reads untrusted folders
Large = Annotated[
    bool, typer.Option("--large", help="Set no limits; by default a folder may take 512 MiB of memory and a minute.")
]
_command_started = threading.Event()  # set if this process was started as a command


def read_within_limits(large: bool) -> None:
    """Limit the rest of a command, which reads untrusted data; beyond the limits it is ended, with one line."""
    if _command_started.is_set() and not large:
        words = (
            "reading the folder {}, and was ended: it is very large, or was made to do that. If you know that it is so "
            "large, give --large, which sets no limits"
        )
        machine.go_on_within(MEMORY, SECONDS, lambda why: _say("Data not acceptable", words.format(why)))


NEW_OBJECTS = 50_000  # new objects after which garbage is collected


def begin() -> None:
    """Prepare the process of a command: open missing streams, log plain lines, collect garbage rarely."""
    _command_started.set()
    # A service loads 150,000 objects that stay: collection after each 700 new ones took a sixth of its start time.
    gc.set_threshold(NEW_OBJECTS)
    for stream, mode in ("stdin", "r"), ("stdout", "w"), ("stderr", "w"):
        if getattr(sys, stream) is None:  # closed by the process that started this one
            setattr(sys, stream, open(os.devnull, mode))  # noqa: SIM115 - as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as Python does it on standard error
    log_plainly()


def log_plainly() -> None:
    """Write warnings to standard error, each in a line of visible characters; as JSON if :data:`LOG_FORMAT` says so."""
    form, level = os.environ.get(LOG_FORMAT) or "plain", os.environ.get(LOG_LEVEL) or "warning"
    for name, value, choices in (LOG_FORMAT, form, ["plain", "json"]), (LOG_LEVEL, level, ["info", "warning", "error"]):
        if value not in choices:
            _say("Bad usage", f"{name} is {', '.join(choices[:-1])} or {choices[-1]}, found {value!r}")
            raise SystemExit(2)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else PlainFormatter("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    sys.excepthook = _uncaught
    threading.excepthook = lambda raised: _uncaught(
        raised.exc_type, raised.exc_value or raised.exc_type(), raised.exc_traceback
    )
    # Only Tandem's own loggers: libraries may log requests that hold tokens.
    logging.getLogger("tandem").setLevel(level.upper())


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt | SystemExit):
        logging.getLogger("tandem").critical("a fault of this program", exc_info=(kind, error, trace))


def _file(option: str, variable: str, help: str, *, kept: bool = False) -> Any:
    """Return an option for a file; if ``kept``, it is put into the environment for the processes started here."""

    def keep(value: Path | None) -> Path | None:
        if value is not None:
            os.environ[variable] = str(value.absolute())
        return value

    return typer.Option(option, envvar=variable, callback=keep if kept else None, help=help, show_default=False)


def _origins(origins: list[str] | None) -> list[str]:
    from common.net.origins import check_origin

    try:
        return [check_origin(origin) for origin in origins or ()]
    except BadInput as error:
        raise typer.BadParameter(error.words) from None


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
TlsCa = Annotated[
    Path | None,
    _file(
        "--tls-ca",
        tls.CA,
        "File of the authority that https:// services must be certified by (default: the system's).",
        kept=True,
    ),
]
AllowOrigin = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-origin",
        metavar="ORIGIN",
        callback=_origins,
        help="Let pages of this origin (https://NAME, or http://localhost:PORT) ask what a person's agent asks "
        "(local-agent page). Repeatable; none by default.",
    ),
]
TlsClientCa = Annotated[
    Path | None,
    _file(
        "--tls-client-ca", tls.CLIENT_CA, "Speak only to clients with a certificate of the authorities in this file."
    ),
]


def grouped(command: Callable[..., R]) -> Callable[..., R]:
    """Let a command take groups of options: parameters whose annotations are frozen dataclasses of options.

    On the command line every field of a group is an option of its own, at the place of the group; the fields are
    annotated as parameters of commands are. All other parameters stay unchanged.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            group = groups[name] = hints[name]
            within = get_type_hints(group, include_extras=True)
            options = inspect.signature(group).parameters.values()
            parameters += [each.replace(kind=each.KEYWORD_ONLY, annotation=within[each.name]) for each in options]
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name]))

    @functools.wraps(command)
    def called(**options: Any) -> R:
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in fields(group)})
        return command(**options)

    del called.__wrapped__  # so that inspect.signature shows the options
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


@dataclass(frozen=True)
class LedgerOptions:
    """The ledger of people that is charged for all runs together, and its witnesses; or no ledger."""

    ledger: Ledger = None
    ledger_witness: LedgerWitness = None
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Charge no person: for experiments on public records only.")
    ] = False

    @property
    def witnesses(self) -> tuple[str, ...]:
        return tuple(self.ledger_witness or ())


@dataclass(frozen=True)
class ServiceTlsOptions:
    """The TLS options of a service."""

    tls_cert: Annotated[
        Path | None,
        _file(
            "--tls-cert",
            tls.CERT,
            "File of this service's certificate: it then speaks TLS (referee certificates makes one).",
        ),
    ] = None
    tls_key: Annotated[
        Path | None, _file("--tls-key", tls.KEY, "File of its key (default: beside it, with the ending .key).")
    ] = None


@dataclass(frozen=True)
class ClientTlsOptions:
    """The TLS options of a client, and its certificate for a curator; parsing the options sets the environment."""

    tls_ca: TlsCa = None
    tls_client_cert: Annotated[
        Path | None,
        _file(
            "--tls-client-cert",
            tls.CLIENT_CERT,
            "File of the certificate that is shown to the curator, and to no other service.",
            kept=True,
        ),
    ] = None
    tls_client_key: Annotated[
        Path | None,
        _file(
            "--tls-client-key", tls.CLIENT_KEY, "File of its key (default: beside it, with the ending .key).", kept=True
        ),
    ] = None


def serving(party: str, options: ServiceTlsOptions, clients: Path | None = None) -> ssl.SSLContext | None:
    """Return the TLS context of a service; None without a certificate, which the other files require."""
    if options.tls_cert is not None:
        return tls.server_context(tls.CertificateFiles.of(f"this {party}", options.tls_cert, options.tls_key), clients)
    for option, file in (("--tls-key", options.tls_key), ("--tls-client-ca", clients)):
        if file is not None:
            raise BadInput(f"{option} is for a {party} that speaks TLS: name its certificate with --tls-cert")
    return None
