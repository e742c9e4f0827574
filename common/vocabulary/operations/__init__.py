"""Operations: what a referee may ask of the curator, as data, each with its result. One operation a file, registered.

A new one takes a file here, and one in :mod:`curator.operations` that carries it out.
"""
