"""Contributions for the fuzzer: a curator that collects, what is said to it, and records before they are sealed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from benchmarks.fuzz.corpus import Corpus
from common.core import canonical
from common.core.errors import BadData, BadMessage
from common.crypto.identity import Identity, Signed
from common.scenario.scenario import parse_resolved
from curator.contributions import messages
from curator.contributions.collection import FOLDER, SEAL_KEY, Collection, source_of
from curator.contributions.messages import Contribution, ContributionReceipt, Offer, Withdrawal

TOKEN = "fuzz-contribution"
NAME = "0" * 32


class Contributing:
    """A curator that collects, and one person who contributes to it; in a folder that is thrown away."""

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        self._folder = folder / "collecting"
        column = {"column": "job", "values": ["a", ["b", "bb"], "1"]}
        numbers = [{"kind": "number", "column": f"x{k}", "low": -1.0, "high": 2.5} for k in range(5)]
        label = {"column": "y", "positive": ["yes"], "negative": ["no"]}
        features = [*numbers, {"kind": "category", **column}]
        people = {"table": {"contributed": True, "label": label, "features": features}}
        tree = corpus.chosen.wire() | {"source": people, "baselines": []}
        self._chosen = parse_resolved(tree)
        self.person = Identity.create()
        self.record = {"job": "bb", "y": "no", **{f"x{k}": str(k / 4) for k in range(5)}}

    @cached_property
    def collection(self) -> Collection:
        """The curator's side."""
        return Collection(self._folder, self._chosen, Identity.create(), most=1 << 20, token=TOKEN)

    @cached_property
    def _private(self) -> bytes:
        return (self._folder / FOLDER / SEAL_KEY).read_bytes()

    @cached_property
    def plaintext(self) -> bytes:
        """The person's record, before it is sealed."""
        return messages.padded(messages.checked_fields(self.record, source_of(self._chosen)), source_of(self._chosen))

    @property
    def contribution(self) -> Signed:
        """What the person sends."""
        offer = Offer.parse(self.collection.offer.message)
        sealed = messages.seal(self.plaintext, offer, self.collection.curator, NAME, self.person.public)
        return self.person.sign(sealed.KIND, sealed.wire())

    @property
    def withdrawal(self) -> Signed:
        """What the person sends to have it deleted."""
        named = {name: self.contribution.message[name] for name in ("curator", "offer", "contribution")}
        return self.person.sign(Withdrawal.KIND, named)

    def decoders(self) -> Sequence[tuple[str, Any, tuple[type[Exception], ...], list[Any], list[bytes]]]:
        """Return name, reader, errors, trees and bytes of each decoder."""
        table, sent = source_of(self._chosen), self.contribution
        receipt = self.collection.accept(sent)
        found: list[tuple[str, Any, tuple[type[Exception], ...], list[Any], list[bytes]]] = [
            ("record that was sealed", partial(_record, table), (BadData,), [self.record], [self.plaintext]),
            ("sealed record", self._opened, (BadMessage,), [], [sent.message["sealed"].encode()]),
        ]
        for kind, known in (
            (Offer, self.collection.offer),
            (Contribution, sent),
            (Withdrawal, self.withdrawal),
            (ContributionReceipt, receipt),
        ):
            found.append((f"message {kind.KIND}", partial(_message, kind), (BadMessage,), [known.message], []))
        return found

    def _opened(self, raw: bytes) -> bytes:
        message = Contribution.parse({**self.contribution.message, "sealed": raw.decode("latin-1")})
        return messages.open_contribution(message, self.person.public, self._private)


def _record(table: Any, raw: bytes) -> object:
    # Inputs are filled up as records are: else nearly all would have another length.
    return messages.read_fields(raw.ljust(messages.record_length(table)), table)


def _message(kind: Any, raw: bytes) -> object:
    return kind.parse(canonical.decode(raw))
