"""An agent's own rules: a question is checked in full before the record is touched."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

import local_agent.hosted.questions as answered_module
from common.core.arrays import Floats, Indices
from common.core.errors import BadData, BadInput, BadMessage, CannotWrite, PeerUnavailable, PolicyRefused, Unauthorized
from common.crypto.identity import Identity, Signed
from common.local.naming import Names
from common.local.queries.query import QUERIES, Query
from common.local.records import Records
from common.net import messages
from common.protocols.base import DEMANDS
from local_agent import cli_services
from local_agent import host as module
from local_agent.answers import CONSTANT, evaluate
from local_agent.cli import _read_fields, read_record
from local_agent.host import Host, public_seconds
from local_agent.hosted.population import open_population
from local_agent.person.agent import Agent
from local_agent.person.checking import read_receipt
from local_agent.policy import ALL_HYPOTHESES, PersonalPolicy, chosen_queries
from tests.clocks import Clock
from tests.common.local.hypotheses.onnx_models import linear, wire
from tests.support import TOKEN, Bench, seal, tiny
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


def question(
    *overrides: str, people: Any = (0,), slots: Any = (3,), run: str = "run", **changes: Any
) -> tuple[Signed, Signed]:
    """Return an assignment and the configuration that it belongs to, as the referee signs them."""
    agreed = configuration(*overrides, run=run)
    return assignment(agreed, people, slots, **changes), seal(REFEREE, agreed)


POLICY = PersonalPolicy(REFEREE.public, 2.0)
PERSON = Records(np.zeros((1, 8), dtype=np.float32), np.ones(1, dtype=np.int8))


@contextmanager
def individual(bench: Bench, folder: Path, epsilon: float = 2.0, port: Any = None, **more: Any) -> Iterator[Host]:
    """Have one more person's agent enrol in a bench."""
    key = bench.referee.identity.public
    with closing(Host(Agent(PERSON, PersonalPolicy(key, epsilon), folder), port or bench.referee, key, **more)) as host:
        host.enrol(TOKEN)
        yield host


def check(agreed: messages.Configuration | None = None, policy: PersonalPolicy = POLICY, **changes: Any) -> Any:
    agreed = agreed or configuration()
    return policy.check(assignment(agreed, **changes), seal(REFEREE, agreed), 8)


def loss(**hypothesis: Any) -> dict[str, Any]:
    return {"kind": "loss", "hypothesis": hypothesis}


GRAPH = loss(**wire(linear([1.0] * 8)))
WILLING = PersonalPolicy(REFEREE.public, 2.0, hypotheses=ALL_HYPOTHESES)
GAUSSIAN = configuration("agents.mechanism={name: gaussian, epsilon: 0.5, delta: 1e-4}")


def test_what_it_accepts_and_refuses_beside_the_vectors():
    """``tests/vectors`` has the other cases: a plain agent's, each with the slug of its refusal."""
    assert check().query.wire() == {**LOSS, "loss": "zero-one"}
    assert check(policy=WILLING, query=GRAPH).query.wire() == {**GRAPH, "loss": "zero-one"}
    assert check(GAUSSIAN, PersonalPolicy(REFEREE.public, math.inf, 1.0)).mechanism.name == "gaussian"
    replace(POLICY, delta=0.001).check_cost((1.0, 0.001), (2.0, 0.001))
    for error, why, asked in (
        (BadMessage, "base64", {"policy": WILLING, "query": loss(kind="onnx", model="****")}),
        (PolicyRefused, "needs 9", {"policy": WILLING, "query": loss(**wire(linear([1.0] * 9)))}),
        (PolicyRefused, "accepted: trees", {"policy": replace(POLICY, hypotheses=frozenset({"trees"}))}),
        (PolicyRefused, "simulated people", {"agreed": GAUSSIAN, "policy": replace(POLICY, delta=0.5)}),
        (PolicyRefused, "lifetime budget is", {"agreed": GAUSSIAN}),
    ):
        with pytest.raises(error, match=f".*{why}"):
            check(**asked)


def test_a_query_with_numbers_that_are_not_finite_is_refused():
    good, its = question()
    for poison in (math.nan, math.inf, -math.inf):
        query = loss(kind="linear", weights=[poison] * 8, threshold=0.0)
        bad = Signed.model_construct(**{**good.wire(), "message": {**good.message, "query": query}})
        with pytest.raises(BadMessage, match="finite"):
            POLICY.check(bad, its, 8)


GRADIENT: dict[str, Any] = {"kind": "gradient", "hypothesis": LOSS["hypothesis"], "bound": 1.0}


