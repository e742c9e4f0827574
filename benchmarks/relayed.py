"""What does it cost that a referee does not learn an address? Requests that come directly, and through a relay.

    python -m benchmarks.relayed [--individuals 4000] [--json]

A referee and a relay are started on this machine. Individuals enrol, poll for a question that goes to everybody, and
report: a third of them directly, a third encapsulated to the referee's gateway, as a relay hands requests on, and a
third encapsulated to the relay before it. What is measured is the processor time of the referee for each request, and
of the relay; the sealing by agents, who do it once each, is made before the clock starts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks.enrolled import first_question
from common.core.machine import cpu_seconds
from common.crypto.identity import Signed
from common.net.oblivious.binary_http import InnerRequest, InnerResponse, padded
from common.net.oblivious.encapsulation import (
    GATEWAY,
    MAX_INNER,
    RELAY,
    REQUEST_BYTES,
    REQUEST_OVERHEAD,
    REQUEST_TYPE,
    SIGNED_KEYS,
    Exchange,
    KeyConfiguration,
    encapsulate,
    verified_keys,
)
from deploy.load.client import LightAgent, request
from deploy.load.phases import Load, phase
from deploy.load.testing import LoadTarget, Options, started
from deploy.remote import Remote, operating

PHASES = ("enrol", "poll", "report")
WAYS = ("direct", "gateway", "relay")
CONNECTIONS = 64

Plain = tuple[str, str, bytes, dict[str, str]]
"""Method, path, content and headers of a request."""


class Sealing:
    """Encapsulates agents' requests in advance, and opens the responses."""

    def __init__(self, configuration: KeyConfiguration, place: str, host: str) -> None:
        self._configuration, self._place, self._host = configuration, place, host
        self._open: dict[int, tuple[bytes, Exchange]] = {}

    def prepare(self, agents: list[LightAgent], ask: Callable[[LightAgent], Plain]) -> None:
        """Seal a request of each agent."""
        for agent in agents:
            method, path, content, headers = ask(agent)
            fields = tuple((name.lower().encode(), value.encode()) for name, value in headers.items())
            inner = InnerRequest(method.encode(), path.encode(), fields, content).encode()
            assert len(inner) <= MAX_INNER
            sent, exchange = encapsulate(self._configuration, padded(inner, REQUEST_BYTES, REQUEST_OVERHEAD))
            raw = request("POST", self._place, self._host, sent, {"Content-Type": REQUEST_TYPE})
            self._open[id(agent)] = raw, exchange

    def ask(self, agent: LightAgent) -> bytes:
        """Return an agent's encapsulated request."""
        return self._open[id(agent)][0]

    def opened(self, agent: LightAgent, body: bytes) -> bytes:
        """Return the referee's decrypted answer."""
        found = InnerResponse.decode(self._open[id(agent)][1].open(body))
        if found.status != 200:
            raise SystemExit(f"a request was answered {found.status}: {found.content[:200]!r}")
        return found.content


def measure(individuals: int) -> dict[str, Any]:
    """Return the cost of the requests of so many individuals, for each route."""
    everybody = Options(individuals=3 * individuals)
    chosen = everybody.scenario()
    with (
        tempfile.TemporaryDirectory(prefix="relayed-") as folder,
        started(chosen, Path(folder)) as target,
        relayed(target.url) as (relay, pid),
    ):
        return asyncio.run(_requests(target, relay, pid, chosen, individuals))


@contextmanager
def relayed(referee: str) -> Iterator[tuple[str, int]]:
    """Start a relay as a process of its own; yield its address and process."""
    command = [sys.executable, "-m", "local_agent.cli", "relay", "--referee", referee, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1], process.pid
    finally:
        process.terminate()
        process.communicate(timeout=20)


async def _requests(target: LoadTarget, relay: str, relay_pid: int, chosen: Any, count: int) -> dict[str, Any]:
    pid = None if target.process is None else target.process.process.pid
    assert pid is not None
    signed = Signed.model_validate_json(httpx.get(target.url + SIGNED_KEYS, trust_env=False).content)
    configuration = verified_keys(signed, signed.key)
    token = {"Authorization": f"Bearer {target.enrolment}"}
    plain: dict[str, Callable[[LightAgent], Plain]] = {
        "enrol": lambda agent: ("POST", "/v1/enrolments", agent.enrolment(), token),
        "poll": lambda agent: ("POST", "/v1/polls", agent.poll(), {}),
        "report": lambda agent: ("PUT", f"/v1/reports/{agent.report_id}", agent.sent, {}),
    }
    groups = {way: [LightAgent.fresh() for _ in range(count)] for way in WAYS}
    loads, sealings = {}, {}
    for way in WAYS:
        address = relay if way == "relay" else target.url
        parts = urlsplit(address)
        loads[way] = Load(str(parts.hostname), int(parts.port or 80), connections=CONNECTIONS, pid=pid)
        sealings[way] = Sealing(configuration, RELAY if way == "relay" else GATEWAY, parts.netloc)
    found: dict[str, dict[str, Any]] = {way: {} for way in WAYS}

    async def each(name: str) -> None:
        for way in WAYS:
            agents, sealing, ask = groups[way], sealings[way], plain[name]

            def answered(agent: LightAgent, answer: Any, way: str = way, sealing: Sealing = sealing) -> None:
                body = answer.body if way == "direct" else sealing.opened(agent, answer.body)
                if name == "poll":
                    agent.answer(body)

            def sent(agent: LightAgent, way: str = way, sealing: Sealing = sealing, ask: Any = ask) -> bytes:
                if way != "direct":
                    return sealing.ask(agent)
                method, path, content, headers = ask(agent)
                return request(method, path, urlsplit(target.url).netloc, content, headers)

            if way != "direct":
                sealing.prepare(agents, ask)
            before = cpu_seconds(relay_pid)
            done = await phase(name, loads[way], agents, sent, answered)
            document = done.document()
            if done.rejected:
                raise SystemExit(f"requests were refused: {dict(done.rejected)}")
            found[way][name] = {
                "referee_us": document["cpu_us_referee"],
                "relay_us": round((cpu_seconds(relay_pid) - before) / count * 1e6, 1) if way == "relay" else 0.0,
            }

    await each("enrol")
    with closing(Remote(target.url, target.operator)) as remote:
        await asyncio.to_thread(remote.create, chosen, 1, "relayed")
        first = replace(loads["direct"])
        method, path, content, headers = plain["poll"](groups["direct"][0])
        await first_question(first, request(method, path, urlsplit(target.url).netloc, content, headers))
        await each("poll")
        await each("report")
    with operating(target.url, target.operator) as at_referee:
        await asyncio.to_thread(at_referee.ask_to_cancel, "relayed")
    return {"individuals": count, "request_bytes": REQUEST_BYTES, "ways": found}


def table(found: dict[str, Any]) -> str:
    """Return the measurements as lines of text."""
    lines = ["request | directly | at the gateway | through a relay | of the relay itself   (us of processor time)"]
    for name in PHASES:
        ways = [found["ways"][way][name] for way in WAYS]
        costs = [f"{way['referee_us']:.0f}" for way in ways]
        lines.append(f"{name:7} | {costs[0]:>8} | {costs[1]:>14} | {costs[2]:>15} | {ways[2]['relay_us']:>19.0f}")
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--individuals", type=int, default=4000)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    began = time.monotonic()
    found = measure(chosen.individuals)
    found["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(found) if chosen.json else table(found))


if __name__ == "__main__":
    main()
