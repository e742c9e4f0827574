"""Vectors of whole checks: which assignments an agent accepts, and what it tells its person; which it refuses."""

import json
import math
from typing import Any

import numpy as np

from common.core.errors import TandemError
from common.core.plain import plain
from common.crypto.identity import Identity, Signed
from common.local.naming import Names
from common.local.queries.query import QUERIES
from common.net.messages import pack_index, pack_indices
from local_agent.answers import question_digest
from local_agent.person.consent import sections
from local_agent.policy import CheckedQuestion, PersonalPolicy, own_slot
from tests.vectors.basics import OTHER, REFEREE

PLANE: dict[str, Any] = {"kind": "linear", "weights": [0.5, -1.0, 2.0], "threshold": 0.1}
LOSS: dict[str, Any] = {"kind": "loss", "hypothesis": PLANE}
WARNER = {"name": "warner", "epsilon": 1.0}
TABLE: dict[str, Any] = {
    "files": ["people.csv"],
    "label": {"column": "renews", "positive": ["yes"], "negative": ["no"]},
    "features": [
        {"kind": "number", "column": "visits", "low": 0.0, "high": 30.0, "fill": 3.0},
        {"kind": "category", "column": "plan", "values": ["basic", ["family", "duo"]]},
        {"kind": "missing", "column": "visits"},
    ],
    "norm": None,
}
NAMES = Names.of_table(TABLE)


def configuration(mechanism: Any = None, table: Any = None, title: Any = None, **changes: Any) -> dict[str, Any]:
    """Return the message of a run's configuration; None leaves out what a scenario may leave out."""
    scenario: dict[str, Any] = {"agents": {"mechanism": WARNER if mechanism is None else mechanism}}
    scenario |= {} if table is None else {"target": {"table": table}}
    scenario |= {} if title is None else {"title": title}
    order = [batch(agents=10)]
    whole = {"version": 3, "run": "run", "referee": REFEREE.public, "scenario": scenario, "order": order, **changes}
    return {name: value for name, value in whole.items() if value is not LEFT_OUT}


def batch(first: Any = 0, agents: int = 1, used: int = 0, sha256: str = "0" * 64, **more: Any) -> dict[str, Any]:
    return {"first": first, "agents": agents, "used": used, "sha256": sha256, **more}


LEFT_OUT = object()


