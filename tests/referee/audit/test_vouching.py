"""Who vouches for people: a referee that invents them, or moves credentials about, and hosts beyond their grants."""

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from common.core.errors import AuditFailed, NotVouched
from common.crypto.identity import Identity, Signed
from common.crypto.vouching import IssuerKey, stored
from deploy.deployment import Embedded
from deploy.load.client import LightAgent
from deploy.running import Charging
from issuer.issuer import grant
from referee.audit.agents import GrantedHost
from referee.audit.audit import audit
from referee.cli import app
from referee.collection.enrolment import packed, unpacked
from referee.service.referee import Referee, RefereeSettings
from tests.common.data.test_people import own
from tests.referee.audit.signing import keys, lie, resign, said
from tests.support import TOKEN, Bench, leave_folder, tiny
from tests.vouched import an_issuer, answer, codes, credential, enrolment

CHOSEN = ("protocol=learn-and-test", "agents.count=100", "agents.batch=100", "curator.rounds=1", "agents.deadline=5")
VOUCHED, ALONE, HOSTED = 12, 3, 85


def granted(folder: Path, invited: Path, people: int) -> None:
    """Give the host whose state directory will be ``folder`` a grant."""
    folder.mkdir(parents=True, exist_ok=True)
    key = Identity.load_or_create(folder / "identity.key").public
    (folder / "grant.json").write_text(json.dumps(grant(invited, key, "City Hospital", people).wire()))


class World:
    """A run of a granted host, of individuals with credentials, and of some who enrolled before there was an issuer."""

    def __init__(self, folder: Path) -> None:
        self.folder, chosen = folder, tiny(*CHOSEN)
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
                invitations = zip(agents, codes(folder / "issuer", VOUCHED), strict=False)
                for agent, code in invitations:
                    bench.referee.enrol(enrolment(agent, credential=credential(party, code, agent.key)), TOKEN)
                bench.meanwhile(lambda: answer(bench, agents))
                bench.run()
                self.run = leave_folder(folder / "run", chosen, 1, bench.finished())


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("vouched"))


@pytest.fixture
def run(world, tmp_path) -> Path:
    return Path(shutil.copytree(world.run, tmp_path / "run"))


# What an honest run says ---------------------------------------------------------------------------------------------


def test_an_audit_says_for_whom_an_issuer_vouches_and_for_whom_nobody_does(world, run):
    found = audit(run, issuers=[world.key]).vouching
    (by,) = found.issuers.values()
    assert (by.pinned, by.individuals, by.hosts) == (True, VOUCHED, (GrantedHost("City Hospital", HOSTED, 90),))
    assert (found.individuals, found.hosts, found.strangers) == (ALONE, (), ALONE)
    code, output = said(run, "--issuer", world.folder / "issuer" / "issuer.json")
    assert code == 0
    name = world.key.fingerprint()[:16]
    assert f"issuer {name}... vouches for 12 individuals and 85 people of City Hospital (at most 90) " in output
    assert "no issuer vouches for 3 individuals, on the referee's word alone" in output
    document = json.loads(CliRunner().invoke(app, ["audit", str(run), "--json"]).output)["participants"]
    assert document["vouched_by"][world.key.fingerprint()]["individuals"] == VOUCHED
    assert document["not_vouched"] == {"individuals": ALONE, "hosts": []}
    assert document["answers_not_vouched"] == 100  # its keys were not given


def test_an_issuer_whose_keys_are_not_known_from_elsewhere_counts_for_nobody(world, run):
    found = audit(run).vouching
    assert [by.pinned for by in found.issuers.values()] == [False]
    assert found.strangers == 100
    assert "which may be anybody (give the keys" in said(run)[1]
    assert audit(run, issuers=[world.other]).vouching.strangers == 100 - VOUCHED  # another key of grants


# A referee that tries ------------------------------------------------------------------------------------------------


