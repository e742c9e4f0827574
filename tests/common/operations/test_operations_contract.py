"""Every operation: one result type, one handler, JSON forms that go there and back, results that answer the request."""

import json
from typing import Any, get_args

import pytest

from common.core.errors import BadMessage
from common.operations.operation import (
    OPERATIONS,
    Operation,
    Result,
    declared_event,
    findings,
    parse_operation,
    release_of,
)
from common.privacy.events import NoEvent, Release
from curator.operations import HANDLERS, OperationHandler
from tests.tiers import for_each

CONSTANT = {"kind": "constant", "label": 1}
CELLS = {"hypothesis": CONSTANT, "cuts": [0.0], "groups": []}
ANSWERED: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "learn": [
        ({"round": 1}, {"hypothesis": CONSTANT}),
        ({"round": 2, "task": {"features": 3}}, {"hypothesis": CONSTANT}),
    ],
    "reweigh": [({"hypothesis": CONSTANT, "loss": "hinge"}, {})],
    "margins": [({"cells": CELLS, "epsilon": 1.0}, {"shares": [5, -1, 0, 7], "whole": 8})],
    "select": [({"first": 2, "count": 3, "epsilon": 1.0}, {"feature": 4})],
    "count": [({"feature": 5, "epsilon": 1.0}, {"count": -7})],
    "parities": [
        (
            {"features": 3, "first": 3, "bits": 4, "blocks": 2, "parts": 1, "epsilon": 1.0},
            {"parities": [[[0, 3], None]]},
        )
    ],
    "head": [
        ({"bits": 64, "most": 2, "epsilon": 1.0}, {"items": [str((1 << 64) - 1), 0], "counts": [9, -1], "people": 20})
    ],
    "label": [
        ({"count": 2}, {"labels": [1, None], "protects": "records"}),
        ({"count": 1, "transfer": True}, {"labels": [3], "protects": "labels", "hypothesis": CONSTANT}),
    ],
}
"""Requests and results. Those of further kinds are tested as they are carried out (tests/curator/operations)."""
PAIRS = [(kind, *pair) for kind, pairs in ANSWERED.items() for pair in pairs]


def test_every_operation_has_a_handler():
    assert OPERATIONS.shipped() == HANDLERS.shipped()
    assert OPERATIONS.names() == HANDLERS.names()
    assert set(ANSWERED) <= set(OPERATIONS.shipped())


@for_each("kind", OPERATIONS.names())
def test_operation_result_and_handler_belong_together(kind):
    operation = OPERATIONS[kind]
    assert issubclass(operation, Operation)
    assert issubclass(operation.result, Result)
    assert operation.__base__.__pydantic_generic_metadata__["args"] == (operation.result,)
    assert issubclass(HANDLERS[kind], OperationHandler)
    handled, released = get_args(HANDLERS[kind].__orig_bases__[0])  # type: ignore[attr-defined]
    assert handled in (operation, Any)
    assert released is operation.result


@for_each(("kind", "request_", "result"), PAIRS)
def test_requests_and_results_go_there_and_back(kind, request_, result):
    operation = parse_operation({"kind": kind, **request_})
    found = operation.read(json.loads(json.dumps(result)))
    assert type(found) is operation.result
    assert found.wire() == result
    event = Release(epsilon=1.0)
    release = release_of(found, event)
    assert release == {**result, "event": event.wire()}
    assert (operation.read(release), findings(release), declared_event(release)) == (found, result, event)


@for_each(("kind", "request_", "result"), PAIRS)
def test_a_result_holds_what_it_declares_and_nothing_else(kind, request_, result):
    operation = parse_operation({"kind": kind, **request_})
    missing = ({k: result[k] for k in result if k != name} for name in result)
    for wrong in ([result], None, {**result, "surprise": 1}, *missing):
        with pytest.raises(BadMessage):
            operation.read(wrong)


@for_each("kind", OPERATIONS.shipped())
def test_only_reweigh_changes_weights_and_it_releases_nothing(kind):
    operation = OPERATIONS[kind].example()[0]
    assert (operation.reweighs_by is not None) == (kind == "reweigh")
    assert (operation.reweighs_by is not None) == (not operation.result.model_fields)


BOUNDS = [
    {"kind": kind, **ANSWERED[kind][0][0], **changes}
    for kind, changes in [
        ("margins", {"epsilon": 0.002}),
        ("head", {"epsilon": 61.0}),
        ("head", {"bits": 65}),
        ("head", {"most": 0}),
        ("parities", {"parts": 0}),
        ("parities", {"blocks": 0}),
        ("select", {"first": -1}),
        *(("label", changes) for changes in ({"count": 0}, {"first": -1}, {"count": 1 << 21}, {"transfer": "x"})),
    ]
]


def test_no_request_or_release_is_one_without_a_kind_or_an_event_that_is_known():
    assert declared_event(release_of(Result(), NoEvent())) == NoEvent()
    for release in ({}, {"event": None}, {"event": {"kind": "free"}}):
        with pytest.raises(BadMessage):
            declared_event(release)
    for wire in ({}, {"kind": "hack"}, {"kind": ["learn"]}, {"kind": "learn"}, {"kind": "learn", "round": 0}, *BOUNDS):
        with pytest.raises(BadMessage):
            parse_operation(wire)


REQUESTS = {kind: {"kind": kind, **pairs[0][0]} for kind, pairs in ANSWERED.items()}
REQUESTS["label with transfer"] = {"kind": "label", **ANSWERED["label"][1][0]}
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a feature that was not to be selected from": ("select", {"feature": 1}, "from 2 to 4"),
    "a feature after the last": ("select", {"feature": 5}, "from 2 to 4"),
    "a count that is no number": ("count", {"count": True}, "integer"),
    "another number of parts": ("parities", {"parities": [[[0], None]] * 2}, "1 parts of 2 blocks"),
    "another number of blocks": ("parities", {"parities": [[[0]]]}, "1 parts of 2 blocks"),
    "a parity of more features": ("parities", {"parities": [[[0, 4], None]]}, "3 features and a constant"),
    "a longer list": ("head", {"items": [1, 2, 3], "counts": [1, 2, 3], "people": 9}, "2 different items"),
    "an item twice": ("head", {"items": [1, 1], "counts": [1, 2], "people": 9}, "2 different items"),
    "an item without a count": ("head", {"items": [1, 2], "counts": [1], "people": 9}, "2 different items"),
    "an item of more bits": ("head", {"items": [1 << 64], "counts": [1], "people": 9}, "64 bits"),
    "nobody who was counted": ("head", {"items": [1], "counts": [1], "people": 0}, "at least 1"),
    "another number of labels": ("label", {"labels": [1], "protects": "records"}, "labels of 2 points"),
    "a model too many": ("label", {"labels": [1, 1], "protects": "labels", "hypothesis": CONSTANT}, "not asked for"),
    "a model that is missing": ("label with transfer", {"labels": [1], "protects": "labels"}, "was asked for"),
}


@for_each("what", sorted(WRONG))
def test_a_result_that_does_not_answer_the_request_is_refused(what):
    request_, result, words = WRONG[what]
    with pytest.raises(BadMessage, match=words):
        parse_operation(REQUESTS[request_]).read(result)
