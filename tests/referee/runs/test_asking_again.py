"""A message that was changed on its way to or from the curator is said again; a curator that insists is believed."""

from __future__ import annotations

from typing import Any

import pytest

from common.core.errors import Forged, PeerUnavailable, PolicyRefused
from common.crypto.identity import Signed
from curator.service.curator import Curator
from referee.audit.audit import audit
from referee.runs import curator as patience
from tests.support import Bench, leave_folder, tiny


class Spoiling:
    """A curator's way back on which some replies are changed, or its way there, after which it finds them forged."""

    def __init__(self, curator: Curator, times: int, at: str, direction: str) -> None:
        self._curator, self.left, self._at, self._direction = curator, times, at, direction
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._curator, name)

    def open_run(self, signed: Signed) -> Signed:
        return self._through("open_run", signed)

    def perform(self, signed: Signed) -> Signed:
        return self._through("perform", signed)

    def _through(self, method: str, signed: Signed) -> Signed:
        spoilt = method == self._at and self.left > 0
        self.left -= spoilt
        self.asked += method == self._at
        if spoilt and self._direction == "there":
            raise Forged("this is not signed by whom it names")
        reply: Signed = getattr(self._curator, method)(signed)
        return reply.model_copy(update={"message": {**reply.message, "run": "other"}}) if spoilt else reply


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "DOUBT", 0.0)


@pytest.mark.parametrize("at", ["open_run", "perform"])
@pytest.mark.parametrize("direction", ["there", "back"])
def test_a_message_that_was_changed_on_its_way_ends_no_run(tmp_path, at, direction):
    with Bench(tmp_path / "bench", curator=lambda curator: Spoiling(curator, 1, at, direction)) as bench:
        result = bench.run()
        folder = leave_folder(tmp_path / "run", tiny(), 1, bench.finished())
    assert result["status"] == "exhausted"
    assert audit(folder).answers == 1200


def test_a_curator_that_says_so_again_and_again_is_believed(tmp_path):
    spoiling = []

    def always(curator: Curator) -> Any:
        spoiling.append(Spoiling(curator, 10**9, "perform", "back"))
        return spoiling[0]

    with Bench(tmp_path / "bench", curator=always) as bench:
        result = bench.run()
    assert (result["status"], spoiling[0].asked) == ("failed", 1 + patience.DOUBTS)
    assert "signature" in result["reason"]


def test_what_the_curators_own_rules_forbid_is_not_asked_again(tmp_path):
    class Refusing(Spoiling):
        def perform(self, signed: Signed) -> Signed:
            self.asked += 1
            raise PolicyRefused("this operation is beyond what was agreed")

    made = []

    def refusing(curator: Curator) -> Any:
        made.append(Refusing(curator, 0, "perform", "back"))
        return made[0]

    with Bench(tmp_path / "bench", curator=refusing) as bench:
        assert bench.run()["status"] == "refused"
    assert made[0].asked == 1


class Away(Spoiling):
    """A curator that nobody reaches, more often than any patience lasts."""

    def _through(self, method: str, signed: Signed) -> Signed:
        if method == self._at and self.left > 0:
            self.left -= 1
            raise PeerUnavailable("nobody answers")
        reply: Signed = getattr(self._curator, method)(signed)
        return reply


@pytest.mark.parametrize("at", ["perform"])
def test_a_curator_that_is_away_beyond_all_patience_ends_no_run(tmp_path, monkeypatch, at):
    monkeypatch.setattr(patience, "PAUSE", 0.0)
    with Bench(tmp_path / "bench", curator=lambda curator: Away(curator, 50, at, "there")) as bench:
        said: list[str] = []
        bench.referee.create("run", bench.chosen.wire(), bench.seed)
        result = bench.referee.execute("run", lambda note: said.append(note.text))
    assert result["status"] == "exhausted"
    assert said.count("the run waits for the curator: nobody answers") == 1