def test_every_shipped_kind_is_accepted_unless_the_person_narrows_it():
    assert POLICY.queries == frozenset(QUERIES.shipped())
    demands = [DEMANDS[name] for name in DEMANDS.names() if not name.startswith("example-")]
    patterns = [pattern for each in demands for pattern in (each.pattern, *each.alone.values())]
    asked_by_protocols = {kind for pattern in patterns for kind in pattern.kinds("agents")}
    assert asked_by_protocols <= POLICY.queries
    assert {"loss", "residual", "moment", "gradient"} <= asked_by_protocols
    for accept, refuse, accepts in (
        ((), (), ("loss", "gradient")),
        (("loss",), (), ("loss",)),
        (("loss", "gradient"), ("gradient",), ("loss",)),
        ((), ("loss",), ("gradient",)),
        (("item",), (), ()),
    ):
        policy = PersonalPolicy(REFEREE.public, 2.0, queries=chosen_queries(accept, refuse))
        for kind, query in {"loss": LOSS, "gradient": GRADIENT}.items():
            if kind in accepts:
                assert check(policy=policy, query=query).query.kind == kind
            else:
                with pytest.raises(PolicyRefused, match=f"questions of kind '{kind}' are not accepted"):
                    check(policy=policy, query=query)
        assert set(policy.announced(8).refuses) == POLICY.queries - policy.queries
    for wanted, unwanted, why in (
        (("los",), (), "no question is of kind 'los'.*loss"),
        ((), ("scores",), "no question is of kind 'scores'.*score"),
        (("loss",), ("loss",), "leave no kind"),
        ((), tuple(QUERIES.shipped()), "leave no kind"),
    ):
        with pytest.raises(BadInput, match=why):
            chosen_queries(wanted, unwanted)


def test_what_is_announced_is_the_policy_and_nothing_of_a_record():
    assert POLICY.announced(8).wire() == {"refuses": [], "epsilon": 2.0, "delta": 0.0, "features": 8}
    unlimited: dict[str, Any] = {"refuses": [], "epsilon": None, "delta": None, "features": 3}
    assert PersonalPolicy(REFEREE.public, math.inf).announced(3).wire() == unlimited


def test_a_run_about_other_columns_than_the_records_is_refused():
    wire = tiny().wire()
    table: dict[str, Any] = {
        "files": ["t.csv"],
        "label": {"column": "insured", "positive": ["yes"], "negative": ["no"]},
        "features": [{"kind": "number", "column": f"c{j}", "low": 0.0, "high": 9.0} for j in range(8)],
    }
    agreed = configuration(scenario={**wire, "target": {"table": table}})
    its, own = seal(REFEREE, agreed), Names.of_table(table)
    for names in (own, None):
        asked = POLICY.check(assignment(agreed), its, 8, names)
        assert (asked.names, asked.own_names, asked.purpose) == (own, names is not None, tiny().title)
    reverse = {**table, "features": [*reversed(table["features"])]}
    swapped = {**table, "label": {**table["label"], "positive": ["no"], "negative": ["yes"]}}
    about = assignment(agreed), its
    for (asked_about, its_own), names in (
        *((about, Names.of_table(other)) for other in (reverse, swapped)),
        (question(), own),
    ):
        with pytest.raises(PolicyRefused, match="about other columns than this record was made for"):
            POLICY.check(asked_about, its_own, 8, names)
    nothing: list[Any] = [7, {"table": 7}, {"table": {"features": [{}], "label": {}}}, {"table": {"label": 3}}]
    for broken in nothing:
        assert check(configuration(scenario={**wire, "target": broken})).names == Names()


def test_by_default_graphs_are_refused_unparsed(monkeypatch):
    def never(*_):
        raise AssertionError("parsed")

    monkeypatch.setattr("common.local.hypotheses.onnx.read_graph", never)
    for hypothesis in (GRAPH["hypothesis"], {"kind": "onnx", "model": "****"}):
        for query in (
            {"kind": "loss", "hypothesis": hypothesis},
            {"kind": "residual", "hypothesis": hypothesis, "slope": 1.0, "intercept": 0.0},
        ):
            refused = "kind 'onnx' is not accepted; accepted: argmax, conjunction, constant"
            with pytest.raises(PolicyRefused, match="hypothesis " + refused):
                check(query=query)


@for_each("people", ["simulated", "real"])
def test_only_simulated_people_accept_everything(people, tmp_path):
    chosen = tiny().model_copy(update={"people": people})
    with closing(open_population(chosen, tmp_path, 1, REFEREE.public, 10)) as population:
        assert ("onnx" in population._policy.hypotheses) == (people == "simulated")
        assert math.isfinite(population._policy.epsilon)


class Touchy(Query):
    """Fails if anybody's first feature is negative, and answers with the wrong shape if anybody's is above 9."""

    kind: Literal["touchy"] = "touchy"

    @classmethod
    def example(cls):
        return (cls(),)

    @property
    def min_features(self) -> int:
        return 1

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        first = records.features[:, 0].astype(np.float64)
        if (first < 0).any():
            raise ArithmeticError("negative")
        return np.zeros(0) if (first > 9).any() else first


