"""Addresses of services: how they are written and read."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

import httpx

from common.core.errors import BadInput

_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where a service may listen
"""What means all addresses of this machine, and the one of them that this machine itself dials."""


def written(host: str, port: int) -> str:
    """Return ``HOST:PORT`` as an address has it: a host of IPv6 stands in brackets (RFC 3986, section 3.2.2)."""
    host = host.replace("%", "%25")  # before the name of an interface (RFC 6874)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bare(host: str) -> str:
    """Return a host to listen on without the brackets that it has in an address."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def dialled(host: str) -> str:
    """Return the host under which this machine itself dials a service that listens on a host."""
    return _EVERYWHERE.get(bare(host), bare(host))


def is_address(text: str) -> bool:
    """Tell whether a text is meant as the address of a service."""
    return text.startswith(("http://", "https://"))


def read(url: str) -> SplitResult:
    """Return the parts of the address of a service, or raise BadInput."""
    if not is_address(url):
        raise BadInput(f"an address begins with http:// or https://, found {url!r}")
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0 and bool(httpx.URL(url).host)
        (parts.hostname or "").encode("idna")  # as whoever looks the name up does
    except (ValueError, httpx.InvalidURL):
        whole = False
    if not whole:
        raise BadInput(
            f"{url!r} is no address of a service: it is http://HOST:PORT, where HOST is a name or an address (in "
            "brackets if it is of IPv6, [::1]) and PORT a number from 1 to 65535"
        )
    return parts


def base(url: str) -> str:
    """Return the base address of a service, to which paths are appended; what is none is a BadInput."""
    read(url)
    return url.rstrip("/")
