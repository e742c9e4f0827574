"""For a query: entry points in the group ``tandem.queries``."""

from common.core.arrays import Floats, Indices, Words
from common.local.naming import Names
from common.local.queries.query import QUERIES, FrequencyQuery, Query
from common.local.records import Records

__all__ = ["QUERIES", "Floats", "FrequencyQuery", "Indices", "Names", "Query", "Records", "Words"]
