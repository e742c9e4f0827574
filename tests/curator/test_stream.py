"""A stream of labels at a curator: asked over HTTP, durable, across crashes, used up; what hostile consumers get."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from common.core import errors
from common.crypto.identity import PROOF_HEADER, Identity, Signed, announce_body, verify
from common.log.ledger import Journal
from common.net.messages import PointAnswer, PointQuestion
from common.scenario import loading
from common.scenario.scenario import ResolvedScenario
from curator import app
from curator.app import curator_app
from curator.curator import Curator
from curator.ledger import ANSWER, Ledger, entry_summaries, verify_ledger
from curator.startup import open_curator
from deploy.checking import checked
from deploy.processes import free_port
from tandem.stream import LabelStream, StreamedLabel
from tests.curator.given import Crash, crash_at, full_disk
from tests.support import Bench, audited, served
from tests.tiers import for_each

SLOW = pytest.mark.slow
CONSUMER = Identity.create()
SIZES = (
    "curator.n=2400", "curator.learner.queries=20", "curator.learner.stream=12", "curator.learner.chunks=200",
    "curator.learner.aggregation={name: sparse-vector, epsilon: plan, delta: plan, cutoff: 3}", "curator.epsilon=4",
    "agents.count=40", "agents.batch=40", "baselines=[]", "agents.deadline=5",
)  # fmt: skip
CENTRES = [[0.8, 0.71, 0.5, 0.29], [0.35, 0.21, 0.24, 0.42], [0.35, 0.58, 0.76, 0.79]]
"""Of the three kinds of people: nearly all teachers agree."""
MIDDLE = [[0.575, 0.461, 0.37, 0.355 + 0.001 * step] for step in range(4)]
"""Between two kinds: the teachers do not agree."""


@cache
def scenario(*more: str) -> ResolvedScenario:
    return checked(loading.load("model-agnostic-stream", [*SIZES, *more]))


def reopened(folder: Path) -> Curator:
    curator = open_curator(scenario(), folder, 1, None)
    curator.consumers = frozenset({CONSUMER.public})
    return curator


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of parties whose run has opened a stream, and is over; to be copied."""
    folder = tmp_path_factory.mktemp("stream") / "parties"
    with Bench(folder, scenario()) as bench:
        result = bench.run()
        assert result["status"] == "done"
        assert "at no further cost the curator's stream takes 12 questions more" in result["reason"]
        audited(bench)
    return folder / "curator"


@pytest.fixture
def state(ended: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ended, tmp_path / "curator"))


@pytest.fixture
def curator(state: Path) -> Iterator[Curator]:
    with closing(reopened(state)) as opened:
        yield opened


def question(to: Curator, point: Any, who: Identity = CONSUMER, **changes: Any) -> Signed:
    asked = {"curator": to.key, "point": list(point), **changes}
    return who.sign(PointQuestion.KIND, asked)


def ask(curator: Curator, point: Any) -> PointAnswer:
    signed = question(curator, point)
    reply = curator.answer_point(signed, curator.admit_point(signed))
    return PointAnswer.parse(verify(reply, PointAnswer.KIND, curator.key))


def answers(curator: Curator) -> int:
    return sum(entry.kind == ANSWER for entry in curator._journal.chain.entries)


@SLOW
def test_any_point_is_answered_later_and_all_of_it_was_charged_at_the_opening(curator: Curator) -> None:
    [charge] = list(curator._ledger)
    assert charge.event.wire() == {"kind": "release", "epsilon": 4.0, "delta": 1e-6}
    assert charge.result is not None
    assert charge.result["stream"]["cutoff"] == 3
    assert charge.result["stream"]["questions"] == 12
    before = curator.charges()
    for number, point in enumerate(CENTRES, start=1):
        found = ask(curator, point)
        assert (found.label, found.number, found.unstable_left) == (number - 1, number, 3)
        assert found.questions_left == 12 - number
    found = ask(curator, MIDDLE[0])
    assert (found.label, found.unstable_left) == (None, 2)
    assert curator.charges() == before


