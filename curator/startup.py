"""Open a curator for a scenario: claim its state directory, load or draw its people, and check its budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.core.durable import claim, claim_people, durable_key, hold
from common.core.errors import BadInput, BadScenario, PolicyRefused
from common.core.machine import processors
from common.crypto.identity import check_public
from common.lifetime.account import Account
from common.lifetime.charging import USERS_OWN, Charging
from common.local.records import Records
from common.log.ledger import LEDGER, Chain
from common.log.witness import Witness
from common.numerics.randomness import subseed
from common.operations.operation import Operation
from common.privacy.budget import open_budget
from common.scenario.scenario import ResolvedScenario, data_folder, policy_digest, public_sample
from curator.curator import Curator, SampleOrigin, events_of_run
from curator.engine import CuratorPolicy, check_features
from curator.learners.base import CallSizes, parse_learner
from curator.ledger import OPEN
from curator.operations import HANDLERS, Standing
from curator.sample.base import LocalSample, Sample
from curator.sample.reweighing import Reweighing
from curator.sample.source import OnProgress, Source

if TYPE_CHECKING:
    from common.data.examining import Notes
    from common.data.population import Contributed
    from curator.contributions.collection import Contributions

log = logging.getLogger("tandem")


def open_curator(
    scenario: ResolvedScenario,
    folder: Path,
    seed: int | None,
    referee: str | None,
    on_progress: OnProgress = log.info,
    *,
    witnesses: Sequence[Witness] = (),
    charging: Charging = USERS_OWN,
) -> Curator:
    """Return the curator of a resolved scenario.

    Raises:
        BadScenario: If the sample, or the learner's work on it, does not fit into memory or on the disk; raised before
            any work.
        BadInput: If the people contribute, and are fewer than the sample needs.
    """
    check_room(scenario, folder)
    account = Account(charging, scenario, "source") if charging.charges(scenario, "source") else None
    simulated = scenario.people == "simulated"
    stored_seed = claim(folder, {"policy": policy_digest(scenario), "seed": seed if simulated else None})["seed"]
    public_seed = 0 if stored_seed is None else int(stored_seed)
    notes: list[Notes] = []
    contributions: Contributions | None = None
    if scenario.source.table is not None and scenario.source.table.contributed:
        from curator.contributions import collection

        contributions = collection.Contributions(folder, scenario)

    def identify() -> None:
        if account is not None:
            account.identify(None if contributions is None else contributions.people)

    with ExitStack() as resources:
        source = subseed(public_seed, "source")
        sample = open_sample(scenario, folder, source, on_progress, identify, notes.append, contributions)
        resources.callback(sample.close)
        for column, count in notes[0].mostly_clipped().items() if notes else ():
            on_progress(
                f"PRIVATE, for the keeper of these records alone: {count:,} of {notes[0].rows:,} rows "
                f"of column {column!r} are beyond its bounds and clipped to them: look for a wrong unit"
            )
        public = public_sample(scenario, public_seed)
        if public is not None:
            claim_people(folder, public.fingerprint(), "public-people")
        fix = None if contributions is None else contributions.fix
        curator = Curator(
            scenario,
            sample,
            folder,
            public=public,
            seed=public_seed if simulated else None,
            referee=referee,
            witnesses=witnesses,
            origin=SampleOrigin(account, notes[0] if notes else None, fix),
        )
        resources.pop_all()
    return curator


def referee_of(folder: Path, key: str | None, *, trust_first_contact: bool) -> str | None:
    """Return the key of the referee that a curator must obey: the given one, or that of the run in its ledger."""
    if key is not None:
        return check_public(key, "--referee-key")
    known_key = referee_in(folder)
    if known_key is not None:
        return known_key
    if trust_first_contact:
        return None
    raise BadInput(
        "this curator does not know its referee: the first client that opened a run would have its whole budget, for "
        "ever. Give the referee's public key with --referee-key (its operator prints it: referee key), or "
        "--trust-first-contact, if the first referee to open a run is to be obeyed"
    )


def referee_in(folder: Path) -> str | None:
    """Return the key of the referee whose run has a curator's budget, by its ledger; None if no run has opened."""
    entries = Chain(folder / LEDGER).entries
    return next((str(entry.body["referee"]) for entry in entries if entry.kind == OPEN), None)


