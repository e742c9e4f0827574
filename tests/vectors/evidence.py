"""Vectors of evidence: receipts, proofs, consistency, credentials."""

import base64
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from common.core.errors import BadMessage, Forged, NotFound, PatternViolation, TandemError
from common.crypto import blindrsa
from common.crypto.identity import Identity, Signed
from common.crypto.vouching import Credential, IssuerKey, token_input, token_request
from common.local.packing import pack_one
from common.log.merkle import Tree, root_from_inclusion_proof, verify_consistency
from common.log.receipts import Checkpoint, Proof, StoredCheckpoint, check_receipt, entries_tree, signed_checkpoint
from common.log.transcript import SignedEntry, append
from local_agent.person.checking import CachedWitness, HeldReceipt, SeenCheckpoint, check, leaf_of
from tests.vectors.basics import AGENT, OTHER, REFEREE

P = int(
    "e243fa8a3666922f3cd7af15300a41c6ee7df0bda99d339b058b68688373350f468ddc6b0b45e5eb36e09e974e99c7d47faf"
    "6f20edbdac5801ab0f2b450db6d81c9c295206f4847b03d96ce7a427ebc1952e5ab3322674e87b881e78e37bc5165e38b0e4"
    "9dd6ffae8e912785d1860dd36183c66f1d00543d26bd0ce513082dd3",
    16,
)
Q = int(
    "d8750502c13773dc3a100a16355bc0e07b9525954f224319eadd459f75ef26c56cd9dc9154dc73aaaefd133e04d8c4d6a03f"
    "9c1f5ffb0181d4362e81957eab7de5ef242b043604ed2654df10754f51a4b65be882120590c31948da825858478d69024f19"
    "22bfeda604991273a31e6dc6538ed8c345dcb64642e6e9388b2098d7",
    16,
)
"""The primes of an issuer's key that signs vectors, and nothing else."""

RUN, DIGEST, QUESTION, NOW = "run", "d" * 64, 1, 1_800_000_000


def report(answer: float = 1.0, question: int = QUESTION, run: str = RUN) -> Signed:
    wire = {"report_id": "a" * 32, "run": run, "digest": DIGEST, "question": question, "assignment": "e" * 64}
    return AGENT.sign("report", {**wire, "answer": answer})


def receipt(about: Signed, **changes: Any) -> Signed:
    wire = {"run": RUN, "question": QUESTION, "report": about.signature, "time": NOW}
    return REFEREE.sign("receipt", {**wire, **changes})


def receipts_file() -> dict[str, Any]:
    own = report()
    cases: list[dict[str, Any]] = []
    for about, signed, problem in (
        ("a receipt", receipt(own), None),
        ("at the beginning of time", receipt(own, time=0), None),
        ("of another key", OTHER.sign("receipt", receipt(own).message), "forged"),
        ("of another report", receipt(report(0.0)), "forged"),
        ("of another question", receipt(own, question=2), "forged"),
        ("of another run", receipt(own, run="other"), "forged"),
        ("of another kind", REFEREE.sign("checkpoint", receipt(own).message), "forged"),
        ("with a further field", receipt(own, note=""), "bad-message"),
        (
            "without a time",
            REFEREE.sign("receipt", {k: v for k, v in receipt(own).message.items() if k != "time"}),
            "bad-message",
        ),
        ("of a time that is a text", receipt(own, time=str(NOW)), "bad-message"),
        ("of the year 10000", receipt(own, time=253_402_300_800), "bad-message"),
    ):
        cases.append({"about": about, "receipt": signed.wire()} | ({} if problem is None else {"refused": problem}))
    leaves = []
    small, wide = (("bit", 0.0), ("bit", 1.0), ("real", -3.0), ("real", 2.0**39)), ((256, 255.0), (257, 256.0))
    for kind, answer in (*small, (3, 2.0), *wide, (65536, 65535.0)):
        body = pack_one(answer, kind)
        leaves.append({"kind": kind, "answer": answer, "body": body.hex(), "leaf": leaf_of(own, body).hex()})
    about = "receipts of this referee for this report, or why they are none; packed answers, and the leaf of each"
    return {"about": about, "referee": REFEREE.public, "report": own.wire(), "cases": cases, "leaves": leaves}


