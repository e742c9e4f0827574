"""A private certificate authority and the certificates of all parties, in one directory to hand to each party.

::

    authority/  ca.pem ca.key                                     stays on this machine
    curator/    ca.pem server.pem server.key                      for the curator, which admits clients of ca.pem only
    referee/    ca.pem server.pem server.key client.pem client.key   for the referee, a client of the curator
    witness/    ca.pem server.pem server.key
    monitor/    ca.pem client.pem client.key                      for reading the curator's metrics, or probing it
    public/     ca.pem                                            for agents, hosts, operators: the trusted authority

A server certificate is not valid for a client, so no other service can impersonate the referee to the curator. Keys are
on P-256, in files that only their owner can read.
"""

import datetime
import inspect
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from common.core.durable import write_durably
from common.core.errors import BadInput

SERVERS = ("curator", "referee", "witness")  # services with a server certificate
CLIENTS = ("referee", "monitor")  # parties with a client certificate, for the curator
OWN_NAMES = ("localhost", "127.0.0.1", "::1")  # names of a service on its own machine
DAYS = 397  # default days for which a party's certificate is valid
AUTHORITY_LASTS = datetime.timedelta(days=3650)
SOON = datetime.timedelta(days=30)  # a certificate that expires within this time is renewed
SKEW = datetime.timedelta(hours=1)  # certificates are valid from this long before they are made: clocks differ

_SERVER, _CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True)
class WrittenCertificate:
    """The outcome for one certificate; ``fresh``: it was made now, else it is unchanged. Its end is in UTC."""

    path: Path
    fresh: bool
    ends: datetime.datetime


def names_of(hosts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of each service for its certificate: its own, this machine's, and those given; or BadInput.

    A host is ``NAME`` (for all services) or ``PARTY=NAME``; a name is a host name or an IP address.
    """
    by_party: dict[str, list[str]] = {party: [party, *OWN_NAMES] for party in SERVERS}
    for host in hosts:
        party, equals, name = host.rpartition("=")
        if equals and party not in SERVERS:
            raise BadInput(f"--host takes NAME or PARTY=NAME with a party of {', '.join(SERVERS)}; found {host!r}")
        _general(name)
        for service in [party] if equals else SERVERS:
            by_party[service].append(name)
    return {party: tuple(dict.fromkeys(names)) for party, names in by_party.items()}


def make_all(
    folder: Path, names: Mapping[str, tuple[str, ...]], *, days: int = DAYS, now: datetime.datetime | None = None
) -> list[WrittenCertificate]:
    """Make certificates that are missing, have other names, expire soon or are another authority's; keep the rest.

    BadInput if there is an authority that cannot be used: its key is missing or does not match, or it has expired.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    authority, outcome = _authority(folder / "authority", now)
    outcomes = [outcome]
    until = min(now + datetime.timedelta(days=days), authority.certificate.not_valid_after_utc)
    for party in dict.fromkeys((*SERVERS, *CLIENTS, "public")):
        if party in SERVERS:
            outcomes.append(authority.leaf(folder / party / "server.pem", names[party], _SERVER, now, until))
        if party in CLIENTS:
            outcomes.append(authority.leaf(folder / party / "client.pem", (party,), _CLIENT, now, until))
        target, content = folder / party / "ca.pem", (folder / "authority" / "ca.pem").read_bytes()
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return outcomes


def read(path: Path) -> x509.Certificate:
    """Read a certificate, or raise BadInput."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no certificate in PEM"
        raise BadInput(f"the certificate {path} cannot be read: {reason}") from None


def check_holds(path: Path, whose: str, now: datetime.datetime | None = None) -> None:
    """Raise BadInput for a certificate that is not valid now, stating its dates and what to do."""
    now, cert = now or datetime.datetime.now(datetime.UTC), read(path)
    remedy = "make another (referee certificates DIR), put it there and start again"
    if path.name == "ca.pem":
        remedy = "make another authority in a fresh directory (referee certificates DIR), and hand out what is in it"
    if now > cert.not_valid_after_utc:
        raise BadInput(f"the certificate of {whose} ({path}) ended on {cert.not_valid_after_utc:%Y-%m-%d}: {remedy}")
    if now < cert.not_valid_before_utc:
        raise BadInput(
            f"the certificate of {whose} ({path}) begins on {cert.not_valid_before_utc:%Y-%m-%d}: set this machine's "
            f"clock, or {remedy}"
        )


@dataclass(frozen=True)
class _Authority:
    """The authority's certificate and key, which signs the parties' certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def leaf(
        self,
        path: Path,
        names: tuple[str, ...],
        usage: x509.ObjectIdentifier,
        now: datetime.datetime,
        ends: datetime.datetime,
    ) -> WrittenCertificate:
        alt_names = x509.SubjectAlternativeName([_general(name) for name in names])
        if self._is_current(path, alt_names, now):
            return WrittenCertificate(path, False, read(path).not_valid_after_utc)
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        certificate = (
            _builder(_name(path.parent.name), self.certificate.subject, key.public_key(), now, ends, authority=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(alt_names, critical=False)
            .add_extension(issuer, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        _keep(path, certificate, key)
        return WrittenCertificate(path, True, ends)

    def _is_current(self, path: Path, alt_names: x509.SubjectAlternativeName, now: datetime.datetime) -> bool:
        try:
            certificate, key = read(path), _read_key(path.with_suffix(".key"))
            certificate.verify_directly_issued_by(self.certificate)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (BadInput, InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
            return False
        holds = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - SOON
        return names == alt_names and certificate.public_key() == key.public_key() and holds


def _authority(folder: Path, now: datetime.datetime) -> tuple[_Authority, WrittenCertificate]:
    path = folder / "ca.pem"
    if path.exists():
        check_holds(path, "this authority", now)
        certificate, key = read(path), _read_key(folder / "ca.key")
        if certificate.public_key() != key.public_key():
            raise BadInput(f"{folder / 'ca.key'} is not the key of {path}: put the right one back, or begin elsewhere")
        return _Authority(certificate, key), WrittenCertificate(path, False, certificate.not_valid_after_utc)
    key, name, ends = ec.generate_private_key(ec.SECP256R1()), _name("Tandem authority"), now + AUTHORITY_LASTS
    certificate = _builder(name, name, key.public_key(), now, ends, authority=True).sign(key, hashes.SHA256())
    _keep(path, certificate, key)
    return _Authority(certificate, key), WrittenCertificate(path, True, ends)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    ends: datetime.datetime,
    *,
    authority: bool,
) -> x509.CertificateBuilder:
    usage = dict.fromkeys(inspect.signature(x509.KeyUsage).parameters, False)
    usage |= dict.fromkeys(("key_cert_sign", "crl_sign") if authority else ("digital_signature",), True)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    labels = name.split(".")
    letters = all(label and label.replace("-", "").replace("_", "").isalnum() for label in labels)
    if not (name.isascii() and letters and len(name) <= 253):
        raise BadInput(f"a host is a name or an IP address, found {name!r}")
    return x509.DNSName(name)


def _keep(path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    plain = serialization.NoEncryption()
    raw = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    # The key first: after a crash between the two writes the next call finds that they do not match, and starts over.
    write_durably(path.with_suffix(".key"), raw, mode=0o600)
    write_durably(path, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no key in PEM, or one with a password"
        raise BadInput(f"the key {path} cannot be read: {reason}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadInput(f"the key {path} is not one that referee certificates has made")
    return key
