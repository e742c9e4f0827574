"""What a protocol asks of its scenarios, for those who read a scenario without carrying the protocol out."""

from __future__ import annotations

from dataclasses import dataclass

from common.core.registry import Registry


@dataclass(frozen=True)
class Demands:
    """What a protocol asks of its scenarios; by default what Subsample-Test-Reweigh does.

    Attributes
    ----------
    reweighs
        The curator's sample is reweighed, on which the bound on the divergence rests. If not, the curator learns once,
        and all agents test what was learned.
    several_tasks
        It learns several things about the same people, if the scenario names them.
    """

    reweighs: bool = True
    several_tasks: bool = False


DEMANDS: Registry[Demands] = Registry("protocol's demands", __name__, optional=True)


def demands_of(protocol: str) -> Demands:
    """Return what a protocol asks for; the usual, if it declares nothing else."""
    return DEMANDS[protocol] if protocol in DEMANDS.names() else Demands()
