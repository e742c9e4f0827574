"""A referee that leaves out reports, shows two histories, or cuts a run short is found by a receipt or a witness."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core.durable import claim
from common.core.errors import AuditFailed, Unauthorized
from common.crypto.identity import Identity, Signed
from common.local.records import Records
from common.log.receipts import Proof, StoredCheckpoint
from common.log.transcript import SignedEntry, append
from common.net.client import WitnessClient
from common.net.messages import Configuration
from deploy.remote import Remote
from local_agent.cli import app as agent_command
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.person.checking import INCLUDED, LEFT_OUT, HeldReceipt, check, held_receipts
from local_agent.policy import PersonalPolicy
from referee.audit.audit import audit
from referee.audit.history import check_history, check_reports, checkpoints_at, receipts_at
from referee.runfolder import pack_reports, unpack_reports
from referee.service.witness import witness_app
from tests.referee.audit.signing import curator_of, cut_short, entries_of, resign_as, said, says, write_checkpoint
from tests.support import TOKEN, Bench, served, tiny

SECRET = "witness-token"
ONE_QUESTION = ("protocol=learn-and-test", "agents.count=600", "agents.batch=600", "curator.rounds=1",
                "agents.deadline=5")  # fmt: skip


class Watched:
    """A finished run with an individual who holds a receipt, and a witness that has seen it."""

    def __init__(self, folder: Path) -> None:
        self.witness_folder, self.state, self.bench_folder = folder / "witness", folder / "agent", folder / "bench"
        self.chosen = tiny(*ONE_QUESTION)
        with self.witness() as witness, self.bench([witness]) as bench:
            self.witness_key, self.referee = witness.key(), bench.referee.identity.public
            person = Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))
            self.state.mkdir(parents=True)
            claim(self.state / "referee", {"referee": self.referee})
            with closing(Agent(person, PersonalPolicy(self.referee, 2.0), self.state)) as agent:
                host = Host(agent, bench.referee, self.referee)
                host.enrol(TOKEN)
                bench.meanwhile(lambda: answered(host))
                bench.run()
            self.run, self.identity = bench.leave(), bench.referee.identity
        self.receipts = receipts_at([self.state / "receipts"])

    def bench(self, watching: Sequence[Any] = ()) -> Bench:
        return Bench(self.bench_folder, self.chosen, individuals=1, watching=watching)

    @contextmanager
    def witness(self, token: str = SECRET) -> Iterator[WitnessClient]:
        with served(witness_app(self.witness_folder, SECRET)) as url, closing(WitnessClient(url, token)) as client:
            yield client

    @contextmanager
    def serving(self) -> Iterator[tuple[Bench, str]]:
        with self.bench() as bench, served(bench.app()) as address:
            yield bench, address

    def check(self, run: Path, receipts: Sequence[Signed], entries: Sequence[SignedEntry] = (), seen: Any = ()) -> Any:
        """Check the history of a run folder, or of these entries."""
        entries = entries or entries_of(run)
        return check_history(run, entries, Configuration.parse(entries[0].body["configuration"]), receipts, seen)


def answered(host: Host) -> None:
    assert host.step()
    assert host.finished


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Watched:
    return Watched(tmp_path_factory.mktemp("watched"))


@pytest.fixture
def run(watched, tmp_path) -> Path:
    return Path(shutil.copytree(watched.run, tmp_path / "run"))


def kept_of(run: Path) -> list[StoredCheckpoint]:
    return [StoredCheckpoint.parse(json.loads(line)) for line in (run / "checkpoints.jsonl").read_text().splitlines()]


def write_kept(run: Path, kept: list[StoredCheckpoint]) -> None:
    (run / "checkpoints.jsonl").write_text("".join(json.dumps(each.wire(), sort_keys=True) + "\n" for each in kept))


def test_an_honest_run_says_when_it_was_and_who_has_seen_it(watched, run):
    found = audit(run, receipts=watched.receipts)
    history = found.history
    assert history.began <= history.ended
    assert (history.promised, history.unseen, history.receipts) == ((watched.witness_key,), (), 1)
    assert history.witnesses[watched.witness_key].entries == found.entries
    seen = f"witness {watched.witness_key[:16]}... has seen it from"
    words = ("by the referee's clock", seen, "compared with 1 receipt: its report is there")
    says(0, words, run, "--receipt", watched.state / "receipts")


def test_a_report_that_is_left_out_is_found_by_its_receipt(watched, run):
    """The referee drops one report before it counts, and signs all that follows: only the receipt tells."""
    path = run / "reports" / "1.reports"
    signature = next(held_receipts(watched.state)).report.signature
    left = [report for report in unpack_reports(path.read_bytes()) if report.signature.hex() != signature]
    path.write_bytes(pack_reports(left))
    with pytest.raises(AuditFailed, match="a report on question 1 is left out: the referee has signed"):
        watched.check(run, watched.receipts)
    watched.check(run, ())


def test_a_history_that_was_cut_short_fails_with_the_receipts_of_what_was_cut(watched, run):
    """The referee signs each beginning anew and deletes the cut reports, or leaves them there, or exchanges them.

    Its folder passes alone, where that leaves it whole: without a receipt nobody can tell it from a run that failed.
    """
    kept, reports = run.parent / "kept", run / "reports" / "1.reports"
    shutil.copytree(run, kept)
    kinds = [entry.kind for entry in entries_of(run)]
    assert kinds == ["configuration", "terms", "operation", "question", "answers", "result"]
    for entries in (2, 3, 4):
        for left in (True, False):
            shutil.rmtree(run)
            shutil.copytree(kept, run)
            resign_as(watched.identity, run, partial(cut_short, entries=entries))
            if not left:
                reports.unlink()
            passes = entries == 4 or not left  # an open question has reports that no root commits to
            assert said(run)[0] == (0 if passes else 1), (entries, left)
            words = ("a report on question 1 is left out: the referee has signed at", "counts no answers to this")
            says(1, words, run, "--receipt", watched.state / "receipts")


def test_reports_that_no_root_of_the_transcript_commits_to_are_no_evidence(watched, run):
    """The receipt's report lies in the folder, beside another one or in another place: the root is what counts."""
    path = run / "reports" / "1.reports"
    path.write_bytes(path.read_bytes() + pack_reports(list(unpack_reports(path.read_bytes()))[:1]))
    with pytest.raises(AuditFailed, match="does not hold the reports that entry 4 counts"):
        watched.check(run, watched.receipts)
    (run / "reports" / "7.reports").write_bytes(b"")
    with pytest.raises(AuditFailed, match=r"reports/7.reports: the transcript asks no question 7"):
        check_reports(run, entries_of(run))


