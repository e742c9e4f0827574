"""Who vouches for the people of a run, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from common.core.plain import plain
from referee.audit.agents import ByIssuer, Vouching


def vouching_lines(vouching: Vouching) -> Iterator[str]:
    """Yield who vouches for whom; nothing where no issuer does and none was given."""
    if not vouching.issuers:
        return
    for fingerprint, found in vouching.issuers.items():
        known = "" if found.pinned else ", which may be anybody (give the keys that you know from elsewhere: --issuer),"
        yield f"issuer {fingerprint[:16]}...{known} vouches for {_whom(found)}"
    alone = sum(vouching.hosts) + vouching.individuals
    if alone:
        parts = []
        if vouching.individuals:
            parts.append(f"{_individuals(vouching.individuals)}, on the referee's word alone")
        if vouching.hosts:
            several = f"{len(vouching.hosts):,} hosts" if len(vouching.hosts) > 1 else "a host"
            parts.append(f"{sum(vouching.hosts):,} people of {several}, on their host's word alone")
        yield f"nobody vouches for {', and for '.join(parts)}"
    if vouching.strangers:
        yield f"{vouching.strangers:,} answers are of people for whom no issuer vouches that is known from elsewhere"


def _whom(found: ByIssuer) -> str:
    parts = []
    if found.individuals or not found.hosts:
        parts.append(_individuals(found.individuals))
    parts += [f"{host.people:,} people of {plain(host.name)} (at most {host.most:,})" for host in found.hosts]
    return " and ".join(parts)


def _individuals(count: int) -> str:
    return f"{count:,} individual{'' if count == 1 else 's'}"


def vouching_document(vouching: Vouching) -> dict[str, Any]:
    """Return who vouches for whom as JSON: ``vouched_by`` is the referee alone where no issuer does."""
    if not vouching.issuers:
        return {"vouched_by": "referee"}
    return {
        "vouched_by": {
            fingerprint: {
                "pinned": found.pinned,
                "individuals": found.individuals,
                "hosts": [{"name": host.name, "people": host.people, "at_most": host.most} for host in found.hosts],
            }
            for fingerprint, found in vouching.issuers.items()
        },
        "not_vouched": {"individuals": vouching.individuals, "hosts": list(vouching.hosts)},
        "answers_not_vouched": vouching.strangers,
    }
