"""Work that is cheaper in groups: what several requests bring is handed to one function, off the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from common.core.errors import Busy
from common.service.metrics import ITEMS, SECONDS, Histogram

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

MOST = 512
"""Items of one group, at most."""
WAITING = 8192
"""Items that may wait, some seconds of work; a further one is told to come again."""


class Grouped(Generic[Item, Outcome]):
    """One group after the other: while one is worked on, the next one gathers. Alone, an item waits for nobody.

    Parameters
    ----------
    work
        Called in a thread with a group; returns an outcome for each of its items. What it raises, all of them get.
    """

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Outcome]], name: str) -> None:
        self._work = work
        self._pool = ThreadPoolExecutor(1, name)
        self._items: list[tuple[Item, asyncio.Future[Outcome]]] = []
        self._busy = False
        self.name = name
        self.seconds = Histogram(SECONDS, "kind")
        self.sizes = Histogram(ITEMS, "kind")

    @property
    def waiting(self) -> int:
        """How many items wait for a group."""
        return len(self._items)

    def check_room(self) -> None:
        """Refuse a further item before any work is done for it.

        Raises
        ------
        Busy
            If too many items wait already.
        """
        if len(self._items) >= WAITING:
            raise Busy(f"{WAITING} requests of this kind wait already")

    async def __call__(self, item: Item) -> Outcome:
        """Return what becomes of an item.

        Raises
        ------
        Busy
            If too many items wait already.
        """
        self.check_room()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._items.append((item, future))
        if not self._busy:
            self._begin()
        return await future

    def _begin(self) -> None:
        group, self._items = self._items[:MOST], self._items[MOST:]
        self._busy = True
        began = time.monotonic()
        done = asyncio.get_running_loop().run_in_executor(self._pool, self._work, [item for item, _ in group])

        def ended(finished: asyncio.Future[Sequence[Outcome]]) -> None:
            self.seconds.observe(time.monotonic() - began, self.name)
            self.sizes.observe(len(group), self.name)
            self._finish(group, finished)

        done.add_done_callback(ended)

    def _finish(
        self, group: list[tuple[Item, asyncio.Future[Outcome]]], finished: asyncio.Future[Sequence[Outcome]]
    ) -> None:
        self._busy = False
        if self._items:
            self._begin()
        error = finished.exception()
        outcomes = [None] * len(group) if error is not None else finished.result()
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.cancelled():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(outcome)  # type: ignore[arg-type]  # an outcome for each item