def trees_file() -> dict[str, Any]:
    leaves = [bytes([number]) * 32 for number in range(21)]
    cases: list[dict[str, Any]] = []
    older: list[dict[str, Any]] = []
    for count in (1, 2, 3, 5, 7, 8, 21):
        tree = Tree(leaves[:count])
        for index in sorted({0, 1, count // 2, count - 1} & set(range(count))):
            cases.append(_inclusion(tree.root, leaves[index], index, count, tree.path(index)))
        for first in sorted({1, 2, 3, 4, 6, 7, 8, count // 2, count - 1, count} & set(range(1, count + 1))):
            older.append(_consistency(tree.beginning(first), first, tree.root, count, tree.consistency(first)))
    tree = Tree(leaves[:7])
    path = tree.path(4)
    for index, count in ((5, 7), (4, 8), (4, 6), (7, 7), (4, 0), (-1, 7)):
        cases.append(_inclusion(tree.root, leaves[4], index, count, path))
    zeros, one, rest = "0" * 64, path[0], path[1:]
    for damaged in (path[:-1], (*path, one), path[::-1], (zeros, *rest), ("", *rest), (one[:-2], *rest), ()):
        cases.append(_inclusion(tree.root, leaves[4], 4, 7, damaged))
    cases.append(_inclusion(tree.root, leaves[3], 4, 7, path))
    cases.append(_inclusion(tree.root, leaves[4], 4, 7, tuple(map(str.upper, path))))
    cases.append(_inclusion(Tree(leaves[:1]).root, leaves[0], 0, 2, ("",)))  # the only one is not the first of two
    path, old = tree.consistency(3), tree.beginning(3)
    for first, count in ((2, 7), (4, 7), (3, 8), (3, 2), (0, 7)):
        older.append(_consistency(old, first, tree.root, count, path))
    older.append(_consistency(zeros, 3, tree.root, 7, path))
    for damaged in (path[:-1], (*path, path[0]), (), (zeros, *path[1:])):
        older.append(_consistency(old, 3, tree.root, 7, damaged))
    older.append(_consistency(old, 7, tree.root, 7, ()))
    older.append(_consistency(tree.root, 7, tree.root, 7, (path[0],)))
    older.append(_consistency(old, 3, tree.root, 7, ("zz" * 32, *path[1:])))
    about = "whether a path leads from a leaf (hex) to a root, and from an older root to a newer one (RFC 9162)"
    return {"about": about, "inclusion": cases, "consistency": older}


def _inclusion(root: str, leaf: bytes, index: int, count: int, path: tuple[str, ...]) -> dict[str, Any]:
    holds = root_from_inclusion_proof(leaf, index, count, path) == root
    return {"root": root, "leaf": leaf.hex(), "index": index, "count": count, "path": list(path), "holds": holds}


def _consistency(older: str, first: int, newer: str, count: int, path: tuple[str, ...]) -> dict[str, Any]:
    holds = verify_consistency(older, first, newer, count, path)
    return {"older": older, "first": first, "newer": newer, "count": count, "path": list(path), "holds": holds}


class Told:
    """A referee that answers every request for a proof alike."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._case = case

    def proof(self, signed: Signed) -> Proof:
        if "problem" in self._case:
            kinds: dict[str, type[TandemError]] = {"pattern": PatternViolation, "not-found": NotFound}
            raise kinds[self._case["problem"]](self._case["detail"])
        return Proof.parse_signed(self._case["proof"])


class Watching:
    """A witness of a key, and what it keeps of the run."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told

    def key(self) -> str:
        return str(self.told["key"])

    def kept(self, signer: str, run: str) -> list[StoredCheckpoint]:
        return [StoredCheckpoint.parse(each) for each in self.told["kept"]]


def witnessed(kept: dict[str, Any], key: Identity = OTHER, **changes: Any) -> dict[str, Any]:
    """Return a stored checkpoint with a witness's word for it."""
    digest = Checkpoint.parse(kept["checkpoint"]["message"]).fingerprint()
    word = {"checkpoint": digest, "position": 0, "previous": "0" * 64, "time": NOW, **changes}
    return {**kept, "witnessed": [key.sign("witnessed", word).wire()]}


def witness_cases(good: dict[str, Any], going_on: dict[str, Any], long: Any, short: Any, forked: Any) -> list[Any]:
    """Return what comes of a witness: ``long`` is the checkpoint of the proof, ``short`` an older one."""

    def seen(proof: dict[str, Any], *kept: Any, **more: Any) -> dict[str, Any]:
        return {"proof": proof, **more, "witness": {"key": OTHER.public, "kept": list(kept)}}

    same = {**good, "consistency": []}
    early, other = {**good, "kept": long}, witnessed(long, checkpoint="c" * 64)
    closing = {**long["checkpoint"]["message"], "closed": QUESTION + 1}
    closed = {"checkpoint": REFEREE.sign("checkpoint", closing).wire()}
    witness = {"key": OTHER.public}
    away = {"problem": "not-found", "detail": "ask again later"}
    return [
        ("that a witness has seen", "included", seen(same, witnessed(short), witnessed(long))),
        ("that goes on from what a witness has seen", "included", seen(going_on, witnessed(short))),
        ("that a witness has not seen", "not witnessed", seen(early)),
        ("that no witness has seen in a day", "left out", seen(early, age=87_000)),
        ("of another history than a witness saw", "left out", seen(going_on, witnessed(forked))),
        ("of a witness with another key", "refused: forged", seen(same, witnessed(long, AGENT))),
        ("of a witness's word for another checkpoint", "refused: forged", seen(same, other)),
        ("of a witness's word that is none", "refused: bad-message", seen(same, witnessed(long, time=-1))),
        ("of a witness that signs nothing", "refused: forged", seen(same, long)),
        ("with a witness's word for another checkpoint", "left out", {"proof": {**good, "kept": other}}),
        (
            "not yet, and a witness has seen it closed",
            "left out",
            {**away, "witness": {**witness, "kept": [witnessed(closed)]}},
        ),
        ("not yet, and a witness has not", "not shown yet", {**away, "witness": {**witness, "kept": []}}),
    ]


def status_of(known: dict[str, Any], case: dict[str, Any]) -> str:
    """Return what an agent finds about its report: a status, or the problem of what it was sent."""
    kept, own = (Signed.parse(known[name]) for name in ("receipt", "report"))
    held = HeldReceipt(Path("receipt"), kept, own, known["leaf"], NOW - case["age"])
    before = None
    if case.get("before"):
        shown = StoredCheckpoint.parse(case["before"]["kept"])
        before = SeenCheckpoint(shown, frozenset(case["before"]["questions"]))
    try:
        witness = CachedWitness(Watching(case["witness"])) if case.get("witness") else None
        told = {**case, "proof": {**known["proof"], **case.get("proof", {})}}
        return check(held, AGENT, Told(told), REFEREE.public, witness, before, clock=lambda: float(NOW)).status
    except (BadMessage, Forged) as error:
        return f"refused: {error.problem}"


def transcript(root: str, more: int = 0, question: int = QUESTION, second: str = "terms") -> list[SignedEntry]:
    """Return the entries of a run that has closed one question, and so many more."""
    bodies = [
        ("configuration", {"referee": REFEREE.public}),
        (second, {"n": 3}),
        ("question", {"question": question}),
        ("answers", {"question": question, "root": root}),
    ]
    bodies += [("release", {"number": number}) for number in range(more)]
    found: list[SignedEntry] = []
    for kind, body in bodies:
        found.append(append(found[-1] if found else None, kind, body, REFEREE))
    return found


def checkpoint(entries: list[SignedEntry], run: str = RUN, digest: str = DIGEST) -> dict[str, Any]:
    return StoredCheckpoint(checkpoint=signed_checkpoint(REFEREE, run, digest, entries, NOW)).wire()


def proofs_file() -> dict[str, Any]:
    own, body = report(), pack_one(1.0, "bit")
    leaf = leaf_of(own, body)
    tree = Tree([bytes([number]) * 32 for number in range(4)] + [leaf] + [b"x" * 32])
    entries = transcript(tree.root, 3)
    kept = checkpoint(entries)
    short = checkpoint(entries[:4])
    good: dict[str, Any] = {
        "entry": entries[3].wire(),
        "index": 4,
        "reports": 6,
        "body": body.hex(),
        "path": list(tree.path(4)),
        "kept": kept,
        "entry_path": list(entries_tree(entries).path(3)),
    }
    going_on = {**good, "consistency": list(entries_tree(entries).consistency(4))}
    base = {"receipt": receipt(own).wire(), "report": own.wire(), "leaf": leaf.hex()}
    seen, forked = {"kept": short, "questions": [QUESTION]}, checkpoint(transcript(tree.root, 0, second="TERMS"))
    entry = good["entry"]
    signed = kept["checkpoint"]
    away = {"problem": "not-found", "detail": "ask again later"}
    open_one = {"checkpoint": REFEREE.sign("checkpoint", {**signed["message"], "closed": None}).wire()}

    def shown(**changes: Any) -> dict[str, Any]:
        return {"proof": {**good, **changes}}

    other_question = transcript(tree.root, 3, question=2)[3].wire()
    other_key = {**kept, "checkpoint": OTHER.sign("checkpoint", signed["message"]).wire()}
    later = {**kept, "checkpoint": {**signed, "message": {**signed["message"], "entries": 8}}}
    unseen = {"kept": kept, "questions": []}
    fewer = shown(kept=short, entry_path=list(entries_tree(entries[:4]).path(3)), consistency=[])
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("a proof", "included", {"proof": good}),
        ("a proof after a day", "included", {"proof": good, "age": 100_000}),
        ("that goes on from what was shown", "included", {"proof": going_on, "before": seen}),
        ("of the same checkpoint again", "included", {**shown(consistency=[]), "before": unseen}),
        ("without what was shown before", "another history", {"proof": good, "before": seen}),
        ("of another history", "another history", {"proof": going_on, "before": {"kept": forked, "questions": []}}),
        ("of fewer entries", "another history", {**fewer, "before": unseen}),
        ("of another answer", "left out", shown(body="8000")),
        ("of no answer", "left out", shown(body="")),
        ("of another place", "left out", shown(index=3)),
        ("of another number of reports", "left out", shown(reports=5)),
        ("with a damaged path", "left out", shown(path=["0" * 64, *good["path"][1:]])),
        ("with a longer path", "left out", shown(path=[*good["path"], "0" * 64])),
        ("with a path that is no hex", "left out", shown(path=["q" * 64, *good["path"][1:]])),
        ("with another path of the entry", "left out", shown(entry_path=good["entry_path"][::-1])),
        ("of another entry", "left out", shown(entry=entries[2].wire())),
        ("of an entry that was changed", "left out", shown(entry={**entry, "body": {**entry["body"], "note": 1}})),
        ("of an entry that nobody signed", "left out", shown(entry={**entry, "signature": "0" * 128})),
        ("of an entry with another number", "left out", shown(entry={**entry, "index": 4})),
        ("of another question", "left out", shown(entry=other_question)),
        ("of another run's checkpoint", "left out", shown(kept=checkpoint(entries, "other"))),
        ("of another configuration's", "left out", shown(kept=checkpoint(entries, RUN, "c" * 64))),
        ("of a checkpoint of another key", "left out", shown(kept=other_key)),
        ("of a checkpoint that was changed", "left out", shown(kept=later)),
        ("that shows no older one", "included", shown(consistency=None)),
        ("of a checkpoint of nothing that is closed", "included", shown(kept=open_one)),
        ("that is none", "refused: bad-message", shown(path=None)),
        ("of a checkpoint that is none", "refused: bad-message", shown(kept={"checkpoint": {}})),
        ("of an answer that is no hex", "refused: bad-message", shown(body="8X")),
        ("with a further field", "refused: bad-message", shown(note=1)),
        ("of a place that is a text", "refused: bad-message", shown(index="4")),
        ("not yet", "not shown yet", {"problem": "pattern", "detail": "it takes answers: ask again once it is closed"}),
        ("nor yet", "not shown yet", {**away, "detail": "no checkpoint: ask again later", "age": 86_000}),
        ("for too long", "left out", {**away, "age": 87_000}),
        ("of the future", "left out", {**away, "age": -87_000}),
        ("never", "left out", {**away, "detail": "no report of this participant is stored"}),
        ("no longer", "another history", {**away, "before": seen}),
        *witness_cases(good, going_on, kept, short, forked),
    ]
    about = (
        "what an agent of this key finds about its report, age seconds after it was sent, given the referee's proof or "
        "problem, what it was shown before, and a witness; or the problem of the proof itself. Its "
        "proof is the one of the file but for the fields that it names"
    )
    known = {"agent": AGENT.public, "referee": REFEREE.public}
    return {
        "about": about,
        **known,
        **base,
        "proof": good,
        "cases": [{"about": a, "age": 60, **_changed(case, good), "status": s} for a, s, case in cases],
    }


def _changed(case: dict[str, Any], good: dict[str, Any]) -> dict[str, Any]:
    """Return a case whose proof has the fields alone in which it differs."""
    proof = {name: value for name, value in case.get("proof", {}).items() if name not in good or good[name] != value}
    return {**case, "proof": proof} if "proof" in case else case


def issuer_key() -> rsa.RSAPrivateKey:
    d = pow(65537, -1, (P - 1) * (Q - 1))
    public = rsa.RSAPublicNumbers(65537, P * Q)
    exponents = rsa.rsa_crt_dmp1(d, P), rsa.rsa_crt_dmq1(d, Q), rsa.rsa_crt_iqmp(P, Q)
    return rsa.RSAPrivateNumbers(P, Q, d, *exponents, public).private_key()


def credentials_file() -> dict[str, Any]:
    private = issuer_key()
    key = IssuerKey.of(private.public_key(), OTHER.public)
    nonce, salt, inverse = b"n" * 32, b"s" * 48, int.from_bytes(b"i" * 255, "big")
    message = token_input(AGENT.public, nonce, key.token_key_id)
    blinded = blindrsa.blind(key.token_key, message, salt, inverse)
    reply = blindrsa.blind_sign(private, blinded.message)
    signature = blindrsa.finalize(key.token_key, message, reply, inverse)
    known = {
        "agent": AGENT.public,
        "issuer": key.wire(),
        "id": key.token_key_id,
        "nonce": nonce.hex(),
        "salt": salt.hex(),
    }
    known |= {"inverse": f"{inverse:x}", "input": message.hex(), "request": token_request(key, blinded.message).hex()}
    credential = Credential(issuer=key.token_key_id, nonce=nonce.hex(), signature=signature.hex()).wire()
    replies = [{"about": "the issuer's reply", "reply": reply.hex(), "credential": credential}]
    for about, raw in (
        ("another reply", reply[:-1] + bytes([reply[-1] ^ 1])),
        ("a short one", reply[1:]),
        ("zeros", bytes(256)),
    ):
        replies.append({"about": about, "reply": raw.hex(), "refused": "forged"})
    raw = base64.b64decode(key.tokens)
    keys = [{"about": "a key of tokens", "tokens": key.tokens}]
    for about, changed in (
        ("of another algorithm", raw[:20] + bytes([raw[20] ^ 1]) + raw[21:]),
        ("of another exponent", raw[:-1] + b"\x03"),
        ("of fewer bits", raw[:-261] + bytes([raw[-261] & 0x7F]) + raw[-260:]),
        ("that was cut", raw[:-3]),
    ):
        keys.append({"about": about, "tokens": base64.b64encode(changed).decode("ascii"), "refused": "bad-message"})
    keys.append({"about": "that is no base64", "tokens": "*" + key.tokens[1:], "refused": "bad-message"})
    about = "a token request for a key, with this nonce, salt and inverse (1/r); what comes of replies; issuers' keys"
    return {"about": about, **known, "cases": replies, "keys": keys}


def of_reply(known: dict[str, Any], reply: str) -> dict[str, Any]:
    """Return what comes of an issuer's reply: a credential, or a problem."""
    key = IssuerKey.parse(known["issuer"])
    nonce = bytes.fromhex(known["nonce"])
    message = token_input(known["agent"], nonce, key.token_key_id)
    try:
        signature = blindrsa.finalize(key.token_key, message, bytes.fromhex(reply), int(known["inverse"], 16))
    except TandemError as error:
        return {"refused": error.problem}
    return {"credential": Credential(issuer=key.token_key_id, nonce=nonce.hex(), signature=signature.hex()).wire()}


def of_receipt(known: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Return what comes of a receipt: nothing, or a problem."""
    try:
        check_receipt(Signed.parse(case["receipt"]), Signed.parse(known["report"]), known["referee"])
    except TandemError as error:
        return {"refused": error.problem}
    return {}
