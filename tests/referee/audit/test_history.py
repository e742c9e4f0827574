"""A referee that leaves out reports, shows two histories, or cuts a run short is found by a receipt or a witness."""

import json
import shutil
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core.durable import claim
from common.core.errors import AuditFailed, Forged, RolledBack, Unauthorized
from common.crypto.identity import Identity, Signed
from common.local.records import Records
from common.log.receipts import Proof, ProofRequest, StoredCheckpoint, entries_tree, signed_checkpoint
from common.log.transcript import SignedEntry, append
from common.net.client import WitnessClient
from common.net.messages import Configuration
from deploy.remote import Remote
from local_agent.cli import app as agent_command
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.person.checking import INCLUDED, LEFT_OUT, UNSEEN, HeldReceipt, check, held_receipts
from local_agent.policy import PersonalPolicy
from referee.audit.audit import audit
from referee.audit.history import check_history, check_reports, checkpoints_at, receipts_at
from referee.cli import app
from referee.runfolder import pack_reports, unpack_reports
from referee.runs.checkpoints import RunCheckpoints
from referee.service.app import referee_app
from referee.service.runner import Runner
from referee.service.witness import witness_app
from referee.witness_log import WitnessLog
from tests.referee.audit.signing import curator_of, cut_short, entries_of, resign_as, said, write_checkpoint
from tests.support import TOKEN, Bench, leave_folder, served, tiny
from tests.tiers import for_each

SECRET = "witness-token"
ONE_QUESTION = ("protocol=learn-and-test", "agents.count=600", "agents.batch=600", "curator.rounds=1",
                "agents.deadline=5")  # fmt: skip


class Watched:
    """A finished run with an individual who holds a receipt, and a witness that has seen it."""

    def __init__(self, folder: Path) -> None:
        self.witness_folder = folder / "witness"
        self.state = folder / "agent"
        chosen = tiny(*ONE_QUESTION)
        with (
            served(witness_app(self.witness_folder, SECRET)) as address,
            closing(WitnessClient(address, SECRET)) as witness,
        ):
            self.witness_key = witness.key()
            with Bench(folder / "bench", chosen, individuals=1, watching=[witness]) as bench:
                self.referee = bench.referee.identity.public
                person = Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))
                claim_referee(self.state, self.referee)
                with closing(Agent(person, PersonalPolicy(self.referee, 2.0), self.state)) as agent:
                    host = Host(agent, bench.referee, self.referee)
                    host.enrol(TOKEN)
                    bench.meanwhile(lambda: answered(host))
                    bench.run()
                self.run = leave_folder(folder / "run", chosen, 1, bench.finished())
                self.bench_folder = folder / "bench"
                self.identity = bench.referee.identity
                self.chosen = chosen


def claim_referee(state: Path, key: str) -> None:
    state.mkdir(parents=True)
    claim(state / "referee", {"referee": key})


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
    found = audit(run, receipts=receipts_at([watched.state / "receipts"]))
    history = found.history
    assert history.began is not None
    assert history.ended is not None
    assert history.began <= history.ended
    assert history.promised == (watched.witness_key,)
    assert history.witnesses[watched.witness_key].entries == found.entries
    assert history.unseen == ()
    assert history.receipts == 1
    done = CliRunner().invoke(app, ["audit", str(run), "--receipt", str(watched.state / "receipts")])
    assert done.exit_code == 0, done.output
    assert "by the referee's clock" in done.output
    assert f"witness {watched.witness_key[:16]}... has seen it from" in done.output
    assert "compared with 1 receipt: its report is there" in done.output


