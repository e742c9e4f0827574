"""Addresses of services, and TLS 1.3: contexts, certificates of each side, and the TLS stream of a connection.

A service has its own certificate; the curator also refuses clients without one that its own authority has issued. A
client trusts the authority that it is configured with, or those of its system.
"""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import httpx

from common.core.errors import BadInput

CA = "TANDEM_TLS_CA"  # environment variable: file of the trusted authorities, like ``--tls-ca``
CLIENT_CERT = "TANDEM_TLS_CLIENT_CERT"  # environment variable: file of the client certificate for the curator
CLIENT_KEY = "TANDEM_TLS_CLIENT_KEY"  # environment variable: file of its key, by default beside it (``.key``)
CERT = "TANDEM_TLS_CERT"  # environment variable: file of the certificate of a service
KEY = "TANDEM_TLS_KEY"  # environment variable: file of its key (default: beside it, with the ending ``.key``)
CLIENT_CA = "TANDEM_TLS_CLIENT_CA"  # environment variable: file of the authorities whose clients a curator admits
OF_SERVICES = (CERT, KEY, CLIENT_CA)  # variables for one service, not passed on to processes that it starts
HANDSHAKE = 0x16  # the first byte of every TLS connection (RFC 8446, 5.1)
_RECORD = 1 << 12  # bytes passed to TLS at once: its buffers stay as large as the largest piece they have held
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where a service may listen
"""Wildcard addresses to listen on, and for each the address at which this machine itself connects."""


def host_port(host: str, port: int) -> str:
    """Return ``HOST:PORT`` as in a URL: an IPv6 host is in brackets (RFC 3986, section 3.2.2)."""
    host = host.replace("%", "%25")  # the separator before an interface's name (RFC 6874)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bare_host(host: str) -> str:
    """Return a host to listen on without the brackets that it has in a URL."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def dialled_host(host: str) -> str:
    """Return the host at which this machine itself reaches a service that listens on ``host``."""
    return _EVERYWHERE.get(bare_host(host), bare_host(host))


def is_address(text: str) -> bool:
    """Return whether a text is meant as the address of a service."""
    return text.startswith(("http://", "https://"))


def read_address(url: str) -> SplitResult:
    """Return the parts of the address of a service, or raise BadInput."""
    if not is_address(url):
        raise BadInput(f"an address begins with http:// or https://, found {url!r}")
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and parts.port != 0 and bool(httpx.URL(url).host)
        (parts.hostname or "").encode("idna")  # as name resolution does
    except (ValueError, httpx.InvalidURL):
        valid = False
    if not valid:
        raise BadInput(
            f"{url!r} is no address of a service: it is http://HOST:PORT, where HOST is a name or an address (in "
            "brackets if it is of IPv6, [::1]) and PORT a number from 1 to 65535"
        )
    return parts


def base_address(url: str) -> str:
    """Return the base address of a service, to which paths are appended; BadInput if it is not valid."""
    read_address(url)
    return url.rstrip("/")


@dataclass(frozen=True)
class CertificateFiles:
    """A certificate and its key, in files; ``whose`` is for messages: ``this curator``, ..."""

    whose: str
    certificate: Path
    key: Path

    @classmethod
    def of(cls, whose: str, certificate: Path, key: Path | None) -> CertificateFiles:
        """Return a pair; by default the key is beside the certificate."""
        return cls(whose, certificate, key or certificate.with_suffix(".key"))

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load the pair into a context; BadInput if it cannot be read, does not match or is not valid now."""
        from common.net.certificates import check_holds

        check_holds(self.certificate, self.whose)
        try:
            with self.key.open("rb"):
                pass  # checked here because the error below does not say which file is missing
            context.load_cert_chain(self.certificate, self.key)
        except ssl.SSLError:
            raise BadInput(
                f"{self.key} is not the key of {self.certificate} ({self.whose}): name the one that was made with it"
            ) from None
        except OSError as error:
            raise BadInput(f"the key {self.key} of {self.whose} cannot be read: {error.strerror}") from None


def server_context(certificate: CertificateFiles, clients: Path | None = None) -> ssl.SSLContext:
    """Return the TLS context of a service; with ``clients``, only clients of these authorities are admitted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # no session tickets, by which an eavesdropper could link two connections of an agent
    certificate.load_into(context)
    if clients is not None:
        _trust(context, clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(ca: Path | None, certificate: CertificateFiles | None = None) -> ssl.SSLContext:
    """Return the TLS context of a client, which trusts the authorities in ``ca``, or those of the system."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if ca is None:
        context.load_default_certs()
    else:
        _trust(context, ca)
    if certificate is not None:
        certificate.load_into(context)
    return context


