"""The curator trusts nobody: every attack of a referee or of a stranger is refused."""

from __future__ import annotations

from contextlib import closing
from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest

from common.core import errors
from common.crypto.identity import Identity, Signed
from common.log.ledger import Chain
from common.privacy.budget import cost
from curator.curator import Curator, planned_events
from curator.learners.base import parse_learner
from curator.operations import HANDLERS
from curator.startup import open_curator
from tests.clocks import Clock
from tests.curator.given import LEARN, begun, ledger, no_space, perform_all, request, reweigh, sample
from tests.support import Bench, tiny
from tests.tiers import for_each


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.open()
    return bench


def reweigh_by(weights: list[float]) -> dict[str, Any]:
    return {"kind": "reweigh", "hypothesis": {"kind": "linear", "weights": weights, "threshold": 0.0}}


BAD_REQUESTS: dict[str, tuple[type[errors.TandemError], dict[str, Any], dict[str, Any]]] = {
    "another run": (errors.ConfigurationMismatch, LEARN, {"run": "other"}),
    "another configuration": (errors.ConfigurationMismatch, LEARN, {"digest": "0" * 64}),
    "an unknown operation": (errors.BadMessage, {"kind": "dump-weights"}, {}),
    "an unknown field": (errors.BadMessage, {**LEARN, "steps": 10}, {}),
    "an unknown field of the message": (errors.BadMessage, LEARN, {"epsilon": 9}),
    "more features than records have": (errors.PolicyRefused, reweigh(9), {}),
    "an id that is no number": (errors.BadMessage, LEARN, {"operation_id": "1; DROP TABLE runs"}),
    "an id that is too long": (errors.BadMessage, LEARN, {"operation_id": "1" * 10}),
    "an empty id": (errors.BadMessage, LEARN, {"operation_id": ""}),
    "a weight that is too large": (errors.BadMessage, reweigh_by([1e308] * 8), {}),
}


@for_each("name", sorted(BAD_REQUESTS))
def test_a_bad_request_is_refused_and_nothing_is_charged(bench, name):
    error, operation, changes = BAD_REQUESTS[name]
    with pytest.raises(error):
        bench.curator.perform(request(bench, "0", operation, **changes))
    assert ledger(bench) == []


def test_numbers_are_finite_and_large_ones_are_data_like_any_other(bench):
    good = request(bench, "0", reweigh())
    for poison in (float("nan"), float("inf"), float("-inf")):
        message = {**good.message, "operation": reweigh_by([1.0, poison] * 4)}
        with pytest.raises(errors.BadMessage, match="finite"):
            bench.curator.perform(Signed.model_construct(**{**good.wire(), "message": message}))
    assert ledger(bench) == []
    assert bench.perform(0, reweigh_by([1e30] * 8)).result["event"]["kind"]
    assert bench.perform(1, LEARN).result["hypothesis"]["kind"] == "linear"


def test_only_the_referee_of_the_run_is_obeyed(bench):
    good, mallory = request(bench, "0", LEARN), Identity.create()
    forgeries = [
        mallory.sign("perform", good.message),
        Signed.parse({**good.wire(), "signature": "0" * 128}),
        Signed.parse({**good.wire(), "key": mallory.public}),
        Signed.parse({**good.wire(), "message": {**good.message, "operation": reweigh()}}),
        bench.referee.identity.sign("configuration", good.message),
    ]
    for forgery in forgeries:
        with pytest.raises(errors.Forged):
            bench.curator.perform(forgery)
    assert ledger(bench) == []


def test_the_pin_survives_a_restart(tmp_path):
    """After a restart nobody else becomes the referee by being the first to speak."""
    with begun(tmp_path):
        pass
    with Bench(tmp_path) as bench:
        good = request(bench, "0", LEARN)
        with pytest.raises(errors.Forged):
            bench.curator.perform(Identity.create().sign("perform", good.message))
        bench.curator.perform(good)
    with pytest.raises(errors.BadInput, match="belongs to referee"):
        open_curator(tiny(), tmp_path / "curator", 1, Identity.create().public)


def test_a_pinned_referee_is_the_only_one_that_opens_a_run(tmp_path):
    chosen = tiny()
    with begun(tmp_path / "other", chosen) as bench:
        configuration = bench.referee.configuration("run")
    with (
        closing(open_curator(chosen, tmp_path / "one", 1, Identity.create().public)) as curator,
        pytest.raises(errors.Forged),
    ):
        curator.open_run(configuration)
    with closing(open_curator(chosen, tmp_path / "two", 1, bench.referee.identity.public)) as curator:
        assert curator.open_run(configuration) == curator.open_run(configuration)


