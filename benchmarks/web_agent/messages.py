"""Damaged bytes, messages and whole checks of assignments: both agents must refuse the same, with the same problem.

A case is bytes, of which both make the same canonical ones or none; or a question with its configuration and an agent's
rules, in which a value was replaced, a field added or left out, before it was signed or after.
"""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from common.core import canonical
from common.core.errors import BadMessage, TandemError
from common.crypto.identity import Identity
from tests.vectors import assignments
from tests.vectors.basics import OTHER, READ, REFEREE

Wire = dict[str, Any]
PIECES = (
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "\\",
        "\\u",
        "\\ud83d\\ude00",
        "\\ud800",
        "0",
        "-",
        "-0",
        ".5",
        "e",
        "E+3",
        "1e21",
        " ",
    ),
    *(
        "true",
        "null",
        "NaN",
        "9007199254740993",
        "9007199254740992",
        "5e-324",
        "1e309",
        "\x00",
        "\t",
        "é",
        "\ufeff",
        "\u2028",
    ),
    *(
        '"a":1',
        '"a":1,',
        "[[[[[[[[",
        "]]]]]]]]",
        "__proto__",
        "0" * 40,
        "18446744073709551615",
        "1.0",
        "\x7f",
        "\U0001f600",
    ),
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3,
        0.5,
        -0.0,
        1e-7,
        1e21,
        1e30,
        1.1e30,
        1e308,
        5e-324,
        2**31,
        2**31 - 1,
        2**32,
        2**53,
    ),
    *(
        "",
        "0",
        "1",
        "3",
        "1.5",
        "loss",
        "zero-one",
        "label",
        "AAAAAA==",
        "AQAAAA==",
        str(2**53),
        str(2**53 + 1),
        str(2**63),
    ),
    *(
        [],
        [0],
        [1, 0],
        [0, 1],
        ["0"],
        {},
        {"kind": "constant", "label": 1},
        {"kind": "onnx", "model": ""},
        "é" * 70,
        "0" * 64,
    ),
)
"""What takes the place of a value."""


def cases(count: int, seed: int) -> Iterator[Wire]:
    """Yield so many cases, half of them bytes, each with what the agent in Python makes of it."""
    drawn = random.Random(seed)
    texts = [text for text in READ if len(text) < 200]
    known = [*assignments.good_cases(), *assignments.bad_cases()]
    texts += [json.dumps(case["assignment"]["message"]) for case in known]
    for number in range(count):
        if number % 2:
            yield of_bytes(damaged_text(drawn.choice(texts), drawn))
        else:
            yield of_check(damaged_case(drawn.choice(known), drawn))


def damaged_text(text: str, drawn: random.Random) -> bytes:
    """Return the bytes of a text in which some pieces were put in, taken out or repeated."""
    for _ in range(drawn.randrange(4)):
        at = drawn.randrange(len(text) + 1)
        end = min(len(text), at + drawn.choice((0, 0, 1, 1, 2, 5)))
        text = text[:at] + drawn.choice((*PIECES, text[at : at + 8], "")) + text[end:]
    raw = text.encode("utf-8", "surrogatepass")
    if drawn.random() < 0.1 and raw:
        at = drawn.randrange(len(raw))
        raw = raw[:at] + bytes([drawn.randrange(256)]) + raw[at + 1 :]
    return raw


def of_bytes(raw: bytes) -> Wire:
    """Return a case of bytes."""
    try:
        expected = {"canonical": canonical.encode(canonical.decode(raw)).decode("utf-8")}
    except TandemError as error:
        expected = {"problem": error.problem}
    return {"bytes": base64.b64encode(raw).decode("ascii"), "expected": expected}


def damaged_case(case: Wire, drawn: random.Random) -> Wire:
    """Return a case of which a message, an envelope or the rules were changed; mostly it is signed afterwards."""
    case = json.loads(json.dumps(case))
    digest = canonical.digest(case["configuration"]["message"])
    follows = case["assignment"]["message"].get("digest") == digest
    for name in ("configuration", "assignment"):
        message = case[name]["message"]
        whole = copy.deepcopy(message)
        for _ in range(drawn.choice((0, 0, 1, 1, 2)) if name == "assignment" else drawn.choice((0, 0, 0, 1))):
            damage(message, drawn)
        if drawn.random() < 0.03:
            damage(case[name], drawn)
        if not encodable(message):  # an integer that is no double: JSON.parse would round it; bytes are tried for that
            message = case[name]["message"] = copy.deepcopy(whole)
        if name == "configuration" and follows and drawn.random() < 0.95:
            case["assignment"]["message"]["digest"] = canonical.digest(message)
        if drawn.random() < 0.95:
            case[name] = signed(case[name], REFEREE if case[name].get("key") != OTHER.public else OTHER)
    if drawn.random() < 0.1:
        case["left"] = [drawn.choice((0.0, 0.25, 0.5, 1.0, 3.0)), 0.0]
    if drawn.random() < 0.1:
        case["dimension"] = drawn.choice((0, 1, 3, 20, 100))
    return case


def encodable(message: object) -> bool:
    """Tell whether a message has canonical bytes, which a signature or a digest could be of."""
    try:
        canonical.encode(message)
    except BadMessage:
        return False
    return True


def signed(wire: Wire, signer: Identity) -> Wire:
    """Return an envelope with the signature of what is in it, where there is something that can be signed."""
    kind, message = wire.get("kind"), wire.get("message")
    if not isinstance(kind, str) or not isinstance(message, dict):
        return wire
    return {**wire, "key": signer.public, "signature": signer.sign(kind[:64], message).signature}


def damage(value: Any, drawn: random.Random) -> None:
    """Replace, leave out or add a value somewhere in a JSON value."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = drawn.choice(keys) if keys else None
        inner = None if key is None else value[key]
        if not isinstance(inner, dict | list) or drawn.random() < 0.25:
            break
        value = inner
    way = drawn.random()
    if key is None or way < 0.1:
        if isinstance(value, dict):
            value[drawn.choice(("note", "bound", "level", "kind", "shared", "label", ""))] = copy.deepcopy(
                drawn.choice(VALUES)
            )
        else:
            value.append(copy.deepcopy(drawn.choice(VALUES)))
    elif way < 0.2:
        del value[key]
    elif way < 0.4 and isinstance(inner, int | float):
        value[key] = drawn.choice((str(inner), bool(inner), float(inner), inner + 1, -inner, inner + 0.5, inner / 3))
    else:
        value[key] = copy.deepcopy(drawn.choice(VALUES))


def of_check(case: Wire) -> Wire:
    """Return a case of a whole check."""
    try:
        expected = {name: value for name, value in assignments.accepted(case).items() if name != "told"}
        expected["cost"] = [None if each == float("inf") else each for each in expected["cost"]]
    except TandemError as error:
        expected = {"problem": error.problem}
    except Exception as error:  # noqa: BLE001 - a fault of the agent in Python, which the comparison shows
        expected = {"raised": repr(error)}
    kept = {
        name: case[name] for name in ("about", "rules", "left", "dimension", "names", "assignment", "configuration")
    }
    return {**assignments.finite(kept), "expected": expected}
