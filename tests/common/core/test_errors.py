"""The tree of errors: every one has its own problem type, and comes back from its document as what it was."""

from __future__ import annotations

import common.net.edge  # noqa: F401 - services raise no errors of their own
from common.core import errors
from common.core.errors import (
    URN,
    BadScenario,
    PeerError,
    PeerUnavailable,
    RunCancelled,
    Superseded,
    TandemError,
    every_error,
    from_document,
)
from tests.tiers import for_each

OWN = (RunCancelled, Superseded, PeerError)


def test_every_error_has_its_own_type_title_and_status():
    kinds = every_error()
    assert len(kinds) >= 19
    assert len({kind.problem for kind in kinds}) == len({kind.title for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert "problem" in vars(kind), f"{kind.__name__} has no type of its own"
        assert 400 <= kind.status < 600
        assert kind.__doc__


def test_the_tree_in_the_docstring_is_the_tree():
    for kind in every_error():
        assert kind.__name__ in str(errors.__doc__)


@for_each("kind", every_error(), ids=lambda kind: kind.__name__)
def test_a_document_gives_the_error_back(kind):
    error = kind("a sentence", spent=1.5, budget=2)
    document = error.document()
    assert document["type"] == URN + kind.problem
    again = from_document(document)
    if issubclass(kind, OWN):
        assert type(again) is PeerError, "a peer steers this process, or judges another peer, by what it reports"
        return
    assert type(again) is kind
    assert (again.detail, again.members, again.document()) == (error.detail, error.members, document)


@for_each(
    "document",
    [
        {},
        {"type": "urn:other:problem"},
        {"type": None, "title": 7},
        {"type": URN + "nothing", "detail": ["x"]},
        {"type": URN + "refused", "self": 1, "kind": 2, "detail": "d", "args": 3},
    ],
)
def test_any_document_of_a_stranger_becomes_some_error(document):
    error = from_document(document)
    assert isinstance(error, TandemError)
    assert isinstance(error.detail, str)
    if not str(document.get("type")).endswith("refused"):
        assert type(error) is PeerError


def test_kinds_that_commands_and_clients_tell_apart():
    assert BadScenario.status == 422
    assert PeerUnavailable.status == 503