def test_a_configuration_of_another_policy_signer_or_run_is_refused(bench):
    agreed = bench.referee.configuration("run").message

    def open_run(**changes: Any) -> None:
        bench.curator.open_run(bench.referee.identity.sign("configuration", {**agreed, **changes}))

    for part, change in (
        ("curator", {"epsilon": 61.0}),
        ("curator", {"rounds": 4}),
        ("curator", {"kappa": None}),
        ("source", {"distribution": None}),
    ):
        scenario = {**agreed["scenario"], part: {**agreed["scenario"][part], **change}}
        with pytest.raises((errors.ConfigurationMismatch, errors.BadScenario)):
            open_run(scenario=scenario)
    with pytest.raises(errors.ConfigurationMismatch, match="another referee"):
        open_run(referee=Identity.create().public)
    with pytest.raises(errors.BudgetExceeded, match="belongs to run 'run'") as refused:
        open_run(run="second")
    assert refused.value.document()["budget"] == 60.0


def test_beyond_the_budget_says_spent_requested_and_budget(tmp_path):
    """The budget is just what three rounds cost: a fourth is refused by it, before any rule about rounds."""
    with pytest.raises(errors.BudgetExceeded, match="the plan costs"):
        open_curator(tiny("curator.epsilon=1e-9"), tmp_path / "tight", 1, None)
    events = planned_events(parse_learner(tiny().curator.learner), 1200, 0.2, 0.2, 3)
    needed = cost([(event, 1) for event in events], 1e-4) * 1.001
    with begun(tmp_path, tiny(f"curator.epsilon={needed}")) as bench:
        perform_all(bench)
        before = ledger(bench)
        with pytest.raises(errors.BudgetExceeded, match=r"spent .* asks for") as refused:
            bench.perform(5, {"kind": "learn", "round": 4})
        assert ledger(bench) == before
    said = refused.value.document()
    assert said["spent"] + said["requested"] > said["budget"] >= said["spent"] > 0


def test_a_reweigh_that_there_is_no_memory_for_is_refused_and_changes_nothing(bench, monkeypatch):
    with monkeypatch.context() as short:
        short.setattr("common.core.machine.available_memory", lambda: 100 << 20)
        with pytest.raises(errors.PolicyRefused, match=r"widening the counts .* MiB are available"):
            bench.perform(0, {**reweigh(), "loss": "hinge"})
        assert ledger(bench) == []
        bench.perform(0, reweigh())  # counts stay as narrow as they were planned
    bench.perform(1, {**reweigh(), "loss": "hinge"})
    assert len(ledger(bench)) == 2


def test_a_repeated_request_gets_the_stored_release_and_an_id_is_good_for_one_operation(bench):
    first = bench.perform(0, LEARN)
    assert bench.perform(0, LEARN) == first
    with pytest.raises(errors.Conflict, match="operation id 0 was used for another operation"):
        bench.perform(0, {"kind": "learn", "round": 2})
    assert len(ledger(bench)) == 1


@pytest.mark.parametrize("operation", [LEARN, reweigh()], ids=["learn", "reweigh"])
def test_the_charge_is_on_disk_before_the_work_and_the_result_before_the_release(bench, monkeypatch, operation):
    # Refused, charged, run, stored, released: what a malicious referee gains by cutting the power is never a sample.
    act, seen = HANDLERS[operation["kind"]], []
    run, check = act.run, act.check

    def checked(self, *arguments: Any) -> None:
        seen.append(("check", len(ledger(bench))))
        check(self, *arguments)

    def running(self, *arguments: Any) -> dict[str, Any]:
        seen.append(("run", [(row[0], row[3]) for row in ledger(bench)]))
        return run(self, *arguments)

    def signing(self, kind: str, wire: dict[str, Any]) -> Signed:
        if kind == "release":
            seen.append(("release", [row[3] is not None for row in ledger(bench)]))
        return sign(self, kind, wire)

    sign = Identity.sign
    monkeypatch.setattr(act, "check", checked)
    monkeypatch.setattr(act, "run", running)
    request_of_it = request(bench, "0", operation)
    monkeypatch.setattr(Identity, "sign", signing)
    bench.curator.perform(request_of_it)
    assert seen == [("check", 0), ("run", [("0", None)]), ("release", [True])]


