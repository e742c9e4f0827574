"""How often participants ask whether there is a question, and how long a question waits for the last of them to ask."""

from __future__ import annotations

import random

from referee.collection.ordering.roster import Roster

HELD = 1000
"""Polls that are held at the same time: everybody's where no more are enrolled, else those of hosts.

Others are answered at once, with a time to come again. Were some individuals of very many held, to no use for the run,
they would ask again every two seconds and keep the referee busy.
"""
POLLS = 500.0
"""Polls a second, about, that those who are not held are asked to share."""
LONGEST = 600.0
"""Seconds to come again after, at most."""


def stays(roster: Roster, key: str) -> bool:
    """Tell whether a participant's poll may be held, and it may ask again at once."""
    return len(roster) <= HELD or not roster.alone(roster.position(key))


def longest_pause(participants: int) -> float:
    """Return after how many seconds anybody of so many participants has asked again; 0 where all are held.

    A question that was closed earlier would count individuals as silent who were told to come later.
    """
    return 0.0 if participants <= HELD else min(LONGEST, participants / POLLS)


def usual_pause(participants: int) -> float:
    """Return after how many seconds, on average, an individual is asked to come again where so many are enrolled."""
    return 0.75 * min(LONGEST, participants / POLLS)


def pause(participants: int) -> float:
    """Return after how many seconds an individual is asked to come again: at random, so that they spread."""
    return usual_pause(participants) * random.uniform(2 / 3, 4 / 3)