def test_a_report_that_is_left_out_is_found_by_its_receipt(watched, run):
    """The referee drops one report before it counts, and signs all that follows: only the receipt tells."""
    path = run / "reports" / "1.reports"
    signature = next(held_receipts(watched.state)).report.signature
    left = [report for report in unpack_reports(path.read_bytes()) if report.signature.hex() != signature]
    path.write_bytes(pack_reports(left))

    entries = entries_of(run)
    configuration = Configuration.parse(entries[0].body["configuration"])
    receipts = receipts_at([watched.state / "receipts"])
    with pytest.raises(AuditFailed, match="a report on question 1 is left out: the referee has signed"):
        check_history(run, entries, configuration, receipts, ())
    check_history(run, entries, configuration, (), ())


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
            code, output = said(run, "--receipt", watched.state / "receipts")
            assert code == 1
            assert "a report on question 1 is left out: the referee has signed at" in output
            assert "counts no answers to this question" in output


def test_reports_that_no_root_of_the_transcript_commits_to_are_no_evidence(watched, run):
    """The receipt's report lies in the folder, beside another one or in another place: the root is what counts."""
    receipts = receipts_at([watched.state / "receipts"])
    entries = entries_of(run)
    configuration = Configuration.parse(entries[0].body["configuration"])
    path = run / "reports" / "1.reports"
    path.write_bytes(path.read_bytes() + pack_reports(list(unpack_reports(path.read_bytes()))[:1]))
    with pytest.raises(AuditFailed, match="does not hold the reports that entry 4 counts"):
        check_history(run, entries, configuration, receipts, ())
    (run / "reports" / "7.reports").write_bytes(b"")
    with pytest.raises(AuditFailed, match=r"reports/7.reports: the transcript asks no question 7"):
        check_reports(run, entries)


def test_a_receipt_of_another_run_or_referee_is_no_proof(watched, run, tmp_path):
    receipt = receipts_at([watched.state / "receipts"])[0]
    other = watched.identity.sign("receipt", {**receipt.message, "run": "another"})
    with pytest.raises(AuditFailed, match="none of the receipts is for this run, 'run': 'another' is another"):
        audit(run, receipts=[other])
    assert audit(run, receipts=[other, receipt]).history.receipts == 1
    with pytest.raises(AuditFailed, match="whose run this is"):
        audit(run, receipts=[Identity.create().sign("receipt", receipt.message)])


def forked(run: Path, signer: Identity) -> None:
    """Write another end of the run: the referee's key signs it all anew, and answers for one more entry."""
    entries = entries_of(run)
    last = entries[-2]
    body = json.loads(json.dumps(entries[-1].body))
    again = append(last, entries[-1].kind, body, signer)
    assert again == entries[-1]  # Ed25519 is deterministic: the same history has the same bytes
    other = append(last, "result", {**body, "order": {**body["order"], "600": "00" * 32}}, signer)
    lines = [entry.line() for entry in (*entries[:-1], other)]
    (run / "transcript.jsonl").write_text("".join(line + "\n" for line in lines))


def test_two_histories_of_one_run_are_told_apart_by_the_checkpoints(watched, run):
    forked(run, watched.identity)
    with pytest.raises(AuditFailed, match="another history of the run"):
        audit(run)


def test_a_fork_with_checkpoints_of_its_own_is_found_by_the_witness(watched, run):
    """Whoever has the referee's key signs new checkpoints, too: what it cannot sign is the word of the witness."""
    before = kept_of(run)
    forked(run, watched.identity)
    write_checkpoint(run, watched.identity, entries_of(run), before[-1].verified().time)
    code, output = said(run, "--strict", "--referee-key", watched.referee, "--curator-key", curator_of(run))
    assert code == 1
    assert "was to be witnessed by" in output
    with served(witness_app(watched.witness_folder, SECRET)) as address:
        code, output = said(run, "--witness", address)
    assert code == 1
    assert "the witness has seen a transcript of" in output
    assert "another history of the run" in output


