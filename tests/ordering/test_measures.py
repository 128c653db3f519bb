"""Sequences of trees by pruning measures: worked by hand, and by a slow twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney import InvalidArgumentError
from spinney.ordering.measures import (
    drep,
    error_ambiguity,
    individual_error,
    reduced_error,
)

MEASURES = (individual_error, error_ambiguity, reduced_error, drep)


def votes(*trees):
    """Scores of trees that vote, given as one text of class numbers per tree."""
    cast = np.array([[int(vote) for vote in tree] for tree in trees]).T
    return np.eye(cast.max() + 1)[cast]


# Eight rows of class 1; a tree is written down by its votes.
LABELS = np.ones(8, dtype=int)
TREES = votes(
    "11110000",  # A: 4 errors
    "11111100",  # B: 2 errors, the best alone
    "11111000",  # C: 3 errors, all within those of the others
    "10001111",  # D: 3 errors, right where B is wrong
    "00001111",  # E: 4 errors, right where B is wrong
)


def test_individual_error_sorts_by_errors_and_keeps_equals_in_order():
    assert individual_error(TREES, LABELS).tolist() == [1, 2, 3, 0, 4]


def test_reduced_error_worked_by_hand():
    # B alone is best. Two trees that differ tie, and a tie is class 0: with B, the rows
    # right are 4 with A, 5 with C, 3 with D, 2 with E; so C. Of three trees two decide:
    # 5 rows are right with A, 6 with D (row 5 too), 6 with E; so D, the first of them.
    assert reduced_error(TREES, LABELS).tolist()[:3] == [1, 2, 3]
    assert sorted(reduced_error(TREES, LABELS)) == list(range(5))


def test_drep_worked_by_hand():
    # B has the lowest error and comes first. Agreement with B on the eight rows: A 6,
    # C 7, D 3, E 2. Of four candidates a quarter is one, the least agreeing: E.
    # B and E tie on rows 0-3, 6 and 7, and a tie is class 0: the ensemble says 1 on
    # rows 4 and 5 only. Agreement with that: A rows 6, 7 (0 against 0) = 2 and none of
    # 4, 5: 2; C: row 4, 6, 7 = 3; D: rows 1-3 (0), 4, 5 = 5. The least of three is A.
    # B, E and A: rows 0-3 from B and A, 4 and 5 from B and E; 6 and 7 have one vote.
    # The ensemble says 11111100. Agreement: C 7, D 3: D. Then C is left.
    assert drep(TREES, LABELS).tolist() == [1, 4, 0, 3, 2]
    assert drep(TREES, LABELS).tolist() != [1, 0, 2, 3, 4]  # the natural order


def test_drep_chooses_the_lowest_error_among_those_that_agree_least():
    # With half of the four candidates, D (agreement 3) and E (2) are looked at. With B
    # they are right on rows 0, 4, 5 and on 4, 5: so D.
    assert drep(TREES, LABELS, rho=0.5).tolist()[:2] == [1, 3]


def test_drep_with_all_candidates_is_reduced_error():
    expected = reduced_error(TREES, LABELS).tolist()
    assert drep(TREES, LABELS, rho=1.0).tolist() == expected


def test_error_ambiguity_prefers_the_ambiguous_of_equally_wrong_trees():
    # The last two trees have the same losses on every row in another order; the last
    # but one follows the others, the last one differs from them.
    share = np.array(
        [
            [0.9, 0.9, 0.2, 0.2],
            [0.9, 0.9, 0.2, 0.2],
            [0.9, 0.9, 0.2, 0.2],
            [0.2, 0.2, 0.9, 0.9],
        ]
    ).T
    scores = np.stack([1 - share, share], axis=2)
    assert error_ambiguity(scores, np.ones(4, dtype=int)).tolist()[0] == 3


def test_error_ambiguity_puts_the_better_of_equally_ambiguous_trees_first():
    share = np.array([[0.8, 0.8], [0.2, 0.2]]).T
    scores = np.stack([1 - share, share], axis=2)
    assert error_ambiguity(scores, np.array([1, 1])).tolist() == [0, 1]
    assert error_ambiguity(scores, np.array([0, 0])).tolist() == [1, 0]


def slow_greedy(scores, labels, base, rho):
    """Place the trees one by one, everything counted anew each time."""
    n_rows, n_trees, _ = scores.shape

    def decide(trees, row):
        sums = base + sum(scores[row, tree] for tree in trees)
        return int(np.argmax(np.round(sums, 9)))

    def errors(trees):
        return sum(decide(trees, row) != labels[row] for row in range(n_rows))

    placed = []
    while len(placed) < n_trees:
        left = [tree for tree in range(n_trees) if tree not in placed]
        if placed:
            agreement = {
                tree: sum(
                    decide([tree], row) == decide(placed, row) for row in range(n_rows)
                )
                for tree in left
            }
            left.sort(key=lambda tree: (agreement[tree], tree))
            left = left[: math.ceil(rho * len(left))]
        placed.append(min(left, key=lambda tree: (errors([*placed, tree]), tree)))
    return placed


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    shape = (draw(st.integers(1, 8)), draw(st.integers(1, 5)), draw(st.integers(2, 4)))
    scores = rng.integers(0, 4, size=shape) / 4
    base = rng.integers(-1, 2, size=shape[2]) / 4
    return scores, rng.integers(shape[2], size=shape[0]), base


@given(problems(), st.sampled_from([0.01, 0.25, 0.5, 1.0]))
def test_greedy_sequences_are_those_of_the_slow_twin(problem, rho):
    scores, labels, base = problem
    expected = slow_greedy(scores, labels, base, rho)
    assert drep(scores, labels, base=base, rho=rho).tolist() == expected
    if rho == 1.0:
        assert reduced_error(scores, labels, base=base).tolist() == expected


@given(problems())
def test_every_sequence_has_every_tree_once(problem):
    scores, labels, base = problem
    for measure in MEASURES:
        sequence = measure(scores, labels, base=base)
        assert sorted(sequence) == list(range(scores.shape[1]))


@given(problems())
def test_sequences_do_not_depend_on_the_order_of_the_rows(problem):
    scores, labels, base = problem
    for measure in (individual_error, reduced_error, drep):
        turned = measure(scores[::-1], labels[::-1], base=base)
        assert turned.tolist() == measure(scores, labels, base=base).tolist()


def test_base_score_counts_in_the_decision():
    # A margin of 1 is not enough against a base score of 2 for the first class.
    scores = np.array([[[0.0, 1.0], [0.0, 3.0]]])
    assert individual_error(scores, [1], base=[2.0, 0.0]).tolist() == [1, 0]
    assert individual_error(scores, [1]).tolist() == [0, 1]


@pytest.mark.parametrize("rho", [0.0, -0.5, 1.5, float("nan")])
def test_rho_is_a_share(rho):
    with pytest.raises(InvalidArgumentError, match="rho must be in"):
        drep(TREES, LABELS, rho=rho)


@pytest.mark.parametrize("measure", MEASURES)
def test_shapes_and_labels_are_checked(measure):
    with pytest.raises(InvalidArgumentError, match="scores must have shape"):
        measure(np.zeros((3, 2)), [0, 0, 0])
    with pytest.raises(InvalidArgumentError, match="none of them zero"):
        measure(np.zeros((0, 2, 2)), np.zeros(0, dtype=int))
    with pytest.raises(InvalidArgumentError, match="8 class indices, one per row"):
        measure(TREES, LABELS[:5])
    with pytest.raises(InvalidArgumentError, match="8 class indices"):
        measure(TREES, LABELS.astype(float))
    with pytest.raises(InvalidArgumentError, match="from 0 to 1, got 2 to 2"):
        measure(TREES, LABELS + 1)
