"""Commands of ``referee`` about finished runs: the audit, the model shown, used and exported, and the report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.core.errors import BadInput, BadMessage
from common.core.terminal import deliver, deliver_json, say, say_lines, warn
from common.net.cli import AsJson, Large, TlsCa, read_within_limits

if TYPE_CHECKING:
    from common.local.losses import Costs

RunOrModel = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a model's JSON file.")]
Task = Annotated[int | None, typer.Option(help="Of a run that learned several things, which one, from 1.", min=1)]


def model_command(run: RunOrModel, task: Task = None, as_json: AsJson = False, large: Large = False) -> None:
    """Show the model of a finished run by the names and units of the table's columns.

    Nothing is released: the answer and the scenario are public.

    Example: referee model runs/own-data-20260101-120000
    """
    read_within_limits(large)
    from common.models.export import document_of
    from referee.view import models

    model = models.open_model(run, task)
    deliver_json(document_of(model)) if as_json else say_lines("\n".join(models.model_text(model)))


@dataclass(frozen=True)
class CostOptions:
    """What mistakes cost; both, or neither."""

    cost_of_miss: Annotated[
        float | None, typer.Option(help="Predict what costs less, where a positive that is missed costs so much.")
    ] = None
    cost_of_false_alarm: Annotated[float | None, typer.Option(help="... and a negative taken for one so much.")] = None


def predict_command(
    *,
    run: RunOrModel,
    data: Annotated[Path, typer.Argument(help="Rows with the scenario's columns: .csv (.xz, .gz), .parquet, .npz.")],
    output: Annotated[
        Path | None, typer.Option(help="Write here, .csv or .parquet (default: CSV on stdout).", dir_okay=False)
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also those of the positive label, if agents calibrated a score.")
    ] = False,
    costs: CostOptions,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse rows with values out of bounds, unlisted or missing.")
    ] = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Predict labels, spelled as in the scenario's table, for rows of raw data; other columns are left alone.

    Values beyond their bounds are clipped, unlisted and missing ones count as the scenario says; stderr has how many.
    With costs the label is the one that costs less by the calibrated probabilities, else that of the judged answer.

    Example: referee predict runs/own-data-20260101-120000 customers.csv --output labels.csv
    """
    from common.models.model import calibration, predict
    from referee.view import models

    if output is not None and output.exists() and data.exists() and output.samefile(data):
        raise BadInput(f"--output {output} is the file of the rows, which would be lost: name another one")
    model = models.open_model(run, task)
    predictions = predict(model, data, probabilities=probabilities, strict=strict, costs=_costs(costs))
    if output is not None:
        models.write_predictions(output, model, predictions)
    if as_json:
        deliver_json(models.predictions_document(model, predictions))
    elif output is None:
        deliver(models.predictions_frame(model, predictions).write_csv(), end=False)
    for line in (*predictions.notes.sentences(model.table), *([calibration(model)] if probabilities else [])):
        say(line, error=True)


def _costs(options: CostOptions) -> Costs | None:
    from common.local.losses import Costs

    miss, false_alarm = options.cost_of_miss, options.cost_of_false_alarm
    if miss is None and false_alarm is None:
        return None
    if miss is None or false_alarm is None:
        raise BadInput("give both --cost-of-miss and --cost-of-false-alarm: which label costs less depends on both")
    try:
        return Costs.parse({"miss": miss, "false_alarm": false_alarm})
    except BadMessage as error:
        raise BadInput(f"--cost-of-miss and --cost-of-false-alarm: {error.detail}") from None


def export_command(
    run: RunOrModel,
    file: Annotated[
        Path,
        typer.Argument(
            help=".json (everything, by name), .onnx (raw columns in, labels out), or .joblib (a pickle of "
            "scikit-learn's: load only your own)."
        ),
    ],
    task: Task = None,
) -> None:
    """Write the model of a finished run to a file: JSON, ONNX, or a pickled pipeline of scikit-learn.

    Example: referee export runs/own-data-20260101-120000 model.onnx
    """
    from common.models.export import export
    from referee.view import models

    model = models.open_model(run, task)
    say(f"{export(model, file)}: the model of {model.scenario}")


