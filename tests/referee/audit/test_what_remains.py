"""What signatures cannot show is printed by the audit, and answers that no honest agents give are no result."""

import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from common.core.arrays import AnyArray, Indices
from common.core.errors import AuditFailed, NotVouched
from common.crypto.identity import Identity, Signed
from common.crypto.vouching import IssuerKey, stored
from common.data.population import RecordSource
from common.local.mechanisms.mechanism import LocalRandomizer
from common.local.queries.query import Query
from common.scenario.scenario import ResolvedScenario
from common.statistics.robustness import silence_bound
from deploy.deployment import Embedded
from deploy.load.client import LightAgent
from deploy.running import Charging
from issuer.issuer import Issuer, grant
from local_agent.answers import answer_together, evaluate_people
from local_agent.hosted import population
from referee.audit.audit import audit
from referee.audit.replay import GrantedHost
from referee.cli import app
from referee.collection.enrolment import packed, unpacked
from referee.protocols import driver
from referee.runs.percents import ends
from referee.runs.verdict import silent_in_words
from referee.service.referee import Referee, RefereeSettings
from referee.view import show
from referee.view.pages import report, view_of
from tests.common.data.test_people import own
from tests.referee.audit.signing import keys, lie, resign, said, says
from tests.support import TOKEN, Bench, leave_folder, small, tiny
from tests.tiers import for_each
from tests.vouched import an_issuer, answer, codes, credential, enrolment

ONCE = ("protocol=learn-and-test", "curator.rounds=1", "agents.deadline=5")
OF_A_HUNDRED = (*ONCE, "agents.count=100", "agents.batch=100")
CROWD = 200
CHOSEN = (*ONCE, "agents.count=600", "agents.batch=600", "agents.mechanism.epsilon=1")


def test_keys_that_are_not_known_from_elsewhere_are_said_first_and_a_strict_audit_takes_both(undisturbed, run):
    both = keys(undisturbed[0], run)
    for options, status, words in (
        ((), 0, "not pinned: the referee and the curator of this folder may be anybody"),
        ((), 0, "enrolled: a host for 6,000 people; that they are people is the word"),
        (both, 0, f"verified {run}"),
        (("--strict",), 1, "the key of the referee and of the curator,"),
        (("--strict", *both[:2]), 1, "the key of the curator,"),
        (("--strict", *both[2:]), 1, "the key of the referee,"),
        (("--strict", *both), 0, f"verified {run}"),
    ):
        assert ("not pinned" in says(status, (words,), run, *options)) == (not options)


def without_ones(folder: Path) -> Path:
    """Leave a run whose referee has taken answers of individuals only, and dropped those that say 1."""
    with Bench(folder / "state", tiny(*CHOSEN), individuals=CROWD) as bench:
        agents = [LightAgent.fresh() for _ in range(CROWD)]
        bench.referee.registrar.enrol([(enrolment(agent), TOKEN) for agent in agents])
        bench.meanwhile(lambda: answer(bench, agents, lambda report: not report.message["answer"]))
        setattr(bench.host, "step", lambda: False)  # noqa: B010 - they are left out as well
        bench.run()
        return bench.leave()


def test_a_referee_that_drops_whoever_says_1_has_no_result(tmp_path, monkeypatch):
    """It does not judge its answers as honest referees do, signs what is left, and the audit finds it."""
    with monkeypatch.context() as cheating:
        cheating.setattr(driver, "implausible", lambda *a: False)
        run = without_ones(tmp_path / "cheat")
    with pytest.raises(AuditFailed, match="not what the transcript's answers lead to"):
        audit(run)
    honest = audit(without_ones(tmp_path / "honest"))
    assert honest.status == "exhausted"
    assert (honest.silent.estimate.low, honest.silent.estimate.high) == (0.0, 1.0)