def test_a_receipt_of_another_run_or_referee_is_no_proof(watched, run):
    (receipt,) = watched.receipts
    other = watched.identity.sign("receipt", {**receipt.message, "run": "another"})
    for signed, why in (
        (other, "none of the receipts is for this run, 'run': 'another' is another"),
        (Identity.create().sign("receipt", receipt.message), "whose run this is"),
    ):
        with pytest.raises(AuditFailed, match=why):
            audit(run, receipts=[signed])
    assert audit(run, receipts=[other, receipt]).history.receipts == 1


def forked(run: Path, signer: Identity) -> None:
    """Write another end of the run: the referee's key answers for one more entry."""
    *entries, last = entries_of(run)
    assert append(entries[-1], last.kind, last.body, signer) == last  # Ed25519 is deterministic
    other = append(entries[-1], "result", {**last.body, "order": {**last.body["order"], "600": "00" * 32}}, signer)
    (run / "transcript.jsonl").write_text("".join(entry.line() + "\n" for entry in (*entries, other)))


def test_two_histories_of_one_run_are_told_apart_by_the_checkpoints_and_by_the_witness(watched, run):
    """Whoever has the referee's key signs new checkpoints, too: what it cannot sign is the word of the witness."""
    before = kept_of(run)
    forked(run, watched.identity)
    with pytest.raises(AuditFailed, match="another history of the run"):
        audit(run)
    write_checkpoint(run, watched.identity, entries_of(run), before[-1].verified().time)
    both = "--referee-key", watched.referee, "--curator-key", curator_of(run)
    says(1, ("was to be witnessed by",), run, "--strict", *both)
    with watched.witness() as witness:
        words = ("the witness has seen a transcript of", "another history of the run")
        says(1, words, run, "--witness", witness.url)


def test_a_run_that_was_cut_short_and_called_failed_is_found_by_the_witness(watched, run):
    entries = entries_of(run)
    body = {**entries[-1].body, "result": {**entries[-1].body["result"], "status": "failed", "answer": None}}
    cut = [*entries[:2], append(entries[1], "result", body, watched.identity)]
    write_checkpoint(run, watched.identity, cut)
    with watched.witness() as witness:
        # A slow run has had a checkpoint of three entries as well, which would be another history.
        last = witness.kept(watched.referee, "run")[-1:]
    with pytest.raises(AuditFailed, match="here it is cut short"):
        watched.check(run, (), cut, last)
    assert watched.check(run, (), cut).unseen == (watched.witness_key,)


def test_checkpoints_and_files_that_do_not_belong_together_are_refused(watched, run, tmp_path):
    kept = kept_of(run)
    of_another = kept[0].model_copy(update={"witnessed": kept[-1].witnessed})
    for wrong, why in (
        (kept[1:], "has signed more of this run than is shown"),  # a word that is not shown leaves a gap
        ([*kept, kept[0]], "does not follow"),
        ([of_another, *kept[1:]], "another checkpoint"),
    ):
        write_kept(run, wrong)
        with pytest.raises(AuditFailed, match=why):
            audit(run)
    for text, why in (("{}\n", "checkpoints.jsonl cannot be read"), ('{"checkpoint"', "it was cut")):
        (run / "checkpoints.jsonl").write_text(text)
        with pytest.raises(AuditFailed, match=why):
            audit(run)
    (run / "checkpoints.jsonl").unlink()
    history = audit(run).history
    assert (history.began, history.ended, history.witnesses, len(history.unseen)) == (None, None, {}, 1)
    for place in (tmp_path / "nothing.json", run):
        says(1, ("receipt",), watched.run, "--receipt", place)


