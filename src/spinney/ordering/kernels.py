"""Kernels that choose the tree to evaluate next, by the best early exit after each.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.ordering.exit_kernels import JOINT, best_exit, count_below, furthest_cut
from spinney.runtime.kernel_cache import kernel

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]


@kernel
def _smallest_ratio(ratios: Numbers) -> int:
    """Return the index of the smallest number, the first of several equal ones."""
    best = 0
    for k in range(1, ratios.shape[0]):
        if ratios[k] < ratios[best]:
            best = k
    return best


@kernel
def _add_score(
    scores: Numbers, partial: Numbers, n_positive: int, parted: Numbers
) -> None:
    """Write partial scores after one more tree, negated for rows not positive."""
    n_rows = partial.shape[0]
    for i in range(n_positive):
        parted[i] = partial[i] + scores[i]
    for i in range(n_positive, n_rows):
        parted[i] = -(partial[i] + scores[i])


@kernel
def choose_tree(
    scores: Numbers,
    candidates: Indices,
    costs: Numbers,
    kept: Indices,
    partial: Numbers,
    n_positive: int,
    low_limit: float,
    high_limit: float,
    budget: int,
    mode: int,
) -> tuple[int, float, float]:
    """Choose the tree with the least cost per row that it decides.

    Parameters
    ----------
    scores : ndarray of shape (n_trees, n_all_rows)
        What each tree adds. The rows are compacted in place, as `kept` says.
    candidates : ndarray of shape (n_candidates,)
        Trees to choose from; of equally good ones the first is taken.
    costs : ndarray of shape (n_trees,)
        Cost of each tree.
    kept : ndarray of shape (n_rows,) or empty
        Indices of the rows that are still undecided among those that `scores` has in
        front, ascending; empty if they are the same as before.
    partial : ndarray of shape (n_rows,)
        Partial scores of these rows so far.
    n_positive : int
        The first so many rows are positive in full.
    low_limit, high_limit, budget, mode
        As in `best_exit`.

    Returns
    -------
    chosen : int
        Which of `candidates` was chosen.
    low_cut, high_cut : float
        Its cuts, see `best_exit`.
    """
    n_rows = partial.shape[0]
    n_candidates = candidates.shape[0]
    parted = np.empty(n_rows)
    low_heap = np.empty(budget + 1)
    high_heap = np.empty(budget + 1)
    low_counts = np.empty(budget + 1, dtype=np.int64)
    high_counts = np.empty(budget + 1, dtype=np.int64)
    ratios = np.empty(n_candidates)
    low_cuts = np.empty(n_candidates)
    high_cuts = np.empty(n_candidates)
    exact = np.full(n_candidates, mode != JOINT)
    for k in range(n_candidates):
        row = scores[candidates[k]]
        for i in range(kept.shape[0]):
            row[i] = row[kept[i]]
        _add_score(row, partial, n_positive, parted)
        n_decided, _, low_cuts[k], high_cuts[k] = best_exit(
            parted[:n_positive],
            parted[n_positive:],
            low_limit,
            high_limit,
            budget,
            mode,
            True,
            low_heap,
            high_heap,
            low_counts,
            high_counts,
        )
        ratios[k] = (
            costs[candidates[k]] * n_rows / n_decided if n_decided > 0 else np.inf
        )
    # The best by its bound is looked at closely, until the best is exact.
    best = _smallest_ratio(ratios)
    while not exact[best]:
        exact[best] = True
        tree = candidates[best]
        _add_score(scores[tree], partial, n_positive, parted)
        n_decided, _, low_cuts[best], high_cuts[best] = best_exit(
            parted[:n_positive],
            parted[n_positive:],
            low_limit,
            high_limit,
            budget,
            mode,
            False,
            low_heap,
            high_heap,
            low_counts,
            high_counts,
        )
        ratios[best] = costs[tree] * n_rows / n_decided if n_decided > 0 else np.inf
        best = _smallest_ratio(ratios)
    return best, low_cuts[best], high_cuts[best]


@kernel
def choose_tree_by_margin(
    scores: NDArray[np.float64],
    tree_output: Indices,
    candidates: Indices,
    costs: Numbers,
    kept: Indices,
    partial: NDArray[np.float64],
    full: Indices,
    budget: int,
) -> tuple[int, float]:
    """Choose the tree with the least cost per row that its margin decides.

    The margin of a row is the distance between its two largest partial scores. Rows
    with a margin above a cut are decided for the class of the largest.

    Parameters
    ----------
    scores : ndarray of shape (n_trees, n_all_rows, n_values)
        What each tree adds: to all classes, or to one (a single value).
    tree_output : ndarray of shape (n_trees,)
        The class that each tree adds to; -1 if to all.
    candidates, costs, kept
        As in `choose_tree`.
    partial : ndarray of shape (n_rows, n_classes)
        Partial scores so far.
    full : ndarray of shape (n_rows,)
        Class of each row by the full ensemble.
    budget : int
        How many decisions may differ from the full ones.

    Returns
    -------
    chosen : int
        Which of `candidates` was chosen.
    cut : float
        Rows whose negated margin is below it are decided.
    """
    n_rows, n_classes = partial.shape
    n_candidates = candidates.shape[0]
    right = np.empty(n_rows)
    wrong = np.empty(n_rows)
    heap = np.empty(budget + 1)
    ratios = np.empty(n_candidates)
    cuts = np.empty(n_candidates)
    for k in range(n_candidates):
        tree = candidates[k]
        added = scores[tree]
        for i in range(kept.shape[0]):
            added[i] = added[kept[i]]
        output = tree_output[tree]
        n_right = 0
        n_wrong = 0
        for i in range(n_rows):
            winner = 0
            largest = -np.inf
            second = -np.inf
            for c in range(n_classes):
                score = partial[i, c]
                if output < 0:
                    score += added[i, c]
                elif output == c:
                    score += added[i, 0]
                if score > largest:
                    second = largest
                    largest = score
                    winner = c
                elif score > second:
                    second = score
            if winner == full[i]:
                right[n_right] = second - largest
                n_right += 1
            else:
                wrong[n_wrong] = second - largest
                n_wrong += 1
        cuts[k], _ = furthest_cut(wrong[:n_wrong], np.inf, budget, heap)
        n_decided = count_below(wrong[:n_wrong], cuts[k])
        n_decided += count_below(right[:n_right], cuts[k])
        ratios[k] = costs[tree] * n_rows / n_decided if n_decided > 0 else np.inf
    best = _smallest_ratio(ratios)
    return best, cuts[best]
