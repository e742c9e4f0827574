"""The curator's private sample: rows of several kinds, in shards, with the score of each record."""
