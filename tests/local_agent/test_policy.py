"""An agent's own rules: a question is checked in full before the record is touched."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage, ConfigurationMismatch, Forged, PolicyRefused, TandemError
from common.wire import messages
from common.wire.identity import Identity, Signed
from local_agent.policy import ALL_QUERIES, Policy
from tests.support import seal, tiny

REFEREE = Identity.create()
LOSS: dict[str, Any] = {"kind": "loss", "hypothesis": {"kind": "linear", "weights": [1.0] * 8, "threshold": 0.0}}


def configuration(*overrides: str, run: str = "run", **changes: Any) -> messages.Configuration:
    wire = {
        "run": run,
        "referee": REFEREE.public,
        "scenario": tiny(*overrides).wire(),
        "order": [{"first": 0, "agents": 10, "used": 0, "sha256": "0" * 64}],
        **changes,
    }
    return messages.Configuration.parse(wire)


def assignment(agreed: messages.Configuration, people: Any = (0,), slots: Any = (3,), **changes: Any) -> Signed:
    wire = {
        "run": agreed.run,
        "digest": agreed.fingerprint(),
        "question": 1,
        "query": LOSS,
        "people": messages.pack_indices(np.array(people, dtype=np.int64)),
        "slots": messages.pack_indices(np.array(slots, dtype=np.int64)),
        **changes,
    }
    return REFEREE.sign("assignment", wire)


POLICY = Policy(REFEREE.public, 2.0)


def test_an_acceptable_question_passes():
    agreed = configuration()
    question = POLICY.check(assignment(agreed), seal(REFEREE, agreed), 8)
    assert question.query.wire() == {**LOSS, "loss": "zero-one"}
    assert question.mechanism.guarantee == (2.0, 0.0)


LATER: dict[str, tuple[type[TandemError], dict[str, Any]]] = {
    "a kind that is not accepted": (
        PolicyRefused,
        {"query": {"kind": "gradient", "hypothesis": LOSS["hypothesis"], "bound": 1.0}},
    ),
    "a kind that nobody knows": (BadMessage, {"query": {"kind": "exec", "code": "import os"}}),
    "a query that is no query": (BadMessage, {"query": "loss"}),
    "a hypothesis that is too large": (
        PolicyRefused,
        {"query": {"kind": "loss", "hypothesis": {"kind": "linear", "weights": [1.0] * 9, "threshold": 0.0}}},
    ),
    "an unknown field": (BadMessage, {"epsilon": 1e9}),
    "another digest": (ConfigurationMismatch, {"digest": "0" * 64}),
    "another run": (ConfigurationMismatch, {"run": "other"}),
    "a run that is a path": (BadMessage, {"run": "../../etc/passwd"}),
    "a huge question": (BadMessage, {"question": 1 << 70}),
}


@pytest.mark.parametrize("name", sorted(LATER))
def test_what_it_does_not_accept(name):
    error, changes = LATER[name]
    agreed = configuration()
    with pytest.raises(error):
        POLICY.check(assignment(agreed, **changes), seal(REFEREE, agreed), 8)


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_query_with_numbers_that_are_not_finite_is_refused(poison):
    agreed = configuration()
    good = assignment(agreed)
    query = {"kind": "loss", "hypothesis": {"kind": "linear", "weights": [poison] * 8, "threshold": 0.0}}
    bad = Signed.model_construct(**{**good.wire(), "message": {**good.message, "query": query}})
    with pytest.raises(BadMessage, match="finite"):
        POLICY.check(bad, seal(REFEREE, agreed), 8)


def test_nothing_in_a_message_raises_the_lifetime_budget():
    agreed = configuration("agents.mechanism.epsilon=2.0000001")
    with pytest.raises(PolicyRefused, match="lifetime budget is"):
        POLICY.check(assignment(agreed), seal(REFEREE, agreed), 8)
    agreed = configuration("agents.mechanism={name: none}")
    with pytest.raises(PolicyRefused, match="inf"):
        POLICY.check(assignment(agreed), seal(REFEREE, agreed), 8)
    agreed = configuration("agents.mechanism={name: gaussian, epsilon: 1, delta: 0.001}")
    with pytest.raises(PolicyRefused, match="lifetime budget is"):
        POLICY.check(assignment(agreed), seal(REFEREE, agreed), 8)
    Policy(REFEREE.public, 2.0, 0.001).check(assignment(agreed), seal(REFEREE, agreed), 8)


def test_a_mechanism_is_the_runs_and_not_the_questions():
    agreed = configuration()
    with pytest.raises(BadMessage, match="mechanism"):
        POLICY.check(assignment(agreed, mechanism={"name": "none"}), seal(REFEREE, agreed), 8)
    broken = configuration(scenario={"agents": {"mechanism": {"name": "trust-me"}}})
    with pytest.raises(BadMessage, match="no mechanism"):
        POLICY.check(assignment(broken), seal(REFEREE, broken), 8)
    empty = configuration(scenario={})
    with pytest.raises(BadMessage, match="no mechanism"):
        POLICY.check(assignment(empty), seal(REFEREE, empty), 8)


def test_only_the_pinned_referee_asks():
    mallory, agreed = Identity.create(), configuration()
    good, its = assignment(agreed), seal(REFEREE, agreed)
    for asked, about in [
        (mallory.sign("assignment", good.message), its),
        (good, mallory.sign("configuration", its.message)),
        (Signed.parse({**good.wire(), "key": mallory.public}), its),
        (Signed.parse({**good.wire(), "signature": "0" * 128}), its),
        (its, good),
    ]:
        with pytest.raises(Forged):
            POLICY.check(asked, about, 8)


def test_a_hosted_population_accepts_every_registered_kind():
    assert {"loss", "gradient"} <= ALL_QUERIES
