"""What somebody may have meant by a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 80
"""Characters of a name that is compared with others; messages from the network may hold far longer ones."""


def nearest(name: object, known: Iterable[str]) -> str:
    """Return `` (did you mean 'sgd'?)`` where a known name is close, to be put behind the wrong one; else nothing."""
    if not isinstance(name, str) or len(name) > LONGEST:
        return ""
    import difflib  # only where something is wrong

    near = difflib.get_close_matches(name, list(known), 1, 0.65)
    return f" (did you mean {near[0]!r}?)" if near else ""
