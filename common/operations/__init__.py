"""Operations: what a referee may ask of the curator, as data, each with its result. Registered.

A new one takes a file here, and a handler in :mod:`curator.operations`.
"""
