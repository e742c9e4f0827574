"""What does a request cost a referee that has very many agents? As many requests, beside ever more who are enrolled.

    python -m benchmarks.enrolled [--sizes 10000 1000000] [--individuals 10000] [--json]
    python -m benchmarks.enrolled --paired [--sizes 10000 10000000] [--individuals 10000] [--json]

For each size a referee is started on this machine whose database lists so many individuals already, who keep silent.
Then further individuals enrol, poll for a question that goes to everybody, and report, as in ``referee load-test``.
What should hold is that the referee's processor time for each is at most 1.2 times that of the first size. The run is
cancelled at the end, since most of those whom it asks do not exist. 10,000,000 take some minutes and 3 GB of memory.

With ``--paired`` the registrars of all sizes are in one process, which has no service, and enrol groups by turns: what
the machine does in the same second happens to all of them. Printed are microseconds of processor time an enrolment, the
median over the groups, and the median of the ratios to the first size in the same turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import referee
from common.crypto.identity import Identity
from common.net.messages import read
from deploy.load.client import Connection, LightAgent, request
from deploy.load.phases import Load, phase
from deploy.load.testing import AGAIN, LoadTarget, Options, started
from deploy.remote import Remote, operating
from referee.collection.enrolment import Caps, Registrar
from referee.store import RefereeStore
from referee.tables import Participant

PHASES = ("enrol", "poll", "report")
CONNECTIONS = 512
GROUP = 256
"""Enrolments of one turn of a paired measurement."""
AT_ONCE = 100_000
"""Participants written in one transaction."""
ALLOWED = 2.0
"""A referee's cap of individuals, as a multiple of all that enrol."""


def enrol_before(folder: Path, count: int) -> None:
    """Make a referee's database that lists so many individuals, for whose keys there are no agents."""
    folder.mkdir(mode=0o700)
    with closing(RefereeStore(f"sqlite:///{folder}/referee.sqlite")) as store:
        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, count))
            listed = [Participant(secrets.token_hex(32), number, 1) for number in numbers]
            store.add_participants(first, partial(_chosen, listed))


def _chosen(
    listed: Sequence[Participant], others: Iterable[Participant], invited: Mapping[str, str]
) -> Sequence[Participant]:
    return listed  # no other process writes to this database, and there are no invitations


def measure(enrolled: int, individuals: int) -> dict[str, Any]:
    """Return the cost of the requests of ``individuals`` agents when ``enrolled`` others are enrolled."""
    everybody = Options(individuals=enrolled + individuals)
    chosen = everybody.scenario()
    with tempfile.TemporaryDirectory(prefix="enrolled-") as name:
        folder = Path(name)
        enrol_before(folder / referee.__name__, enrolled)
        began = time.perf_counter()
        cap = ["--max-individuals", str(int(ALLOWED * everybody.individuals))]
        with started(chosen, folder, referee_options=cap) as target:
            ready = time.perf_counter() - began
            found = asyncio.run(_requests(target, chosen, individuals))
            return {"enrolled": enrolled, "start_seconds": round(ready, 1), **found, "memory": target.peak_memory()}


