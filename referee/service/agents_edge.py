"""The fast path for the requests that agents send by the million: enrolments, polls and reports, handled in groups."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from common.core.errors import BadMessage, TandemError
from common.net import messages
from common.net.batching import Grouped
from common.net.edge import Admitted, Call, Opening, Reply
from common.net.messages import AnySigned, field, read
from referee.collection.judging import ReceivedReport, claims
from referee.collection.roster import HELD, may_hold, random_pause
from referee.service.referee import Referee

HOLD = 2.0  # seconds for which a poll is held until there is a question
MAX_BATCH = 2 << 20  # bytes of a batch of individual reports


class AgentsEdge:
    """Handles the agents' requests to a referee."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._enrol = Grouped(referee.registrar.enrol, "enrol")
        self._poll = Grouped(referee.collection.poll, "poll")
        self._report = Grouped(referee.take, "report", claims)
        self._decline = Grouped(referee.collection.decline, "decline")
        self._room = Grouped(referee.collection.room, "packed")
        self._news: asyncio.Event | None = None
        self._held = 0

    @property
    def groups(self) -> tuple[Grouped[Any], ...]:
        return self._enrol, self._poll, self._report, self._decline, self._room

    async def enrol(self, call: Call) -> Reply:
        self._enrol.check_room()
        self._referee.registrar.may_enrol(call.token)
        return _json(await self._enrol((_read(call.body, messages.Enrolment.KIND), call.token)))

    async def poll(self, call: Call) -> Reply:
        """Answer a poll with a question, or without one after some seconds."""
        self._poll.check_room()
        signed = _read(call.body, messages.Poll.KIND)
        news = self._listen()
        assignment = await self._poll(signed)
        if assignment is None and self._may_stay(signed.key):
            self._held += 1
            try:
                async with asyncio.timeout(HOLD):
                    while assignment is None:
                        await news.wait()
                        news = self._listen()
                        assignment = await self._poll(signed)
            except TimeoutError:
                pass
            finally:
                self._held -= 1
        if assignment is None:
            roster = self._referee.registrar.roster
            pause = 0.0 if self._may_stay(signed.key) else random_pause(len(roster))
            return Reply(204, headers=((b"retry-after", f"{pause:.1f}".encode()),))
        return _json(assignment)

    async def decline(self, call: Call) -> Reply:
        problem = await self._decline(_read(call.body, messages.Decline.KIND))
        if problem is not None:
            raise problem
        return Reply(204)

    async def packed(self, call: Call) -> Reply:
        """Take a hosted population's report, whose header is its first line; it is on disk when the receipt leaves."""
        signed = _read(call.line, messages.PackedReport.KIND, call.tail)
        receipt = await asyncio.to_thread(self._referee.report_packed, signed, call.body)
        return Reply(200, receipt.raw())

    async def packed_may_come(self, opening: Opening) -> Admitted:
        size = await self._room(_read(opening.line, messages.PackedReport.KIND, opening.tail))
        if isinstance(size, TandemError):
            raise size
        return Admitted(size)

    async def batch_may_come(self, opening: Opening) -> Admitted:
        self._referee.registrar.admits(opening.token)
        return Admitted(MAX_BATCH)

    async def report(self, call: Call) -> Reply:
        """Take an individual's report; it is on disk when this returns the receipt."""
        self._report.check_room()
        return _json(await self._report(ReceivedReport(_read(call.body, messages.Report.KIND, call.tail))))

    def _listen(self) -> asyncio.Event:
        """Return the event that is set when the next question is opened; all waiting polls share it."""
        if self._news is None:
            loop = asyncio.get_running_loop()
            self._news = asyncio.Event()
            self._referee.collection.questions.on_question = partial(loop.call_soon_threadsafe, self._announce)
        return self._news

    def _announce(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = asyncio.Event()

    def _may_stay(self, key: str) -> bool:
        return self._held < HELD and may_hold(self._referee.registrar.roster, key)


def _read(raw: bytes, kind: str, report_id: str | None = None) -> AnySigned:
    signed = read(raw)
    if signed.kind != kind:
        raise BadMessage(f"this resource takes a signed {kind!r}, found {signed.kind!r}")
    if report_id is not None and field(signed, "report_id") != report_id:
        raise BadMessage("the path and the message name different reports")
    return signed


def _json(outcome: bytes | TandemError) -> Reply:
    if isinstance(outcome, TandemError):
        raise outcome
    return Reply(200, outcome)
