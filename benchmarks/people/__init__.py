"""People needed, by the paper's bounds and by tight ones, each tight number run to its halt.

``python -m benchmarks.people`` does all of it; docs/people.md says what it shows.
"""