def test_what_the_ledger_does_not_take_is_not_run(bench, monkeypatch):
    ran = []
    for kind in ("learn", "reweigh"):
        monkeypatch.setattr(HANDLERS[kind], "run", lambda self, *arguments: ran.append(self))
    monkeypatch.setattr(Chain, "append", no_space)
    for number, operation in enumerate((LEARN, reweigh())):
        with pytest.raises(errors.CannotWrite, match="no space left"):
            bench.perform(number, operation)
    assert (ran, ledger(bench)) == ([], [])


def test_it_starts_only_with_what_its_policy_says(tmp_path):
    for chosen, people, said in (
        (tiny(), sample(1199), "n = 1200 records, found 1199"),
        (tiny(), sample(odd=np.nan), "1 of 1200 records hold NaN"),
        (tiny("curator.kappa=0.005"), sample(), "kappa n > 10"),
    ):
        with pytest.raises((errors.BadData, errors.BadInput), match=said):
            Curator(chosen, people, tmp_path)
    Curator(tiny(), sample(), tmp_path).close()  # nothing above left the directory locked


def test_real_people_never_get_noise_from_a_seed_and_are_not_met_without_a_budget(tmp_path):
    chosen = tiny().model_copy(update={"people": "real"})
    with pytest.raises(errors.BadScenario, match="must not come from a seed"):
        Curator(chosen, sample(), tmp_path, seed=1)
    unbounded = tiny("curator.epsilon=null", "curator.delta=null").model_copy(update={"people": "real"})
    with pytest.raises(errors.BadScenario, match="needs an epsilon and a delta"):
        Curator(unbounded, sample(), tmp_path)
    Curator(chosen, sample(), tmp_path).close()
    for name in ("secret.key", "identity.key"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0


def test_real_losses_come_over_the_wire_and_survive_a_restart(bench):
    for number, loss in enumerate(["zero-one", "hinge", "hinge"]):
        bench.perform(number, {**reweigh(), "loss": loss})
    before = bench.curator._engine.workspace.reweighing
    kept = np.concatenate(list(bench.curator._sample.cumulative_losses()))
    assert kept.max() > 255
    bench.curator.close()
    again = open_curator(bench.chosen, bench.folder / "curator", 1, None)
    np.testing.assert_array_equal(np.concatenate(list(again._sample.cumulative_losses())), kept)
    assert again._engine.workspace.reweighing.density().cut == before.density().cut
    again.close()


def test_a_number_whose_text_is_another_integer_than_its_double_is_asked_for_again_after_a_restart(bench):
    far = reweigh()
    far["hypothesis"] = {**far["hypothesis"], "threshold": 177323123784539424.0}
    before = bench.perform(0, far)
    bench.curator.close()
    bench.curator = open_curator(bench.chosen, bench.folder / "curator", 1, None)
    assert bench.perform(0, far).result == before.result


def test_its_state_is_bound_to_policy_and_seed(tmp_path):
    open_curator(tiny(), tmp_path, 1, None).close()
    with pytest.raises(errors.BadInput, match="another seed"):
        open_curator(tiny(), tmp_path, 2, None)
    with pytest.raises(errors.BadInput, match="another policy"):
        open_curator(tiny("curator.eta=0.1"), tmp_path, 1, None)
    open_curator(tiny(), tmp_path, None, None).close()


@pytest.mark.slow
def test_releases_of_real_people_leave_at_a_public_time_and_those_of_simulated_ones_at_once(tmp_path, monkeypatch):
    for unit, expected in ((1 / 16, [1 / 16, 1 / 4, 8.0]), (None, [0.01, 0.2, 5.0])):
        clock, left = Clock(), list[float]()
        with Bench(tmp_path / str(unit), tiny()) as bench:
            curator = bench.curator
            carry_out, once, took = curator._carry_out, curator._perform_once, chain([0.01, 0.2, 5.0], repeat(0.01))

            def slow(*arguments, carry_out=carry_out, took=took, clock=clock):
                clock.now += next(took)
                return carry_out(*arguments)

            def timed(*arguments, once=once, left=left, clock=clock):
                began = clock.now
                result = once(*arguments)
                left.append(clock.now - began)
                return result

            assert curator._unit is None
            changed = {"_unit": unit, "_schedule": clock.schedule(), "_carry_out": slow, "_perform_once": timed}
            for name, value in changed.items():
                monkeypatch.setattr(curator, name, value)
            bench.run()
        assert left[:3] == pytest.approx(expected)