def lies(run: Path, world: World, change: Callable[[list[tuple[int, bytes]]], list[tuple[int, bytes]]]) -> None:
    """Change the file of vouchers, and sign the transcript anew as only the referee can."""
    shown = [(first, stored(voucher)) for first, voucher in unpacked(io.BytesIO((run / "vouchers").read_bytes()))]
    pieces = list(packed(change(shown)))
    raw = b"".join(pieces)
    (run / "vouchers").write_bytes(raw)

    digest = hashlib.sha256(raw).hexdigest()
    resign(world.folder, run, lie((0, "vouchers", "count", len(pieces)), (0, "vouchers", "sha256", digest)))


LIES: dict[str, tuple[str, Callable[[list[tuple[int, bytes]]], list[tuple[int, bytes]]]]] = {
    "one credential for two keys": (
        "made for another key, or forged",
        lambda v: sorted([*v, (HOSTED, v[-1][1])]),  # the first of those who have none
    ),
    "one credential in the place of another": (
        "made for another key, or forged",
        lambda v: [*v[:-1], (v[-1][0], v[-2][1])],
    ),
    "a forged signature": ("forged", lambda v: [*v[:-1], (v[-1][0], v[-1][1][:-1] + b"\x00")]),
    "a credential for a host": ("for one person", lambda v: [(0, v[-1][1]), *v[1:]]),
    "a grant for an individual": ("for the host with the key", lambda v: [*v[:-1], (v[-1][0], v[0][1])]),
    "something for nobody": ("no participant begins", lambda v: [v[0], (1, v[-1][1]), *v[1:]]),
    "the same twice": ("not in the order of agents", lambda v: [*v, v[-1]]),
}


@pytest.mark.parametrize("name", sorted(LIES))
def test_a_referee_that_moves_vouchers_about_is_caught(world, run, name):
    why, change = LIES[name]
    lies(run, world, change)
    with pytest.raises(AuditFailed, match=why):
        audit(run, issuers=[world.key])


def test_what_a_referee_leaves_out_vouches_for_nobody_and_another_file_is_refused(world, run):
    """It can hide that somebody is vouched for; that only makes its own word count for more people."""
    lies(run, world, lambda v: v[:-1])
    assert audit(run, issuers=[world.key]).vouching.individuals == ALONE + 1
    (run / "vouchers").write_bytes((run / "vouchers").read_bytes()[:-1] + b"\x00")
    with pytest.raises(AuditFailed, match="not the one that was signed"):
        audit(run)
    (run / "vouchers").unlink()
    with pytest.raises(AuditFailed, match="vouchers"):
        audit(run)


def test_a_referee_with_an_issuer_of_its_own_says_so(world, run, tmp_path):
    """It vouches for its inventions itself: the audit shows a key that nobody has given."""
    with an_issuer(tmp_path / "own") as accomplice:
        resign(world.folder, run, lie((0, "vouchers", "issuers", [accomplice.public.wire()])))
    found = audit(run, issuers=[world.key]).vouching
    assert found.issuers[world.key.fingerprint()].individuals == VOUCHED
    assert found.strangers == ALONE


# An honest referee, and others that try ------------------------------------------------------------------------------


def test_enrolments_that_nobody_vouches_for_are_refused_and_change_nothing(world, tmp_path):
    with an_issuer(tmp_path / "issuer") as party, Bench(tmp_path / "state", tiny(*CHOSEN), individuals=50) as bench:
        registrar = bench.referee.registrar
        registrar.issuers = (party.public,)
        agent, thief = LightAgent.fresh(), LightAgent.fresh()
        (code,) = codes(tmp_path / "issuer", 1)
        shown = credential(party, code, agent.key)
        host = Identity.create()
        attempts: list[tuple[Signed, str]] = [
            (enrolment(agent), "an issuer must vouch"),
            (enrolment(thief, credential=shown), "made for another key"),
            (enrolment(agent, credential=shown.model_copy(update={"nonce": "0" * 64})), "forged"),
            (enrolment(agent, credential=shown, agents=7), "is for one person"),
            (enrolment(host, agents=7), "get a grant"),
            (
                enrolment(host, agents=7, grant=grant(tmp_path / "issuer", host.public, "x", 6).wire()),
                "at most 6 people, the host brings 7",
            ),
            (
                enrolment(host, agents=7, grant=grant(tmp_path / "issuer", agent.key, "x", 7).wire()),
                "for the host with the key",
            ),
        ]
        for signed, why in attempts:
            with pytest.raises(NotVouched, match=why):
                bench.referee.enrol(signed, TOKEN)
        assert len(registrar.roster) == 1
        assert list(bench.referee.store.vouchers(1 << 40)) == []
        first = bench.referee.enrol(enrolment(agent, credential=shown), TOKEN)
        assert bench.referee.enrol(enrolment(agent, credential=shown), TOKEN) == first  # a replay is nobody else
        assert bench.referee.enrol(enrolment(agent), TOKEN) == first
        with pytest.raises(NotVouched):
            bench.referee.enrol(enrolment(thief, credential=shown), TOKEN)
        assert len(registrar.roster) == 2
        bench.referee.enrol(
            enrolment(host, agents=7, grant=grant(tmp_path / "issuer", host.public, "x", 7).wire()), TOKEN
        )
        assert len(list(bench.referee.store.vouchers(1 << 40))) == 2


