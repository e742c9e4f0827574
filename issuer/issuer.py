"""An issuer: invitation codes, keys, blind signatures for holders of a code, and grants for hosts."""

import hashlib
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Column, MetaData, String, Table, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from common.core.database import DatabaseSchema, alone, open_database, sqlite_url
from common.core.durable import hold, make_folder, write_durably, write_once
from common.core.errors import BadInput, CannotWrite, Conflict, TandemError, Unauthorized
from common.core.folder import read_own
from common.crypto.blindrsa import blind_sign, check_blinded
from common.crypto.identity import Identity, Signed
from common.crypto.vouching import MODULUS, Grant, IssuerKey, blinded_in, read_issuer
from common.net.app import BYTES_SCHEMA, BearerToken, Service, body_of, create_app
from common.net.edge import TINY
from common.net.monitoring import disk
from common.net.tokens import invitation, invitation_hash


class Issuer:
    """One issuer, with exclusive use of a state directory (BadInput if another process serves from it).

    It sees only the blinded message of a credential, which is independent of it (:mod:`common.crypto.blindrsa`).
    """

    def __init__(self, folder: Path) -> None:
        self._lock = hold(folder)
        self._keys = Keys(folder)
        self._codes = InvitationCodes(folder)
        self.public: IssuerKey = self._keys.public

    def close(self) -> None:
        self._codes.close()
        self._lock.close()

    def issue(self, code: str, request: bytes) -> bytes:
        """Return the blind signature for a token request; the same request again gets the same signature.

        The use of the code is on disk before the signature is returned.

        Raises:
            BadMessage: If it is no token request for this issuer's key; the code stays unused.
            Unauthorized, Conflict: As for :meth:`InvitationCodes.use`.
        """
        blinded = blinded_in(self.public, request)
        check_blinded(self._keys.tokens, blinded)
        self._codes.use(code, request)  # before signing: a request without a valid code costs only a table look-up
        return blind_sign(self._keys.tokens, blinded)


def is_state(folder: Path) -> bool:
    """Return whether a folder is an issuer's state directory: it holds codes, keys or both."""
    return any((folder / name).exists() for name in (CODES_FILE, TOKENS_FILE))


def grant(folder: Path, host: str, name: str, people: int) -> Signed:
    """Return an issuer's grant for a host; the issuer may serve at the same time."""
    message = Grant.parse({"host": host, "name": name, "people": people})
    return Keys(folder).grants.sign(message.KIND, message.wire())


CODES_FILE, TOKENS_FILE = "codes.sqlite", "tokens.key"  # files in the state directory
USING = 1  # the lock number (:func:`common.core.database.alone`) under which codes are made and used


CODES = Table(
    "codes", MetaData(), Column("sha256", String(64), primary_key=True), Column("request", String(64), nullable=True)
)
"""Invitation codes, and the request that each was used for."""
SCHEMA = DatabaseSchema("the issuer's database", CODES.metadata)


