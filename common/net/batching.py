"""Batch processing: the items of several requests are passed together to one function, off the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from common.core.errors import Busy
from common.core.threads import Supervised, Worker
from common.net.monitoring import ITEMS, SECONDS, Histogram

Outcome = TypeVar("Outcome")

MOST = 512  # most items of one group
WAITING = 8192  # most waiting items, some seconds of work; a further one gets Busy and may retry


class Grouped(Generic[Outcome]):
    """Processes groups one after the other; while one is processed, the next gathers. A single item does not wait.

    Args:
        work: Called in a thread with a group; returns an outcome for each item. If it raises, all items get that.
        check: Called with a group before ``work``, in a thread of its own, while ``work`` is busy with the previous
            group. Returns for each item what to pass to ``work``; by default the item itself.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Any]], Sequence[Outcome]],
        name: str,
        check: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
    ) -> None:
        self._work = _Stage(work, name)
        self._check = None if check is None else _Stage(check, f"{name}-check")
        self._items: list[tuple[Any, asyncio.Future[Outcome]]] = []
        self._checked: tuple[Sequence[Any], Sequence[asyncio.Future[Outcome]]] | None = None
        self.name = name
        self.seconds = Histogram(SECONDS, "kind")
        self.sizes = Histogram(ITEMS, "kind")

    @property
    def threads(self) -> list[Supervised]:
        return [stage.pool.threads for stage in (self._work, self._check) if stage is not None]

    @property
    def waiting(self) -> int:
        return len(self._items)

    def check_room(self) -> None:
        """Raise Busy if too many items wait already, before any work is done for a further one."""
        if len(self._items) >= WAITING:
            raise Busy(f"{WAITING} requests of this kind wait already")

    async def __call__(self, item: Any) -> Outcome:
        """Return the outcome of an item, or raise Busy."""
        self.check_room()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._items.append((item, future))
        self._go_on()
        return await future

    def _go_on(self) -> None:
        """Start the stages that can run: each has one group at a time, and at most one group waits between them."""
        if not self._work.busy and self._checked is not None:
            checked, self._checked = self._checked, None
            self._begin(self._work, *checked, self._finish)
        first, following = (self._work, self._finish) if self._check is None else (self._check, self._hand_on)
        if not first.busy and self._checked is None and self._items:
            group, self._items = self._items[:MOST], self._items[MOST:]
            self._begin(first, [item for item, _ in group], [future for _, future in group], following)

    def _begin(
        self,
        stage: _Stage,
        items: Sequence[Any],
        futures: Sequence[asyncio.Future[Outcome]],
        following: Callable[[Sequence[Any], Sequence[asyncio.Future[Outcome]]], None],
    ) -> None:
        stage.busy = True
        began = time.monotonic()

        def on_end(finished: asyncio.Future[Sequence[Any]]) -> None:
            stage.busy = False
            self.seconds.observe(time.monotonic() - began, stage.name)
            self.sizes.observe(len(items), stage.name)
            error = finished.exception()
            if error is None:
                following(finished.result(), futures)
            self._go_on()
            if error is not None:
                for future in futures:
                    if not future.cancelled():
                        future.set_exception(error)

        asyncio.get_running_loop().run_in_executor(stage.pool, stage.work, items).add_done_callback(on_end)

    def _hand_on(self, checked: Sequence[Any], futures: Sequence[asyncio.Future[Outcome]]) -> None:
        self._checked = checked, futures

    def _finish(self, outcomes: Sequence[Outcome], futures: Sequence[asyncio.Future[Outcome]]) -> None:
        self._go_on()  # before the outcomes are delivered, because a thread is idle
        for future, outcome in zip(futures, outcomes, strict=True):
            if not future.cancelled():
                future.set_result(outcome)


class _Stage:
    def __init__(self, work: Callable[[Sequence[Any]], Sequence[Any]], name: str) -> None:
        self.work = work
        self.name = name
        self.pool = Worker(name)
        self.busy = False