def test_two_processes_of_a_referee_take_a_credential_once(tmp_path):
    with an_issuer(tmp_path / "issuer") as party, Bench(tmp_path / "state", tiny(*CHOSEN), individuals=50) as bench:
        bench.referee.registrar.issuers = (party.public,)
        state = tmp_path / "state/referee"
        settings = RefereeSettings(f"sqlite:///{state}/referee.sqlite", state / "identity.key")
        second = Referee(tmp_path / "second", bench.curator, settings=settings, issuers=[party.public])
        agent, thief = LightAgent.fresh(), LightAgent.fresh()
        shown = credential(party, codes(tmp_path / "issuer", 1)[0], agent.key)
        first = bench.referee.enrol(enrolment(agent, credential=shown), TOKEN)
        assert second.enrol(enrolment(agent, credential=shown), TOKEN) == first
        with pytest.raises(NotVouched):
            second.enrol(enrolment(thief, credential=shown), TOKEN)
        assert [number for number, _ in second.store.vouchers(1 << 40)] == [50]
        second.close()


@pytest.mark.slow
def test_six_thousand_inventions_are_named_as_the_referees_word(tmp_path):
    """What was published as verified: the audit says that nobody vouches for a single one."""
    chosen = tiny("protocol=learn-and-test", "agents.count=6001", "agents.batch=6001", "curator.rounds=1")
    with an_issuer(tmp_path / "issuer") as party, Bench(tmp_path / "state", chosen, individuals=6000) as bench:
        inventions = [LightAgent.fresh() for _ in range(6000)]
        bench.referee.registrar.enrol([(enrolment(agent), TOKEN) for agent in inventions])
        bench.referee.registrar.issuers = (party.public,)  # it says that it has one
        bench.meanwhile(lambda: answer(bench, inventions))
        bench.run()
        run = leave_folder(tmp_path / "run", chosen, 1, bench.finished())
    code, output = said(run, "--issuer", tmp_path / "issuer" / "issuer.json")
    assert code == 0
    assert "vouches for 0 individuals" in output
    assert "no issuer vouches for 6,001 individuals, on the referee's word alone" in output


@pytest.mark.slow
def test_a_strict_audit_of_real_people_takes_those_alone_for_whom_a_known_issuer_vouches(tmp_path, monkeypatch):
    chosen, known = own(tmp_path), tmp_path / "issuer" / "issuer.json"
    with an_issuer(tmp_path / "issuer") as party:
        for name in ("word", "grant"):
            folder = tmp_path / name
            if name == "grant":
                granted(folder / "state" / "agents", tmp_path / "issuer", 60)
                monkeypatch.setattr("deploy.deployment.Referee", partial(Referee, issuers=[party.public]))
            finished = Embedded(folder / "state", Charging(folder / "ledger")).run(
                chosen, None, "run", lambda text, numbers: None
            )
            run = leave_folder(folder / "run", chosen, 1, finished)
            given = ["--strict", *keys(folder, run)]
            code, output = said(run, *given)
            assert code == 1
            assert "answers are of people for whom no issuer vouches that is known from elsewhere" in output
            assert said(run, *keys(folder, run))[0] == 0
            assert said(run, *given, "--issuer", known)[0] == (0 if name == "grant" else 1)
