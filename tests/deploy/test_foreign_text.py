"""A hostile party's text on the terminals of the others: shown as text, in one line that names the party."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner

from common.crypto.vouching import IssuerKey
from curator.cli import app as curator
from deploy import remote
from issuer.issuer import Keys
from local_agent.cli import app as local_agent
from referee.cli import app as referee
from tests.common.net.test_hostile_peers import hostile, whole
from tests.support import TOKEN

pytestmark = pytest.mark.slow

EVIL = (
    "\x1b]0;mine\x07\x1b[2J\x9b31m\r\n# Verified by auditor\u202e\u2028\ud800\x7f\x00[x](javascript:alert(1))</script>"
    "<script>alert(1)</script> `id` | a | b |\n# head [bold]x[/bold] :bug:"
)
REFUSES = {"title": EVIL, "detail": EVIL + "y" * (1 << 15), "status": EVIL, "spent": EVIL, EVIL: EVIL, "a": [EVIL] * 99}
LINE = dict.fromkeys(("run", "scenario", "status", "waits_for"), EVIL)
STATE = {"key": EVIL, "run": EVIL, "status": EVIL, "progress": [{"text": EVIL}], "result": {"status": EVIL, EVIL: EVIL}}
ANSWERS: dict[str, tuple[str, Any]] = {
    "refuses": ("403 No", {**REFUSES, "type": "urn:tandem:problem:refused"}),
    "asks for a token": ("401 No", {**REFUSES, "type": "urn:tandem:problem:unauthorized"}),
    "cannot write": ("503 No", {**REFUSES, "type": "urn:tandem:problem:cannot-write"}),
    "is another service": ("403 No", {**REFUSES, "type": EVIL}),
    "answers a text": ("500 No", EVIL),
    "answers a signed message": ("200 OK", {"key": EVIL, "kind": EVIL, "message": {"run": EVIL}, "signature": EVIL}),
    "answers a state": ("200 OK", STATE),
    "answers lines": ("200 OK", [LINE]),
    "answers other types": ("200 OK", {"key": {"a": EVIL}, "progress": EVIL, "result": [EVIL], "status": [EVIL]}),
}


@pytest.fixture
def issuer_key(tmp_path) -> Path:
    key: IssuerKey = Keys(tmp_path / "issuer").public
    (tmp_path / "issuer.json").write_text(json.dumps(key.wire()))
    return tmp_path / "issuer.json"


def commands(url: str, folder: Path, issuer: Path) -> Iterator[tuple[Typer, list[str]]]:
    """Go through the commands that ask another party."""
    record, key, soon = folder / "me.json", "ab" * 32, ["--patience", "0.2"]
    record.write_text('{"features": [0.1, 0.2], "label": 1}')
    as_operator = ["--url", url, "--token", TOKEN]
    for more in ([], ["--json"]):
        yield referee, ["runs", *as_operator, *more]
        yield referee, ["cancel", "r", *as_operator, *more]
    yield referee, ["logs", "r", *as_operator]
    answer = ["answer", str(record), "--token", TOKEN, "--yes", *soon, "--state"]
    yield local_agent, [*answer, str(folder / "direct"), "--referee", url]
    yield local_agent, [*answer, str(folder / "relayed"), "--relay", url, "--referee-key", key]
    credential = ["credential", "--issuer", url, "--code", "ABCDEF", "--issuer-key", str(issuer)]
    yield local_agent, [*credential, "--state", str(folder / "credential"), *soon]
    give = ["contribute", "--field", "age=3", "--to", url, "--curator-key", key, "--yes", "--token", TOKEN]
    yield curator, [*give, "--state", str(folder / "giving"), *soon]


def test_no_party_s_text_is_a_command_or_a_line_on_another_s_terminal(tmp_path, monkeypatch, issuer_key):
    monkeypatch.setattr(remote, "ENDING", 0.0)
    for name, (status, answer) in ANSWERS.items():
        with hostile(whole(json.dumps(answer).encode(), status=status)) as url:
            for app, words in commands(url, tmp_path, issuer_key):
                ended = CliRunner().invoke(app, words)
                where = (name, words[0], ended.output)
                assert ended.exit_code in (0, 1), where
                assert isinstance(ended.exception, SystemExit | None), where
                for text in (ended.stdout, ended.stderr):
                    assert all(line.isprintable() for line in text.splitlines()), where
                    assert not re.search(r"^# ", text, re.MULTILINE), where
                assert len(ended.stderr) < 5000, where
                if ended.exit_code:
                    assert len(ended.stderr.splitlines()) == 1, where
                    assert url in ended.stderr or "the referee's transcript" in ended.stderr, where
                if "--json" in words and not ended.exit_code:
                    assert ended.stdout.isascii(), where
