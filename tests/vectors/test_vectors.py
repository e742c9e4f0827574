"""Every vector comes to what it says, through the code of the agent; the files are those that the command writes."""

import base64
import hashlib
import struct
from typing import Any

import numpy as np
import pytest

from common.core import canonical
from common.core.errors import BadMessage, TandemError
from common.crypto.identity import Signed, verify
from common.crypto.vouching import IssuerKey
from common.local.hypotheses.hypothesis import HYPOTHESES
from common.local.mechanisms.mechanism import MECHANISMS
from common.local.queries.query import QUERIES
from common.local.records import Records
from common.net.messages import read as read_signed
from common.net.oblivious.encapsulation import encapsulate
from tests.vectors import FOLDER, MOST, assignments, basics, evidence, queries, read, records, relays, written
from tests.vectors.__main__ import FILES


def test_the_files_are_those_that_the_command_writes() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == FILES.keys()
    stale = [name for name, make in FILES.items() if (FOLDER / f"{name}.json").read_text("utf-8") != written(make())]
    assert stale == [], "run python -m tests.vectors"
    assert sum(path.stat().st_size for path in FOLDER.glob("*.json")) <= MOST


def test_bytes_and_numbers() -> None:
    vectors = read("canonical")
    for case in vectors["cases"]:
        raw = base64.b64decode(case["bytes"])
        if "refused" in case:
            with pytest.raises(BadMessage):
                canonical.encode(canonical.decode(raw))
        else:
            found = canonical.encode(canonical.decode(raw))
            assert found == canonical.encode(canonical.decode(found)) == case["canonical"].encode()
            assert hashlib.sha256(found).hexdigest() == case["sha256"]
    for bits, text in vectors["numbers"]:
        (number,) = struct.unpack(">d", bytes.fromhex(bits))
        assert canonical.number_text(number) == text
        assert canonical.encode({"a": [number, text, number]}) == f'{{"a":[{text},"{text}",{text}]}}'.encode()
        assert float(text) == number
    assert len(vectors["numbers"]) == 300


def test_signatures_and_fingerprints() -> None:
    vectors = read("signatures")
    assert vectors["secret"] == "02" * 32
    assert vectors["key"] == basics.AGENT.public
    for case in vectors["cases"]:
        signed = read_signed(canonical.encode(case["signed"]))
        assert basics.AGENT.sign(case["kind"], case["signed"]["message"]).wire() == case["signed"]
        assert canonical.decode(case["payload"].encode()) == signed.message
        assert canonical.digest(signed.message) == case["digest"]
        assert canonical.digest(case["signed"]) == case["fingerprint"]
    for case in vectors["refused"]:
        with pytest.raises(TandemError) as caught:
            verify(Signed.parse(case["signed"]), "poll", basics.AGENT.public)
        assert caught.value.problem == case["refused"], case["about"]


def test_questions_are_accepted_or_refused_as_they_say() -> None:
    vectors = read("assignments")
    kinds, mechanisms = set(), set()
    for stored in vectors["cases"]:
        case = assignments.whole(stored, vectors["configurations"])
        found = assignments.outcome(case)
        assert found.get("refused") == case.get("refused"), case["about"]
        if "accepted" in found:
            assert assignments.finite(found["accepted"]) == case["accepted"], case["about"]
            kinds.add(case["assignment"]["message"]["query"]["kind"])
            mechanisms.add(found["accepted"]["mechanism"]["name"])
    assert kinds == set(QUERIES.shipped())
    assert mechanisms == set(MECHANISMS.shipped()) - {"gaussian"}
    refusals = [case["refused"] for case in vectors["cases"] if "refused" in case]
    assert {"forged", "version-skew", "bad-message", "configuration-mismatch", "policy"} == set(refusals)