def context_for(url: str, *, party: str, shows: bool) -> ssl.SSLContext | None:
    """Return the TLS context for an address, from this process's environment; None for an unencrypted connection.

    The certificate of :data:`CLIENT_CERT` is used only if ``shows``, for parties that require it.

    Raises:
        BadInput: If a file cannot be used, or an authority is named and the address is ``http://`` of another machine.
    """
    ca = os.environ.get(CA) or None
    if not url.startswith("https://"):
        host = read_address(url).hostname or ""
        if ca is not None and not (host == "localhost" or is_loopback(host)):
            raise BadInput(
                f"an authority is named ({CA}, --tls-ca), and {url!r} would be dialled without TLS: write https:// for "
                f"the {party}, or name no authority"
            )
        return None
    files = None
    if shows and (certificate := os.environ.get(CLIENT_CERT)):
        key = os.environ.get(CLIENT_KEY)
        files = CertificateFiles.of(f"this client of the {party}", Path(certificate), Path(key) if key else None)
    return client_context(None if ca is None else Path(ca), files)


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address of this machine."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def _trust(context: ssl.SSLContext, authorities: Path) -> None:
    try:
        context.load_verify_locations(authorities)
    except ssl.SSLError:
        raise BadInput(f"{authorities} holds no certificate of an authority in PEM") from None
    except OSError as error:
        raise BadInput(f"the authority's certificate {authorities} cannot be read: {error.strerror}") from None


# What went wrong ----------------------------------------------------------------------------------------------------

_REFUSES_OURS = ("_CERTIFICATE", "ALERT_UNKNOWN_CA", "ALERT_ACCESS_DENIED", "ALERT_DECRYPT_ERROR")
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH")
_OLDER = ("ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL")


def fault_of(error: BaseException | None) -> str | None:
    """Return why TLS failed and what to do, as the end of a sentence about the peer; None for any other error."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"shows a certificate {_FAULTS.get(error.verify_code, _UNTRUSTED).format(error.verify_message)}"
    reason = (error.reason or "") if error is not None else ""
    if "ALERT_CERTIFICATE_REQUIRED" in reason:
        return (
            f"speaks only to who shows a certificate of its authority: name one with --tls-client-cert ({CLIENT_CERT})"
        )
    if "ALERT" in reason and any(word in reason for word in _REFUSES_OURS):
        return (
            f"does not accept the certificate that it is shown ({reason.lower().replace('_', ' ')}): name one of the "
            f"authority that it admits (--tls-client-cert here, --tls-client-ca there)"
        )
    if any(word in reason for word in _NO_TLS):
        return "does not speak TLS: write http:// for it, or start it with --tls-cert"
    if any(word in reason for word in _OLDER):
        return "speaks no TLS 1.3: update what listens there"
    return None


_OTHER_NAME = "for another name ({}): dial a name that it has, or make one with --host NAME (referee certificates DIR)"
_FAULTS = {
    10: "that has ended: its operator makes another (referee certificates DIR) and starts it again",
    9: "that has not begun: compare the clocks of both machines",
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
"""What is wrong with a certificate, by OpenSSL's ``X509_V_ERR_...``; any other number is about its authority."""
_UNTRUSTED = "of an authority that is not trusted here ({}): name the file of its authority with --tls-ca (" + CA + ")"


class TlsStream:
    """The TLS layer of one connection, between the bytes on the wire and those of HTTP.

    A connection counts from before its handshake, and a TLS error is answered by an alert.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object: ssl.SSLObject | None = None  # some 50 KiB, so only once a handshake has begun
        self.begun = self.established = self.ended = False

    def decrypt(self, data: bytes) -> bytes:
        """Return the plaintext of complete records; then send :meth:`outgoing`, an alert after an ssl.SSLError."""
        if self._object is None:
            self._object = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
            self.begun = True
        plain: list[bytes] = []
        for start in range(0, len(data), _RECORD):
            self._incoming.write(data[start : start + _RECORD])
            try:
                if not self.established:
                    self._object.do_handshake()
                    self.established = True
                while piece := self._object.read(_RECORD):
                    plain.append(piece)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLZeroReturnError:
                self.ended = True
        return b"".join(plain)

    def encrypt(self, data: bytes) -> bytes:
        """Return the records that encrypt some bytes; empty before the handshake is over."""
        if self._object is None or not self.established:
            return b""
        sealed, view = [], memoryview(data)
        for start in range(0, len(view), _RECORD):
            self._object.write(view[start : start + _RECORD])
            sealed.append(self._outgoing.read())
        return b"".join(sealed)

    def outgoing(self) -> bytes:
        return self._outgoing.read()

    def end(self) -> bytes:
        """Return the close notification and drop the keys; data still to be sent is encrypted already."""
        if self._object is not None and self.established:
            with suppress(ssl.SSLError):
                self._object.unwrap()
        self._object, self.established = None, False
        return self._outgoing.read()
