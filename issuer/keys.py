"""An issuer's two keys on disk: RSA for credentials, which it signs blindly, and Ed25519 for grants, which it reads."""

from __future__ import annotations

import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from common.core.errors import BadInput
from common.wire.identity import Identity
from common.wire.state import write_durably
from common.wire.vouching import MODULUS, IssuerKey

PUBLIC = "issuer.json"
"""File in the state directory with the public keys: whoever runs a referee or audits a run is given it."""


class Keys:
    """The keys of one issuer.

    Parameters
    ----------
    folder
        State directory; keys that are not there are drawn, and the public ones are written to ``issuer.json``.

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
        if not self.path.exists():
            write_durably(self.path, (json.dumps(self.public.wire(), indent=2) + "\n").encode())


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
