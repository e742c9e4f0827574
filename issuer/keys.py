"""An issuer's two keys on disk: RSA for credentials, which it signs blindly, and Ed25519 for grants, which it reads."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from common.core.durable import write_durably
from common.core.errors import BadInput, TandemError
from common.crypto.identity import Identity
from common.crypto.vouching import MODULUS, IssuerKey, read_issuer

log = logging.getLogger("tandem.issuer")

PUBLIC = "issuer.json"
"""File in the state directory with the public keys: whoever runs a referee or audits a run is given it."""


class Keys:
    """The keys of one issuer.

    Parameters
    ----------
    folder
        State directory; keys that are not there are drawn. The public ones are written to ``issuer.json``; what stood
        there of other keys is kept beside it, since runs that they vouched for are audited with it.

    Raises
    ------
    BadInput
        If a file in it holds another kind of key.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.grants = Identity.load_or_create(folder / "grants.key")
        self.tokens = _rsa(folder / "tokens.key")
        self.public = IssuerKey.of(self.tokens.public_key(), self.grants.public)
        self.path = folder / PUBLIC
        if not self.path.exists() or not self._stated():
            write_durably(self.path, (json.dumps(self.public.wire(), indent=2) + "\n").encode())

    def _stated(self) -> bool:
        """Tell whether the file of public keys states these; what it states of others is kept under another name."""
        before = self.path.read_bytes()
        try:
            if read_issuer(self.path) == self.public:
                return True
        except TandemError:
            pass  # cut off or edited, and kept all the same
        kept = self.path.with_name(f"issuer-{hashlib.sha256(before).hexdigest()[:16]}.json")
        write_durably(kept, before)
        log.warning(
            "the public keys in %s were not those of this issuer's key files, of which one was lost or exchanged: the "
            "file now states the keys that sign, so hand it out again. The old one is kept as %s, for audits of what "
            "was vouched for before",
            self.path,
            kept.name,
        )
        return False


def _rsa(path: Path) -> RSAPrivateKey:
    if not path.exists():
        fresh = generate_private_key(65537, 8 * MODULUS)
        write_durably(path, fresh.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), mode=0o600)
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, RSAPrivateKey) or key.key_size != 8 * MODULUS:
        raise BadInput(f"{path} must hold an RSA key of {8 * MODULUS} bits in PEM")
    return key
