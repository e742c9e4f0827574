"""An issuer beside a bench, and people who have its credentials: what tests of vouching begin with."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from common.core import canonical
from common.crypto.blindrsa import blind, finalize
from common.crypto.identity import Identity, Signed
from common.crypto.vouching import Credential, token_input, token_request
from common.net import messages
from deploy.load.client import LightAgent
from issuer.issuer import InvitationCodes, Issuer
from referee.collection.judging import ReceivedReport, claims
from tests.support import Bench

PRIMES = (
    (
        "bf67bc917d8a3391f773847ddcf82ba05650cc3acd042429b25bb4843279a4839407d1464d81bec4047aed530c8ec8bf5a2b"
        "7970acd9c9e9b8b7a9668f47bfc3356f35f7ee5d246e83b7578bf8ca45e80d1adee373bc2b6286b007468b046ef6c8e627d6"
        "f4eff902140e5bf4948841d5188930ba0b3b080af25e7b7555fa73cb"
    ),
    (
        "bd46bcb1bed73dd257442196b429dd2b16de3dc23e6c988dd1875a2bfc650127f87297c0d44f31a53712a448feb0d663efd8"
        "89b9973ec8f139bb90a9a027c254c9748d69062e1fc71ab3eb02870c4b0fc69c9aa20aa7dbf219110e1bb1ad0a756df76ce9"
        "bedc5c26000852f1e077a7b9eccb1739939b02d2eca34ebd00fadaeb"
    ),
)


def rsa_key(p: int, q: int) -> rsa.RSAPrivateKey:
    """Return the private key of two primes, unchecked: that takes a second."""
    e = 65537
    d = pow(e, -1, (p - 1) * (q - 1))
    parts = rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q)
    numbers = rsa.RSAPrivateNumbers(p, q, d, *parts, rsa.RSAPublicNumbers(e, p * q))
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


@cache
def ours() -> rsa.RSAPrivateKey:
    """An issuer's private key, made of two primes that are written here: to find some takes half a second."""
    return rsa_key(*(int(prime, 16) for prime in PRIMES))


@contextmanager
def an_issuer(folder: Path) -> Iterator[Issuer]:
    """Open an issuer in a folder, with the key of :func:`ours`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokens.key").write_bytes(ours().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with closing(Issuer(folder)) as issuer:
        yield issuer


def codes(folder: Path, count: int) -> list[str]:
    with closing(InvitationCodes(folder)) as found:
        return found.invite(count)


def credential(issuer: Issuer, code: str, agent: str) -> Credential:
    """Get a credential for a key, as an agent does."""
    key, nonce = issuer.public, secrets.token_bytes(32)
    message = token_input(agent, nonce, key.token_key_id)
    blinded = blind(key.token_key, message)
    reply = issuer.issue(code, token_request(key, blinded.message))
    signature = finalize(key.token_key, message, reply, blinded.inverse)
    return Credential(issuer=key.token_key_id, nonce=nonce.hex(), signature=signature.hex())


def enrolment(agent: LightAgent | Identity, **shown: object) -> Signed:
    """Return the signed enrolment of an agent that shows something of an issuer, as it travels."""
    message = messages.Enrolment.model_validate({"agents": 1, **shown})
    if isinstance(agent, Identity):
        return agent.sign(message.KIND, message.wire())
    return Signed.model_validate_json(agent._signed(message.KIND, canonical.encode(message.wire())))


def answer(bench: Bench, agents: Sequence[LightAgent], keep: Callable[[Signed], bool] = lambda report: True) -> None:
    """Let individuals answer what they are asked; the reports that are not to be kept are lost."""
    found = bench.referee.collection.poll([Signed.model_validate_json(agent.poll()) for agent in agents])
    asked = zip(agents, found, strict=True)
    reports = [agent.answer(question) for agent, question in asked if isinstance(question, bytes)]
    sent = [ReceivedReport(report) for report in map(Signed.model_validate_json, reports) if keep(report)]
    assert not any(bench.referee.collection.accept(claims(sent)))