def test_who_is_silent_is_counted_and_the_share_of_the_silent_has_a_sampling_error(tmp_path):
    result, run = silenced(tmp_path, tiny(*CHOSEN), 0.1)
    found, answered = audit(run), result["agents"]["answered"]
    share = 1.0 - answered / 600
    assert found.missing == pytest.approx(share)
    assert 0.05 < share < 0.15
    assert found.silent.silence == silence_bound([(600, answered)], 0.95)
    could, most = found.silent.estimate, found.silent.silence.most
    assert most > share
    assert could.high == pytest.approx((1.0 - most) * result["estimate"]["high"] + most)
    assert could.confidence == pytest.approx(0.9)
    assert result["silent"]["estimate"] == could.wire()
    words = (
        f"answers of up to {share:.1%} of the agents asked are missing: however those people",
        *("the loss is ", "(90%); were their answers left out because of what they say, it is "),
        "loss interval if so large a share of the answers counted are lies (95%): 1%: ",
        f"5%: {ends(found.liars[0.05].low, found.liars[0.05].high)}",
    )
    says(0, words, run)


LEVELS = ("alpha=0.1", "accuracy.reweigh_above=3.5", "accuracy.halt_below=3.7", "agents.mechanism.epsilon=3",
          "agents.count=20000", "agents.deadline=5")  # fmt: skip


def silenced(folder: Path, chosen: ResolvedScenario, out: float | Callable[[Any, Any, Indices], Any]) -> Any:
    """Run with answers left out, of a share or as no honest agents do: by what is answered, who errs, and who it is.

    Returns the result, and the run's folder.
    """
    silent: list[Any] = []

    def answer(query: Query, mechanism: LocalRandomizer, records: RecordSource, who: Indices, *rest: Any) -> AnyArray:
        answers = answer_together(query, mechanism, records, who, *rest)
        silent.append(out(answers, evaluate_people(query, records, who, rest[0]) == 1.0, who))
        return answers

    with Bench(folder / "state", chosen) as bench, pytest.MonkeyPatch.context() as patch:
        if isinstance(out, float):
            bench.population._dropout = out
        else:
            patch.setattr(population, "answer_together", answer)
            bench.population._dropout = 0.5
            patch.setattr(bench.population, "_speaks", lambda who: ~silent.pop())
        return bench.run(), bench.leave()


def test_a_run_whose_erring_people_are_silent_ends_done_and_its_verdict_names_them(tmp_path, capsys):
    """The model errs on 40%, half of whom are silent: 25% of the answers, so the test rejects .37. It is false."""
    result, run = silenced(tmp_path, tiny(*LEVELS), lambda answers, errs, who: errs & (who % 2 == 0))
    silent, found = result["silent"], audit(run).silent
    assert (result["status"], silent["matters"], found.matters) == ("done", True, True)
    assert result["estimate"]["high"] < 0.37 < 0.4 < min(silent["estimate"]["high"], silent["left_out"]["high"])
    view = view_of(run)
    capsys.readouterr()
    show.result(tiny(*LEVELS), {**result, "truth": None, "peak_memory_bytes": 0, "run": "run"})
    table = " ".join(capsys.readouterr().out.split())
    for words in (said(run)[1], silent_in_words(result), report([view]), table):
        assert f"{found.silence.missing:.1%} of " in words
        assert ends(found.estimate.low, found.estimate.high) in words
    verdict = view.verdict
    assert verdict.tone == "open"
    assert verdict.title == "Too few agents answered to tell how good the model is"
    assert re.match("The model errs on .* of the population among all who were asked, with 95% ", verdict.text)
    assert "did not answer: were they to differ from those who did, the loss could be " in verdict.detail


@for_each("share", [0.2, 0.5, 1.0])
def test_a_referee_that_suppresses_by_answer_gets_done_and_no_verdict_and_no_strict_0(tmp_path, share):
    """The model errs on 40% and the level is 37%: answers 1 are left out, and a test on the others rejects it."""
    result, run = silenced(tmp_path, tiny(*LEVELS), lambda a, errs, who: (a == 1) & (who % 100 < round(100 * share)))
    assert result["status"] == "done"
    assert result["estimate"]["high"] < 0.37 < 0.4 <= result["silent"]["left_out"]["high"]
    assert said(run, *keys(tmp_path, run))[0] == 0
    words = (
        "the result depends on those who did not answer: with all of them against it, it is not shown",
        "; if no answer was left out because of what it says",
        "Verified, but it depends on the silent",
    )
    says(3, words, run, "--strict", *keys(tmp_path, run))
    verdict = view_of(run).verdict
    assert "less than 37%" not in verdict.title + verdict.text
    assert "among all who were asked" in verdict.text


