"""An agent's own policy. No message can extend what it allows."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from common.core import canonical
from common.core.errors import BadInput, BadMessage, ConfigurationMismatch, PolicyRefused
from common.core.plain import nearest
from common.crypto.identity import Signed, verify
from common.local.hypotheses.hypothesis import HYPOTHESES, hypothesis_kinds, ordinary_kinds
from common.local.mechanisms.mechanism import LocalRandomizer, parse_mechanism
from common.local.naming import UNNAMED, Names
from common.local.packing import AnswerKind
from common.local.queries.query import QUERIES, Query
from common.net import messages
from common.privacy.rounding import stated

PINNED = (
    "the key that this agent has pinned: this is another referee, or one that has lost its key; only if you know why "
    "the key has changed, begin with a fresh --state"
)


@dataclass(frozen=True)
class CheckedQuestion:
    """A question that passed every check, so that it may be evaluated on the record.

    ``digest`` is that of the assignment as it was signed, ``fingerprint`` that of the signed message. ``names`` come
    from the run's scenario; ``own_names`` states whether they equal those of the record. ``purpose`` is the scenario's
    title.
    """

    assignment: messages.AnyAssignment
    query: Query
    mechanism: LocalRandomizer
    digest: str
    fingerprint: str
    names: Names = UNNAMED
    own_names: bool = False
    purpose: str = ""

    @property
    def answer_kind(self) -> AnswerKind:
        return self.mechanism.answer_kind(self.query.domain)


def shipped_queries() -> frozenset[str]:
    """Return the kinds of queries that come with Tandem, without those of plug-ins; each is plain data."""
    return frozenset(QUERIES.shipped())


def chosen_queries(
    accept: Collection[str], refuse: Collection[str], usual: frozenset[str] | None = None
) -> frozenset[str]:
    """Return the accepted kinds of queries: ``accept`` if not empty, else ``usual``, without those of ``refuse``.

    ``usual`` is by default :func:`shipped_queries`. BadInput if a kind is unknown, or none remains.
    """
    kinds = QUERIES.names()
    for kind in (*accept, *refuse):
        if kind not in kinds:
            raise BadInput(f"no question is of kind {kind!r}{nearest(kind, kinds)}; known: {', '.join(kinds)}")
    left = (frozenset(accept) or (shipped_queries() if usual is None else usual)) - frozenset(refuse)
    if not left:
        raise BadInput("--accept and --refuse leave no kind of question that is accepted: leave one of them out")
    return left


@dataclass(frozen=True)
class PersonalPolicy:
    """The rules by which an agent accepts questions, fixed before any message arrives.

    Attributes:
        epsilon, delta: Lifetime budget of all answers together. Infinite epsilon: simulated people.
        queries: Kinds of queries that are accepted: by default all that come with Tandem.
        hypotheses: Kinds of hypotheses that are accepted: by default all except those that an external library parses.
        simulated: Whether the people are simulated: then mechanisms that do not protect real people are accepted.
    """

    referee: str
    epsilon: float
    delta: float = 0.0
    queries: frozenset[str] = field(default_factory=shipped_queries)
    hypotheses: frozenset[str] = field(default_factory=ordinary_kinds)
    simulated: bool = False

    def announced(self, dimension: int) -> messages.AgentPolicy:
        """Return the part of these rules that is sent to the referee at enrolment; it does not depend on the record."""
        private = math.isfinite(self.epsilon)
        return messages.AgentPolicy(
            refuses=tuple(sorted(shipped_queries() - self.queries)),
            epsilon=self.epsilon if private else None,
            delta=self.delta if private else None,
            features=dimension,
        )

    def check_cost(self, cost: tuple[float, float], left: tuple[float, float]) -> None:
        """Raise PolicyRefused if an answer costs more (epsilon, delta) than is left of the lifetime budget."""
        if cost[0] > left[0] or (cost[1] > left[1] and math.isfinite(self.epsilon)):
            rest = "" if left == (self.epsilon, self.delta) else f", of which ({left[0]:g}, {left[1]:g}) is left"
            raise PolicyRefused(
                f"an answer would cost (epsilon, delta) = ({stated(cost[0])}, {stated(cost[1])}), the lifetime budget "
                f"is ({self.epsilon:g}, {self.delta:g}){rest}"
            )

    def check(
        self,
        assignment: Signed,
        configuration: Signed,
        dimension: int,
        names: Names | None = None,
        left: tuple[float, float] | None = None,
    ) -> CheckedQuestion:
        """Validate a question in full, before the record is read.

        Forged if the pinned referee did not sign both. ConfigurationMismatch if the assignment belongs to another
        configuration. BadMessage if either is malformed: unknown kind or field, non-finite number, too large.
        PolicyRefused if the kind of query or hypothesis or the mechanism's cost is not accepted, the record has other
        columns, or too few, or the mechanism cannot randomize the query's values.

        Args:
            dimension: Number of features of this agent's record (public).
            names: Names of these features, if the record states them.
            left: Remaining lifetime budget; None: all of it.
        """
        verify(configuration, messages.Configuration.KIND, self.referee, PINNED)
        agreed = _agreed(configuration.payload)
        form = messages.assignment_of(assignment.kind)
        verify(assignment, form.KIND, self.referee, PINNED)
        message = assignment.content()
        for hypothesis in sorted(hypothesis_kinds(message.get("query")) - self.hypotheses):
            # Refuse before parsing: the agent has not agreed to parse this kind.
            raise PolicyRefused(
                f"hypothesis kind {hypothesis!r} is not accepted; accepted: {', '.join(sorted(self.hypotheses))}"
            )
        asked = form.parse_signed(message)
        if asked.digest != configuration.digest or asked.run != agreed.run:
            raise ConfigurationMismatch("the question names another configuration than the one that this run published")
        query = asked.query
        if query.kind not in self.queries:
            raise PolicyRefused(
                f"questions of kind {query.kind!r} are not accepted; accepted: {', '.join(sorted(self.queries))} "
                "(--accept and --refuse choose them)"
            )
        if query.min_features > dimension:
            raise PolicyRefused(f"the query needs {query.min_features} features, the record has {dimension}")
        stated = names_in(agreed.scenario)
        if names is not None and names != stated:
            raise PolicyRefused(
                "the run is about other columns than this record was made for: make the record for the scenario of "
                "this run (local-agent record)"
            )
        lifetime = self.epsilon, self.delta
        mechanism = _mechanism_in(configuration.payload).affordable(lifetime if left is None else left)
        mechanism.answer_kind(query.domain)
        self.check_cost(mechanism.guarantee, lifetime)
        if not (self.simulated or mechanism.for_real_people) and math.isfinite(self.epsilon):
            raise PolicyRefused(f"mechanism {mechanism.name!r} protects simulated people only")
        title = agreed.scenario.get("title")
        about = stated, names is not None, title if isinstance(title, str) else ""
        return CheckedQuestion(asked, query, mechanism, assignment.digest, assignment.fingerprint(), *about)


def own_slot(asked: messages.AnyAssignment) -> int:
    """Return the slot of the one person in an assignment to an individual; BadMessage if it is another assignment."""
    if isinstance(asked, messages.MassAssignment):
        raise BadMessage("an assignment to very many people is none for an individual agent")
    people, slots = messages.unpack_indices(asked.people), messages.unpack_indices(asked.slots)
    if people.tolist() != [0] or slots.size != 1:
        raise BadMessage("an assignment to an individual agent names its one person, 0, and one slot")
    return int(slots[0])


@lru_cache(maxsize=8)  # all questions of a run have the same configuration
def _agreed(configuration: bytes) -> messages.Configuration:
    return messages.Configuration.parse_signed(canonical.decode(configuration))


@lru_cache(maxsize=8)
def _mechanism_in(configuration: bytes) -> LocalRandomizer:
    agents = _agreed(configuration).scenario.get("agents")
    wire = agents.get("mechanism") if isinstance(agents, dict) else None
    mechanism = parse_mechanism(wire)
    mechanism.check_types(wire)
    return mechanism


def names_in(scenario: dict[str, Any]) -> Names:
    """Return the names that a scenario gives its people's records; :data:`UNNAMED` if they are no rows of a table."""
    target = scenario.get("target")
    table = target.get("table") if isinstance(target, dict) else None
    try:
        return UNNAMED if table is None else Names.of_table(table)
    except BadMessage:
        return UNNAMED


ALL_QUERIES = frozenset(QUERIES.names())
ALL_HYPOTHESES = frozenset(HYPOTHESES.names())
