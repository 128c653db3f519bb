"""Kernels that walk through trees in random order and add up scores or votes.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is the
caller's task.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel


@kernel
def _next_place(state: NDArray[np.uint64], first: int, n_trees: int) -> np.int64:
    """Draw a number from `first` to `n_trees` - 1 and move the generator on."""
    # Three shifts (Marsaglia's xorshift): good enough for orders, and far quicker than
    # a generator for all purposes. The high half of the product is the number drawn.
    word = state[0]
    word ^= word << np.uint64(13)
    word ^= word >> np.uint64(7)
    word ^= word << np.uint64(17)
    state[0] = word
    high = word >> np.uint64(32)
    return first + np.int64((high * np.uint64(n_trees - first)) >> np.uint64(32))


@kernel
def walk_scores(
    scores: NDArray[np.float32],
    checks: NDArray[np.int64],
    state: NDArray[np.uint64],
    sums: NDArray[np.float32],
) -> None:
    """Add up the scores of every row in several random orders of the trees.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_trees)
        Scores of the trees.
    checks : ndarray of shape (n_checks,)
        Numbers of trees, increasing, at which the partial sums are wanted.
    state : ndarray of shape (1,), dtype=uint64
        State of the random generator, not 0; moved on.
    sums : ndarray of shape (n_checks, n_rows, n_orders)
        Overwritten with the partial sums.
    """
    n_rows, n_trees = scores.shape
    n_checks, _, n_orders = sums.shape
    shuffled = np.empty(n_trees, dtype=np.float32)
    for row in range(n_rows):
        # A loop: as one assignment it takes half a second longer to compile.
        for tree in range(n_trees):
            shuffled[tree] = scores[row, tree]
        for order in range(n_orders):
            # Shuffling what is shuffled already gives an order as random as any.
            total = 0.0
            i = 0
            for k in range(n_checks):
                while i < checks[k]:
                    j = _next_place(state, i, n_trees)
                    score = shuffled[j]
                    shuffled[j] = shuffled[i]
                    shuffled[i] = score
                    total += score
                    i += 1
                sums[k, row, order] = total


@kernel
def walk_margins(
    scores: NDArray[np.float32],
    winners: NDArray[np.int64],
    checks: NDArray[np.int64],
    state: NDArray[np.uint64],
    margins: NDArray[np.float32],
    wrong: NDArray[np.bool_],
) -> None:
    """Add up the scores of several classes, and note how far the best is ahead.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_trees, n_classes)
        Scores of the trees.
    winners : ndarray of shape (n_rows,)
        Class that all trees together choose.
    checks, state
        As in `walk_scores`.
    margins : ndarray of shape (n_checks, n_rows, n_orders)
        Overwritten with the margins between the two best classes.
    wrong : ndarray of shape (n_checks, n_rows, n_orders)
        Overwritten with whether the best is not the winner.
    """
    n_rows, n_trees, n_classes = scores.shape
    n_checks, _, n_orders = margins.shape
    trees = np.arange(n_trees)
    totals = np.empty(n_classes)
    for row in range(n_rows):
        for order in range(n_orders):
            totals[:] = 0.0
            i = 0
            for k in range(n_checks):
                while i < checks[k]:
                    j = _next_place(state, i, n_trees)
                    tree = trees[j]
                    trees[j] = trees[i]
                    trees[i] = tree
                    for c in range(n_classes):
                        totals[c] += scores[row, tree, c]
                    i += 1
                best = 0
                next_best = -np.inf
                for c in range(1, n_classes):
                    if totals[c] > totals[best]:
                        next_best = totals[best]
                        best = c
                    elif totals[c] > next_best:
                        next_best = totals[c]
                margins[k, row, order] = totals[best] - next_best
                wrong[k, row, order] = best != winners[row]


@kernel
def _first_two(counts: NDArray[np.int64]) -> tuple[int, int]:
    """Return the class with most votes, and how many the next one has."""
    best = 0
    runner = 0
    for c in range(1, counts.shape[0]):
        if counts[c] > counts[best]:
            runner = counts[best]
            best = c
        elif counts[c] > runner:
            runner = counts[c]
    return best, runner


@kernel
def _ballots(counts: NDArray[np.int64], votes: NDArray[np.int64]) -> int:
    """Write down the votes of one row one by one; return the winning class."""
    i = 0
    for c in range(counts.shape[0]):
        for _ in range(counts[c]):
            votes[i] = c
            i += 1
    return _first_two(counts)[0]


@kernel
def walk_votes(
    counts: NDArray[np.int64],
    checks: NDArray[np.int64],
    state: NDArray[np.uint64],
    leaders: NDArray[np.int32],
    runners: NDArray[np.int32],
    wrong: NDArray[np.bool_],
) -> None:
    """Count the votes of every row in several random orders.

    Parameters
    ----------
    counts : ndarray of shape (n_rows, n_classes)
        Votes of all voters for each class.
    checks, state
        As in `walk_scores`.
    leaders, runners : ndarray of shape (n_checks, n_rows, n_orders)
        Overwritten with the votes of the class in front and of the next one.
    wrong : ndarray of shape (n_checks, n_rows, n_orders)
        Overwritten with whether the class in front is not the winner.
    """
    n_rows, n_classes = counts.shape
    n_voters = counts[0].sum()
    n_checks, _, n_orders = leaders.shape
    votes = np.empty(n_voters, dtype=np.int64)
    cast = np.empty(n_classes, dtype=np.int64)
    for row in range(n_rows):
        winner = _ballots(counts[row], votes)
        for order in range(n_orders):
            cast[:] = 0
            i = 0
            for k in range(n_checks):
                while i < checks[k]:
                    j = _next_place(state, i, n_voters)
                    vote = votes[j]
                    votes[j] = votes[i]
                    votes[i] = vote
                    cast[vote] += 1
                    i += 1
                best, runner = _first_two(cast)
                leaders[k, row, order] = cast[best]
                runners[k, row, order] = runner
                wrong[k, row, order] = best != winner
