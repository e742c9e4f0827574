"""The version of the protocol: parties with different versions refuse each other with an error that names both.

The number is in the run's configuration and, over HTTP, in the header :data:`HEADER` of each side.
"""

import re
from functools import cache

from common.core.errors import VersionSkew

PROTOCOL = 3  # the protocol of this version of Tandem
HEADER = "Tandem-Protocol"  # header of every request and response between parties: protocol number, then release
DISTRIBUTION = "tandem-hybrid"
BEFORE = "0.2.0 or older"  # releases that state no protocol over HTTP
RELEASES = {1: BEFORE, 2: "0.3.0"}
"""The releases with each protocol before :data:`PROTOCOL`, which can read its runs and state directories."""
REMEDY = "upgrade the older one of the two; a run that has begun is ended with the version that began it"
_STATED = re.compile(r"([0-9]{1,9}) tandem/([0-9A-Za-z.+-]{1,40})")


@cache
def release() -> str | None:
    """Return the installed release of Tandem; None for a checkout that is not installed."""
    from importlib import metadata  # imported only when needed

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None


@cache
def stated() -> str:
    """Return the value of :data:`HEADER` that this party sends."""
    return f"{PROTOCOL} tandem/{release() or 'unreleased'}"


def check_stated(header: str | None, peer: str) -> None:
    """Raise VersionSkew if a ``peer`` states another protocol than this one, or one that cannot be read.

    A missing header is accepted here: the peer is an older release, or no party at all.
    """
    if header is None or header == stated():
        return
    match = _STATED.fullmatch(header)
    if match is None:
        raise VersionSkew(f"{peer} states a protocol that cannot be read; {_this_version()}: {REMEDY}")
    if int(match[1]) != PROTOCOL:
        raise skew(peer, int(match[1]), match[2])


def release_of(protocol: int) -> str:
    """Return the releases with a protocol other than :data:`PROTOCOL`, in words that follow "Tandem"."""
    return RELEASES.get(protocol, BEFORE if protocol < PROTOCOL else "newer")


def older(what: str) -> str:
    """Return the message that a release before this protocol wrote something, and that nothing was changed."""
    return (
        f"{what} was written by Tandem {RELEASES[PROTOCOL - 1]} or older, and this is Tandem "
        f"{release() or 'unreleased'}, which does not read it. Nothing was changed."
    )


def skew(peer: str, protocol: int | None, peer_release: str) -> VersionSkew:
    """Return the error that names both versions; ``protocol`` and ``peer_release`` are the peer's."""
    speaks = "states no protocol" if protocol is None else f"speaks protocol {protocol}"
    return VersionSkew(f"{peer} {speaks} (Tandem {peer_release}), {_this_version()}: {REMEDY}")


def _this_version() -> str:
    return f"this side speaks {PROTOCOL} (Tandem {release() or 'unreleased'})"