def paired(sizes: Sequence[int], individuals: int) -> list[dict[str, Any]]:
    """Return the cost of an enrolment for each number of enrolled, from groups that are enrolled in turn."""
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="enrolled-") as name, ExitStack() as opened:
        registrars = []
        for number, size in enumerate(sizes):
            folder = Path(name) / str(number)
            enrol_before(folder, size)
            store = opened.enter_context(closing(RefereeStore(f"sqlite:///{folder}/referee.sqlite")))
            caps = Caps(individuals=int(ALLOWED * (size + individuals)))
            registrar = Registrar(store, Identity.create(), caps)
            registrar.allow("enrolment", token)
            registrars.append(registrar)
        costs: list[list[float]] = [[] for _ in sizes]
        for turn in range(individuals // GROUP):
            group = [(read(LightAgent.fresh().enrolment()), token) for _ in range(GROUP)]
            for place in sorted(range(len(sizes)), reverse=turn % 2 == 1):
                began = time.process_time()
                answers = registrars[place].enrol(group)
                costs[place].append(1e6 * (time.process_time() - began) / GROUP)
                if not all(isinstance(answer, bytes) for answer in answers):
                    raise SystemExit("an enrolment was refused")
    return [
        {
            "enrolled": size,
            "us": round(median(own), 1),
            "ratio": round(median(cost / base for cost, base in zip(own, costs[0], strict=True)), 3),
        }
        for size, own in zip(sizes, costs, strict=True)
    ]


async def _requests(target: LoadTarget, chosen: Any, individuals: int) -> dict[str, Any]:
    parts = urlsplit(target.url)
    name = f"{parts.hostname}:{parts.port}"
    pid = None if target.process is None else target.process.process.pid
    load = Load(str(parts.hostname), int(parts.port or 80), connections=CONNECTIONS, pid=pid)
    agents = [LightAgent.fresh() for _ in range(individuals)]
    token = {"Authorization": f"Bearer {target.enrolment}"}
    asks = {
        "enrol": lambda agent: request("POST", "/v1/enrolments", name, agent.enrolment(), token),
        "poll": lambda agent: request("POST", "/v1/polls", name, agent.poll()),
        "report": lambda agent: request("PUT", f"/v1/reports/{agent.report_id}", name, agent.sent),
    }

    def answered(agent: LightAgent, answer: Any) -> None:
        agent.answer(answer.body)

    found = {"enrol": await phase("enrol", load, agents, asks["enrol"], lambda agent, answer: None)}
    began = time.perf_counter()
    with closing(Remote(target.url, target.operator)) as remote:
        await asyncio.to_thread(remote.create, chosen, 1, "enrolled")
        opened = await first_question(load, asks["poll"](agents[0])) - began
        found["poll"] = await phase("poll", load, agents, asks["poll"], answered)
        found["report"] = await phase("report", load, agents, asks["report"], lambda agent, answer: None)
    with operating(target.url, target.operator) as at_referee:
        await asyncio.to_thread(at_referee.ask_to_cancel, "enrolled")
    refused = [f"{name}: {dict(one.rejected)}" for name, one in found.items() if one.rejected]
    if refused:
        raise SystemExit(f"requests were refused: {', '.join(refused)}")
    return {"first_question_seconds": round(opened, 2), **{name: one.document() for name, one in found.items()}}


async def first_question(load: Load, poll: bytes) -> float:
    """Return the time at which a polling agent gets a question."""
    connection = await Connection.to(load.host, load.port)
    while (await connection.request(poll)).status != 200:
        await asyncio.sleep(AGAIN)
    connection.close()
    return time.perf_counter()


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    yield "   enrolled | enrol us | poll us | report us | first question | memory"
    for one in found:
        costs = " | ".join(
            f"{one[name]['cpu_us_referee']:>{width}.0f}" for name, width in zip(PHASES, (8, 7, 9), strict=True)
        )
        memory = f"{(one['memory'] or 0) >> 20:,} MiB"
        yield f"{one['enrolled']:>11,} | {costs} | {one['first_question_seconds']:>12.2f} s | {memory}"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--individuals", type=int, default=10_000)
    parser.add_argument("--paired", action="store_true")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.paired:
        beside = paired(chosen.sizes, chosen.individuals)
        lines = (f"{one['enrolled']:>11,} | {one['us']:>8.1f} us | {one['ratio']:.3f}" for one in beside)
        print(json.dumps(beside) if chosen.json else "\n".join(["   enrolled | enrolment   | ratio", *lines]))
        return
    found = []
    for size in chosen.sizes:
        print(f"{size:,} enrolled before", file=sys.stderr)
        found.append(measure(size, chosen.individuals))
    print(json.dumps(found) if chosen.json else "\n".join(_lines(found)))


if __name__ == "__main__":
    main()
