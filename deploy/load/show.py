"""A load test on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from common.core.terminal import console as console_of

_BUSY = 0.5  # load of a core before the test from which on its figures are not representative


@contextmanager
def live(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show the progress of the phases on standard error."""
    if quiet:
        yield lambda phase, done, count: None
        return
    columns = TextColumn("{task.description:8}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console_of(stderr=True)) as progress:
        tasks: dict[str, Any] = {}

        def watch(phase: str, done: int, count: int) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(phase, total=count)
            progress.update(tasks[phase], completed=done)

        yield watch


def result(document: dict[str, Any]) -> None:
    """Print a load test's document as a table, with an interpretation."""
    console, machine = console_of(), document["machine"]
    table = Table(box=None)
    for name in ("phase", "requests", "a second", "p50 ms", "p99 ms", "p99.9 ms", "referee us", "generator us"):
        table.add_column(name, justify="left" if name == "phase" else "right")
    for name, phase in document["phases"].items():
        times = ["", "", ""] if name == "audit" else [f"{phase[key]:g}" for key in ("p50_ms", "p99_ms", "p999_ms")]
        referee = "" if phase["cpu_us_referee"] is None else f"{phase['cpu_us_referee']:g}"
        numbers = f"{phase['requests']:,}", f"{phase['per_second']:,.0f}"
        table.add_row(name, *numbers, *times, referee, f"{phase['cpu_us_generator']:g}")
    console.print(table)
    for name, phase in document["phases"].items():
        for reason, count in phase["rejected"].items():
            console.print(f"{name}: {count:,} rejected: {reason}")
    counts = (
        f"{document['acknowledged']:,} acknowledged, {document['stored']:,} stored, {document['counted']:,} counted"
    )
    console.print(f"{counts}: {'they agree' if document['agree'] else 'THEY DIFFER'}")
    console.print(
        f"first question after {document['first_question_seconds']:g} s, result "
        f"{document['result']['seconds_after_last_report']:g} s after the last report"
    )
    if document["idle"]:
        idle = document["idle"]
        cores = "" if idle["referee_cores"] is None else f", {idle['referee_cores']:.2f} cores of the referee"
        console.print(
            f"{idle['agents']:,} idle agents: {idle['polls_per_second']:,.0f} polls a second, held at most "
            f"{idle['held_longest_seconds']:g} s, {idle['refused']:,} refused{cores}"
        )
    if document["peak_memory_bytes"]:
        console.print(
            f"referee: at most {document['peak_memory_bytes'] / 2**20:,.0f} MiB, "
            f"{document['database_bytes_per_report']:,.0f} bytes of database a report"
        )
    console.print(
        f"this machine: {machine['cores']} cores, each {machine['verify_per_second']:,} signature checks a second; "
        f"{machine['commits_per_second']:,} commits, or {machine['rows_per_second']:,} rows in groups; "
        f"{machine['requests_per_second']:,} requests over loopback that ask nothing"
    )
    if machine["load_average"] > _BUSY * machine["cores"]:
        console.print(f"it was busy (load average {machine['load_average']:g}): these figures say little of it")
