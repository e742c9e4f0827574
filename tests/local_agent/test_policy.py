"""An agent's own rules: a question is checked in full before the record is touched."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadInput, BadMessage, ConfigurationMismatch, Forged, PolicyRefused, TandemError
from common.crypto.identity import Identity, Signed
from common.local.naming import Names
from common.local.queries.query import QUERIES
from common.net import messages
from common.protocols.base import DEMANDS, Demands
from local_agent.policy import ALL_QUERIES, Policy, chosen_queries
from tests.support import seal, tiny
from tests.tiers import for_each

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
    "a graph": (PolicyRefused, {"query": {"kind": "loss", "hypothesis": {"kind": "onnx", "graph": "AAAA"}}}),
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


@for_each("name", sorted(LATER))
def test_what_it_does_not_accept(name):
    error, changes = LATER[name]
    agreed = configuration()
    with pytest.raises(error):
        POLICY.check(assignment(agreed, **changes), seal(REFEREE, agreed), 8)


@for_each("poison", [math.nan, math.inf, -math.inf])
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


GRADIENT: dict[str, Any] = {"kind": "gradient", "hypothesis": LOSS["hypothesis"], "bound": 1.0}


def test_every_shipped_kind_is_accepted_unless_the_person_narrows_it():
    agreed = configuration()
    its = seal(REFEREE, agreed)
    assert POLICY.queries == frozenset(QUERIES.shipped())
    asked_by_protocols = {
        kind for name in DEMANDS.names() if not name.startswith("example-") for kind in _asked(DEMANDS[name])
    }
    assert asked_by_protocols <= POLICY.queries
    assert {"loss", "score", "sole-error", "moment", "gradient"} <= asked_by_protocols
    for accept, refuse, accepts in (
        ((), (), ("loss", "gradient")),
        (("loss",), (), ("loss",)),
        (("loss", "gradient"), ("gradient",), ("loss",)),
        ((), ("loss",), ("gradient",)),
        (("item",), (), ()),
    ):
        policy = Policy(REFEREE.public, 2.0, queries=chosen_queries(accept, refuse))
        for kind, query in {"loss": LOSS, "gradient": GRADIENT}.items():
            if kind in accepts:
                assert policy.check(assignment(agreed, query=query), its, 8).query.kind == kind
            else:
                with pytest.raises(PolicyRefused, match=f"questions of kind '{kind}' are not accepted"):
                    policy.check(assignment(agreed, query=query), its, 8)
        assert set(policy.announced(8).refuses) == POLICY.queries - policy.queries


def _asked(demands: Demands) -> set[str]:
    patterns = (demands.pattern, *demands.alone.values())
    return {kind for pattern in patterns for kind in pattern.kinds("agents")}


@for_each(("accept", "refuse", "why"), [
    (["los"], [], "no question is of kind 'los'.*loss"),
    ([], ["scores"], "no question is of kind 'scores'.*score"),
    (["loss"], ["loss"], "leave no kind"),
    ([], QUERIES.shipped(), "leave no kind"),
])  # fmt: skip
def test_what_narrows_nothing_sensible_is_refused(accept, refuse, why):
    with pytest.raises(BadInput, match=why):
        chosen_queries(accept, refuse)


def test_what_is_announced_is_the_policy_and_nothing_of_a_record():
    assert POLICY.announced(8).wire() == {"refuses": [], "epsilon": 2.0, "delta": 0.0, "features": 8}
    assert Policy(REFEREE.public, math.inf).announced(3).wire() == {
        "refuses": [],
        "epsilon": None,
        "delta": None,
        "features": 3,
    }


def test_a_run_about_other_columns_than_the_records_is_refused():
    wire = tiny().wire()
    table: dict[str, Any] = {
        "files": ["t.csv"],
        "label": {"column": "insured", "positive": ["yes"], "negative": ["no"]},
        "features": [{"kind": "number", "column": f"c{j}", "low": 0.0, "high": 9.0} for j in range(8)],
    }
    agreed = configuration(scenario={**wire, "target": {"table": table}})
    its, own = seal(REFEREE, agreed), Names.of_table(table)
    asked = POLICY.check(assignment(agreed), its, 8, own)
    assert (asked.names, asked.own_names, asked.purpose) == (own, True, tiny().title)
    asked = POLICY.check(assignment(agreed), its, 8)
    assert (asked.names, asked.own_names) == (own, False)
    others: list[dict[str, Any]] = [
        {**table, "features": [*reversed(table["features"])]},
        {**table, "label": {**table["label"], "positive": ["no"], "negative": ["yes"]}},
    ]
    for other in others:
        with pytest.raises(PolicyRefused, match="about other columns than this record was made for"):
            POLICY.check(assignment(agreed), its, 8, Names.of_table(other))
    nameless = configuration()
    with pytest.raises(PolicyRefused, match="other columns"):
        POLICY.check(assignment(nameless), seal(REFEREE, nameless), 8, own)
    nothing: list[Any] = [7, {"table": 7}, {"table": {"features": [{}], "label": {}}}, {"table": {"label": 3}}]
    for broken in nothing:
        strange = configuration(scenario={**wire, "target": broken})
        assert POLICY.check(assignment(strange), seal(REFEREE, strange), 8).names == Names()


def test_a_hosted_population_accepts_every_registered_kind():
    assert {"loss", "gradient"} <= ALL_QUERIES
