"""Message patterns of the protocols that learn a hypothesis with a small loss; their plan is the scenario's own."""

from __future__ import annotations

from common.protocols.base import DEMANDS, Demands
from common.protocols.patterns import agents, curator, many, maybe, sequence, some

PATTERN = many(sequence(curator("learn"), some(agents("loss")), maybe(curator("reweigh"))))

DEMANDS.register("subsample-test-reweigh")(Demands(PATTERN, transfers=True, answers="value"))


DEMANDS.register("hand-over")(Demands(PATTERN, several_tasks=True, answers="value"))


DEMANDS.register("learn-and-test")(
    Demands(
        sequence(curator("learn"), agents("loss")),
        reweighs=False,
        claims=False,
        transfers=True,
        answers="value",
    )
)


DEMANDS.register("model-agnostic")(
    Demands(
        sequence(curator("label"), agents("loss")),
        reweighs=False,
        answers="value",
    )
)


DEMANDS.register("local-averages")(
    Demands(
        sequence(agents("moment"), agents("loss")),
        claims=False,
        answers="value",
    )
)


DEMANDS.register("local-gradient-descent")(
    Demands(
        sequence(some(agents("gradient")), agents("loss")),
        claims=False,
        answers="value",
    )
)
