"""With a beacon, referee and curator together do not choose the order: each party that tries, over the real code."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from common.core.errors import AuditFailed, ConfigurationMismatch, Conflict, Forged, PolicyRefused, RolledBack
from common.crypto.identity import Identity, Signed
from common.log.receipts import RevealedShare, RevealRequest, StoredCheckpoint, commitment_to, signed_checkpoint
from common.log.transcript import SignedEntry, append
from common.net import messages
from common.numerics.randomness import RandomSource
from referee.audit.audit import audit
from referee.runs.ordering import ALL, beacon_of
from referee.service.witness import WitnessLog, witness_app
from tests.referee.audit.signing import Bodies, caught_of, entries_of, identity_of, keys, lie, resign, says
from tests.referee.audit.test_order_nobody_chooses import RUN, carry, with_a_secret
from tests.support import Bench, Curators, Halted, seal, served, tiny

pytestmark = pytest.mark.slow


class Near(WitnessLog):
    """A witness in this process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "runs", Identity.load_or_create(folder / "identity.key"))
        self.words = 0

    def keep(self, signed: Signed) -> Signed:
        """Keep its word; once ``words`` is not 0 it has another one for every time."""
        if not self.words:
            return super().keep(signed)
        self.words += 1
        own = WitnessLog(Path(self.place) / str(self.words), self._identity, clock=lambda: float(self.words))
        return own.keep(signed)


@contextmanager
def drawn(folder: Path, count: int = 2) -> Iterator[Bench]:
    """A referee whose runs have no public seed, with a beacon of witnesses."""
    folder.mkdir(exist_ok=True)
    watching = [Near(folder / f"witness{number}") for number in range(count)]
    for near in watching:
        Path(near.place).mkdir(exist_ok=True)
    many = tiny("agents.count=2400")
    with (
        closing(Curators(folder / "curators", with_a_secret)) as curators,
        Bench(folder / "state", many, curator=lambda own: curators, watching=watching, beacon=True) as bench,
    ):
        yield bench


def configuration_of(run: Path) -> messages.Configuration:
    return messages.Configuration.parse(entries_of(run)[0].body["configuration"])


def words_of(run: Path) -> StoredCheckpoint:
    return StoredCheckpoint.parse(entries_of(run)[2].body["words"])


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> Path:
    with drawn(tmp_path_factory.mktemp("drawn") / "all") as bench:
        run = carry(bench)
        (cohort,) = bench.referee.store.cohorts()
    body, published = entries_of(run)[2].body, next(iter(entries_of(run)[-1].body["order"].values()))
    share = Signed.parse(body["share"]).message
    # The newest layer's key holds the referee's secret, the curator's share, and the beacon, in that order.
    assert cohort.seed == f"{published}+{share['share']}+{share['beacon']}"
    return run


@pytest.fixture
def run(honest, tmp_path) -> Path:
    shutil.copytree(honest.parent / "state" / "referee", tmp_path / "state" / "referee")
    return Path(shutil.copytree(honest, tmp_path / "run"))


def test_an_honest_run_is_ordered_by_all_three(run):
    assert [entry.kind for entry in entries_of(run)][:3] == ["configuration", "terms", "beacon"]
    terms = messages.Terms.parse(Signed.parse(entries_of(run)[1].body["terms"]).message)
    share = RevealedShare.parse(Signed.parse(entries_of(run)[2].body["share"]).message)
    assert (terms.share, terms.share_sha256) == (None, commitment_to(share.share))
    assert share.beacon == beacon_of(words_of(run), configuration_of(run))
    assert audit(run).choosers == (ALL,)
    all_three = "chosen by the referee, the curator and the beacon's witnesses together"
    says(0, (all_three,), run, "--strict", *keys(run.parent, run))


# Referee and curator together, against an honest witness -------------------------------------------------------------


def test_a_witness_gives_one_word_for_the_beginning_of_a_run(run, tmp_path):
    """Whoever has seen the word and does not like the order gets no second one, of this beginning or of another."""
    witness = Near(tmp_path)
    signer, agreed, held = identity_of(tmp_path), configuration_of(run), entries_of(run)
    first = signed_checkpoint(signer, "run", agreed.fingerprint(), held[:2], 7)
    word = witness.keep(first)
    assert witness.keep(first) == word
    assert witness.keep(signed_checkpoint(signer, "run", agreed.fingerprint(), held[:2], 8)) == word
    for number in range(20):  # the curator signs other terms, bound to other shares, as often as the referee likes
        other = append(held[0], "terms", {"terms": {"share_sha256": f"{number:064x}"}}, signer)
        tried = signed_checkpoint(signer, "run", agreed.fingerprint(), [held[0], other], 7)
        with pytest.raises(RolledBack, match="another history of the run"):
            witness.keep(tried)