def report_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write here (default: report.html in the run folder; of several runs, here).", dir_okay=False
        ),
    ] = None,
    large: Large = False,
) -> None:
    """Write one self-contained HTML page about finished runs: the verdict first; of several runs, a comparison.

    Nothing but the folders' public files is read. The same folders give the same page.

    Example: referee report runs/ball-20260101-120000
    """
    read_within_limits(large)
    from referee.view.pages import view_of, write_report

    views = [view_of(run) for run in runs]
    file = output or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    write_report(file, views)
    for view in views:
        say(f"{view.name}: {view.verdict.text}")
    say(f"{file}: open it in a browser")


@dataclass(frozen=True)
class KeyOptions:
    """Keys that are known from elsewhere than from the folder."""

    referee_key: Annotated[str | None, typer.Option(help="The referee's key, if you know it from elsewhere.")] = None
    curator_key: Annotated[str | None, typer.Option(help="The curator's key, if you know it from elsewhere.")] = None
    issuer: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Public keys of an issuer, if you know them from elsewhere: who vouches. Repeatable."
        ),
    ] = None


@dataclass(frozen=True)
class HistoryOptions:
    """What others hold of the run's history."""

    witness: Annotated[
        str | None, typer.Option(metavar="URL", help="A witness, asked whether it has seen another history of the run.")
    ] = None
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH", help="An agent's receipt, or a directory of them: each must be among the reports."
        ),
    ] = None
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="A checkpoint that local-agent check has kept, or a directory: each must be of this run.",
        ),
    ] = None


def audit_command(
    *,
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    keys: KeyOptions,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Fail where a key is not given, a witness has not seen the end, or no issuer vouches for a "
            "participant; status 3 where the result depends on those who did not answer.",
        ),
    ] = False,
    others: HistoryOptions,
    as_json: AsJson = False,
    tls_ca: TlsCa = None,
    large: Large = False,
) -> None:
    """Verify a run folder: chain, signatures, order, answers, replay, privacy cost; offline, unless a witness is asked.

    What remains possible is printed, too: whose keys are not known from elsewhere, who vouches for people, and
    what the answer is worth however those who kept silent differ from those who answered.

    Exit status 0: the folder is whole, its transcript leads to its result, and the keys, receipts, checkpoints and
    witness that were given agree with it; 1: something of this is not so, or not given although --strict takes it;
    3: with --strict, all of this is so, but the result depends on those who did not answer.

    Example: referee audit runs/ball-20260101-120000
    """
    read_within_limits(large)
    from common.crypto.vouching import read_issuer
    from referee.audit.audit import audit
    from referee.audit.history import checkpoints_at, receipts_at
    from referee.view import audited
    from referee.view.audited import seen_by

    witness_checkpoints, other_runs = ([], ()) if others.witness is None else seen_by(others.witness, run)
    receipts = receipts_at(others.receipt or ())
    agent_checkpoints = checkpoints_at(others.checkpoint or ())
    issuers = [read_issuer(path) for path in keys.issuer or ()]
    evidence: dict[str, Any] = {"receipts": receipts, "issuers": issuers}
    evidence |= {"witness_checkpoints": witness_checkpoints, "agent_checkpoints": agent_checkpoints}
    result = audit(run, keys.referee_key, keys.curator_key, strict=strict, large=large, **evidence)
    result = replace(result, history=replace(result.history, others=other_runs))
    deliver_json(audited.audit_document(result)) if as_json else audited.audit_table(run, result)
    if strict and result.depends_on_silent:
        warn(
            f"Verified, but it depends on the silent: up to {result.missing:.1%} of those asked did not answer. "
            "With all of them against it the result is not shown: take the interval for them, or ask more people"
        )
        raise typer.Exit(3)


COMMANDS = (audit_command, model_command, predict_command, export_command, report_command)
