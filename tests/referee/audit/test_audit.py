"""The audit: any changed byte is found."""

import json
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core import canonical
from common.core.errors import AuditFailed, NotFound
from common.crypto.identity import Identity
from common.log.transcript import SignedEntry
from common.privacy import guarantee
from referee.audit.audit import audit
from referee.runfolder import unpack_reports
from tests.referee.audit.signing import identity_of
from tests.support import Bench, leave_folder, tiny


def test_an_honest_run_is_verified(undisturbed):
    folder, finished = undisturbed
    found = audit(folder / "run")
    agents = finished.result["agents"]
    assert (found.answers, found.reports, found.operations) == (agents["answered"], agents["answered"] // 400, 5)
    assert found.status == finished.result["status"] == "exhausted"
    assert found.promises["curator"] == guarantee.of_curator((60.0, 1e-4), "records")
    promised = {who: one for who, one in finished.result["privacy"].items() if who != "all_runs"}
    assert {who: promise.wire() for who, promise in found.promises.items()} == promised
    assert found.certificate is not None
    assert found.certificate.epsilon <= 60.0
    assert sum(entry.count for entry in found.certificate.events) > 0
    assert found == audit(folder / "run", identity_of(folder).public)
    with pytest.raises(AuditFailed, match="line 1"):
        audit(folder / "run", Identity.create().public)


# Changed bytes ------------------------------------------------------------------------------------------------------


@settings(max_examples=150, derandomize=True)
@given(st.data())
def test_any_changed_byte_of_the_transcript_is_caught(undisturbed, tmp_path_factory, data):
    folder = undisturbed[0] / "run"
    raw = (folder / "transcript.jsonl").read_bytes()
    at = data.draw(st.integers(0, len(raw) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[at]))
    changed = tmp_path_factory.mktemp("changed")
    for name in ("result.json", "scenario.yaml", "participants"):
        shutil.copy(folder / name, changed)
    shutil.copytree(folder / "reports", changed / "reports")
    (changed / "transcript.jsonl").write_bytes(raw[:at] + bytes([other]) + raw[at + 1 :])
    with pytest.raises(AuditFailed) as caught:
        audit(changed)
    assert "transcript" in caught.value.detail


def _fields(line: str) -> Iterator[tuple[str, int]]:
    """A place in each part of a line: a digit of its index, hashes, signature, kind, and in the middle of its body."""
    for name in ('"body":', '"hash":"', '"index":', '"kind":"', '"previous":"', '"signature":"'):
        yield name, line.rindex(name) + len(name)
    yield "middle", len(line) // 2
    yield "start", 0
    yield "end", len(line) - 1


def test_a_changed_byte_in_every_part_of_every_line_is_caught_and_located(run):
    path = run / "transcript.jsonl"
    lines = path.read_text("utf-8").split("\n")[:-1]
    for number, line in enumerate(lines):
        for name, at in _fields(line):
            changed = line[:at] + ("1" if line[at] != "1" else "2") + line[at + 1 :]
            path.write_text("\n".join([*lines[:number], changed, *lines[number + 1 :], ""]))
            with pytest.raises(AuditFailed, match=f"transcript line {number + 1}( |:|$)"):
                audit(run)
            assert name


@pytest.mark.parametrize("ending", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", " ", "\n\n"])
def test_line_ends_are_newlines_and_nothing_else(run, ending):
    path = run / "transcript.jsonl"
    raw = path.read_bytes()
    at = raw.index(b"\n")
    path.write_bytes(raw[:at] + ending.encode() + raw[at + 1 :])
    with pytest.raises(AuditFailed, match="transcript line"):
        audit(run)


def test_the_case_of_a_signature_is_part_of_it(run):
    path = run / "transcript.jsonl"
    line = path.read_text("utf-8").split("\n")[0]
    entry = SignedEntry.parse(canonical.decode(line.encode()))
    path.write_text(path.read_text("utf-8").replace(entry.signature, entry.signature.upper()))
    with pytest.raises(AuditFailed, match="line 1"):
        audit(run)


@pytest.mark.parametrize("cut", ["first", "middle", "last", "half of the last", "all", "swapped", "doubled"])
def test_missing_and_moved_lines_are_caught(run, cut):
    path = run / "transcript.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    middle = len(lines) // 2
    path.write_text(
        "".join(
            {
                "first": lines[1:],
                "middle": lines[:middle] + lines[middle + 1 :],
                "last": lines[:-1],
                "half of the last": [*lines[:-1], lines[-1][:40]],
                "all": [],
                "swapped": [*lines[:middle], lines[middle + 1], lines[middle], *lines[middle + 2 :]],
                "doubled": [*lines[:middle], lines[middle], *lines[middle:]],
            }[cut]
        )
    )
    with pytest.raises(AuditFailed):
        audit(run)


def test_a_transcript_that_is_not_text_is_caught(run):
    for text, said in ((b"\xff\xfe" * 100, "line 1 has no end"), (b"\xff\xfe\n", "line 1 cannot be read: .* 'utf-8'")):
        (run / "transcript.jsonl").write_bytes(text)
        with pytest.raises(AuditFailed, match=said):
            audit(run)


def test_unusual_characters_do_not_break_an_honest_transcript(tmp_path):
    title = "Odd: \x85 \u2028 \u2029 \U0001f600 \x7f"
    with Bench(tmp_path / "state", tiny().model_copy(update={"title": title})) as bench:
        bench.run()
        assert audit(leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())).status == "exhausted"


def test_changed_bytes_of_every_reports_file_are_caught(run):
    for path in sorted((run / "reports").iterdir()):
        raw = path.read_bytes()
        first = next(unpack_reports(raw))
        size = len(raw) - len(first.body)
        for at in (0, 7, 8, 15, 16, 17, 32, 33, 96, 97, size - 1, size, len(raw) - 1):
            path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
            with pytest.raises(AuditFailed):
                audit(run)
        for other in (b"", raw[:-1], raw + b"\0", raw + raw, raw[:10]):
            path.write_bytes(other)
            with pytest.raises(AuditFailed):
                audit(run)
        path.unlink()
        with pytest.raises(AuditFailed, match=path.name):
            audit(run)
        path.write_bytes(raw)
        assert first.body
    audit(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "done"),
        ("reason", "because"),
        ("iterations", 1),
        ("answer", None),
        ("estimate", {"value": 0.0, "low": 0.0, "high": 0.0, "confidence": 1.0}),
        ("agents", {"enrolled": 6000, "asked": 1200, "answered": 1199, "rejected": 0}),
        ("privacy", {"curator": {"epsilon": 0.1, "delta": 0.0}, "agent": {"epsilon": 0.1, "delta": 0.0}}),
        ("scenario", "adult"),
    ],
)
def test_a_changed_result_file_is_caught_by_name(run, name, value):
    path = run / "result.json"
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, name: value}))
    with pytest.raises(AuditFailed, match=f"result.json: {name} differs"):
        audit(run)
    del document[name]
    path.write_text(json.dumps(document))
    if value is not None or name != "answer":
        with pytest.raises(AuditFailed, match=r"result\.json"):
            audit(run)
    path.write_bytes(b"{")
    with pytest.raises(AuditFailed, match=r"result\.json"):
        audit(run)


@pytest.mark.parametrize("text", ["a: [", "- 1", "{}", "\x00"])
def test_a_scenario_file_that_was_changed_is_caught(run, text):
    (run / "scenario.yaml").write_text(text)
    with pytest.raises(AuditFailed, match=r"scenario\.yaml"):
        audit(run)


def test_another_scenario_is_caught(run):
    path = run / "scenario.yaml"
    path.write_text(path.read_text().replace("alpha: 0.08", "alpha: 0.07"))
    with pytest.raises(AuditFailed, match=r"scenario\.yaml differs"):
        audit(run)


def test_a_scenario_file_that_says_two_things_is_caught_though_the_last_is_true(run):
    path = run / "scenario.yaml"
    path.write_text(f"alpha: 0.01\n{path.read_text()}")
    with pytest.raises(AuditFailed, match=r"scenario\.yaml .* is given twice"):
        audit(run)


def test_no_run_folder_is_said_so(tmp_path):
    with pytest.raises(NotFound, match="is not a run folder"):
        audit(tmp_path)