def test_a_run_that_was_cut_short_and_called_failed_is_found_by_the_witness(watched, run):
    entries = entries_of(run)
    result = json.loads(json.dumps(entries[-1].body))
    result["result"].update(status="failed", reason="power cut", answer=None)
    cut = [*entries[:2], append(entries[1], "result", result, watched.identity)]
    (run / "transcript.jsonl").write_text("".join(entry.line() + "\n" for entry in cut))
    write_checkpoint(run, watched.identity, cut)
    with served(witness_app(watched.witness_folder, SECRET)) as address, closing(WitnessClient(address)) as witness:
        seen = witness.kept(watched.referee, "run")

    configuration = Configuration.parse(cut[0].body["configuration"])
    last = seen[-1:]  # a slow run has had a checkpoint of three entries as well, which would be another history
    with pytest.raises(AuditFailed, match="here it is cut short"):
        check_history(run, cut, configuration, (), last)
    assert check_history(run, cut, configuration, (), ()).unseen == (watched.witness_key,)


def test_a_word_of_the_witness_that_is_not_shown_leaves_a_gap(watched, run):
    kept = kept_of(run)
    assert len(kept) > 1
    write_kept(run, kept[1:])
    with pytest.raises(AuditFailed, match="has signed more of this run than is shown"):
        audit(run)


def test_checkpoints_that_do_not_belong_together_are_refused(run):
    kept = kept_of(run)
    of_another = kept[0].model_copy(update={"witnessed": kept[-1].witnessed})
    for wrong, why in (([*kept, kept[0]], "does not follow"), ([of_another, *kept[1:]], "another checkpoint")):
        write_kept(run, wrong)
        with pytest.raises(AuditFailed, match=why):
            audit(run)


def test_files_that_are_no_checkpoints_or_receipts_are_said_so(watched, run, tmp_path):
    (run / "checkpoints.jsonl").write_text("{}\n")
    with pytest.raises(AuditFailed, match=r"checkpoints.jsonl cannot be read"):
        audit(run)
    (run / "checkpoints.jsonl").write_text('{"checkpoint"')
    with pytest.raises(AuditFailed, match="it was cut"):
        audit(run)
    (run / "checkpoints.jsonl").unlink()
    history = audit(run).history
    assert (history.began, history.ended, history.witnesses, len(history.unseen)) == (None, None, {}, 1)
    for place in (tmp_path / "nothing.json", run):
        code, output = said(watched.run, "--receipt", str(place))
        assert code == 1
        assert "receipt" in output


# The agent's own check ------------------------------------------------------------------------------------------------


class Answering:
    """A referee that gives one proof, or one problem."""

    def __init__(self, reply: Proof | Exception) -> None:
        self.reply = reply

    def proof(self, signed: Signed) -> Proof:
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


@pytest.fixture(scope="module")
def proven(watched) -> tuple[HeldReceipt, Identity, Proof]:
    """What the agent holds, who it is, and the proof that the referee gives it."""
    receipt = next(held_receipts(watched.state))
    identity = Identity.load_or_create(watched.state / "identity.key")
    found: list[Proof] = []

    class Noting:
        def proof(self, signed: Signed) -> Proof:
            found.append(bench.referee.proof(signed))
            return found[-1]

    with Bench(watched.bench_folder, watched.chosen, individuals=1) as bench:
        finding = check(receipt, identity, Noting(), watched.referee)
    assert finding.status == INCLUDED
    assert finding.witnesses == (watched.witness_key,)
    return receipt, identity, found[0]


def test_an_agent_checks_over_http_that_its_report_is_counted(watched):
    with (
        served(witness_app(watched.witness_folder, SECRET)) as witness,
        Bench(watched.bench_folder, watched.chosen, individuals=1) as bench,
        served(referee_app(bench.referee, Runner(bench.referee))) as address,
    ):
        bench.referee.allow("operator", TOKEN)
        arguments = ["check", "--referee", address, "--state", str(watched.state), "--witness", witness]
        done = CliRunner().invoke(agent_command, arguments)
        assert done.exit_code == 0, done.output
        assert "question 1 of run run: included (entry" in done.output
        assert f"witnessed by {watched.witness_key[:16]}" in done.output
        with closing(Remote(address, TOKEN)) as remote:
            page = remote._page("run", 0)
        assert page == kept_of(watched.run)


