"""The options about TLS that commands have in common; each is an environment variable as well.

What a client believes and shows is kept in this process's environment, whether it came from there or from an option:
then whatever is dialled from here, in this process or one that it starts, is dialled alike.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from common.core.errors import BadInput
from common.service import tls


def _kept(name: str) -> Callable[[Path | None], Path | None]:
    def keep(value: Path | None) -> Path | None:
        if value is not None:
            os.environ[name] = str(value.absolute())
        return value

    return keep


def _file(option: str, variable: str, help: str, *, kept: bool = False) -> Any:
    """Return an option that names a file; what a client is made of is ``kept`` in the environment."""
    callback = _kept(variable) if kept else None
    return typer.Option(option, envvar=variable, callback=callback, help=help, show_default=False)


TlsCa = Annotated[
    Path | None,
    _file(
        "--tls-ca",
        tls.CA,
        "File of the authority that https:// services must be certified by (default: the system's).",
        kept=True,
    ),
]
TlsClientCert = Annotated[
    Path | None,
    _file(
        "--tls-client-cert",
        tls.CLIENT_CERT,
        "File of the certificate that is shown to the curator, and to nobody else.",
        kept=True,
    ),
]
TlsClientKey = Annotated[
    Path | None,
    _file("--tls-client-key", tls.CLIENT_KEY, "File of its key (default: beside it, with the ending .key).", kept=True),
]
TlsCert = Annotated[
    Path | None,
    _file(
        "--tls-cert",
        tls.CERT,
        "File of this service's certificate: it then speaks TLS (referee certificates makes one).",
    ),
]
TlsKey = Annotated[
    Path | None,
    _file("--tls-key", tls.KEY, "File of its key (default: beside it, with the ending .key)."),
]
TlsClientCa = Annotated[
    Path | None,
    _file(
        "--tls-client-ca", tls.CLIENT_CA, "Speak only to clients with a certificate of the authorities in this file."
    ),
]


def serving(party: str, cert: Path | None, key: Path | None, clients: Path | None = None) -> ssl.SSLContext | None:
    """Return how a service speaks TLS; None if no certificate is given.

    Raises
    ------
    BadInput
        If a file cannot be used, or one is given that means nothing without a certificate.
    """
    if cert is not None:
        return tls.server_context(tls.Shown.of(f"this {party}", cert, key), clients)
    for option, given in (("--tls-key", key), ("--tls-client-ca", clients)):
        if given is not None:
            raise BadInput(f"{option} is for a {party} that speaks TLS: name its certificate with --tls-cert")
    return None