def test_one_persons_failure_is_nobody_elses():
    features = np.array([[0.25], [-1.0], [0.75], [10.0], [np.inf], [2.0]], dtype=np.float32)
    records = Records(features, np.ones(6, dtype=np.int8))
    values = evaluate(Touchy(), records, np.arange(6))
    np.testing.assert_array_equal(values, [0.25, CONSTANT, 0.75, CONSTANT, CONSTANT, 1.0])
    assert evaluate(Touchy(), records.take(np.arange(0)), np.arange(0)).shape == (0,)


def seconds(people: range, query: object) -> float:
    message = {"people": messages.pack_indices(np.array(people)), "query": query}
    return public_seconds(SimpleNamespace(message=message))


def test_the_time_is_a_function_of_how_many_are_asked_and_how_much() -> None:
    few, many = range(10), range(100_000)
    assert module.MIN_SECONDS < seconds(few, "a") < seconds(many, "a") < seconds(many, "a" * 1000)
    assert seconds(few, "a") == seconds(range(7, 17), "b")


@for_each("real", [True, False])
def test_a_population_of_real_people_answers_at_that_time(tmp_path, real, monkeypatch) -> None:
    with Bench(tmp_path, tiny()) as bench:
        clock, left, least = Clock(1000.0), [], []
        monkeypatch.setattr(type(bench.population), "real", real)
        bench.host = Host(bench.population, bench.referee, bench.referee.identity.public, schedule=clock.schedule())
        answer, report = bench.population.answer, bench.referee.report_packed

        def working(assignment, configuration):
            clock.now = 1000.0 + 0.01
            least.append(public_seconds(assignment))
            return answer(assignment, configuration)

        def reported(*packed):
            left.append(clock.now - 1000.0)
            return report(*packed)

        def reset(_: float) -> None:
            clock.now = 1000.0
            bench.host.step()

        monkeypatch.setattr(bench.population, "answer", working)
        monkeypatch.setattr(bench.referee, "report_packed", reported)
        monkeypatch.setattr(bench.referee, "_wait", reset)
        bench.run()
        assert left == pytest.approx(least if real else [0.01] * len(left))
        assert len(left) > 1


def test_a_host_whose_disk_is_full_answers_once_there_is_room(bench, monkeypatch):
    monkeypatch.setattr(cli_services, "_AFTER_ERROR", 0.0)
    real, failed = answered_module.write_durably, list[int]()  # type: ignore[attr-defined]
    away = CannotWrite("the ledger of people is full"), PeerUnavailable("a witness of its own is away")

    def full(*arguments: Any, **named: Any) -> None:
        if len(failed) < 3:
            failed.append(bench.population.answered)
            raise (OSError(28, "No space left on device"), *away)[len(failed) - 1]
        real(*arguments, **named)

    monkeypatch.setattr(answered_module, "write_durably", full)
    waiting: Any = SimpleNamespace(pause=0.0, patience=60.0)
    bench.meanwhile(lambda: cli_services.answer_until(bench.host, waiting, lambda: bench.host.counts["answered"] > 0))
    assert bench.run()["status"] == "exhausted"
    assert failed == [0, 0, 0]  # nobody counts as asked before it is stored


def test_a_token_that_was_changed_is_shown_less_and_less_often_and_logged_once(monkeypatch, caplog):
    """Hundreds of thousands of agents may enrol again after a run whose referee was started with another token."""
    wrong, declined = Unauthorized("the token was replaced"), PolicyRefused("another kind of question")
    steps = [wrong] * 9 + [None] + [wrong] * 2 + [declined] * 3
    connection: Any = SimpleNamespace(individual=False, declined=False, polled=time.monotonic())
    pauses: list[float] = []

    def step() -> bool:
        error = steps.pop(0)
        connection.declined = error is declined
        if error is not None:
            raise error
        return False

    connection.step = step
    monkeypatch.setattr(time, "sleep", pauses.append)
    waiting: Any = SimpleNamespace(pause=0.25, patience=60.0)
    cli_services.answer_until(connection, waiting, lambda: not steps)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 0.25, 0.5, 1.0, 0.5, 0.5, 0.5]
    assert [record.getMessage().count("replaced") for record in caplog.records] == [1, 1, 0, 0, 0]


DEEP = b"[" * 100_000, b'{"a":' * 100_000, b'{"features": ' + b"[" * 100_000
SENT = b"[]", b'{"receipt": 1, "report": 2, "leaf": 3}'


@for_each("content", [*DEEP, *SENT, b"", b"\xff", b"9" * 5000, b'{"label": ' + b"9" * 5000])
@for_each("reader", [read_receipt, read_record, _read_fields])
def test_what_cannot_be_read_is_said_in_a_sentence(
    reader: Callable[[Path], object], content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    if (reader, content) != (_read_fields, SENT[1]):  # any object may be a person's fields
        with pytest.raises(BadData):
            reader(path)
