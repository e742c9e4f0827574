"""What the protocol of this package asks of both sides: all that a curator needs to know of it."""

from __future__ import annotations

from tandem.extend import DEMANDS, Demands, agents, curator, sequence

PATTERN = sequence(curator("learn"), curator("example-count-inside"), agents("example-inside"), agents("loss"))

DEMANDS.register("example-compare")(Demands(PATTERN))
