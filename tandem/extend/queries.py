"""For a query: entry points in the group ``tandem.queries``."""

from common.core.arrays import Floats, Indices, Words
from common.vocabulary.naming import Names
from common.vocabulary.queries.base import QUERIES, FrequencyQuery, Query
from common.vocabulary.records import Records

__all__ = ["QUERIES", "Floats", "FrequencyQuery", "Indices", "Names", "Query", "Records", "Words"]
