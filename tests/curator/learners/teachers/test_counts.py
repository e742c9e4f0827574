"""Distances to instability, against their definition: how many records can be replaced without another winner."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from curator.learners.teachers.counts import count_votes, distances, winners


def every_count(teachers: int, classes: int) -> list[tuple[int, ...]]:
    return [c for c in itertools.product(range(teachers + 1), repeat=classes) if sum(c) == teachers]


def neighbours(counts: tuple[int, ...], touched: int) -> set[tuple[int, ...]]:
    """Return all counts that at most so many teachers can lead to, changing their votes."""
    reached = {counts}
    for _ in range(touched):
        for one in list(reached):
            for loser, gainer in itertools.permutations(range(len(counts)), 2):
                if one[loser]:
                    changed = list(one)
                    changed[loser] -= 1
                    changed[gainer] += 1
                    reached.add(tuple(changed))
    return reached


def distance(counts: tuple[int, ...], touched: int = 1) -> int:
    return int(distances(np.array([counts]), touched)[0])


def winner(counts: tuple[int, ...]) -> int:
    return int(winners(np.array([counts]))[0])


def leads(counts: tuple[int, ...], label: int) -> bool:
    return all(other < counts[label] for place, other in enumerate(counts) if place != label)


def printed(counts: tuple[int, ...]) -> int:
    lesser, greater = sorted(counts)[-2:]
    return max(0, greater - lesser - 1)


CASES = [(9, 2, 1), (9, 2, 2), (7, 3, 1), (6, 3, 2), (5, 4, 1)]


@pytest.mark.parametrize(("teachers", "classes", "touched"), CASES)
def test_one_record_changes_a_distance_by_at_most_1_and_only_at_0_the_winner(teachers, classes, touched):
    for counts in every_count(teachers, classes):
        for other in neighbours(counts, touched):
            assert abs(distance(counts, touched) - distance(other, touched)) <= 1
            if winner(counts) != winner(other):
                assert distance(counts, touched) == distance(other, touched) == 0


@pytest.mark.parametrize(("teachers", "classes"), [(9, 2), (8, 2), (7, 3)])
def test_it_is_the_number_of_teachers_that_can_change_without_another_winner_and_without_a_tie(teachers, classes):
    for counts in every_count(teachers, classes):
        exact = 0
        while all(leads(c, winner(counts)) for c in neighbours(counts, exact + 1)):
            exact += 1
        assert distance(counts) == exact


def test_the_printed_distance_has_sensitivity_2():
    changes = [abs(printed(c) - printed(o)) for c in every_count(9, 2) for o in neighbours(c, 1)]
    assert max(changes) == 2


def test_votes_are_counted_by_class():
    votes = np.array([[0, 1, 2], [0, 2, 2], [1, 2, 2], [0, 0, 2]], dtype=np.uint8)
    np.testing.assert_array_equal(count_votes(votes, 3), [[3, 1, 0], [1, 1, 2], [0, 0, 4]])
    np.testing.assert_array_equal(winners(count_votes(votes, 3)), [0, 2, 2])
