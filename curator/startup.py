"""Open a curator on a scenario: claim its state directory, bring its people, check its budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.core.durable import claim, claim_people
from common.core.errors import BadInput, BadScenario, PolicyRefused
from common.crypto.identity import check_public
from common.lifetime.account import Account
from common.lifetime.charging import USERS_OWN, Charging
from common.local.records import Records
from common.log.ledger import LEDGER, Chain
from common.log.witness import Witness
from common.numerics.randomness import subseed
from common.operations.operation import Operation
from common.privacy.budget import open_budget
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import policy_digest, public_sample
from curator.curator import Curator, SampleOrigin, planned_by
from curator.engine import CuratorPolicy, check_features
from curator.learners.base import CallSizes, parse_learner
from curator.ledger import OPEN
from curator.operations import HANDLERS, Standing
from curator.sample.placement import check_sample, layout_of, open_sample
from curator.sample.reweighing import Reweighing
from curator.sample.source import OnProgress, in_blocks

if TYPE_CHECKING:
    from common.data.examining import Notes
    from common.data.population import RecordSource
    from curator.contributions.opening import Contributions

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

    Args:
        folder: Its state directory; bound to the policy and the seed at the first start.
        seed: Seed of simulated people; None uses the one of the first start (0 then). Ignored where people are real.
        referee: The referee's key to pin, or None.
        witnesses: Where the heads of its ledger go, beside the file in its state directory.
        charging: Where the run is charged to its people.

    Raises:
        BadScenario: If the sample, or the learner's work on it, does not fit into memory or on the disk; before any
            work.
        BadInput: If the people contribute, and are fewer than the sample takes.
    """
    check_room(scenario, folder)
    account = Account(charging, scenario, "source") if charging.charges(scenario, "source") else None
    simulated = scenario.people == "simulated"
    known = _claimed_seed(scenario, folder, seed if simulated else None)
    read: list[Notes] = []
    contributions = _contributions(folder, scenario)

    with ExitStack() as opened:
        identify, source = _identifying(account, contributions), subseed(known, "source")
        sample = open_sample(scenario, folder, source, on_progress, identify, read.append, contributions)
        opened.callback(sample.close)
        if read:
            _report_clipping(read[0], on_progress)
        public = _bound_public_sample(scenario, known, folder)
        curator = Curator(
            scenario,
            sample,
            folder,
            public=public,
            seed=known if simulated else None,
            referee=referee,
            witnesses=witnesses,
            origin=SampleOrigin(
                account, read[0] if read else None, None if contributions is None else contributions.fix
            ),
        )
        opened.pop_all()
    return curator


def _identifying(account: Account | None, contributions: Contributions | None) -> Callable[[RecordSource], None]:
    def identify(people: RecordSource) -> None:
        if account is not None:
            account.identify(None if contributions is None else contributions.given)

    return identify


def _claimed_seed(scenario: ResolvedScenario, folder: Path, seed: int | None) -> int:
    known: int | None = claim(folder, {"policy": policy_digest(scenario), "seed": seed})["seed"]
    return 0 if known is None else known


def _bound_public_sample(scenario: ResolvedScenario, seed: int, folder: Path) -> Records | None:
    public = public_sample(scenario, seed)
    if public is not None:
        claim_people(folder, public.fingerprint(), "public-people")
    return public


def _report_clipping(read: Notes, on_progress: OnProgress) -> None:
    for column in read.mostly_clipped():
        on_progress(
            f"PRIVATE, for the keeper of these records alone: {read.clipped[column]:,} of {read.rows:,} rows "
            f"of column {column!r} are beyond its bounds and clipped to them: look for a wrong unit"
        )


def referee_of(folder: Path, given: str | None, *, trust_first_contact: bool) -> str | None:
    """Return the key of the referee that a curator is to obey: the given one, or the one whose run its ledger holds.

    Args:
        folder: Its state directory, which need not exist; nothing is changed there.
        given: The key that its operator names, if any.
        trust_first_contact: Whether to obey the first referee that opens a run where no key is known: None is returned
            then.

    Raises:
        BadInput: If no key is known and the first contact is not to be trusted, or the given one is no public key.
    """
    if given is not None:
        return check_public(given, "--referee-key")
    if (folder / LEDGER).exists():
        with closing(Chain(folder / LEDGER)) as chain:
            for entry in chain.entries:
                if entry.kind == OPEN:
                    return str(entry.body["referee"])
    if trust_first_contact:
        return None
    raise BadInput(
        "this curator does not know its referee: the first client that opened a run would have its whole budget, for "
        "ever. Give the referee's public key with --referee-key (its operator prints it: referee key), or "
        "--trust-first-contact, if the first referee to open a run is to be obeyed"
    )


def check_policy(
    scenario: ResolvedScenario, first: Sequence[Operation[Any]] = (), public: Records | None = None
) -> None:
    """Refuse a resolved scenario that this curator would not take, as far as its public numbers tell; no table is read.

    Args:
        first: What the protocol asks the curator for first.
        public: The public people, where they are of a table and it was read; others are drawn.

    Raises:
        BadScenario, BadData: If the learner or the storage cannot work with such samples, or the first operations
            cannot be carried out.
        BudgetExceeded, BadInput: If its rounds do not fit its budget.
    """
    read = public is not None or scenario.public is None or scenario.public.table is None
    if public is None and read:
        public = public_sample(scenario, 0)
    layout, section = layout_of(scenario), scenario.curator
    policy = CuratorPolicy.agreed(scenario, layout.dtype, layout.dimension, public, public_is_read=read)
    open_budget(section.epsilon, section.delta, planned_by(scenario, policy))
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
    for operation in first:
        try:
            policy.check_agreed(operation.kind)
            check_features(operation, layout.dimension)
            if read:
                HANDLERS[operation.kind]().check(operation, standing)
        except PolicyRefused as error:
            raise BadScenario(error.detail) from None


def check_room(scenario: ResolvedScenario, folder: Path) -> None:
    """Refuse a resolved scenario whose sample, or the learner's work on it, does not fit; nothing is written.

    Args:
        folder: The curator's state directory, which need not exist.

    Raises:
        BadScenario: Saying how much memory or disk is needed and available, and what to do.
    """
    policy = scenario.curator
    if policy.learner is None:
        check_sample(scenario, folder, in_blocks)
        return
    learner, public = parse_learner(policy.learner), _public_people(scenario)
    check_sample(scenario, folder, lambda d, itemsize: learner.room(CallSizes(policy.n, public, d, itemsize)))


def _public_people(scenario: ResolvedScenario) -> int:
    if scenario.public is not None and scenario.public.count is not None:
        return scenario.public.count
    sample = public_sample(scenario, 0)  # all of a table: they have to be counted
    return 0 if sample is None else len(sample)


def _contributions(folder: Path, scenario: ResolvedScenario) -> Contributions | None:
    if scenario.source.table is None or not scenario.source.table.contributed:
        return None
    from curator.contributions.opening import Contributions  # here, since what collects serves, which few runs do

    return Contributions(folder, scenario)
