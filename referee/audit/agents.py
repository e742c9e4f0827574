"""Who was enrolled, in which committed order agents are asked, and whether a question keeps to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from common.core.errors import AuditFailed
from common.wire.messages import RUN, Configuration
from referee.audit.place import Place
from referee.collection.ordering.batches import AnyBatch, form_batch
from referee.collection.ordering.roster import Roster, participants_root
from referee.runs.ordering import Given, checked
from referee.state.values import Cohort, Part


class Agents:
    """The agents of a run: every one has one number, one owner and one place in one order, and is asked once.

    Parameters
    ----------
    configuration
        The run's, with the commitments to the orders.
    listed
        Counts and root of the list of participants, as the transcript signs them.
    raw
        The list itself (:meth:`referee.collection.ordering.roster.Roster.encode`).
    place
        Where the audit stands.

    Attributes
    ----------
    individuals, hosts
        How many individuals were enrolled when the run began, and for how many people each host says that it speaks,
        the largest first.
    choosers
        Who chose the orders in which agents were asked, in words (:mod:`referee.runs.ordering`).
    roster
        Everybody who was enrolled when the run began.
    others
        How many agents of the run's orders other runs are said to have asked, by their names.

    Raises
    ------
    AuditFailed
        If an agent has several numbers, owners or places, or the list is another one than was signed.
    """

    def __init__(self, configuration: Configuration, listed: dict[str, Any], raw: bytes, place: Place) -> None:
        self._place = place
        self._run = configuration.run
        self.others: dict[str, int] = {}
        self.choosers: tuple[str, ...] = ()
        place.words = "the list of participants"
        self.roster = Roster.decode(raw)
        found = {"count": len(self.roster), "agents": self.roster.agents, "root": participants_root(raw)}
        if found != listed:
            raise AuditFailed(f"the list of participants is not the one that was signed: {listed} against {found}")
        speaks = self.roster.speaks_for()
        self.individuals = int((speaks == 1).sum())
        self.hosts = tuple(sorted((int(people) for people in speaks[speaks > 1]), reverse=True))
        place.words = "the numbers of agents"
        self._check_numbers(configuration)
        self._cohorts: dict[int, Cohort] = {}

    def open(self, configuration: Configuration, seeds: dict[str, str], given: Given) -> None:
        """Take in the orders, before anybody is asked.

        Parameters
        ----------
        seeds
            The seed of each order that was used, by its first agent, as published when the run ended.
        given
            What others than the referee have given to them.

        Raises
        ------
        AuditFailed
            If a seed is not the one committed to.
        """
        self._place.words = "the order of agents"
        for promised in configuration.order:
            published, seed = seeds.get(str(promised.first)), ""
            if published is not None:
                seed, by = checked(promised, published, given)
                self.choosers = tuple(sorted({*self.choosers, by}))
            self._cohorts[promised.first] = Cohort(promised.first, promised.agents, seed, promised.used)

    def _check_numbers(self, configuration: Configuration) -> None:
        orders = sorted(configuration.order, key=lambda promised: promised.first)
        limits = [*(p.first for p in orders[1:]), self.roster.agents]
        for promised, limit in zip(orders, limits, strict=True):
            if promised.first + promised.agents > limit:
                raise AuditFailed(f"agents {promised.first}... are in two orders, or not enrolled")

    def pass_over(self, others: Sequence[tuple[str, Part]]) -> None:
        """Note which agents other runs have asked meanwhile, as the referee has signed it: this one may not have them.

        Raises
        ------
        AuditFailed
            If they are not the next ones of the committed orders, or were asked by what cannot be a run: its name is
            printed.
        """
        for run, part in others:
            if not re.fullmatch(RUN, run):
                raise self._place.failed(f"{run!r} is no name of a run")
            if run == self._run:
                raise self._place.failed("agents of the run itself are said to be another's")
            self._use(part)
            self.others[run] = self.others.get(run, 0) + part.stop - part.start

    def _use(self, part: Part) -> None:
        cohort = self._cohorts[part.cohort]
        if part.start != cohort.used or not part.start < part.stop <= cohort.agents:
            raise self._place.failed("agents are not taken in the committed order")
        self._cohorts[part.cohort] = Cohort(cohort.first, cohort.agents, cohort.seed, part.stop)

    def take(self, parts: tuple[Part, ...], wanted: int) -> AnyBatch:
        """Return the agents of a question, which are taken: no later question may have them.

        Raises
        ------
        AuditFailed
            If they are not the next ones of the committed orders, as many as were wanted or as there are.
        """
        for part in parts:
            self._use(part)
            if not self._cohorts[part.cohort].seed:
                raise self._place.failed("agents were asked in an order whose seed was not published")
        asked = sum(p.stop - p.start for p in parts)
        left = sum(c.agents - c.used for c in self._cohorts.values())
        if asked > wanted or (asked < wanted and left > 0):
            raise self._place.failed(f"{wanted} agents were to be asked, {asked} were")
        return form_batch(parts, self._cohorts.__getitem__, self.roster)
