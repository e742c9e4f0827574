"""Operations: registered requests of a referee to the curator, as data, each with its result.

A new one needs a class in this package, and a handler in :mod:`curator.operations`.
"""
