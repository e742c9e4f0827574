"""An issuer: blind signatures for whoever has an invitation, grants for hosts."""

from __future__ import annotations

from pathlib import Path

from common.core.durable import hold
from common.crypto.blindrsa import blind_sign, check_blinded
from common.crypto.identity import Signed
from common.crypto.vouching import Grant, IssuerKey, blinded_in
from issuer.codes import Codes
from issuer.keys import Keys


class Issuer:
    """One issuer at work on a state directory, which it has for itself.

    What it sees of a credential is a blinded message, which is independent of the credential
    (:mod:`common.crypto.blindrsa`): it knows whom it has invited, and not which agent that is.

    Parameters
    ----------
    folder
        State directory: keys, and the hashes of invitation codes.

    Raises
    ------
    BadInput
        If another process serves from it, or it cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = hold(folder)
        self._keys = Keys(folder)
        self._codes = Codes(folder)
        self.public: IssuerKey = self._keys.public

    def close(self) -> None:
        """Let go of the state directory."""
        self._codes.close()
        self._lock.close()

    def issue(self, code: str, request: bytes) -> bytes:
        """Return the blind signature for a token request; the same again gets the same one.

        The code is used, on disk, before the signature leaves.

        Raises
        ------
        BadMessage
            If it is no token request for this issuer's key; the code is as it was.
        Unauthorized, Conflict
            As :meth:`issuer.codes.Codes.use`.
        """
        blinded = blinded_in(self.public, request)
        check_blinded(self._keys.tokens, blinded)
        self._codes.use(code, request)  # before the work, too: strangers cost a look into the table
        return blind_sign(self._keys.tokens, blinded)


def grant(folder: Path, host: str, name: str, people: int) -> Signed:
    """Return an issuer's grant for a host; the issuer may serve at the same time.

    Raises
    ------
    BadMessage
        If there is no such key, or nobody may have such a name.
    """
    wanted = Grant.parse({"host": host, "name": name, "people": people})
    return Keys(folder).grants.sign(wanted.KIND, wanted.wire())