@pytest.mark.parametrize("with_its_word", [True, False], ids=["with a word for it", "with the word for this one"])
def test_a_referee_that_shows_the_word_of_another_beginning_is_caught(tmp_path, with_its_word):
    """It had other terms witnessed, whose word it likes better, and the curator opens its share to that."""
    with drawn(tmp_path / "all", count=1) as bench:
        run = carry(bench)
        signer, agreed, held = bench.referee.identity, configuration_of(run), entries_of(run)
        forged = append(held[0], "terms", {"terms": {}}, signer)
        checkpoint = signed_checkpoint(signer, "run", agreed.fingerprint(), [held[0], forged], 1)
        itself = Near(tmp_path / "all" / "witness0")._identity
        witness = WitnessLog(tmp_path / "elsewhere", itself)  # as if it had seen this beginning first
        word = witness.keep(checkpoint) if with_its_word else words_of(run).witnessed[0]
        words = StoredCheckpoint(checkpoint=checkpoint, witnessed=(word,))
        curator = bench._gate.curator.of["run"]._journal.identity  # type: ignore[attr-defined]
    changes: list[Any] = [(2, "words", words.wire())]
    if with_its_word:
        share = {**Signed.parse(held[2].body["share"]).message, "beacon": beacon_of(words, agreed)}
        changes.append((2, "share", curator.sign("share", share).wire()))
    resign(tmp_path / "all", run, lie(*changes))
    with pytest.raises(AuditFailed, match=r"about another beginning of the run|has signed another checkpoint"):
        audit(run)


def a_word_of_its_own(bodies: Bodies) -> Bodies:
    """The referee plays one of the witnesses."""
    words = bodies[2][1]["words"]
    words["witnessed"][1] = Identity.create().sign("witnessed", words["witnessed"][1]["message"]).wire()
    return bodies


LIES: dict[str, tuple[str, Callable[[Bodies], Bodies]]] = {
    "leaves the beacon out": ("names a beacon, and the transcript has another one or none", lie((2, ...))),
    "forgets the source": ("terms are for another configuration", lie((0, "configuration", "beacon", ...))),
    "takes one witness's word for two": ("not those of the witnesses", lie((2, "words", "witnessed", 1, ...))),
    "signs a word itself": ("not those of the witnesses", a_word_of_its_own),
    "does not show the share": ("the curator's share is not opened", lie((2, "share", ...))),
    "has the beacon come later": ("does not belong here", lambda b: [*b[:2], b[3], b[2], *b[4:]]),
    "opens another secret": ("not the one committed to", lie((-1, "order", "0", "f" * 64))),
}


def test_a_referee_that_changes_its_part_of_it_is_caught(run, tmp_path):
    caught_of(LIES, run, tmp_path)


def test_a_curator_that_opens_another_share_than_it_was_bound_to_ends_the_run(tmp_path, monkeypatch):
    """It knows the beacon by then, and the referee may have told it the secret: it would choose."""
    with drawn(tmp_path / "all") as bench:
        honest = bench._gate.curator.open_share

        def chosen(signed: Signed) -> Signed:
            opened = honest(signed)
            curator = bench._gate.curator.of["run"]  # type: ignore[attr-defined]
            return curator._journal.identity.sign("share", {**opened.message, "share": "0" * 64})

        monkeypatch.setattr(bench._gate, "open_share", chosen)
        bench.referee.create("run", RUN.wire(), None)
        result = bench.referee.execute("run")
        assert (result["status"], result["answer"], result["agents"]["asked"]) == ("failed", None, 0)
        assert "another share than its terms are bound to" in result["reason"]
        folder = [SignedEntry.model_validate_json(line).kind for line in bench.referee.store.entries("run")]
    assert folder == ["configuration", "terms", "result"]


# Referee and witness together, against an honest curator -------------------------------------------------------------