# The agent's own check ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proven(watched) -> tuple[HeldReceipt, Identity, Proof]:
    """What the agent holds, who it is, and the proof that the referee gives it."""
    receipt, found = next(held_receipts(watched.state)), []
    identity = Identity.load_or_create(watched.state / "identity.key")
    with watched.bench() as bench:
        noting = SimpleNamespace(proof=lambda signed: found.append(bench.referee.proof(signed)) or found[-1])
        finding = check(receipt, identity, noting, watched.referee)
    assert (finding.status, finding.witnesses) == (INCLUDED, (watched.witness_key,))
    return receipt, identity, found[0]


def agent_checks(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(agent_command, ["check", *map(str, arguments)])
    return done.exit_code, done.output


def test_an_agent_checks_over_http_that_its_report_is_counted(watched):
    with watched.witness() as witness, watched.serving() as (_, address):
        code, output = agent_checks("--referee", address, "--state", watched.state, "--witness", witness.url)
        assert code == 0, output
        assert "question 1 of run run: included (entry" in output
        assert f"witnessed by {watched.witness_key[:16]}" in output
        with closing(Remote(address, TOKEN)) as remote:
            assert remote._page("run", 0) == kept_of(watched.run)


def test_an_agent_that_checks_again_finds_a_referee_that_shows_another_history(watched, run, tmp_path, monkeypatch):
    """The first check leaves the checkpoint; the second one is shown a fork that holds the report as well."""
    state = Path(shutil.copytree(watched.state, tmp_path / "agent"))
    with watched.serving() as (bench, address):
        arguments = ("--referee", address, "--state", state)
        assert [agent_checks(*arguments)[0] for _ in range(2)] == [0, 0]  # of the same history, as often as one likes
        (kept,) = (state / "checkpoints").glob("*.json")
        assert audit(run, agent_checkpoints=checkpoints_at([kept])).entries == len(entries_of(run))

        forked(run, watched.identity)
        fork, newest = entries_of(run), kept_of(watched.run)[-1].verified()
        write_checkpoint(run, watched.identity, fork, newest.time)
        monkeypatch.setattr(bench.referee.store, "entries", lambda name: [entry.line() for entry in fork])
        monkeypatch.setattr(bench.referee.store, "last_checkpoint", lambda name: kept_of(run)[-1])
        bench.referee.proofs._reached.clear()
        code, output = agent_checks(*arguments)
    assert (code, "question 1 of run run: another history (the referee has shown" in output) == (1, True)
    other = state / "checkpoints" / "run.other.json"
    assert {path.name for path in (state / "checkpoints").glob("*.json")} == {"run.json", other.name}
    for place, status, words in (
        (kept, 1, "the referee has shown an agent a transcript of"),
        (other, 0, ""),
        (state / "receipts", 1, "is no checkpoint"),
    ):
        says(status, (words,), run, "--checkpoint", place)


def test_a_proof_that_is_none_is_a_report_that_was_left_out(watched, proven):
    receipt, identity, proof = proven
    entry = SignedEntry.parse(proof.entry)
    other = append(None, entry.kind, entry.body, Identity.create())
    elsewhere = watched.identity.sign("checkpoint", {**proof.kept.verified().wire(), "run": "another"})

    def body(**changed: object) -> dict[str, Any]:
        return {"entry": {**proof.entry, "body": {**proof.entry["body"], **changed}}}

    for lie, why in (
        ({"path": proof.path[:-1]}, "does not lead from this report"),
        ({"index": proof.index ^ 1}, "does not lead from this report"),
        ({"body": "00"}, "has another answer beside this agent's signature"),
        ({"entry_path": proof.entry_path[:-1]}, "does not lead from the question's entry"),
        (body(root="00" * 32), "is not what its hash says"),
        (body(question=2), "is not what its hash says"),
        ({"entry": other.wire()}, ""),
        ({"kept": StoredCheckpoint(checkpoint=elsewhere).wire()}, ""),
    ):
        forged = Proof.parse({**proof.wire(), **lie})
        finding = check(receipt, identity, SimpleNamespace(proof=lambda signed, f=forged: f), watched.referee)
        assert (finding.status, why in finding.why) == (LEFT_OUT, True), why


# The referee's side ---------------------------------------------------------------------------------------------------


def test_only_whoever_has_its_token_makes_a_witness_keep_something_and_everybody_may_read(watched):
    kept = kept_of(watched.run)
    for token in ("", "another"):
        with watched.witness(token) as stranger:
            with pytest.raises(Unauthorized):
                stranger.keep(kept[-1].checkpoint)
            assert (stranger.kept(watched.referee, "run"), stranger.kept(watched.referee, "another")) == (kept, [])
