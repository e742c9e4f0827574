"""What each exit status of ``local-agent check`` promises (docs/security.md): a referee attacks each, over HTTP."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from common.core.errors import BadData, NotFound, PatternViolation, TandemError
from common.crypto.identity import Identity, Signed
from common.log.merkle import Tree
from common.log.receipts import Proof, ProofRequest, StoredCheckpoint, entries_tree, signed_checkpoint
from common.log.transcript import SignedEntry, append
from local_agent.cli import app
from local_agent.person.checking import SeenCheckpoint, held_receipts, leaf_of, seen_checkpoint, store_seen
from referee.collection.aggregation import leaf
from referee.runfolder import unpack_reports
from referee.service.witness import witness_app
from tests.referee.audit.signing import entries_of
from tests.referee.audit.test_history import SECRET, Watched
from tests.support import Bench, served
from tests.vectors import read

STILL_OPEN = PatternViolation("question 1 of run 'run' still takes answers: ask again once it is closed")
LATER = NotFound("the answers to question 1 of run 'run' are behind no checkpoint yet: ask again later")
DENIED = NotFound("no report of this participant on question 1 of run 'run' is stored")
LONG_AGO = 1e9  # when every limit is over, in seconds since 1970


@dataclass
class Lying:
    """A referee that answers each proof request with a problem, or by a history of its own that it signs."""

    signer: Identity
    digest: str
    entries: list[SignedEntry] = field(default_factory=list)
    leaves: list[bytes] = field(default_factory=list)
    body: str = ""
    own: bytes = b""
    problem: TandemError | None = None
    asked: int = 0

    def proof(self, signed: Signed) -> Proof:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        since = ProofRequest.parse(signed.message).since
        tree, reports = entries_tree(self.entries), Tree(self.leaves)
        goes_on = tree.consistency(since) if since is not None and since <= len(tree) else None
        entry = next(each for each in self.entries if each.kind == "answers")
        index = self.leaves.index(self.own)
        return Proof(
            entry=entry.wire(),
            index=index,
            reports=len(self.leaves),
            body=self.body,
            path=reports.path(index),
            kept=StoredCheckpoint(checkpoint=signed_checkpoint(self.signer, "run", self.digest, self.entries, 9)),
            entry_path=tree.path(entry.index),
            consistency=goes_on,
        )


class Stage:
    """A finished run, its witness and its referee, which lies as a test wants."""

    def __init__(self, watched: Watched, bench: Bench, referee: str, witness: str, state: Path) -> None:
        self.watched, self.bench, self.state = watched, bench, state
        self._referee, self._witness = referee, witness
        (self.held,) = held_receipts(state)
        self.liar = Lying(watched.identity, self.held.report.message["digest"])

    def check(self, *more: str, witness: bool | str = False) -> tuple[int, str, str]:
        """Run the command; ``witness``: whether one is asked, or which."""
        words = ["check", "--referee", self._referee, "--state", str(self.state), *more]
        if witness:
            words += ["--witness", self._witness if witness is True else witness]
        done = CliRunner().invoke(app, words)
        shutil.rmtree(self.state / "checkpoints", ignore_errors=True)  # each check of a test is a first one
        assert not done.exception or isinstance(done.exception, SystemExit)
        return done.exit_code, done.stdout, done.stderr

    def lie(self, problem: TandemError | None = None, **how: Any) -> None:
        """Have the referee answer with a problem, or with :meth:`history`."""
        self.liar = Lying(self.watched.identity, self.liar.digest, problem=problem)
        if problem is None:
            self.history(**how)
        self.bench.referee.proof = self.liar.proof  # type: ignore[method-assign]

    def history(self, *, flip: bool = False, end: str = "result", more: int = 0, cut: int = 6) -> None:
        """Sign a history in which the report is counted, as it was sent or flipped, and which ends otherwise."""
        reports = list(unpack_reports((self.watched.run / "reports" / "1.reports").read_bytes()))
        leaves = [leaf(report) for report in reports]
        mine = next(report for report in reports if report.signature.hex() == self.held.report.signature)
        body = bytes([mine.body[0], mine.body[1] ^ 0x80]) if flip else mine.body
        own = leaves[leaves.index(leaf(mine))] = leaf_of(self.held.report, body)
        kept = [(end if each.kind == "result" else each.kind, dict(each.body)) for each in entries_of(self.watched.run)]
        entries: list[SignedEntry] = []
        for kind, said in (*kept[:cut], *more * (("result", {}),)):
            root = {"root": Tree(leaves).root} if kind == "answers" else {}
            entries.append(append(entries[-1] if entries else None, kind, {**said, **root}, self.watched.identity))
        self.liar.entries, self.liar.leaves, self.liar.body, self.liar.own = entries, leaves, body.hex(), own

    def sent(self, when: float) -> None:
        tree = json.loads(self.held.path.read_bytes())
        self.held.path.write_text(json.dumps({**tree, "sent": when}))


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Watched, Bench, str, str]]:
    watched = Watched(tmp_path_factory.mktemp("watched"))
    with (
        served(witness_app(watched.witness_folder, SECRET)) as witness,
        Bench(watched.bench_folder, watched.chosen, individuals=1) as bench,
        served(bench.app()) as address,
    ):
        yield watched, bench, address, witness


@pytest.fixture
def stage(services: tuple[Watched, Bench, str, str], tmp_path: Path) -> Iterator[Stage]:
    watched, bench, address, witness = services
    honest = bench.referee.proof
    yield Stage(watched, bench, address, witness, Path(shutil.copytree(watched.state, tmp_path / "agent")))
    bench.referee.proof = honest  # type: ignore[method-assign]


@pytest.mark.slow
def test_status_0_is_for_what_is_counted_and_without_a_witness_a_split_view_is_named(stage: Stage) -> None:
    status, out, err = stage.check(witness=True)
    assert (status, err) == (0, "")
    assert "question 1 of run run: included (entry 4 of the transcript)" in out
    status, _, err = stage.check()
    assert (status, "cannot be excluded" in err) == (0, True)


@pytest.mark.slow
def test_a_run_that_ended_without_counting_the_answers_is_no_later(stage: Stage) -> None:
    """It is cancelled while the question is open: the referee says so, and no history will ever hold the report."""
    stage.lie(NotFound("run 'run' ended 'cancelled' before the answers to question 1 were counted"))
    assert stage.check()[0] == 1


@pytest.mark.slow
def test_an_opposite_answer_beside_the_agents_own_signature_is_left_out(stage: Stage) -> None:
    stage.lie()
    assert stage.check()[0] == 0  # the double proves what is so
    stage.lie(flip=True)
    status, out, err = stage.check()
    assert status == 1
    assert "the referee has another answer beside this agent's signature" in out
    assert "1 left out; hand receipts and checkpoints to an auditor of the run" in err
    own, stage.liar.body = stage.liar.body, stage.liar.body[:2] + ("80" if stage.liar.body[2:] == "00" else "00")
    assert own != stage.liar.body  # the leaf holds the opposite, the proof names what was sent
    assert stage.check()[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("problem", [STILL_OPEN, LATER], ids=["still open", "later"])
def test_a_referee_that_keeps_answering_later_is_believed_until_its_time_is_over(
    stage: Stage, problem: TandemError
) -> None:
    stage.lie(problem)
    status, out, err = stage.check()
    assert (status, stage.liar.asked) == (3, 1)
    assert re.search("question 1 of run run: not shown yet.*from .* on this counts as left out", out)
    assert "ask again later, within the time of --within" in err
    for more, sent in ((("--within", "0"), None), ((), LONG_AGO), (("--within", "3600"), LONG_AGO), ((), 9e10)):
        if sent is not None:
            stage.sent(sent)  # or a clock that was far off
        status, out, _ = stage.check(*more)
        assert status == 1
        assert re.search("after it was sent; the referee answers: .*the receipt that shows it", out)


@pytest.mark.slow
def test_a_question_that_a_witness_has_seen_closed_is_not_open(stage: Stage) -> None:
    for problem in (STILL_OPEN, LATER, DENIED):
        stage.lie(problem)
        status, out, _ = stage.check(witness=True)
        assert (status, stage.liar.asked) == (1, 1)
        assert "the witness has seen this question closed, in 6 entries" in out


FORKS: list[tuple[dict[str, Any], str]] = [
    ({"end": "operation"}, "do not begin with those"),
    ({"end": "operation", "more": 3}, "do not begin with those"),
    ({"cut": 5, "more": 2}, "do not begin with those"),
    ({"cut": 5}, "shows only 5 now"),
]


@pytest.mark.slow
def test_a_fork_for_one_agent_is_found_by_the_witness_and_not_excluded_without(stage: Stage) -> None:
    for how, why in FORKS:
        stage.lie(**how)
        status, out, err = stage.check()
        assert (status, "included" in out) == (0, True)
        assert "no witness was asked: that the referee shows others another history" in err
        status, out, _ = stage.check(witness=True)
        assert status == 1
        assert re.search(f"the witness has seen 6 entries.*{why}", out)


@pytest.mark.slow
def test_what_the_witness_has_not_seen_yet_is_no_0_and_fails_once_the_time_is_over(
    stage: Stage, tmp_path: Path
) -> None:
    with served(witness_app(tmp_path / "another", SECRET)) as blind:
        status, out, err = stage.check(witness=blind)
        assert (status, "ask again later" in err) == (4, True)
        assert "not witnessed (entry 4 of the transcript, which the witness has not seen yet)" in out
        status, out, _ = stage.check("--within", "0", witness=blind)
    assert status == 1
    assert "which the witness has not seen 0 s after the report was sent" in out


@pytest.mark.slow
def test_one_report_that_is_left_out_decides_whatever_the_others_are(stage: Stage) -> None:
    """Two receipts, of which the referee proves one and puts the other off: 3; once it denies that, 1."""
    tree = json.loads(stage.held.path.read_bytes())
    identity = Identity.load_or_create(stage.state / "identity.key")
    report = identity.sign("report", {**tree["report"]["message"], "question": 3})
    said = {"run": "run", "question": 3, "report": report.signature, "time": 7}
    receipt = stage.watched.identity.sign("receipt", said)
    more = {**tree, "report": report.wire(), "receipt": receipt.wire()}
    (stage.state / "receipts" / "run-3.json").write_text(json.dumps(more))
    honest: Callable[[Signed], Proof] = stage.bench.referee.proof
    for problem, expected in ((LATER, 3), (DENIED, 1)):
        stage.lie(problem)
        put_off = stage.liar.proof
        stage.bench.referee.proof = lambda signed, put_off=put_off: (  # type: ignore[method-assign, misc]
            put_off if signed.message["question"] == 3 else honest
        )(signed)
        status, out, _ = stage.check("--json")
        lines = [json.loads(line) for line in out.splitlines()]
        assert (status, [line["question"] for line in lines]) == (expected, [1, 3])
        assert lines[0]["status"] == "included"


def test_what_was_shown_stays_in_the_state_directory(tmp_path):
    before = SeenCheckpoint(StoredCheckpoint.parse(read("proofs")["proof"]["kept"]), frozenset({1}))
    path = store_seen(tmp_path, "run", before)
    assert store_seen(tmp_path, "run", SeenCheckpoint(before.checkpoint, frozenset({3})), other=True) != path
    assert (seen_checkpoint(tmp_path, "run"), path.stat().st_mode & 0o777) == (before, 0o600)
    path.write_text("{}")
    with pytest.raises(BadData, match="is no checkpoint"):
        seen_checkpoint(tmp_path, "run")