def test_a_curator_opens_its_share_to_one_beacon(tmp_path, monkeypatch):
    """Witnesses sign as many words as the referee likes; it knows the share once one has been shown."""
    with drawn(tmp_path / "all", 1) as bench:
        run = carry(bench)
        agreed, kept = configuration_of(run), words_of(run)
        curator: Any = bench._gate.curator
        signer = bench.referee.identity
        again = RevealRequest(run="run", digest=agreed.fingerprint(), words=kept)
        assert curator.open_share(seal(signer, again)).wire() == entries_of(run)[2].body["share"]
        liar = Near(tmp_path / "all" / "witness0")
        for number in range(5):
            liar.words = 10 + number
            other = kept.model_copy(update={"witnessed": (liar.keep(kept.checkpoint),)})
            with pytest.raises(Conflict, match="opened to another beacon"):
                curator.open_share(seal(signer, again.model_copy(update={"words": other})))
        resign(tmp_path / "all", run, lie((2, "words", other.wire())))
        with pytest.raises(AuditFailed, match="opened for another beacon"):
            audit(run)
        monkeypatch.setattr(curator.of["run"], "_randomness", RandomSource.seeded(1))
        with pytest.raises(ConfigurationMismatch, match="has no share of the order"):  # one with a public seed
            curator.open_share(seal(signer, again))


def test_a_curator_opens_nothing_without_words_or_to_strangers_and_shows_a_hash_until_then(tmp_path):
    with drawn(tmp_path / "all", count=1) as bench:
        honest, asked, shown = bench._gate.curator, [], []

        def noting(signed: Signed) -> Signed:
            shown.append(terms := honest.open_run(signed))
            return terms

        def tried(signed: Signed) -> Signed:
            asked.append(signed)
            opening, signer = RevealRequest.parse(signed.message), bench.referee.identity
            words = opening.words
            for witnessed in ((), words.witnessed * 2):
                other = opening.model_copy(update={"words": words.model_copy(update={"witnessed": witnessed})})
                with pytest.raises(Forged, match="one word of each witness"):
                    honest.open_share(seal(signer, other))
            with pytest.raises(Forged):
                honest.open_share(seal(Identity.create(), opening))
            return honest.open_share(signed)

        bench._gate.open_share, bench._gate.open_run = tried, noting  # type: ignore[method-assign]
        run = carry(bench)
    assert (audit(run).choosers, len(asked)) == ((ALL,), 1)
    assert Signed.parse(entries_of(run)[2].body["share"]).message["share"] not in json.dumps([t.message for t in shown])


# Crashes, and runs beside each other ------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [True, False], ids=["before the curator has it", "before the referee has it"])
def test_a_run_that_was_cut_off_at_its_beacon_goes_on_with_the_same_one(tmp_path, before):
    with drawn(tmp_path / "all") as bench:
        honest = bench._gate.curator.open_share
        asked: list[Signed] = []

        def cut(signed: Signed) -> Signed:
            asked.append(signed)
            if not before:
                honest(signed)
            raise Halted

        bench._gate.open_share = cut  # type: ignore[method-assign]
        bench.referee.create("run", RUN.wire(), None)
        with pytest.raises(Halted):
            bench.referee.execute("run")
        bench._gate.open_share = honest  # type: ignore[method-assign]
        run = carry(bench)
    assert audit(run).choosers == (ALL,)
    assert entries_of(run)[2].body["words"] == asked[0].message["words"]


def test_a_run_with_a_public_seed_has_no_beacon(tmp_path):
    """For simulated people the order is public anyway; the run is the same in every deployment."""
    (tmp_path / "witness").mkdir()
    with Bench(tmp_path / "state", watching=[Near(tmp_path / "witness")], beacon=True) as bench:
        bench.run()
        assert not any('"kind":"beacon"' in entry for entry in bench.referee.store.entries("run"))


def test_a_referee_that_begins_again_until_it_likes_the_order_is_seen_by_the_witness(tmp_path):
    """With a curator that plays along it may begin as often as it likes: each beginning is at the witness, by name."""
    with drawn(tmp_path / "all", count=1) as bench:

        def dislikes(signed: Signed) -> Signed:
            raise PolicyRefused("not this order")

        honest, bench._gate.perform = bench._gate.perform, dislikes  # type: ignore[method-assign]
        for number in range(3):
            bench.referee.create(f"try{number}", RUN.wire(), None)
            assert bench.referee.execute(f"try{number}")["agents"]["asked"] == 0
        bench._gate.perform = honest  # type: ignore[method-assign]
        run = carry(bench, "liked")
        referee = bench.referee.identity.public
    seen = Near(tmp_path / "all" / "witness0").runs(referee, "", 100)
    assert [each.run for each in seen] == ["liked", "try0", "try1", "try2"]
    with served(witness_app(tmp_path / "all" / "witness0", "witness-token")) as url:
        says(0, ("the witness has seen 3 other runs of this referee (try0, try1, try2)",), run, "--witness", url)
