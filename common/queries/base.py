"""What every query can do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

from pydantic import BeforeValidator, SerializeAsAny

from common.arrays import Floats, Indices
from common.records import Records
from common.registry import Vocabulary
from common.values import Value


class Query(Value):
    """A map from one record (and the agent's public slot number) to a value in [0, 1], as a frozen value."""

    kind: str

    @property
    @abstractmethod
    def least_dimension(self) -> int:
        """Smallest number of features that a record must have."""

    @abstractmethod
    def evaluate(self, records: Records, slots: Indices) -> Floats:
        """Evaluate on each record.

        Parameters
        ----------
        records
            n records.
        slots
            Shape (n,): each agent's public position in its batch; a query may ask different positions different things.

        Returns
        -------
        Shape (n,), float64. Agents clamp to [0, 1] and treat NaN as 0: a query need not be trusted.
        """


QUERIES: Vocabulary[Query] = Vocabulary("query", "common.queries", "kind")
parse_query = QUERIES.parse
AnyQuery = Annotated[SerializeAsAny[Query], BeforeValidator(QUERIES.accept)]
"""A field of a value that holds any registered query."""