def test_an_agent_that_checks_again_finds_a_referee_that_shows_another_history(watched, run, tmp_path, monkeypatch):
    """The first check leaves the checkpoint; the second one is shown a fork that holds the report as well."""
    state = Path(shutil.copytree(watched.state, tmp_path / "agent"))
    with (
        Bench(watched.bench_folder, watched.chosen, individuals=1) as bench,
        served(referee_app(bench.referee, Runner(bench.referee))) as address,
    ):
        arguments = ["check", "--referee", address, "--state", str(state)]
        for _ in range(2):  # of the same history, as often as one likes
            done = CliRunner().invoke(agent_command, arguments)
            assert done.exit_code == 0, done.output
        (kept,) = (state / "checkpoints").glob("*.json")
        assert audit(run, shown=checkpoints_at([kept])).entries == len(entries_of(run))

        forked(run, watched.identity)
        fork = entries_of(run)
        newest = kept_of(watched.run)[-1].verified()
        twin = signed_checkpoint(watched.identity, "run", newest.configuration, fork, newest.time)
        write_checkpoint(run, watched.identity, fork, newest.time)
        monkeypatch.setattr(bench.referee.store, "entries", lambda name: [entry.line() for entry in fork])
        monkeypatch.setattr(bench.referee.store, "last_checkpoint", lambda name: StoredCheckpoint(checkpoint=twin))
        bench.referee.proofs._reached.clear()
        done = CliRunner().invoke(agent_command, arguments)
    assert done.exit_code == 1
    assert "question 1 of run run: another history (the referee has shown" in done.output
    assert {path.name for path in (state / "checkpoints").glob("*.json")} == {"run.json", "run.other.json"}
    code, output = said(run, "--checkpoint", str(kept))
    assert code == 1
    assert "the referee has shown an agent a transcript of" in output
    assert said(run, "--checkpoint", str(state / "checkpoints" / "run.other.json"))[0] == 0
    code, output = said(run, "--checkpoint", str(tmp_path / "agent" / "receipts"))
    assert code == 1
    assert "is no checkpoint" in output


@for_each(
    ("lie", "why"),
    [
        (lambda p: {"path": p.path[:-1]}, "does not lead from this report"),
        (lambda p: {"index": p.index ^ 1}, "does not lead from this report"),
        (lambda p: {"body": "00"}, "has another answer beside this agent's signature"),
        (lambda p: {"entry_path": p.entry_path[:-1]}, "does not lead from the question's entry"),
        (lambda p: {"entry": {**p.entry, "body": {**p.entry["body"], "root": "00" * 32}}}, "is not what its hash says"),
        (lambda p: {"entry": {**p.entry, "body": {**p.entry["body"], "question": 2}}}, "is not what its hash says"),
    ],
    ids=["path", "index", "answer", "entry's path", "root", "question"],
)
def test_a_proof_that_is_none_is_a_report_that_was_left_out(watched, proven, lie, why):
    receipt, identity, proof = proven
    forged = Proof.parse({**proof.wire(), **lie(proof)})
    finding = check(receipt, identity, Answering(forged), watched.referee)
    assert finding.status == LEFT_OUT
    assert why in finding.why
    entry = SignedEntry.parse(proof.entry)
    other = append(None, entry.kind, entry.body, Identity.create())
    elsewhere = watched.identity.sign("checkpoint", {**proof.kept.verified().wire(), "run": "another"})
    for change in ({"entry": other.wire()}, {"kept": StoredCheckpoint(checkpoint=elsewhere)}):
        finding = check(receipt, identity, Answering(proof.model_copy(update=change)), watched.referee)
        assert finding.status == LEFT_OUT


class Seeing:
    """A witness that has seen what it is given."""

    def __init__(self, key: str, kept: list[StoredCheckpoint]) -> None:
        self._key, self._kept = key, kept

    def key(self) -> str:
        return self._key

    def kept(self, referee: str, run: str) -> list[StoredCheckpoint]:
        return self._kept


