"""Work in groups: everybody gets their own outcome, in any order of arrival, and nobody waits for a group to fill."""

import asyncio
import threading

import pytest

from common.core.errors import Busy
from common.net import batching
from common.net.batching import Grouped


@pytest.mark.asyncio
async def test_everybody_gets_their_own_outcome_and_what_waits_is_one_group():
    sizes: list[int] = []
    gate = threading.Event()

    def work(items):
        sizes.append(len(items))
        gate.wait(60)
        return [item * item for item in items]

    grouped = Grouped(work, "squares")
    first = asyncio.ensure_future(grouped(1))
    await asyncio.sleep(0)
    rest = [asyncio.ensure_future(grouped(n)) for n in range(2, 1000)]
    await asyncio.sleep(0)
    gate.set()
    assert [await first, *await asyncio.gather(*rest)] == [n * n for n in range(1, 1000)]
    assert sizes == [1, batching.MOST, 998 - batching.MOST]


@pytest.mark.asyncio
async def test_too_many_are_told_to_come_again(monkeypatch):
    monkeypatch.setattr(batching, "WAITING", 3)
    gate = threading.Event()

    grouped: Grouped[int, bool] = Grouped(lambda items: [gate.wait(60) for _ in items], "slow")
    asked = [asyncio.ensure_future(grouped(n)) for n in range(10)]
    await asyncio.sleep(0)
    gate.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(outcome, Busy) for outcome in found) == 6
    assert Busy("x").status == 503


@pytest.mark.asyncio
async def test_a_group_is_checked_while_the_one_before_is_worked_on():
    """The second group's check ends the first one's work: one after the other would wait for ever."""
    checked = threading.Event()

    def check(items):
        if 1 not in items:
            checked.set()
        return [str(item) for item in items]

    def work(items):
        if "1" in items:
            assert checked.wait(60)
        return [item + "!" for item in items]

    grouped: Grouped[int, str] = Grouped(work, "numbers", check)
    first = asyncio.ensure_future(grouped(1))
    await asyncio.sleep(0)
    rest = [asyncio.ensure_future(grouped(n)) for n in range(2, 50)]
    assert [await first, *await asyncio.gather(*rest)] == [f"{n}!" for n in range(1, 50)]


@pytest.mark.parametrize("where", ["check", "work"])
@pytest.mark.asyncio
async def test_what_a_stage_raises_its_group_gets(where):
    def fails(stage):
        def run(items):
            if stage == where and "bad" in items:
                raise OSError("disk full")
            return items

        return run

    grouped: Grouped[str, str] = Grouped(fails("work"), "strings", fails("check"))
    gone = asyncio.ensure_future(grouped("gone"))
    await asyncio.sleep(0)
    gone.cancel()  # who gives up disturbs nobody
    with pytest.raises(OSError, match="disk full"):
        await grouped("bad")
    assert await asyncio.gather(*(grouped(f"later {n}") for n in range(3))) == [f"later {n}" for n in range(3)]
