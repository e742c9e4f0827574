"""No learner can take more than it declared: of each, also of those of plug-ins, twins that try to are stopped.

A twin is the learner's own code, with an access between that asks for more. It is run as the engine runs the learner,
by the event that the honest one is charged.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest

from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Learn
from common.privacy.events import NonPrivate
from curator.engine import Workspace
from curator.learners.base import LEARNERS, Learner, parse_learner
from curator.mechanisms.access import Overdrawn
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from tests.contracts import ONLY, entries
from tests.curator.learners.test_learner_contract import ALSO, SHORT, accepts
from tests.curator.mechanisms.greedy import CHEATS, Honest
from tests.tiers import for_each, thinned

N = 600
WAYS = {
    **{
        f"{name} {place}": {**example.wire(), **SHORT.get(name, {})}
        for name, kind in entries(LEARNERS)
        for place, example in enumerate(kind.example())
    },
    **({} if ONLY else ALSO),
}
PROMISING = sorted(way for way, wire in WAYS.items() if not isinstance(parse_learner(wire).event(1e-3), NonPrivate))


class Given(NamedTuple):
    workspace: Workspace
    learner: Learner


def given(way: str, cheat: type[Honest] | None) -> Given:
    """Return a workspace whose learner is the way's, or a twin of it."""
    learner = parse_learner(WAYS[way])
    if cheat is not None:
        honest = type(learner).learn

        def learn(self: Any, access: Any, previous: Any, public: Any = None) -> Any:
            return honest(self, cheat(access), previous, public)

        twin: Any = type("Twin", (type(learner),), {"learn": learn})
        learner = twin.parse(learner.wire())
    features: Any = np.random.default_rng(3).uniform(-1, 1, size=(N, 90 if "many" in way else 3)).astype(np.float32)
    if not accepts(lambda: learner.check(features.dtype, features.shape[1])):
        features = (features > 0.2).astype(np.uint8)
    records = Records(features, np.where(features[:, 0] > 0.2, 1, -1).astype(np.int8))
    public = records.take(np.arange(100))
    reweighing = Reweighing(N, 0.5, 0.1)
    return Given(Workspace(LocalSample.of(records), reweighing, learner, public=public), learner)


def run(found: Given) -> Any:
    operation = Learn(round=1)
    return found.workspace.run(operation, found.workspace.event(operation), RandomSource.seeded(1))


@for_each("way", PROMISING)
def test_a_twin_that_asks_for_no_more_is_the_learner(way: str) -> None:
    assert run(given(way, Honest)) == run(given(way, None))


@for_each("cheat", thinned(CHEATS, 4), ids=lambda cheat: cheat.__name__)
@for_each("way", PROMISING)
def test_a_twin_that_asks_for_more_releases_nothing(way: str, cheat: type[Honest]) -> None:
    with pytest.raises(Overdrawn):
        run(given(way, cheat))
