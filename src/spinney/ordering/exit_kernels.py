"""Kernels that find the best early exit after a given tree.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task.

Rows are always parted: first those that the full ensemble calls positive, then the
others. A row is decided "negative" if its partial score is below a cut, "positive" if
it is above another, and a decision that differs from the full one spends one unit of a
budget. With a budget of B the lower cut never passes the (B + 1)-th smallest score of
the positive rows, and likewise on the other side. Those few scores are kept in a heap
while the rows are read once: most rows cost one comparison, and nothing is sorted but
the heap. To have one kernel for both sides, the upper side is the lower side of the
negated scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]

# Which exits there are, and who may spend the budget first where there are both.
JOINT = 0
NEGATIVE_FIRST = 1
NEGATIVE_ONLY = 2
POSITIVE_ONLY = 3


@kernel
def _sift_down(heap: Numbers, slot: int, size: int, value: float) -> None:
    """Put `value` where it belongs at or below `slot`; larger numbers are on top."""
    child = 2 * slot + 1
    while child < size:
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[slot] = heap[child]
        slot = child
        child = 2 * slot + 1
    heap[slot] = value


@kernel
def keep_smallest(values: Numbers, limit: float, n_kept: int, heap: Numbers) -> int:
    """Keep the smallest of the values below a limit, in a heap, largest on top.

    Parameters
    ----------
    values : ndarray
        Values.
    limit : float
        Only values below it count.
    n_kept : int
        How many to keep, at least 1.
    heap : ndarray of shape (n_kept,) or longer
        Overwritten with those kept.

    Returns
    -------
    size : int
        How many there are, at most `n_kept`.
    """
    size = 0
    i = 0
    n_values = values.shape[0]
    while i < n_values and size < n_kept:
        if values[i] < limit:
            # Up from the last slot.
            slot = size
            value = values[i]
            while slot > 0:
                parent = (slot - 1) // 2
                if heap[parent] >= value:
                    break
                heap[slot] = heap[parent]
                slot = parent
            heap[slot] = value
            size += 1
        i += 1
    if size == n_kept:
        top = heap[0]
        while i < n_values:
            if values[i] < top:
                _sift_down(heap, 0, size, values[i])
                top = heap[0]
            i += 1
    return size


@kernel
def _sort_heap(heap: Numbers, size: int) -> None:
    """Turn a heap with the largest number on top into ascending order."""
    for last in range(size - 1, 0, -1):
        value = heap[last]
        heap[last] = heap[0]
        _sift_down(heap, 0, last, value)


@kernel
def furthest_cut(
    values: Numbers, limit: float, budget: int, heap: Numbers
) -> tuple[float, int]:
    """Return the furthest cut that passes at most `budget` values, and heap size.

    What is below the cut is decided. The cut is the (budget + 1)-th smallest value, or
    the limit if fewer are below it.
    """
    size = keep_smallest(values, limit, budget + 1, heap)
    return (heap[0] if size > budget else limit), size


@kernel
def count_below(values: Numbers, cut: float) -> int:
    """Return how many values are below a cut."""
    count = 0
    for i in range(values.shape[0]):
        count += values[i] < cut
    return count


@kernel
def _count_above(values: Numbers, cut: float) -> int:
    """Return how many of the *negated* values lie below `cut`."""
    count = 0
    for i in range(values.shape[0]):
        count += -values[i] < cut
    return count


@kernel
def _counts_by_error(
    own: Numbers,
    n_own: int,
    limit: float,
    others: Numbers,
    budget: int,
    counts: Indices,
) -> None:
    """Count for every number of errors which other rows a cut then decides.

    Parameters
    ----------
    own : ndarray
        Scores that are errors once a cut passes them, ascending.
    n_own : int
        How many there are.
    limit : float
        Where the cut is if there are no more of them.
    others : ndarray
        Negated scores of the rows that are decided rightly.
    budget : int
        Largest number of errors.
    counts : ndarray of shape (budget + 1,) or longer
        Overwritten: ``counts[e]`` rows lie below a cut that passes `e` errors.
    """
    for e in range(budget + 1):
        counts[e] = 0
    last = own[budget] if n_own > budget else limit
    for i in range(others.shape[0]):
        value = -others[i]
        if value < last:
            # The first error that is not passed before this row is.
            low = 0
            high = min(n_own, budget + 1)
            while low < high:
                middle = (low + high) // 2
                if own[middle] <= value:
                    low = middle + 1
                else:
                    high = middle
            counts[low] += 1
    for e in range(1, budget + 1):
        counts[e] += counts[e - 1]


@kernel
def _split_budget(
    positive: Numbers,
    negative: Numbers,
    low_limit: float,
    high_limit: float,
    budget: int,
    low_heap: Numbers,
    n_low: int,
    high_heap: Numbers,
    n_high: int,
    low_counts: Indices,
    high_counts: Indices,
) -> tuple[int, int, float, float]:
    """Divide the budget between both sides so that most rows are decided.

    `positive` are the scores of rows that are positive in full, `negative` the negated
    scores of the others; the heaps hold the smallest of each. Of splits that decide
    equally many rows, that with the fewest errors is taken, then that with the fewest
    on the lower side.
    """
    n_rows = positive.shape[0] + negative.shape[0]
    _sort_heap(low_heap, n_low)
    _sort_heap(high_heap, n_high)
    _counts_by_error(low_heap, n_low, low_limit, negative, budget, low_counts)
    # One cut for both: a row that is not below it is above.
    fewest = budget + 1
    single = low_limit
    e = 0
    while e <= budget:
        passed = min(e, n_low)  # errors below this cut
        cut = low_heap[e] if e < n_low else low_limit
        # Only where nothing keeps the two cuts apart.
        errors = passed + negative.shape[0] - low_counts[passed]
        if low_limit == np.inf and errors < fewest:
            fewest = errors
            single = cut
        if e >= n_low:
            break
        e += 1
        while e < n_low and low_heap[e] == cut:
            e += 1  # tied scores cannot be parted
    if fewest <= budget:
        return n_rows, fewest, single, np.nextafter(-single, np.inf)

    _counts_by_error(high_heap, n_high, high_limit, positive, budget, high_counts)
    best = -1
    best_errors = 0
    low_cut = low_limit
    high_cut = high_limit
    b = min(budget, n_high)
    e = 0
    while e <= budget:
        passed = min(e, n_low)
        cut = low_heap[e] if e < n_low else low_limit
        while b > budget - passed:
            b -= 1
        # Back to the first of equal scores: the cut passes all of them or none.
        while 0 < b < n_high and high_heap[b] == high_heap[b - 1]:
            b -= 1
        decided = passed + low_counts[passed] + b + high_counts[b]
        errors = passed + b
        if decided > best or (decided == best and errors < best_errors):
            best = decided
            best_errors = errors
            low_cut = cut
            high_cut = high_heap[b] if b < n_high else high_limit
        if e >= n_low:
            break
        e += 1
        while e < n_low and low_heap[e] == cut:
            e += 1
    return best, best_errors, low_cut, high_cut


@kernel
def best_exit(
    positive: Numbers,
    negative: Numbers,
    low_limit: float,
    high_limit: float,
    budget: int,
    mode: int,
    only_bound: bool,
    low_heap: Numbers,
    high_heap: Numbers,
    low_counts: Indices,
    high_counts: Indices,
) -> tuple[int, int, float, float]:
    """Find the cuts of one step that decide most rows within a budget.

    Parameters
    ----------
    positive : ndarray
        Scores of the undecided rows that are positive in full.
    negative : ndarray
        *Negated* scores of the other undecided rows.
    low_limit, high_limit : float
        The cuts do not pass these; infinity if there is no limit.
    budget : int
        How many decisions may differ from the full ones.
    mode : int
        ``JOINT``, ``NEGATIVE_FIRST``, ``NEGATIVE_ONLY`` or ``POSITIVE_ONLY``.
    only_bound : bool
        With ``JOINT``, return only a bound on the number of rows decided, as if each
        side had the whole budget. Other modes are as quick without.
    low_heap, high_heap : ndarray of shape (budget + 1,) or longer
        Scratch memory.
    low_counts, high_counts : ndarray of shape (budget + 1,) or longer, dtype=int64
        Scratch memory.

    Returns
    -------
    n_decided, n_errors : int
        Rows decided, and how many of them differently from the full ensemble.
    low_cut, high_cut : float
        Scores below `low_cut` are decided as negative, scores whose negation is below
        `high_cut` as positive.
    """
    low_cut = -np.inf
    high_cut = -np.inf
    n_low = 0
    n_high = 0
    n_decided = 0
    n_errors = 0
    if mode != POSITIVE_ONLY:
        low_cut, n_low = furthest_cut(positive, low_limit, budget, low_heap)
        if mode != JOINT or only_bound:
            n_errors = count_below(positive, low_cut)
            n_decided = n_errors + _count_above(negative, low_cut)
    if mode != NEGATIVE_ONLY:
        left = budget - n_errors if mode == NEGATIVE_FIRST else budget
        high_cut, n_high = furthest_cut(negative, high_limit, left, high_heap)
        if mode == NEGATIVE_FIRST:
            # Never below the lower cut.
            high_cut = min(high_cut, np.nextafter(-low_cut, np.inf))
        if mode != JOINT or only_bound:
            errors = count_below(negative, high_cut)
            n_errors += errors
            n_decided += errors + _count_above(positive, high_cut)
    if mode == JOINT and not only_bound:
        return _split_budget(
            positive,
            negative,
            low_limit,
            high_limit,
            budget,
            low_heap,
            n_low,
            high_heap,
            n_high,
            low_counts,
            high_counts,
        )
    n_rows = positive.shape[0] + negative.shape[0]
    return min(n_decided, n_rows), n_errors, low_cut, high_cut
