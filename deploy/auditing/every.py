"""Every case, and which of them audits what is registered."""

from __future__ import annotations

from collections.abc import Mapping

from deploy.auditing.case import Case
from deploy.auditing.cases import (
    adaptation_cases,
    agent_cases,
    choice_cases,
    curator_cases,
    learner_cases,
    mechanism_cases,
    release_cases,
    transcript_cases,
    votes_cases,
)

BY_NAME: Mapping[str, tuple[str, ...]] = {
    "learners chosen": ("chosen", "a choice"),
    "learners cnvx-adap": ("CnvxAdap", "CnvxAdap, private source", "the discrepancy"),
    "learners discriminant": ("class moments",),
    "learners exponential": ("exponential", "exponential, on draws"),
    "learners model-agnostic": ("noisy votes", "votes by content", "a sparse vector", "votes, on draws"),
    "learners ncnvx-adap": ("NCnvxAdap",),
    "learners parity": ("parity",),
    "learners sgd": ("sgd", "sgd, single precision"),
    "operations count": ("a count",),
    "operations head": ("a head list",),
    "operations label": ("labels of public points",),
    "operations learn": ("a repeated request", "a whole run", "a protocol's transcript"),
    "operations margins": ("weighted shares by score and label",),
    "operations parities": ("parities of a block", "parities by blocks"),
    "operations rake": ("a draw, raked",),
    "operations reweigh": ("a draw, capped", "a whole run"),
    "operations select": ("a selection",),
}
"""The cases of each learner and operation, by the group and name under which it is registered; mechanisms have one
each (:mod:`deploy.auditing.cases.mechanism_cases`)."""

NOT_PRIVATE = ("learners scikit", "learners svm", "mechanisms none")
"""What claims no privacy, and so has no case."""


def cases() -> list[Case]:
    """Return every case: of mechanisms, learners, learners on draws, operations, agents, and whole transcripts."""
    return [
        *mechanism_cases.cases(),
        *agent_cases.cases(),
        *curator_cases.cases(),
        *learner_cases.cases(),
        *release_cases.cases(),
        *choice_cases.cases(),
        *votes_cases.cases(),
        *adaptation_cases.cases(),
        *transcript_cases.cases(),
    ]
