"""Query a curator's stream for the classes of public points, one at a time, as a consumer named by its operator."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from common.core.durable import user_state
from common.core.errors import BadData, BadInput, PeerMisbehaved
from common.crypto.identity import PROOF_HEADER, Identity, announce_body, check_public, verify
from common.net.client import Client
from common.net.edge import TINY
from common.net.messages import PointAnswer, PointQuestion

CONSUMER_KEY = "consumer.key"
"""The file of a consumer's key, by default in this user's own state."""

_WHOSE = "the curator that you named: copy its key as its operator has it, or ask whose service this is"


class StreamedLabel(NamedTuple):
    """A curator's answer about one point.

    Attributes:
        label: -1, +1 or the number of a class; None if the teachers do not agree enough.
        number: The position of the point in the stream.
        unstable_left: How many further answers may be None until the stream is used up.
        questions_left: How many further points may be asked.
        protects: Whether the curator protects whole ``records``, or their ``labels`` only.
    """

    label: int | None
    number: int
    unstable_left: int
    questions_left: int
    protects: str


class _CuratorClient(Client):
    party: ClassVar[str] = "curator"
    works = 3600.0


class LabelStream:
    """A stream of labels that a run has opened at a curator; a context manager.

    The curator signs each answer, and stores it before sending it; the same point gets the same answer for everybody.

    >>> with LabelStream("http://127.0.0.1:8001", curator_key="...") as stream:  # doctest: +SKIP
    ...     stream.ask([0.8, 0.71, 0.5, 0.29]).label
    0

    Args:
        url: Address of the curator.
        curator_key: The curator's public key, as its operator has it.
        key: File of the consumer's own key, created if there is none (:func:`consumer_key`).
        patience: Seconds to keep trying while the curator is unavailable.
    """

    def __init__(self, url: str, *, curator_key: str, key: str | Path | None = None, patience: float = 60.0) -> None:
        self._curator = check_public(curator_key, "curator_key")
        self._identity = _identity(key)
        self._client = _CuratorClient(url, patience=patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def ask(self, point: Sequence[float]) -> StreamedLabel:
        """Ask the class of one public point, given by its features as the curator's records have them.

        Raises:
            StreamUsedUp: If the budget covers no further unstable answer, or question; nothing is charged.
            PolicyRefused: If the curator's operator has not named this consumer's key.
            NotFound: If the run has opened no stream.
            BadInput: If it is no point, or has another number of features.
            PeerMisbehaved: If the answer is to another question; Forged, if another key signed it.
        """
        try:
            values = [float(value) for value in point]
        except (TypeError, ValueError):
            raise BadInput("a point is a list of numbers, the features as the curator's records have them") from None
        question = PointQuestion.parse({"curator": self._curator, "point": values})
        signed, path = self._identity.sign(question.KIND, question.wire()), "/v1/answer"
        body, headers = signed.raw(), {}
        if len(body) > TINY:  # a longer body is read only from an authenticated sender
            headers[PROOF_HEADER] = announce_body(self._identity, "PUT", path, body)
        reply = self._client.signed("PUT", path, signed, headers=headers)
        answer = PointAnswer.parse(verify(reply, PointAnswer.KIND, self._curator, _WHOSE))
        if answer.question != question.fingerprint():
            raise PeerMisbehaved("the curator answered another question than the one that was asked")
        left = answer.unstable_left, answer.questions_left
        return StreamedLabel(answer.label, answer.number, *left, answer.protects)


def _identity(key: str | Path | None) -> Identity:
    return Identity.load_or_create(Path(key) if key is not None else user_state() / CONSUMER_KEY)


def consumer_key(key: str | Path | None = None) -> str:
    """Return the public key of a consumer, for a curator's operator to name; create the key if there is none.

    ``key`` is the file of the private key; by default one in this user's own state.
    """
    return _identity(key).public


def read_points(place: Path) -> list[list[float]]:
    """Return the points of a CSV file, one per line; ``-`` is standard input. BadData names a line that is no point."""
    try:
        text = sys.stdin.read() if str(place) == "-" else place.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise BadData(f"{place} cannot be read as text") from None
    points = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            points.append([float(cell) for cell in line.split(",")])
        except ValueError:
            raise BadData(f"line {number} of {place} is not a point: numbers with commas between are wanted") from None
    return points