@SLOW
def test_the_same_point_is_the_same_question_and_uses_nothing_up(curator: Curator) -> None:
    first = ask(curator, MIDDLE[0])
    assert ask(curator, MIDDLE[0]) == first
    close = np.nextafter(MIDDLE[0][0], 1.0)  # the same in single precision, as records are
    assert ask(curator, [close, *MIDDLE[0][1:]]).number == first.number
    assert (answers(curator), ask(curator, [*MIDDLE[0][:3], 0.4]).number) == (1, 2)


@SLOW
def test_a_stream_that_is_used_up_says_so_charges_nothing_and_repeats_what_it_said(curator: Curator) -> None:
    while (found := ask(curator, [*MIDDLE[0][:3], 0.355 + 0.001 * answers(curator)])).unstable_left:
        pass
    head, before = curator._journal.chain.head(), curator.charges()
    with pytest.raises(errors.StreamUsedUp, match=r"all unstable answers were given\. Nothing was charged"):
        ask(curator, CENTRES[0])
    assert (curator._journal.chain.head(), curator.charges()) == (head, before)
    assert ask(curator, [*MIDDLE[0][:3], 0.355 + 0.001 * (found.number - 1)]) == found


@SLOW
def test_no_more_questions_are_taken_than_were_agreed(curator: Curator) -> None:
    for number in range(12):
        assert ask(curator, [0.8, 0.71, 0.5, 0.29 + 0.001 * number]).questions_left == 11 - number
    with pytest.raises(errors.StreamUsedUp, match="all 12 questions were asked"):
        ask(curator, CENTRES[1])
    assert answers(curator) == 12


POINTS = [CENTRES[0], MIDDLE[0], CENTRES[1], MIDDLE[1], MIDDLE[0], CENTRES[2], MIDDLE[2]]


@pytest.fixture(scope="module")
def undisturbed(ended: Path, tmp_path_factory: pytest.TempPathFactory) -> list[PointAnswer]:
    with closing(reopened(Path(shutil.copytree(ended, tmp_path_factory.mktemp("calm") / "curator")))) as curator:
        return [ask(curator, point) for point in POINTS]