@for_each(("dropout", "status"), [(0.0, 0), (0.02, 0), (0.5, 3)])
def test_an_interval_holds_for_all_who_were_asked_and_a_few_who_drop_out_are_no_3(tmp_path, dropout, status):
    chosen = tiny(*ONCE, "agents.count=6000", "agents.mechanism.epsilon=3")
    result, run = silenced(tmp_path, chosen, dropout)
    assert said(run, "--strict", *keys(tmp_path, run))[0] == status
    verdict = view_of(run).verdict
    assert (verdict.tone == "good") == (status == 0)
    assert ("among all who were asked" in verdict.text) == (dropout > 0.0)
    shown = dict(view_of(run).facts)["what is shown"]
    assert shown.endswith("if no answer was left out because of what it says") == (dropout > 0.0)
    if dropout:
        left_out, found = result["silent"]["left_out"], result["estimate"]
        assert left_out["low"] < found["low"] < found["high"] < left_out["high"]


@for_each("dropout", [0.0, 0.1])
def test_a_page_says_of_whom_its_gap_is_where_some_are_silent(tmp_path, dropout):
    chosen = small("portfolio", "agents.dropout=0.2")  # so many were expected not to answer
    _, run = silenced(tmp_path, chosen, dropout)
    gap = dict(view_of(run).facts)["gap"]
    assert "the answer's loss exceeds that of its rival by no more" in gap
    assert gap.endswith(", among those who answered") == (dropout > 0.0)


# Who vouches for people: a referee that invents them, or moves credentials about, and hosts beyond their grants.

VOUCHED, ALONE, HOSTED = 12, 3, 85


def granted(folder: Path, invited: Path, people: int) -> None:
    """Give the host whose state directory will be ``folder`` a grant."""
    folder.mkdir(parents=True, exist_ok=True)
    key = Identity.load_or_create(folder / "identity.key").public
    (folder / "grant.json").write_text(json.dumps(grant(invited, key, "City Hospital", people).wire()))


class World:
    """A run of a granted host, of individuals with credentials, and of some who enrolled before there was an issuer."""

    def __init__(self, folder: Path) -> None:
        self.folder, chosen = folder, tiny(*OF_A_HUNDRED)
        with an_issuer(folder / "issuer") as party:
            self.key = party.public
            self.other = IssuerKey(tokens=self.key.tokens, grants="0" * 64)
            granted(folder / "state" / "agents", folder / "issuer", 90)
            with Bench(folder / "state", chosen, individuals=VOUCHED + ALONE, issuers=[self.key]) as bench:
                agents = [LightAgent.fresh() for _ in range(VOUCHED + ALONE)]
                bench.referee.registrar.issuers = ()
                for agent in agents[VOUCHED:]:
                    bench.referee.enrol(enrolment(agent), TOKEN)
                bench.referee.registrar.issuers = (self.key,)
                for agent, code in zip(agents, codes(folder / "issuer", VOUCHED), strict=False):
                    bench.referee.enrol(enrolment(agent, credential=credential(party, code, agent.key)), TOKEN)
                bench.meanwhile(lambda: answer(bench, agents))
                bench.run()
                self.run = bench.leave()


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("vouched"))


@pytest.fixture
def vouched(world, tmp_path) -> Path:
    """A copy of that run's folder."""
    return Path(shutil.copytree(world.run, tmp_path / "run"))


def test_an_audit_says_for_whom_an_issuer_vouches_and_for_whom_nobody_does(world, vouched):
    found = audit(vouched, issuers=[world.key]).vouching
    (by,) = found.issuers.values()
    assert (by.pinned, by.individuals, by.hosts) == (True, VOUCHED, (GrantedHost("City Hospital", HOSTED, 90),))
    assert (found.individuals, found.hosts, found.strangers) == (ALONE, (), ALONE)
    name = world.key.fingerprint()
    words = (
        f"issuer {name[:16]}... vouches for 12 individuals and 85 people of City Hospital (at most 90) ",
        "no issuer vouches for 3 individuals, on the referee's word alone",
    )
    says(0, words, vouched, "--issuer", world.folder / "issuer" / "issuer.json")
    document = json.loads(CliRunner().invoke(app, ["audit", str(vouched), "--json"]).output)["participants"]
    assert document["vouched_by"][name]["individuals"] == VOUCHED
    assert document["not_vouched"] == {"individuals": ALONE, "hosts": []}
    assert document["answers_not_vouched"] == 100  # its keys were not given
    # An issuer whose keys are not known from elsewhere counts for nobody.
    found = audit(vouched).vouching
    assert ([by.pinned for by in found.issuers.values()], found.strangers) == ([False], 100)
    assert "which may be anybody (give the keys" in said(vouched)[1]
    assert audit(vouched, issuers=[world.other]).vouching.strangers == 100 - VOUCHED  # another key of grants


