"""Which protocol a party speaks: two versions that do not fit refuse each other by name.

The number stands in the run's configuration and, over HTTP, in the header :data:`HEADER` of each side.
"""

import re
from functools import cache

from common.core.errors import VersionSkew

PROTOCOL = 3  # the protocol that this version of Tandem speaks
HEADER = "Tandem-Protocol"  # of every request and response between parties: the protocol's number, then the release
DISTRIBUTION = "tandem-hybrid"
BEFORE = "0.2.0 or older"  # the releases that state no protocol over HTTP
RELEASES = {1: BEFORE, 2: "0.3.0"}
"""Which releases speak each protocol before :data:`PROTOCOL`: they read its runs and state directories."""
REMEDY = "upgrade the older one of the two; a run that has begun is ended with the version that began it"
_STATED = re.compile(r"([0-9]{1,9}) tandem/([0-9A-Za-z.+-]{1,40})")


@cache
def release() -> str | None:
    """Return the installed release of Tandem; None of a checkout that is not installed."""
    from importlib import metadata  # only where somebody asks

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None


@cache
def stated() -> str:
    """Return what this party says in :data:`HEADER`."""
    return f"{PROTOCOL} tandem/{release() or 'unreleased'}"


def check_stated(header: str | None, who: str) -> None:
    """Refuse a peer (``who``) that states another protocol than the one spoken here, or none that can be read.

    One without a header is a release before it, or no party at all.
    """
    if header is None or header == stated():
        return
    found = _STATED.fullmatch(header)
    if found is None:
        raise VersionSkew(f"{who} states a protocol that cannot be read; {_here()}: {REMEDY}")
    if int(found[1]) != PROTOCOL:
        raise skew(who, int(found[1]), found[2])


def release_of(protocol: int) -> str:
    """Return which releases speak another protocol than :data:`PROTOCOL`, in words that stand after "Tandem"."""
    return RELEASES.get(protocol, BEFORE if protocol < PROTOCOL else "newer")


def older(what: str) -> str:
    """Say that a release before this protocol wrote something, and that nothing was changed."""
    return (
        f"{what} was written by Tandem {RELEASES[PROTOCOL - 1]} or older, and this is Tandem "
        f"{release() or 'unreleased'}, which does not read it. Nothing was changed."
    )


def skew(who: str, protocol: int | None, its: str) -> VersionSkew:
    """Return the error that names both versions; ``protocol`` and release ``its`` are the peer's."""
    speaks = "states no protocol" if protocol is None else f"speaks protocol {protocol}"
    return VersionSkew(f"{who} {speaks} (Tandem {its}), {_here()}: {REMEDY}")


def _here() -> str:
    return f"this side speaks {PROTOCOL} (Tandem {release() or 'unreleased'})"