class InvitationCodes:
    """The codes of the issuer with a state directory."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder, mode=0o700)
        # No write-ahead log beside the file: all commits are in it, so a copy of the file is complete.
        self._engine = open_database(sqlite_url(folder / CODES_FILE), SCHEMA, log=False)

    def close(self) -> None:
        self._engine.dispose()

    def invite(self, count: int) -> list[str]:
        """Create and return ``count`` codes; they cannot be shown again."""
        codes = [invitation() for _ in range(count)]
        rows: list[dict[str, Any]] = [{"sha256": invitation_hash(code)} for code in codes]
        with self._engine.begin() as connection:
            alone(connection, USING)
            connection.execute(insert(CODES), rows)
        return codes

    def use(self, code: str, request: bytes) -> None:
        """Use a code for a token request, durably; the same request changes nothing, another one is a Conflict."""
        invited, digest = CODES.c.sha256 == invitation_hash(code), hashlib.sha256(request).hexdigest()
        with self._engine.begin() as connection:
            alone(connection, USING)
            row = connection.execute(select(CODES.c.request).where(invited)).first()
            if row is None:
                raise Unauthorized("this issuer knows no such invitation code: look for a mistyped character")
            if row.request is None:
                connection.execute(update(CODES).where(invited).values(request=digest))
            elif row.request != digest:
                raise Conflict(
                    "this invitation code was used for another request: one code is good for one credential. "
                    "Ask again from the same state directory, or ask the issuer for another code"
                )

    def counts(self) -> tuple[int, int]:
        with self._engine.connect() as connection:
            row = connection.execute(select(func.count(), func.count(CODES.c.request))).one()
        return int(row[0]), int(row[1])


log = logging.getLogger("tandem.issuer")

PUBLIC = "issuer.json"  # the public keys, for referees and auditors


class Keys:
    """The keys of one issuer, created if there are none (BadInput if a file holds another kind of key).

    The public keys are written to ``issuer.json``. Earlier public keys in that file are kept beside it, for audits.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder, mode=0o700)
        self.grants = Identity.load_or_create(folder / "grants.key")
        self.tokens = _rsa(folder / TOKENS_FILE)
        self.public = IssuerKey.of(self.tokens.public_key(), self.grants.public)
        self.path = folder / PUBLIC
        content = (json.dumps(self.public.wire(), indent=2) + "\n").encode()
        write_once(self.path, lambda: content, mode=0o644)
        if not self._stated():
            write_durably(self.path, content)

    def _stated(self) -> bool:
        """Return whether the file of public keys has these; a file with other keys is kept under another name."""
        before = read_own(self.path)
        try:
            if read_issuer(self.path) == self.public:
                return True
        except TandemError:
            pass  # truncated or edited; kept nevertheless
        backup = self.path.with_name(f"issuer-{hashlib.sha256(before).hexdigest()[:16]}.json")
        write_durably(backup, before)
        log.warning(
            "the public keys in %s were not those of this issuer's key files, of which one was lost or exchanged: the "
            "file now states the keys that sign, so hand it out again. The old one is kept as %s, for audits of what "
            "was vouched for before",
            self.path,
            backup.name,
        )
        return False


def _rsa(path: Path) -> RSAPrivateKey:
    def drawn() -> bytes:
        fresh = generate_private_key(65537, 8 * MODULUS)
        return fresh.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    write_once(path, drawn)
    try:
        key = load_pem_private_key(read_own(path), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, RSAPrivateKey) or key.key_size != 8 * MODULUS:
        raise BadInput(f"{path} must hold an RSA key of {8 * MODULUS} bits in PEM")
    return key


REQUEST, RESPONSE = "application/private-token-request", "application/private-token-response"
"""Media types of RFC 9578, section 9.2."""
FOR_PAGES = re.compile(rb"GET /v1/issuer|POST /v1/token-requests")  # requests that pages of allowed origins may make


def issuer_app(issuer: Issuer, folder: Path, origins: Sequence[str] = ()) -> Service:
    """Return the service of an issuer with the state directory ``folder``; pages of ``origins`` may use it."""
    app = create_app(
        "Tandem issuer",
        "Vouches for people: signs blinded tokens for holders of an invitation code.",
        limits={"/v1/token-requests": TINY},
        checks={"disk": lambda: disk(folder)},
    )
    app.allow_origins(origins, FOR_PAGES)

    @app.get("/v1/issuer", summary="The issuer's public keys")
    def about() -> IssuerKey:
        return issuer.public

    @app.post(
        "/v1/token-requests",
        summary="Sign a blinded token, once per invitation code (Authorization: Bearer CODE)",
        response_class=Response,
        responses={200: {"content": {RESPONSE: {"schema": BYTES_SCHEMA}}}},
        openapi_extra=body_of("A TokenRequest of type 2 (RFC 9578, section 6.1)", REQUEST),
    )
    async def issue(request: Request, code: BearerToken) -> Response:
        if not code:
            raise Unauthorized("this needs an invitation code (Authorization: Bearer ...)")
        body = await request.body()
        try:
            signature = await run_in_threadpool(issuer.issue, code, body)
        except (SQLAlchemyError, OSError):
            raise CannotWrite("the issuer cannot write: make room there; ask again") from None
        return Response(signature, media_type=RESPONSE)

    return app