Shown = list[tuple[int, bytes]]


def lies(run: Path, world: World, change: Callable[[Shown], Shown]) -> None:
    """Change the file of vouchers, and sign the transcript anew as only the referee can."""
    shown = [(first, stored(voucher)) for first, voucher in unpacked(io.BytesIO((world.run / "vouchers").read_bytes()))]
    pieces = list(packed(change(shown)))
    (run / "vouchers").write_bytes(b"".join(pieces))
    digest = hashlib.sha256(b"".join(pieces)).hexdigest()
    resign(world.folder, run, lie((0, "vouchers", "count", len(pieces)), (0, "vouchers", "sha256", digest)))


LIES: dict[str, tuple[str, Callable[[Shown], Shown]]] = {
    # Of two keys, the other one is the first of those who have none.
    "one credential for two keys": ("made for another key, or forged", lambda v: sorted([*v, (HOSTED, v[-1][1])])),
    "one credential for another key": ("made for another key, or forged", lambda v: [*v[:-1], (v[-1][0], v[-2][1])]),
    "a forged signature": ("forged", lambda v: [*v[:-1], (v[-1][0], v[-1][1][:-1] + b"\x00")]),
    "a credential for a host": ("for one person", lambda v: [(0, v[-1][1]), *v[1:]]),
    "a grant for an individual": ("for the host with the key", lambda v: [*v[:-1], (v[-1][0], v[0][1])]),
    "something for nobody": ("no participant begins", lambda v: [v[0], (1, v[-1][1]), *v[1:]]),
    "the same twice": ("not in the order of agents", lambda v: [*v, v[-1]]),
}


def test_a_referee_that_moves_vouchers_about_is_caught(world, vouched, tmp_path):
    """It can hide that somebody is vouched for; that only makes its own word count for more people."""
    for name, (why, change) in LIES.items():
        lies(vouched, world, change)
        with pytest.raises(AuditFailed) as failed:
            audit(vouched, issuers=[world.key])
        assert re.search(why, str(failed.value)), name
    lies(vouched, world, lambda v: v[:-1])
    assert audit(vouched, issuers=[world.key]).vouching.individuals == ALONE + 1
    with an_issuer(tmp_path / "own") as accomplice:  # it vouches for its inventions itself
        lies(vouched, world, lambda v: v)
        resign(world.folder, vouched, lie((0, "vouchers", "issuers", [accomplice.public.wire()])))
    found = audit(vouched, issuers=[world.key]).vouching
    assert (found.issuers[world.key.fingerprint()].individuals, found.strangers) == (VOUCHED, ALONE)
    (vouched / "vouchers").write_bytes((vouched / "vouchers").read_bytes()[:-1] + b"\x00")
    with pytest.raises(AuditFailed, match="not the one that was signed"):
        audit(vouched)
    (vouched / "vouchers").unlink()
    with pytest.raises(AuditFailed, match="vouchers"):
        audit(vouched)


@pytest.fixture
def vouching(tmp_path) -> Iterator[tuple[Bench, Issuer, Callable[[LightAgent], Any]]]:
    """A bench whose referee takes nobody without an issuer's word, the issuer, and how it makes a credential."""
    chosen = tiny(*OF_A_HUNDRED)
    with an_issuer(tmp_path / "issuer") as party, Bench(tmp_path / "state", chosen, individuals=50) as bench:
        bench.referee.registrar.issuers = (party.public,)
        yield bench, party, lambda agent: credential(party, codes(tmp_path / "issuer", 1)[0], agent.key)