def test_queries_have_these_values() -> None:
    vectors = read("queries")
    slots, kinds = np.array(vectors["slots"], dtype=np.int64), set()
    people = {dimension: [_record(wire) for wire in wires] for dimension, wires in vectors["people"].items()}
    for case in vectors["cases"]:
        query = queries.parsed(case["query"])
        assert query.wire() == case.get("normal", case["query"])
        parts = query.parts(slots).tolist()
        assert parts == case["parts"]
        first = [place for place, part in enumerate(parts) if part not in parts[:place]]
        for record, values in zip(people[str(case["features"])], case["values"], strict=True):
            found = queries.values_of(query, record, slots[first])
            assert found == values, case["query"]
            assert query.domain is not None or all(0.0 <= value <= 1.0 for value in found)
        kinds |= {query.kind, *_kinds(case["query"])}
    assert kinds >= {*QUERIES.shipped(), *HYPOTHESES.shipped()} - {"onnx"}
    for case in vectors["refused"]:
        with pytest.raises(BadMessage):
            queries.parsed(case["query"])


def _record(wire: dict[str, Any]) -> Records:
    return Records(np.array([wire["features"]], dtype=wire["type"]), np.array([wire["label"]], dtype=np.int8))


def _kinds(value: Any) -> set[str]:
    if isinstance(value, list):
        return {kind for each in value for kind in _kinds(each)}
    return set() if not isinstance(value, dict) else {value.get("kind", "")} | _kinds(list(value.values()))


def test_chances_are_within_what_they_cost() -> None:
    for case in read("mechanisms")["cases"]:
        mechanism = MECHANISMS.parse(case["mechanism"])
        for about in case["domains"]:
            if "truth" in about and case["cost"][0] is not None:
                bound = np.exp(np.float64(-mechanism.guarantee[0]))
                symbols = 2 if about["kind"] == "bit" else about["kind"]
                lie = (2**53 - int(about["truth"])) / 2**53
                assert lie >= bound * (symbols - 1) / (1 + bound * (symbols - 1)) * (1 - 1e-15)
                assert lie <= bound * (symbols - 1) / (1 + bound * (symbols - 1)) + 2.0**-48


def test_what_passes_a_relay() -> None:
    told = read("relays")
    for case in told["keys"]:
        assert relays.of_keys(told["referee"], case).items() <= case.items(), case["about"]
    sent, _ = encapsulate(relays.GATEWAY.configuration, relays.PLAIN, ephemeral=relays.EPHEMERAL)
    assert sent.hex() == told["request"]["sent"]
    for case in told["responses"]:
        assert relays.of_response(told["request"], case).items() <= case.items(), case["about"]


def test_receipts_trees_and_proofs() -> None:
    receipts = read("receipts")
    for case in receipts["cases"]:
        assert evidence.of_receipt(receipts, case).get("refused") == case.get("refused"), case["about"]
    proofs = read("proofs")
    for case in proofs["cases"]:
        assert evidence.status_of(proofs, case) == case["status"], case["about"]
    trees = read("trees")
    assert sum(case["holds"] for case in trees["inclusion"]) == len(trees["inclusion"]) - 15
    assert sum(case["holds"] for case in trees["consistency"]) == len(trees["consistency"]) - 12


def test_credentials_and_records() -> None:
    credentials = read("credentials")
    for case in credentials["cases"]:
        found = evidence.of_reply(credentials, case["reply"])
        assert found == {name: case[name] for name in ("credential", "refused") if name in case}, case["about"]
    for case in credentials["keys"]:
        wire = {**credentials["issuer"], "tokens": case["tokens"]}
        if "refused" in case:
            with pytest.raises(BadMessage):
                IssuerKey.parse(wire)
        else:
            assert IssuerKey.parse(wire).token_key_id == credentials["id"]
    people = read("records")
    for case in people["cases"]:
        found = records.encoded(people["tables"][case["table"]], case["fields"])
        assert found == {name: case[name] for name in found}, case["fields"]
    assert sum("refused" in case for case in people["cases"]) == 11
