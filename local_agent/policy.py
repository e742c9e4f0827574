"""An agent's own rules. Nothing in a message can raise what they allow."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from common.core.errors import ConfigurationMismatch, PolicyRefused
from common.vocabulary.hypotheses.base import HYPOTHESES, hypothesis_kinds, ordinary_kinds
from common.vocabulary.mechanisms.base import LocalRandomizer, parse_mechanism
from common.vocabulary.queries.base import QUERIES, Query
from common.wire import messages
from common.wire.identity import Signed, verify

PINNED = (
    "the key that this agent has pinned: this is another referee, or one that has lost its key; only if you know why "
    "the key has changed, begin with a fresh --state"
)


@dataclass(frozen=True)
class Question:
    """A question that passed every check: safe to evaluate on the record."""

    assignment: messages.AnyAssignment
    query: Query
    mechanism: LocalRandomizer
    fingerprint: str


@dataclass(frozen=True)
class Policy:
    """What an agent agrees to, fixed before any message arrives.

    Attributes
    ----------
    referee
        The referee's public key.
    epsilon, delta
        Lifetime budget; one answer may use all of it, and there is one answer. Infinite epsilon: simulated people.
    queries
        Query kinds that are accepted.
    hypotheses
        Kinds of hypotheses that are accepted: by default all but those that a foreign library would have to read.
    """

    referee: str
    epsilon: float
    delta: float = 0.0
    queries: frozenset[str] = frozenset({"loss"})
    hypotheses: frozenset[str] = field(default_factory=ordinary_kinds)

    def check(self, assignment: Signed, configuration: Signed, dimension: int) -> Question:
        """Check a question in full, before the record is touched.

        Parameters
        ----------
        assignment, configuration
            As received from the referee.
        dimension
            Number of features that this agent's record has (public).

        Raises
        ------
        Forged
            If the pinned referee did not sign both.
        ConfigurationMismatch
            If the assignment belongs to another configuration.
        BadMessage
            If either is malformed: unknown kind or field, non-finite number, too large.
        PolicyRefused
            If the kind of query or hypothesis or the mechanism's cost is not accepted, the query needs features that
            the record lacks, or the mechanism cannot randomize what the query says.
        """
        agreed = messages.Configuration.parse(verify(configuration, messages.Configuration.KIND, self.referee, PINNED))
        form = messages.assignment_of(assignment.kind)
        message = verify(assignment, form.KIND, self.referee, PINNED)
        for hypothesis in sorted(hypothesis_kinds(message.get("query")) - self.hypotheses):
            # Before it is parsed: parsing is what this agent has not agreed to.
            raise PolicyRefused(
                f"hypothesis kind {hypothesis!r} is not accepted; accepted: {', '.join(sorted(self.hypotheses))}"
            )
        asked = form.parse(message)
        if asked.digest != agreed.fingerprint() or asked.run != agreed.run:
            raise ConfigurationMismatch("the question names another configuration than the one that this run published")
        query = asked.query
        if query.kind not in self.queries:
            raise PolicyRefused(
                f"query kind {query.kind!r} is not accepted; accepted: {', '.join(sorted(self.queries))}"
            )
        if query.min_features > dimension:
            raise PolicyRefused(f"the query needs {query.min_features} features, the record has {dimension}")
        agents = agreed.scenario.get("agents")
        mechanism = parse_mechanism(agents.get("mechanism") if isinstance(agents, dict) else None)
        mechanism.answer_kind(query.domain)
        epsilon, delta = mechanism.guarantee
        if epsilon > self.epsilon or (delta > self.delta and math.isfinite(self.epsilon)):
            raise PolicyRefused(
                f"an answer would cost (epsilon, delta) = ({epsilon:g}, {delta:g}), "
                f"the lifetime budget is ({self.epsilon:g}, {self.delta:g})"
            )
        return Question(asked, query, mechanism, assignment.fingerprint())


ALL_QUERIES = frozenset(QUERIES.names())
ALL_HYPOTHESES = frozenset(HYPOTHESES.names())
