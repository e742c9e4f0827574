"""Vectors of bytes: canonical JSON and the text of numbers, digests, signatures and fingerprints."""

import base64
import hashlib
import random
import struct
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from common.core import canonical
from common.crypto.identity import Identity

ORDER = 2**252 + 27742317777372353535851937790883648493  # of Ed25519's group


def fixed(number: int) -> Identity:
    """Return one of the keys that sign vectors: its secret is 32 times this byte."""
    return Identity(Ed25519PrivateKey.from_private_bytes(bytes([number] * 32)))


REFEREE, AGENT, OTHER = fixed(1), fixed(2), fixed(3)

NUMBERS = {  # RFC 8785, appendix B, and what is near the places where the form changes
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
    "3fb999999999999a": "0.1",
    "3e7ad7f29abcaf48": "1e-7",
    "3ff0000000000000": "1",
    "4330000000000001": "4503599627370497",
    "3f50624dd2f1a9fc": "0.001",
}

READ: dict[str, str | None] = {  # what is read, and its canonical form; None: refused
    "null": "null",
    " [1 , 2.50,-0, -0.0, 1E3, 1e0, 0.10e1]\r\n\t": "[1,2.5,0,0,1000,1,1]",
    '{"b":1,"a":{"d":true,"c":false}}': '{"a":{"c":false,"d":true},"b":1}',
    '{"\\u20ac":1,"\\r":2,"\\ufb33":3,"1":4,"\\ud83d\\ude00":5,"\\u0080":6,"\\u00f6":7}': (
        '{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"\U0001f600":5,"\ufb33":3}'
    ),
    '"\\u0000\\u0001\\b\\t\\n\\f\\r\\u001f\\u007f\\/\\\\\\""': '"\\u0000\\u0001\\b\\t\\n\\f\\r\\u001f\u007f/\\\\\\""',
    '"\u2028\u00e9\\u00e9\U0001f600\\ud83d\\ude00"': '"\u2028éé\U0001f600\U0001f600"',
    '{"__proto__":1,"constructor":2,"":3}': '{"":3,"__proto__":1,"constructor":2}',
    '"1.0 1e5 12345678901234567890"': '"1.0 1e5 12345678901234567890"',
    '{"a\\"1.0":1.0}': '{"a\\"1.0":1}',
    "[1e21,1e-7,0.000001,5e-324,0.1]": "[1e+21,1e-7,0.000001,5e-324,0.1]",
    "[9007199254740991,9007199254740992,-9007199254740992]": "[9007199254740991,9007199254740992,-9007199254740992]",
    "9007199254740994": "9007199254740994",
    "100000000000000000000": "100000000000000000000",
    "295147905179352830000": "295147905179352830000",
    "4.9406564584124654e-324": "5e-324",
    "2e-324": "0",
    "1.7976931348623157e308": "1.7976931348623157e+308",
    "1" + "0" * 309 + "e-309": "1",
    "[" * 32 + "]" * 32: "[" * 32 + "]" * 32,
    '{"a":[{}],"b":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["}': '{"a":[{}],"b":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["}',
    "[" + "[]," * 50 + "[]]": "[" + "[]," * 50 + "[]]",
    **dict.fromkeys(
        (
            *("[" * 33 + "]" * 33, '{"a":' * 33 + "1" + "}" * 33),
            *("9007199254740993", "-9007199254740993", "18446744073709551615", "1000000000000000000000"),
            *("295147905179352825856", "1e309", "-1e400", "1" + "0" * 400, "NaN", "[Infinity]", "-Infinity"),
            *('{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '{"a":{"b":1,"c":2,"b":1}}', '{"__proto__":1,"__proto__":2}'),
            *('"\\ud800"', '"\\ude00\\ud83d"', '{"\\udfff":1}'),
            *("[1,]", '{"a":1,}', "{a:1}", "'a'", "[1 2]", "01", "-", "+1", ".5", "1.", "1e", "0x10"),
            *('"\\x41"', '"a\tb"', '"\\u12"', '"a', "", "  ", "[1]]", "[1] x", "nul"),
            *("[1,\u00a02]", "\ufeff1", "/* */1"),
        )
    ),
}
READ_BYTES = (b"\xff", b'"\xc0\xaf"', b'"\xed\xa0\x80"', b'"\xf5\x80\x80\x80"', b'"\xe2\x82"', b"\x001")  # all refused
"""No UTF-8, or no JSON."""


def canonical_file() -> dict[str, Any]:
    cases: list[dict[str, Any]] = []
    for text, found in READ.items():
        raw = text.encode("utf-8")
        known = (
            {"refused": "bad-message"}
            if found is None
            else {"canonical": found, "sha256": hashlib.sha256(found.encode()).hexdigest()}
        )
        cases.append({"bytes": base64.b64encode(raw).decode("ascii"), **known})
    cases += [{"bytes": base64.b64encode(raw).decode("ascii"), "refused": "bad-message"} for raw in READ_BYTES]
    drawn, numbers = random.Random(0), dict(NUMBERS)
    while len(numbers) < 300:
        bits = drawn.getrandbits(64) if len(numbers) % 2 else _near_one(drawn)
        (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
        if number == number and abs(number) != float("inf"):
            numbers[f"{bits:016x}"] = canonical.number_text(number)
    about = "bytes (base64), and their canonical form and its SHA-256, or that reading them is refused; doubles' texts"
    return {"about": about, "cases": cases, "numbers": list(numbers.items())}


def _near_one(drawn: random.Random) -> int:
    (bits,) = struct.unpack(">Q", struct.pack(">d", round(drawn.uniform(-1e7, 1e7), drawn.randrange(8))))
    return int(bits)


MESSAGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("poll", {"participant": AGENT.public}),
    ("enrolment", {"agents": 1}),
    (
        "enrolment",
        {"agents": 1, "again": True, "policy": {"refuses": [], "epsilon": 0.1, "delta": None, "features": 3}},
    ),
    ("report", {"answer": -0.0, "run": "r", "question": 2**31 - 1}),
    ("röport", {"ä": "\U0001f600", "z": [1e21, 5e-324]}),
    ("", {}),
)


def signatures_file() -> dict[str, Any]:
    cases: list[dict[str, Any]] = []
    for kind, message in MESSAGES:
        signed = AGENT.sign(kind, message)
        payload = canonical.encode(message)
        known = {"payload": payload.decode("utf-8"), "digest": canonical.digest(message)}
        cases.append({"signed": signed.wire(), "kind": kind, **known, "fingerprint": signed.fingerprint()})
    good = AGENT.sign("poll", {"participant": AGENT.public}).wire()
    end = int.from_bytes(bytes.fromhex(good["signature"])[32:], "little")
    beyond = good["signature"][:64] + (end + ORDER).to_bytes(32, "little").hex()
    forged = {
        "another message": {"message": {"participant": OTHER.public}},
        "another kind": {"kind": "enrolment"},
        "another key": {"key": OTHER.public},
        "a changed signature": {"signature": "00" + good["signature"][2:]},
        "a number that is not reduced": {"signature": beyond},
        "a key that is no point": {"key": "02" + "00" * 31},
    }
    refused = [{"about": about, "signed": {**good, **change}, "refused": "forged"} for about, change in forged.items()]
    broken = {
        "no kind": {"kind": None},
        "a kind that is a number": {"kind": 1},
        "a long kind": {"kind": "k" * 65},
        "a message that is a list": {"message": []},
        "a short key": {"key": AGENT.public[:-2]},
        "a key in upper case": {"key": AGENT.public.upper()},
        "a long signature": {"signature": good["signature"] + "00"},
        "a further field": {"alg": "none"},
    }
    for about, change in broken.items():
        wire = {name: value for name, value in {**good, **change}.items() if value is not None}
        refused.append({"about": about, "signed": wire, "refused": "bad-message"})
    about = "secret: 32 bytes of an Ed25519 key (RFC 8032); what it signs, and what is refused as a poll of its key"
    return {"about": about, "secret": "02" * 32, "key": AGENT.public, "cases": cases, "refused": refused}