class Showing:
    """A referee that proves the report of a proof in these entries."""

    def __init__(self, proof: Proof, entries: list[SignedEntry], kept: StoredCheckpoint) -> None:
        self._proof, self._tree, self._kept = proof, entries_tree(entries), kept

    def proof(self, signed: Signed) -> Proof:
        since = ProofRequest.parse(signed.message).since
        more = self._tree.consistency(since) if since is not None and since <= len(self._tree) else None
        path = self._tree.path(SignedEntry.parse(self._proof.entry).index)
        return self._proof.model_copy(update={"kept": self._kept, "entry_path": path, "consistency": more})


def test_a_witness_of_another_history_or_of_none_is_heard(watched, proven, tmp_path):
    """Its newest checkpoint must be a beginning of what the referee shows, and hold the question's entry."""
    receipt, identity, proof = proven
    kept, entries, signer = kept_of(watched.run), entries_of(watched.run), Identity.create()
    newest = proof.kept.verified()
    ask = Showing(proof, entries, kept[-1])

    def finding(seen: list[StoredCheckpoint], key: str = watched.witness_key, within: float = 60.0) -> tuple[str, str]:
        found = check(receipt, identity, ask, watched.referee, Seeing(key, seen), within=within)
        return found.status, found.why

    def seen(entries: list[SignedEntry], folder: str) -> list[StoredCheckpoint]:
        checkpoint = signed_checkpoint(watched.identity, "run", newest.configuration, entries, newest.time)
        word = WitnessLog(tmp_path / folder, signer).keep(checkpoint)
        return [StoredCheckpoint(checkpoint=checkpoint, witnessed=(word,))]

    assert finding(kept)[0] == INCLUDED
    assert finding(seen(entries[:5], "whole answers"), signer.public)[0] == INCLUDED
    for behind in ([], seen(entries[:4], "behind")):
        assert finding(behind, signer.public)[0] == UNSEEN
        assert finding(behind, signer.public, within=0.0)[0] == LEFT_OUT
    for strange in (kept[-1].checkpoint, signer.sign("checkpoint", newest.wire())):
        with pytest.raises(Forged):
            finding([StoredCheckpoint(checkpoint=strange)])
    fork = append(entries[-2], "result", {"result": {}}, watched.identity)
    longer = append(entries[-1], "result", {"result": {}}, watched.identity)
    for other, why in (([*entries[:-1], fork], "another history"), ([*entries, longer], "shows only 6 now")):
        status, found = finding(seen(other, f"of {len(other)}"), signer.public)
        assert status == LEFT_OUT
        assert f"the witness has seen {len(other)} entries" in found
        assert why in found


# The referee's side ---------------------------------------------------------------------------------------------------


def test_a_referee_that_was_put_back_cannot_go_on_as_if_nothing_was(watched, tmp_path):
    """Its database is an older copy: the witness has seen more, and says so before anybody is asked again."""
    with (
        served(witness_app(watched.witness_folder, SECRET)) as address,
        closing(WitnessClient(address, SECRET)) as witness,
        Bench(watched.bench_folder, watched.chosen, individuals=1) as bench,
    ):
        checkpoints = RunCheckpoints(bench.referee.store, bench.referee.identity, [witness])
        entries = entries_of(watched.run)
        newest = kept_of(watched.run)[-1].verified()
        older = signed_checkpoint(watched.identity, "run", newest.configuration, entries[:2], newest.time)
        with pytest.raises(RolledBack, match="has seen"):
            witness.keep(older)
        assert (
            checkpoints.make("run", newest.configuration) == kept_of(watched.run)[-1]
        )  # the same again is no further one
        assert not checkpoints.owed("run")


def test_only_whoever_has_its_token_makes_a_witness_keep_something_and_everybody_may_read(watched):
    checkpoint = kept_of(watched.run)[-1].checkpoint
    with served(witness_app(watched.witness_folder, SECRET)) as address:
        for token in ("", "another"):
            with closing(WitnessClient(address, token)) as stranger:
                with pytest.raises(Unauthorized):
                    stranger.keep(checkpoint)
                assert stranger.kept(watched.referee, "run") == kept_of(watched.run)
                assert stranger.kept(watched.referee, "another") == []