def test_enrolments_that_nobody_vouches_for_are_refused_and_change_nothing(vouching, tmp_path):
    bench, _, credential_of = vouching
    referee, agent, thief, host = bench.referee, LightAgent.fresh(), LightAgent.fresh(), Identity.create()
    shown = credential_of(agent)

    def grant_of(key: str, people: int) -> Signed:
        return enrolment(host, agents=7, grant=grant(tmp_path / "issuer", key, "x", people).wire())

    for signed, why in (
        (enrolment(agent), "an issuer must vouch"),
        (enrolment(thief, credential=shown), "made for another key"),
        (enrolment(agent, credential=shown.model_copy(update={"nonce": "0" * 64})), "forged"),
        (enrolment(agent, credential=shown, agents=7), "is for one person"),
        (enrolment(host, agents=7), "get a grant"),
        (grant_of(host.public, 6), "at most 6 people, the host brings 7"),
        (grant_of(agent.key, 7), "for the host with the key"),
    ):
        with pytest.raises(NotVouched, match=why):
            referee.enrol(signed, TOKEN)
    assert (len(referee.registrar.roster), list(referee.store.vouchers(1 << 40))) == (1, [])
    first = referee.enrol(enrolment(agent, credential=shown), TOKEN)
    for again in (enrolment(agent, credential=shown), enrolment(agent)):  # a replay is nobody else
        assert referee.enrol(again, TOKEN) == first
    with pytest.raises(NotVouched):
        referee.enrol(enrolment(thief, credential=shown), TOKEN)
    assert len(referee.registrar.roster) == 2
    referee.enrol(grant_of(host.public, 7), TOKEN)
    assert len(list(referee.store.vouchers(1 << 40))) == 2


def test_two_processes_of_a_referee_take_a_credential_once(vouching, tmp_path):
    bench, party, credential_of = vouching
    state = tmp_path / "state/referee"
    settings = RefereeSettings(f"sqlite:///{state}/referee.sqlite", state / "identity.key")
    agent, thief = LightAgent.fresh(), LightAgent.fresh()
    shown = credential_of(agent)
    with closing(Referee(tmp_path / "second", bench.curator, settings=settings, issuers=[party.public])) as second:
        first = bench.referee.enrol(enrolment(agent, credential=shown), TOKEN)
        assert second.enrol(enrolment(agent, credential=shown), TOKEN) == first
        with pytest.raises(NotVouched):
            second.enrol(enrolment(thief, credential=shown), TOKEN)
        assert [number for number, _ in second.store.vouchers(1 << 40)] == [50]


@pytest.mark.slow
def test_hundreds_of_inventions_are_named_as_the_referees_word(tmp_path):
    """What was published as verified: the audit says that nobody vouches for a single one."""
    chosen = tiny("protocol=learn-and-test", "agents.count=601", "agents.batch=601", "curator.rounds=1")
    with an_issuer(tmp_path / "issuer") as party, Bench(tmp_path / "state", chosen, individuals=600) as bench:
        inventions = [LightAgent.fresh() for _ in range(600)]
        bench.referee.registrar.enrol([(enrolment(agent), TOKEN) for agent in inventions])
        bench.referee.registrar.issuers = (party.public,)  # it says that it has one
        bench.meanwhile(lambda: answer(bench, inventions))
        bench.run()
        words = ("vouches for 0 individuals", "no issuer vouches for 601 individuals, on the referee's word alone")
        says(0, words, bench.leave(), "--issuer", tmp_path / "issuer" / "issuer.json")


@pytest.mark.slow
def test_a_strict_audit_of_real_people_takes_those_alone_for_whom_a_known_issuer_vouches(tmp_path, monkeypatch):
    chosen, known = own(tmp_path), tmp_path / "issuer" / "issuer.json"
    with an_issuer(tmp_path / "issuer") as party:
        for name, status in (("word", 1), ("grant", 0)):
            folder = tmp_path / name
            if name == "grant":
                granted(folder / "state" / "agents", tmp_path / "issuer", 60)
                monkeypatch.setattr("deploy.deployment.Referee", partial(Referee, issuers=[party.public]))
            deployed = Embedded(folder / "state", Charging(folder / "ledger"))
            run = leave_folder(folder / "run", chosen, 1, deployed.run(chosen, None, "run", lambda text, numbers: None))
            given = ["--strict", *keys(folder, run)]
            says(1, ("answers are of people for whom no issuer vouches that is known from elsewhere",), run, *given)
            assert (said(run, *given[1:])[0], said(run, *given, "--issuer", known)[0]) == (0, status)
