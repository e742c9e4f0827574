"""A clock that stands still while the machine works, so that no deadline passes because the machine is busy."""

from dataclasses import dataclass

from common.core.machine import Schedule


@dataclass
class Clock:
    """Shows ``now``, in seconds; only :meth:`wait` moves it."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        """Let time pass, at once."""
        assert seconds >= 0.0
        self.now += seconds

    def schedule(self) -> Schedule:
        return Schedule(self, self.wait)