def check_policy(
    scenario: ResolvedScenario, operations: Sequence[Operation[Any]] = (), public: Records | None = None
) -> None:
    """Refuse a resolved scenario that this curator would not accept, from its public numbers alone; no table is read.

    Raises:
        BadScenario, BadData: If the learner or the storage cannot work with such samples, or the first operations
            cannot be carried out.
        BudgetExceeded, BadInput: If its rounds do not fit its budget.
    """
    public_is_read = public is not None or scenario.public is None or scenario.public.table is None
    if public is None and public_is_read:
        public = public_sample(scenario, 0)
    layout, section = _source(scenario, Path(), 0).planned_layout(), scenario.curator
    policy = CuratorPolicy.for_shape(scenario, layout.dtype, layout.dimension, public, public_is_read=public_is_read)
    open_budget(section.epsilon, section.delta, events_of_run(scenario, policy))
    standing = Standing(
        people=policy.n,
        dimension=layout.dimension,
        dtype=layout.dtype,
        tv_bound=Reweighing(policy.n, policy.kappa, policy.eta).sampling_bound(),
        learner=policy.learner,
        previous=None,
        public=public,
        check_room=lambda weighing: None,
    )
    for operation in operations:
        try:
            policy.check_agreed(operation.kind)
            check_features(operation, layout.dimension)
            if public_is_read:
                HANDLERS[operation.kind]().check(operation, standing)
        except PolicyRefused as error:
            raise BadScenario(error.detail) from None


def check_room(scenario: ResolvedScenario, folder: Path) -> None:
    """Raise BadScenario if the sample, or the learner's work on it, does not fit into memory or on the disk."""
    people, public = scenario.curator.n, 0
    learner = None if scenario.curator.learner is None else parse_learner(scenario.curator.learner)
    if learner is not None and scenario.public is not None:
        public = scenario.public.count or len(public_sample(scenario, 0) or ())  # of a table all: they are counted

    def work(dimension: int, itemsize: int) -> int:
        return 0 if learner is None else learner.room(CallSizes(people, public, dimension, itemsize))

    _source(scenario, folder, 0).check(work)


def open_sample(
    scenario: ResolvedScenario,
    folder: Path,
    seed: int,
    on_progress: OnProgress,
    identify: Callable[[], None] | None = None,
    on_notes: Callable[[Notes], None] | None = None,
    contributed: Contributed | None = None,
) -> Sample:
    """Return the sample of a resolved scenario, to be closed; a state directory in use or of other people is refused.

    Args:
        folder: The curator's state directory.
        seed: Public seed that determines the people; a durable secret of the directory determines real people's slots.
        identify: Called when the people are known, before their records are stored.
        on_notes, contributed: As ``counted`` and this for :func:`common.data.population.open_records`.
    """
    secret = durable_key(folder / "order.key") if scenario.people == "real" else None
    source = _source(scenario, folder, seed, secret, contributed)
    population = source.population(on_notes)
    if contributed is None:  # the ledger names the contributions
        claim_people(folder, population.fingerprint())
    if identify is not None:
        identify()
    storage, n = scenario.curator.storage, source.size
    with ExitStack() as resources:
        if storage.place == "disk":
            resources.callback(hold(source.folder).close)
        if storage.workers == 0:
            rows = source.rows(population, 0, n, processors(), on_progress)
            sample: Sample = LocalSample([rows])
        else:
            from curator.sample.cluster import open_cluster  # an optional dependency stands behind it

            sample = open_cluster(source, population, on_progress)
        sample.resources.push(resources.pop_all())
    return sample


def _source(
    scenario: ResolvedScenario,
    folder: Path,
    seed: int,
    order: bytes | None = None,
    contributed: Contributed | None = None,
) -> Source:
    table = scenario.source.table
    data = None if table is not None and table.contributed else data_folder(scenario)
    return Source(scenario, seed, (folder / "rows").absolute(), data and data.absolute(), order, contributed)