@SLOW
@for_each(
    ("owner", "method", "when", "after"),
    [(Ledger, "answer", 1, False), (Ledger, "answer", 2, True), (Ledger, "answer", 4, False),
     (Journal, "publish", 3, True)],
)  # fmt: skip
def test_after_a_crash_the_answers_are_what_they_would_have_been(
    owner: type, method: str, when: int, after: bool, ended: Path, undisturbed: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    state = Path(shutil.copytree(ended, tmp_path / f"{method}-{when}-{after}"))
    with closing(reopened(state)) as curator, monkeypatch.context() as patched:
        crash_at(patched, owner, method, when, after)
        with pytest.raises(Crash):
            list(map(partial(ask, curator), POINTS))
    with closing(reopened(state)) as curator:
        assert [ask(curator, point) for point in POINTS] == undisturbed
        assert answers(curator) == len(POINTS) - 1
    assert verify_ledger(state)["closed"] is None
    assert entry_summaries(state)[-1] == {
        "entry": len(entry_summaries(state)),
        "kind": "answer",
        "consumer": CONSUMER.public,
    }


@SLOW
def test_a_full_disk_gives_no_answer_and_changes_none(curator: Curator, undisturbed: Any) -> None:
    ask(curator, POINTS[0])
    with full_disk(), pytest.raises(errors.CannotWrite):
        ask(curator, POINTS[1])
    assert answers(curator) == 1
    assert [ask(curator, point) for point in POINTS] == undisturbed


@SLOW
def test_a_ledger_that_was_put_back_has_other_noise_for_other_questions(state: Path, tmp_path: Path) -> None:
    """Two histories from one copy: the thresholds after their first bottoms differ (that a copy is old is refused)."""
    other, found = Path(shutil.copytree(state, tmp_path / "other")), []
    for folder, point in ((state, MIDDLE[0]), (other, MIDDLE[1])):
        with closing(reopened(folder)) as curator:
            assert ask(curator, point).label is None
            assert curator._stream is not None
            found.append(curator._stream._steps[-1][0])
    assert found[0] != found[1]


@SLOW
def test_more_answers_than_the_stream_has_are_no_ledger_of_ours(curator: Curator) -> None:
    for number in range(13):
        curator._ledger.answer(question(curator, [0.8, 0.71, 0.5, 0.001 * number]), 0)
    with pytest.raises(errors.BrokenLedger, match="more answers of a stream"):
        ask(curator, CENTRES[0])


@contextmanager
def serving(state: Path, port: int, consumer: str) -> Iterator[subprocess.Popen[bytes]]:
    """Serve the curator of a state directory by its command; it is killed at the end."""
    sizes = [word for size in SIZES for word in ("--set", size)]
    options = ["--seed", "1", "--state", str(state), "--port", str(port), "--consumer-key", consumer]
    command = [sys.executable, "-m", "curator.cli", "serve", "model-agnostic-stream", *sizes, *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@SLOW
def test_a_curator_that_is_killed_gives_the_answers_that_it_would_have_given(
    state: Path, undisturbed: list[PointAnswer], tmp_path: Path
) -> None:
    """``kill -9`` while questions are under way: no answer differs, none is lost, and none is counted twice."""
    path, key = tmp_path / "consumer.key", Identity.load_or_create(state / "identity.key").public
    consumer = Identity.load_or_create(path).public
    port = free_port()
    found: list[StreamedLabel] = []

    def asking() -> None:
        with LabelStream(f"http://127.0.0.1:{port}", curator_key=key, key=path, patience=300) as stream:
            found.extend(map(stream.ask, POINTS))

    asker = threading.Thread(target=asking)
    asker.start()
    with serving(state, port, consumer):
        while len(found) < 2:
            time.sleep(0.005)
    with serving(state, port, consumer):
        asker.join()
    assert [(one.label, one.number) for one in found] == [(one.label, one.number) for one in undisturbed]
    assert sum(entry["kind"] == "answer" for entry in entry_summaries(state)) == len(POINTS) - 1


# Over HTTP ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def address(curator: Curator) -> Iterator[str]:
    with served(curator_app(curator)) as found:
        yield found


def put(address: str, content: bytes, headers: Any = None) -> httpx.Response:
    return httpx.put(f"{address}/v1/answer", content=content, headers=headers, trust_env=False, timeout=60)


@SLOW
def test_a_consumer_asks_from_python(curator: Curator, address: str, tmp_path: Path) -> None:
    path = tmp_path / "consumer.key"
    curator.consumers |= {Identity.load_or_create(path).public}
    with LabelStream(address, curator_key=curator.key, key=path) as stream:
        assert [stream.ask(point).label for point in CENTRES] == [0, 1, 2]
        assert stream.ask(MIDDLE[0]) == stream.ask(MIDDLE[0]) == (None, 4, 2, 8, "records")
        for wrong in ([1.0], [1.0, np.nan, 0.0, 0.0]):
            with pytest.raises(errors.BadInput):
                stream.ask(wrong)
    refused: tuple[tuple[str, Path, type[Exception]], ...] = (
        (curator.key, tmp_path / "stranger", errors.PolicyRefused),
        (CONSUMER.public, path, errors.ConfigurationMismatch),
    )
    for owner, key, error in refused:
        with LabelStream(address, curator_key=owner, key=key) as stream, pytest.raises(error):
            stream.ask(CENTRES[1])
    assert answers(curator) == 4


@SLOW
def test_what_hostile_consumers_send_gets_a_problem_document_and_changes_nothing(
    curator: Curator, address: str
) -> None:
    head, fine = curator._journal.chain.head(), question(curator, CENTRES[0])
    stranger = Identity.create()
    text = fine.raw().decode()
    hostile: list[tuple[bytes, int, str]] = [
        (question(curator, CENTRES[0], stranger).raw(), 403, "policy"),
        (fine.raw().replace(fine.signature.encode(), b"0" * 128), 401, "forged"),
        (question(curator, CENTRES[0], curator="0" * 64).raw(), 409, "configuration-mismatch"),
        (question(curator, CENTRES[0], run="other").raw(), 422, "bad-message"),
        (question(curator, [0.1] * 3).raw(), 422, "bad-input"),
        (question(curator, [0.1] * 7).raw(), 422, "bad-input"),
        (question(curator, []).raw(), 422, "bad-message"),
        (question(curator, [1e39, 0, 0, 0]).raw(), 422, "bad-input"),
        (question(curator, ["a", 0, 0, 0]).raw(), 422, "bad-message"),
        (question(curator, [[0.1], 0, 0, 0]).raw(), 422, "bad-message"),
        (question(curator, CENTRES[0], label=1).raw(), 422, "bad-message"),
        (text.replace("0.8", "NaN", 1).encode(), 422, "bad-message"),
        (text.replace("0.8", "1e999", 1).encode(), 422, "bad-message"),
        (CONSUMER.sign("perform", fine.message).raw(), 422, "bad-message"),
        (b"[" * 4000, 422, "bad-message"),
        (b"", 422, "bad-message"),
        (b"x" * 5000, 413, "too-large"),
        (b"x" * (1 << 17), 413, "too-large"),
    ]
    for content, status, problem in hostile:
        reply = put(address, content)
        assert (reply.status_code, reply.json()["type"].rpartition(":")[2]) == (status, problem), content
    assert curator._journal.chain.head() == head
    assert PointAnswer.parse(Signed.parse(put(address, fine.raw()).json()).message).label == 0


@SLOW
def test_a_long_point_is_read_only_of_a_consumer_who_announces_it(curator: Curator, address: str) -> None:
    for who, status in ((CONSUMER, 422), (Identity.create(), 403)):
        signed = question(curator, [0.123456789] * 2000, who).raw()
        headers = {PROOF_HEADER: announce_body(who, "PUT", "/v1/answer", signed)}
        assert put(address, signed, headers=headers).status_code == status
    assert put(address, question(curator, [0.123456789] * 2000).raw()).status_code == 413
    assert answers(curator) == 0


@SLOW
def test_a_flood_is_told_to_ask_again_and_waits_in_no_queue(
    curator: Curator, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "PROMPT", 0.02)
    monkeypatch.setattr(app, "WAITING", 3)
    leave, real = threading.Event(), curator.answer_point

    def slow(*admitted: Any) -> Signed:
        assert leave.wait(60)
        return real(*admitted)

    monkeypatch.setattr(curator, "answer_point", slow)
    sent = [question(curator, [0.8, 0.71, 0.5, 0.29 + 0.01 * n]).raw() for n in range(5)]
    assert [put(address, one).status_code for one in sent] == [202, 202, 202, 503, 503]
    assert put(address, sent[3]).json()["type"].endswith(":busy")
    assert put(address, sent[0]).status_code == 202  # the same question takes no further place
    leave.set()
    for one in sent[:3]:
        while (reply := put(address, one)).status_code == 202:
            pass
        assert reply.status_code == 200
    assert answers(curator) == 3


@SLOW
def test_before_the_run_has_opened_it_there_is_no_stream(tmp_path: Path) -> None:
    with Bench(tmp_path / "parties", scenario()) as bench:
        bench.curator.consumers = frozenset({CONSUMER.public})
        for opened in (lambda: None, bench.open):
            opened()
            with pytest.raises(errors.NotFound, match="no run has opened a stream"):
                ask(bench.curator, CENTRES[0])


@for_each(
    ("changes", "error", "match"),
    [
        (("curator.epsilon=0.5", "curator.learner.aggregation.epsilon=2", "curator.learner.aggregation.delta=1e-7"),
         errors.BudgetExceeded, "the plan costs"),
        (("curator.rounds=2",), errors.BadScenario, "a stream is opened once"),
        (("protocol=learn-and-test",), errors.BadScenario, "a stream is opened once"),
        (("curator.learner.aggregation={name: gnmax, noise: plan}",), errors.BadScenario, "wants the aggregation"),
        (("curator.learner.aggregation.estimate=0.1",), errors.BadScenario, "with a fixed cutoff"),
        (("curator.learner.stream=65537",), errors.BadScenario, "stream"),
    ],
)  # fmt: skip
def test_what_cannot_be_opened_is_refused_before_anything_is_charged(
    changes: tuple[str, ...], error: type[Exception], match: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=match):
        open_curator(scenario(*changes), tmp_path / "curator", 1, None)
    assert not (tmp_path / "curator" / "ledger.jsonl").exists()