def asked(
    about: str,
    refused: str | None = None,
    *,
    agreed: dict[str, Any] | None = None,
    query: Any = LOSS,
    slot: int = 3,
    kind: str = "assignment",
    signer: Identity = REFEREE,
    agreed_signer: Identity = REFEREE,
    epsilon: float = 2.0,
    delta: float = 0.0,
    left: tuple[float, float] | None = None,
    queries: list[str] | None = None,
    hypotheses: list[str] | None = None,
    dimension: int = 4,
    names: Names | None = None,
    edit: Any = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return one case: what an agent with these rules is sent, and the problem that it finds, if any."""
    signed_configuration = agreed_signer.sign("configuration", configuration() if agreed is None else agreed)
    message = {"run": "run", "digest": signed_configuration.digest, "question": 1, "query": query}
    message |= {"people": pack_index(0), "slots": pack_index(slot), **changes}
    signed = signer.sign(kind, {name: value for name, value in message.items() if value is not LEFT_OUT}).wire()
    case: dict[str, Any] = {"about": about, "rules": {"referee": REFEREE.public, "epsilon": epsilon, "delta": delta}}
    case["rules"] |= {} if queries is None else {"queries": queries}
    case["rules"] |= {} if hypotheses is None else {"hypotheses": hypotheses}
    case |= {"left": list(left or (epsilon, delta)), "dimension": dimension}
    case["names"] = None if names is None else names.wire()
    case |= {"assignment": signed, "configuration": signed_configuration.wire()}
    if edit is not None:
        edit(case)
    return {**case, "refused": refused} if refused else {**case, "accepted": accepted(case)}


def rules_of(case: dict[str, Any]) -> PersonalPolicy:
    rules = dict(case["rules"])
    for name in ("queries", "hypotheses"):
        if name in rules:
            rules[name] = frozenset(rules[name])
    return PersonalPolicy(**rules)


def checked(case: dict[str, Any]) -> CheckedQuestion:
    """Check a case's question in full, as an agent that has not answered it does."""
    policy, left = rules_of(case), (case["left"][0], case["left"][1])
    names = None if case["names"] is None else Names.parse(case["names"])
    assignment, agreed = (Signed.parse(case[name]) for name in ("assignment", "configuration"))
    question = policy.check(assignment, agreed, case["dimension"], names, left)
    policy.check_cost(question.mechanism.guarantee, left)
    own_slot(question.assignment)
    return question


def accepted(case: dict[str, Any]) -> dict[str, Any]:
    """Return what an agent works out of a question that it accepts."""
    question = checked(case)
    slot = own_slot(question.assignment)
    return {
        "slot": slot,
        "digest": question.digest,
        "fingerprint": question.fingerprint,
        "question": question_digest(question.query, question.mechanism),
        "part": int(question.query.parts(np.array([slot]))[0]),
        "mechanism": question.mechanism.wire(),
        "cost": list(question.mechanism.guarantee),
        "kind": question.answer_kind,
        "told": {title: text for title, text in told(case, question).items() if title not in ALIKE},
    }


ALIKE = ("Who asks", "Please note")  # told alike of every question here
ADDRESS = "https://referee.example"


def told(case: dict[str, Any], question: CheckedQuestion) -> dict[str, str]:
    shown = sections(question, ADDRESS, rules_of(case), case["left"][0])
    return {title: plain(text) for title, text in shown.items()}


def outcome(case: dict[str, Any]) -> dict[str, Any]:
    """Return what comes of a case: what is accepted, or the problem."""
    try:
        return {"accepted": accepted(case)}
    except TandemError as error:
        return {"refused": error.problem}


def _change(signed: str, **changes: Any) -> Any:
    def edit(case: dict[str, Any]) -> None:
        case[signed] = {**case[signed], "message": {**case[signed]["message"], **changes}}

    return edit


def _replace(signed: str, **changes: Any) -> Any:
    def edit(case: dict[str, Any]) -> None:
        case[signed] = {**case[signed], **changes}

    return edit


LEVELS = {"name": "warner-levels", "epsilons": [0.5, 1.0, 3.0]}
COUNT = {"kind": "item", "bits": 3}


def good_cases() -> list[dict[str, Any]]:
    """Return questions that are accepted: each kind of query and of mechanism, and what may be left out."""
    quoted = configuration(title='"quoted"\n\u202e' + "x" * 300, table=TABLE)
    several = configuration(
        beacon=[OTHER.public],
        order=[batch(agents=10, used=3, shared=True), batch(first=10, agents=2**32, sha256="f" * 64, shared=False)],
    )
    third, levels = configuration({**WARNER, "epsilon": math.log(3.0)}), configuration(LEVELS)
    long = {"kind": "threshold", "bits": 64, "below": str(2**63 + 1)}
    cases = [
        asked("a loss", agreed=configuration(title="Who renews?", table=TABLE), names=NAMES),
        asked("names of a stranger", agreed=quoted),
        asked("fields at their defaults, given", query={**LOSS, "loss": "zero-one", "bound": 1, "costs": None}),
        asked("several agents of the order", agreed=several),
        asked("a list of witnesses that is empty, given", agreed=configuration(beacon=[])),
        asked("more of the scenario", agreed=configuration(title=7)),
        asked("the last slot", slot=2**32 - 1),
        asked("a cost that is exactly what is left", epsilon=1.0),
        asked("costs that are rounded up", agreed=third, epsilon=4.0, left=(4.0 - math.log(3.0), 0.0)),
        asked("a long number as a text", query=long, dimension=64),
        asked("what is left pays for the first level", agreed=levels, epsilon=2.0, left=(0.75, 0.0)),
        asked("and for the second", agreed=levels, epsilon=2.0),
        asked("a kind that the person chose", queries=["loss"], hypotheses=["linear", "trees"]),
        asked("no limit, for simulated people", agreed=configuration({"name": "none"}), epsilon=math.inf, delta=1.0),
        asked("laplace", agreed=configuration({"name": "laplace", "epsilon": 0.5}), epsilon=4.0),
        asked("warner-levels", agreed=levels, epsilon=4.0),
    ]
    for name, more in (("krr", 3.0), ("olh", 1.0), ("hadamard", 1.0)):
        found = configuration({"name": name, "epsilon": more})
        cases.append(asked(name, agreed=found, query=COUNT, epsilon=4.0))
    for kind in QUERIES.shipped():
        for number, example in enumerate(QUERIES[kind].example()):
            oracle = example.domain is not None
            agreed = configuration({"name": "hadamard", "epsilon": 1.0} if oracle else WARNER)
            agreed["scenario"] |= {"target": {"table": TABLE}} if number % 2 == 0 else {}
            cases.append(asked(f"{kind}, example {number}", agreed=agreed, query=example.wire(), dimension=64, slot=5))
    return cases


def bad_cases() -> list[dict[str, Any]]:
    """Return questions that are refused, each with the first problem in the order of docs/wire.md."""
    forged, bad, policy, other = "forged", "bad-message", "policy", "configuration-mismatch"
    mass = {"slots": LEFT_OUT, "slot": 0, "people": "gA=="}
    graph = {"kind": "loss", "hypothesis": {"kind": "onnx", "model": "AAAA"}}
    gaussian = configuration({"name": "gaussian", "epsilon": 0.5, "delta": 1e-4})
    krr = configuration({"name": "krr", "epsilon": 1})
    return [
        asked("an assignment of another key", forged, signer=OTHER),
        asked("an assignment that was changed", forged, edit=_change("assignment", question=2)),
        asked("another kind of message", forged, kind="configuration"),
        asked("a kind that is none", forged, kind="question"),
        asked("a mass assignment under another signature", forged, edit=_replace("assignment", kind="mass-assignment")),
        asked("a configuration of another key", forged, agreed_signer=OTHER),
        asked("a configuration that was changed", forged, edit=_change("configuration", run="other")),
        asked("a configuration of another kind", forged, edit=_replace("configuration", kind="assignment")),
        asked("an older protocol", "version-skew", agreed=configuration(version=2)),
        asked("a newer protocol that says other things", "version-skew", agreed={"version": 4, "new": 1}),
        asked("no protocol", bad, agreed=configuration(version=LEFT_OUT)),
        asked("a protocol that is a text", bad, agreed=configuration(version="3")),
        asked("a protocol that is a truth value", bad, agreed=configuration(version=True)),
        asked("a protocol that is no whole number", bad, agreed=configuration(version=3.5)),
        asked("a configuration with a further field", bad, agreed=configuration(note="")),
        asked("a configuration without an order", bad, agreed=configuration(order=[])),
        asked("an order of nobody", bad, agreed=configuration(order=[batch(agents=0)])),
        asked("an order with a text", bad, agreed=configuration(order=[batch(first="0")])),
        asked("an order with a truth value that is a number", bad, agreed=configuration(order=[batch(shared=1)])),
        asked("an order that is shared as null", bad, agreed=configuration(order=[batch(shared=None)])),
        asked("a scenario that is a list", bad, agreed=configuration(scenario=[])),
        asked("a run that is a path", bad, agreed=configuration(run="../etc")),
        asked("a referee that is no key", bad, agreed=configuration(referee="")),
        asked("too many witnesses", bad, agreed=configuration(beacon=[OTHER.public] * 17)),
        asked("witnesses that are null", bad, agreed=configuration(beacon=None)),
        asked("a graph", policy, query=graph),
        asked("a graph in what is no question", policy, query={"kind": "nonsense", "a": {"b": graph}}),
        asked("a hypothesis that the person does not accept", policy, hypotheses=["trees"]),
        asked("an unknown query", bad, query={"kind": "exec", "code": "import os"}),
        asked("a query that is a text", bad, query="loss"),
        asked("no query", bad, query=None),
        asked("an unknown hypothesis", bad, query={"kind": "loss", "hypothesis": {"kind": "oracle"}}),
        asked("a further field", bad, epsilon_left=1),
        asked("a question that is a text", bad, question="1"),
        asked("a question that is a truth value", bad, question=True),
        asked("a question that is no whole number", bad, question=1.5),
        asked("a question below 0", bad, question=-1),
        asked("a question beyond 2^31", bad, question=2**31),
        asked("a question beyond 2^53", bad, question=2.0**60),
        asked("a digest in upper case", bad, digest="A" * 64),
        asked("no digest", bad, digest=LEFT_OUT),
        asked("a run with a newline", bad, run="run\n"),
        asked("slots that are a list", bad, slots=[3]),
        asked("another digest", other, digest="0" * 64),
        asked("another run", other, run="other"),
        asked(
            "another configuration than was signed, which means the same",
            other,
            digest=REFEREE.sign("configuration", configuration()).digest,
            agreed=configuration(beacon=[]),
        ),
        asked("another run, and a kind that is not accepted", other, run="other", queries=["pair"]),
        asked("a query that the person does not accept", policy, queries=["pair"]),
        asked("more features than the record has", policy, dimension=2),
        asked("other columns", policy, agreed=configuration(table={**TABLE, "norm": 1.0}), names=NAMES),
        asked("no columns", policy, names=NAMES),
        asked("a table that is none", policy, agreed=configuration(table={"features": 3}), names=NAMES),
        asked("an unknown mechanism", bad, agreed=configuration({"name": "trust-me"})),
        asked("no mechanism", bad, agreed=configuration(scenario={})),
        asked("agents that are a list", bad, agreed=configuration(scenario={"agents": []})),
        asked("a mechanism that is a text", bad, agreed=configuration("warner")),
        asked("an epsilon that is a text", bad, agreed=configuration({"name": "warner", "epsilon": "1"})),
        asked("an epsilon of 0", bad, agreed=configuration({"name": "warner", "epsilon": 0})),
        asked("an epsilon beyond 700", bad, agreed=configuration({"name": "warner", "epsilon": 701})),
        asked("a mechanism with a further field", bad, agreed=configuration({**WARNER, "delta": 0})),
        asked("levels that descend", bad, agreed=configuration({**LEVELS, "epsilons": [1, 0.5]})),
        asked("a level that is not there", bad, agreed=configuration({**LEVELS, "level": 3})),
        asked("a value for a mechanism of items", policy, agreed=krr),
        asked("an item for a mechanism of values", policy, query=COUNT),
        asked("too many items for krr", policy, agreed=krr, query={"kind": "item", "bits": 20}, dimension=20),
        asked("no noise", policy, agreed=configuration({"name": "none"})),
        asked("noise for simulated people", policy, delta=0.5, agreed=gaussian),
        asked("more delta than the budget has", policy, agreed=gaussian),
        asked("more than the lifetime budget", policy, epsilon=math.nextafter(1.0, 0.0)),
        asked("more than is left", policy, left=(math.nextafter(1.0, 0.0), 0.0)),
        asked("levels that are all too dear", policy, agreed=configuration(LEVELS), left=(0.25, 0.0)),
        asked("an assignment of very many people", bad, kind="mass-assignment", **mass),
        asked("very many people, in an assignment", bad, **mass),
        asked("another person", bad, people=pack_index(1)),
        asked("nobody", bad, people=""),
        asked("two people", bad, people=pack_indices(np.array([0, 0])), slots=pack_indices(np.array([0, 1]))),
        asked("two slots", bad, slots=pack_indices(np.array([0, 1]))),
        asked("no slot", bad, slots=""),
        asked("three bytes of a slot", bad, slots="AAAA"),
        asked("base64 without its end", bad, people="AAAAAA"),
        asked("base64 with a space", bad, people="AAAA AA=="),
        asked("base64 of a page's address", bad, slots="_____w=="),
        asked("base64 with bits behind the last byte", bad, people="AAAAAB=="),
    ]


def assignments_file() -> dict[str, Any]:
    cases = [finite(case) for case in (*good_cases(), *bad_cases())]
    configurations = list({json.dumps(case["configuration"]): case["configuration"] for case in cases}.values())
    cases = [{**case, "configuration": configurations.index(case["configuration"])} for case in cases]
    about = (
        "An agent with these rules, of which so much of the budget is left and whose record has so many features (and "
        "names, or null), gets an assignment and a configuration: what it works out of them, and tells its person of a "
        "referee at the address; or the problem for which it refuses. A configuration has its place in the list. null "
        "is without limit"
    )
    example = asked("any")
    alike = {title: text for title, text in told(example, checked(example)).items() if title in ALIKE}
    known = {"about": about, "address": ADDRESS, "told": alike}
    return {**known, "configurations": configurations, "cases": cases}


def finite(value: Any) -> Any:
    """Return a value with null in the place of what is infinite."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def whole(case: dict[str, Any], configurations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a case of the file with its configuration, and with what is infinite."""
    case = {**case, "configuration": configurations[case["configuration"]]}
    if case["rules"]["epsilon"] is not None:
        return case
    return {**case, "rules": {**case["rules"], "epsilon": math.inf}, "left": [math.inf, *case["left"][1:]]}
