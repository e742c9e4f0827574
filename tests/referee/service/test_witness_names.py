"""What others call their heads and runs is data: no name leads anywhere, and none keeps a witness from its work."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import httpx
import pytest

from common.core.durable import file_name
from common.core.errors import BadInput, RolledBack
from common.crypto.identity import Identity, Signed
from common.log.entries import START, Extension, Head, link, linked
from common.log.receipts import StoredCheckpoint, signed_checkpoint
from common.log.transcript import append
from common.net.witness_client import HttpWitness, WitnessClient
from local_agent.person import receipts
from referee.service.witness import HEADS, witness_app
from referee.state.witness_log import WitnessLog
from tests.support import served

SECRET = "witness-token"
HEADERS = {"Authorization": f"Bearer {SECRET}"}
REFEREE, CURATOR = Identity.create(), Identity.create()
NAMES = ("runs", "heads", "identity", "lock", "con", "nul", "com1", "0", "a-", "z" * 64, "tmp", "jsonl")
RUNS = ("runs", "Runs", "RUNS", "con", "CON", "Con", "-", "_", "a-b", "A-b", "a_b", "x" * 64, "X" * 64, "heads")
NO_NAMES = (
    "..",
    "%2e%2e",
    "..%2fidentity.key",
    "%2fetc%2fpasswd",
    "identity.key",
    ".ready",
    HEADS,
    "a.",
    "a%20",
    "%C3%A9",
    "e%CC%81",
    "A",
    "a+b",
    "a%00",
    "a%0a",
    "z" * 65,
    "z" * 5000,
    "-a",
)


def checkpoint(run: str) -> Signed:
    entries = [append(None, "configuration", {"run": run}, REFEREE)]
    return signed_checkpoint(REFEREE, run, "d" * 64, entries, 1)


def head(entries: int = 1) -> Signed:
    links = tuple(link(index, "entry", {}) for index in range(entries))
    reached = [START]
    for each in links:
        reached.append(linked(reached[-1], each))
    newest = Head(chain=reached[1], entries=entries, hash=reached[-1])
    return CURATOR.sign(Extension.KIND, Extension(head=newest, since=0, links=links).wire())


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_file_name_stands_for_one_name_alone_also_where_case_does_not_count():
    names = [file_name(run) for run in RUNS]
    assert len({name.lower() for name in names}) == len(RUNS)
    assert all(len(name) + len(".jsonl.part") < 255 for name in names)
    assert not {name.lower().partition(".")[0] for name in names} & {"con", "nul", "aux", "prn", "com1", "lpt1"}
    assert file_name("a-b_7") == "a-b_7"  # what most names are
    for wrong in ("", ".", "..", "a/b", "a.", "a ", "\u00e9", "e\u0301", "a+b", "a\n", "a\0", "x" * 65):
        with pytest.raises(BadInput, match="no file is named after"):
            file_name(wrong)


def test_heads_of_any_name_leave_room_for_runs_and_for_each_other(tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_WITNESS_TOKEN", SECRET)
    with served(witness_app(tmp_path, SECRET)) as address, closing(WitnessClient(address, SECRET)) as client:
        client.key()
        for entries, name in enumerate(NAMES, start=1):
            witness = HttpWitness(f"{address}/v1/heads/{name}")
            assert witness.last() is None
            witness.put(head(entries))
        for entries, name in enumerate(NAMES, start=1):
            found = HttpWitness(f"{address}/v1/heads/{name}").last()
            assert found is not None
            assert found.entries == entries
        for run in RUNS:
            client.keep(checkpoint(run))
        for run in RUNS:
            (kept,) = client.kept(REFEREE.public, run)
            assert kept.said(REFEREE.public).run == run
        assert [seen.run for seen in client.runs(REFEREE.public)] == sorted(RUNS)
        before = everything(tmp_path)
        with httpx.Client(base_url=address, headers=HEADERS, trust_env=False, timeout=600) as raw:
            for name in NO_NAMES:
                for path in (f"/v1/heads/{name}", f"/v1/runs/{REFEREE.public}/{name}"):
                    if path.endswith(("/A", "/-a")) and "/runs/" in path:
                        continue  # a run may be called so
                    assert 400 <= raw.get(path).status_code < 500, path
                    assert 400 <= raw.put(path, content=head().raw()).status_code < 500, path
            for key in ("..", "A" * 64, "x", f"{REFEREE.public}%0a"):
                assert 400 <= raw.put(f"/v1/runs/{key}/run", content=checkpoint("run").raw()).status_code < 500, key
        assert everything(tmp_path) == before


def test_what_an_earlier_release_has_kept_is_read_on_and_a_head_called_runs_makes_room(tmp_path):
    """Heads lay beside the folder of runs, and runs under their own names; a head called ``runs`` was in the way."""
    folder = tmp_path / "witness"
    witness_app(folder, SECRET)
    log = WitnessLog(folder / "runs", Identity.load_or_create(folder / "identity.key"))
    for run in ("run", "Run", "CON"):
        log.keep(REFEREE.public, run, checkpoint(run))
    for kept in (folder / "runs" / REFEREE.public).iterdir():
        kept.rename(kept.with_name(kept.name.partition("+")[0].removesuffix(".jsonl") + ".jsonl"))
    for name in ("clinic", "con"):
        (folder / name).write_bytes(head().raw() + b"\n")
    for _ in range(2):  # the second start finds nothing to do
        with served(witness_app(folder, SECRET)) as address, closing(WitnessClient(address, SECRET)) as client:
            client.key()
            for run in ("run", "Run", "CON"):
                (kept,) = client.kept(REFEREE.public, run)
                assert client.keep(kept.checkpoint) == kept.witnessed[0]  # nothing is forgotten
                with pytest.raises(RolledBack):
                    client.keep(signed_checkpoint(REFEREE, run, "e" * 64, [append(None, "x", {}, REFEREE)], 1))
            with httpx.Client(base_url=address, headers=HEADERS, trust_env=False, timeout=600) as raw:
                for name in ("clinic", "con"):
                    assert raw.get(f"/v1/heads/{name}").json() == head().wire()
        assert [path.name for path in sorted(folder.iterdir())] == [HEADS, "identity.key", "runs"]
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    (stopped / "runs").write_bytes(head().raw() + b"\n")
    with served(witness_app(stopped, SECRET)) as address, closing(WitnessClient(address, SECRET)) as client:
        client.key()
        client.keep(checkpoint("run"))
        with httpx.Client(base_url=address, headers=HEADERS, trust_env=False, timeout=600) as raw:
            assert raw.get("/v1/heads/runs").json() == head().wire()


def test_two_releases_that_have_worked_on_one_witness_are_told_apart(tmp_path):
    witness_app(tmp_path, SECRET)
    for place in (tmp_path / "clinic", tmp_path / HEADS / "clinic"):
        place.write_bytes(head().raw() + b"\n")
    with pytest.raises(BadInput, match="another release has worked on this directory"):
        witness_app(tmp_path, SECRET)


def test_an_agent_keeps_what_it_was_shown_of_runs_that_differ_by_case(tmp_path):
    for run in RUNS:
        stored = StoredCheckpoint(checkpoint=checkpoint(run))
        receipts.store_seen(tmp_path, run, receipts.SeenCheckpoint(stored, frozenset({1})))
    files = [path.name.lower() for path in (tmp_path / receipts.SEEN_FOLDER).iterdir()]
    assert len(set(files)) == len(RUNS)
    for run in RUNS:
        found = receipts.seen_checkpoint(tmp_path, run)
        assert found is not None
        assert found.kept.said().run == run
    old = tmp_path / "old"
    stored = StoredCheckpoint(checkpoint=checkpoint("Run"))
    receipts.store_seen(old, "Run", receipts.SeenCheckpoint(stored, frozenset({1})))
    (file,) = (old / receipts.SEEN_FOLDER).iterdir()
    file.rename(file.with_name("Run.json"))
    assert receipts.seen_checkpoint(old, "Run") is not None
    file.with_name("Run.json").rename(file.with_name("RUN.json"))  # as a file system without case finds it
    assert receipts.seen_checkpoint(old, "RUN") is None
