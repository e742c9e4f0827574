"""The agent in JavaScript under audit: its answers to a malicious referee, as Node runs it; no case without Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np

from benchmarks.audits.agent_cases import EPSILON, ITEMS, ORDINARY, REFEREE, Person, case, item_query
from common.core.arrays import AnyArray
from common.local.hypotheses.hypothesis import Linear
from common.local.queries.query import LossQuery, Query
from common.net import messages
from common.numerics.randomness import RandomSource
from common.privacy.auditing import Subject
from deploy.auditing import Case

SCRIPT = Path(__file__).with_name("web_agent.js")
RUNS = 2000  # no seed fixes what comes out: the least that is demanded is five deviations off
TRUTHFUL, FORGETFUL = "the truth as often as at twice the epsilon", "another secret at every start"


def answered(query: Query, mechanism: str, *, times: int = 1, twin: str = "") -> Subject:
    """One agent a run, with a secret of its own: what it answers to one question, as often as it is started again.

    ``twin`` names the fault that it has. The agent draws its own randomness, which no seed fixes.
    """
    configuration = messages.Configuration(
        run="audit",
        referee=REFEREE.public,
        scenario={"agents": {"mechanism": {"name": mechanism, "epsilon": EPSILON}}},
        order=({"first": 0, "agents": 1, "used": 0, "sha256": "0" * 64},),
    )
    one = messages.pack_indices(np.zeros(1, dtype=np.int64))
    asked = messages.Assignment(
        run="audit", digest=configuration.fingerprint(), question=0, query=query, people=one, slots=one
    )
    document = {
        "assignment": REFEREE.sign(asked.KIND, asked.wire()).wire(),
        "configuration": REFEREE.sign(configuration.KIND, configuration.wire()).wire(),
        "rules": {"referee": REFEREE.public, "epsilon": EPSILON},
    }

    def subject(person: Person, runs: int, source: RandomSource) -> AnyArray:
        sent = json.dumps({**document, "record": person, "runs": runs, "times": times, "twin": twin})
        command = ["node", "--no-warnings", str(SCRIPT)]
        printed = subprocess.run(command, input=sent, capture_output=True, check=True, text=True).stdout
        return np.array(json.loads(printed), dtype=np.float64)

    return subject


def cases() -> list[Case]:
    """Return the cases of an agent that is asked once, and of one that loses power and is asked again."""
    if shutil.which("node") is None:
        return []
    loss, item = LossQuery(hypothesis=Linear(weights=(1.0, 1.0), threshold=0.0)), item_query("krr")
    truthful = {TRUTHFUL: answered(loss, "warner", twin=TRUTHFUL)}
    forgetful = {FORGETFUL: answered(loss, "warner", times=2, twin=FORGETFUL)}
    return [
        case("in JavaScript, an answer", ORDINARY, answered(loss, "warner"), 0.5, runs=RUNS, twins=truthful),
        case("in JavaScript, an item", ITEMS, answered(item, "krr"), 0.4, runs=RUNS),
        case(
            "in JavaScript, after a crash", ORDINARY, answered(loss, "warner", times=2), 0.5, runs=RUNS, twins=forgetful
        ),
    ]
