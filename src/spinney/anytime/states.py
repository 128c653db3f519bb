"""The exact best order of a forest: all states rated, then one pass backwards.

Let a state be the number of steps taken in each tree. There are ``(d + 1) ** t`` of
them for ``t`` trees of depth ``d``, and for each the correctly classified rows have to
be counted. Counting goes in boxes of states that differ only in the last trees: one
addition per row and state, over the rows that the other trees leave undecided. What is
kept is one byte per state, the tree to step in, and the best sums of the states that
have the same number of steps in the first tree.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from spinney.anytime.ordering_rows import OrderingRows, Progress
from spinney.errors import InvalidArgumentError

# States of a box: so many that to sort out its rows takes little beside them.
BOX_STATES = 300

# Trees are numbered in one byte.
MAX_TREES = 255

# Share of the memory of the machine that a search may take.
MEMORY_SHARE = 0.5


def optimal_steps(
    data: OrderingRows,
    *,
    worst: bool = False,
    n_jobs: int | None = None,
    max_bytes: int | None = None,
    on_progress: Progress | None = None,
) -> NDArray[np.int64]:
    """Return the order with the largest mean accuracy over all states it passes.

    Parameters
    ----------
    data : OrderingRows
        The forest and the rows to rate orders on.
    worst : bool, default=False
        Return the order with the smallest mean accuracy instead.
    n_jobs : int or None, default=None
        Number of threads; None means one, -1 all cores.
    max_bytes : int, optional
        Memory that the search may take; half of that of the machine by default.
    on_progress : callable, optional
        Called with the number of states done and of all states.

    Returns
    -------
    order : ndarray of shape (n_steps,), dtype=int64
        Tree to step in.

    Raises
    ------
    InvalidArgumentError
        If there is not enough memory for so many states.
    """
    from spinney.anytime.state_kernels import choose_steps

    depth = data.paths.depth
    trees = np.flatnonzero(depth > 0)
    n_levels = depth[trees] + 1
    n_threads = 1 if n_jobs is None else effective_n_jobs(n_jobs)
    if len(trees) == 0:
        return np.empty(0, dtype=np.int64)
    n_states = math.prod(n_levels.tolist())
    n_free, box = box_of(n_levels)
    _refuse_beyond_memory(
        n_levels, box, data.sums.n_classes, len(data.labels), n_threads, max_bytes
    )
    counter = StateCounter(data, trees, n_free)
    period = n_states // int(n_levels[0])
    best = np.zeros(period, dtype=np.int64)
    choices = np.empty(n_states, dtype=np.uint8)
    firsts = range(n_states - box, -1, -box)
    done = 0
    for first, counts in _in_parallel(counter.box, firsts, box, n_threads):
        choose_steps(
            counts,
            first,
            n_levels,
            -1 if worst else 1,
            best,
            choices[first : first + box],
        )
        done += box
        if on_progress is not None:
            on_progress(done, n_states)
    return trees[follow(choices, n_levels)]


def follow(
    choices: NDArray[np.uint8], n_levels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the order that the choices of all states lead through.

    Parameters
    ----------
    choices : ndarray of shape (n_states,), dtype=uint8
        Tree to step in, by the number of the state (steps as digits).
    n_levels : ndarray of shape (n_trees,)
        Levels of each tree, the root included.
    """
    stride = np.append(np.cumprod(n_levels[:0:-1])[::-1], 1).astype(np.int64)
    order = np.empty(int((n_levels - 1).sum()), dtype=np.int64)
    state = 0
    for k in range(len(order)):
        order[k] = choices[state]
        state += int(stride[order[k]])
    return order


class StateCounter:
    """Counts the correctly classified rows, a box of states at a time.

    Parameters
    ----------
    data : OrderingRows
        The forest and the rows.
    trees : ndarray of int
        Trees with more than one level.
    n_free : int
        How many of them, the last ones, take all their steps within a box.
    """

    def __init__(
        self, data: OrderingRows, trees: NDArray[np.intp], n_free: int
    ) -> None:
        sums, paths, leaf, labels = data.sums, data.paths, data.leaf, data.labels
        self.n_rows = len(labels)
        self.n_levels = paths.depth[trees] + 1
        self.n_fixed = len(trees) - n_free
        values = sums.by_class()
        n_classes = values.shape[1]
        # The classes other than the row's own, as (n_rivals, n_rows).
        rivals = np.arange(n_classes - 1)[:, None]
        rivals = rivals + (rivals >= labels)
        # Trees of a single leaf are part of the start.
        start = sums.base + values[paths.root[paths.depth == 0]].sum(axis=0)
        self.base = start[labels] - start[rivals] + (rivals > labels)
        shape = (len(trees), int(self.n_levels.max()), n_classes - 1, self.n_rows)
        self.margins = np.zeros(shape, dtype=np.int64)
        for i, tree in enumerate(trees):
            node = np.full(self.n_rows, paths.root[tree])
            for level in range(int(self.n_levels[i])):
                own = values[node, labels]
                self.margins[i, level] = own - values[node, rivals]
                goes_left = leaf[tree] < paths.boundary[node]
                node = np.where(goes_left, paths.left[node], paths.right[node])
        self.least = np.zeros_like(self.base)
        self.most = np.zeros_like(self.base)
        for i in range(self.n_fixed, len(trees)):
            levels = self.margins[i, : self.n_levels[i]]
            self.least += levels.min(axis=0)
            self.most += levels.max(axis=0)

    def box(self, first: int, counts: NDArray[np.int64]) -> None:
        """Count for the states from number `first` on.

        Parameters
        ----------
        first : int
            Number of a state in which the free trees have taken no step.
        counts : ndarray of shape (n_states,)
            Overwritten.
        """
        from spinney.anytime.state_kernels import count_box

        if len(self.base) == 0:  # a single class is always right
            counts[:] = self.n_rows
            return
        fixed = self.n_levels[: self.n_fixed].tolist()
        number = first // len(counts)
        digits = np.zeros(self.n_fixed, dtype=np.int64)
        for t in range(self.n_fixed - 1, -1, -1):
            number, digits[t] = divmod(number, fixed[t])
        count_box(
            self.base,
            self.margins,
            self.least,
            self.most,
            self.n_levels,
            digits,
            counts,
        )


def box_of(n_levels: NDArray[np.int64]) -> tuple[int, int]:
    """Return how many of the last trees a box leaves free, and its states.

    Parameters
    ----------
    n_levels : ndarray of shape (n_trees,)
        Levels of each tree that has any, the root included.
    """
    n_free, box = 1, int(n_levels[-1])
    while box < BOX_STATES and n_free < len(n_levels):
        n_free += 1
        box *= int(n_levels[-n_free])
    return n_free, box


def _in_parallel(
    count: Callable[[int, NDArray[np.int64]], None],
    firsts: range,
    box: int,
    n_threads: int,
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield (first state, counts) of every box, in order, counted by several threads.

    A thread takes a run of boxes, because handing over a single one takes about as
    long as counting it.
    """
    run = max(1, 20_000 // box)
    if n_threads == 1:
        counts = np.empty(box, dtype=np.int64)
        for first in firsts:
            count(first, counts)
            yield first, counts
        return

    def count_run(some: range) -> list[NDArray[np.int64]]:
        counts = [np.empty(box, dtype=np.int64) for _ in some]
        for first, to in zip(some, counts, strict=True):
            count(first, to)
        return counts

    runs = [firsts[i : i + run] for i in range(0, len(firsts), run)]
    with ThreadPoolExecutor(n_threads) as pool:
        ahead = 2 * n_threads
        waiting = [pool.submit(count_run, some) for some in runs[:ahead]]
        for i, some in enumerate(runs):
            done = waiting[i % ahead].result()
            if i + ahead < len(runs):
                waiting[i % ahead] = pool.submit(count_run, runs[i + ahead])
            yield from zip(some, done, strict=True)


def bytes_needed(
    n_levels: NDArray[np.int64], box: int, n_classes: int, n_rows: int, n_threads: int
) -> int:
    """Return how much memory the search for the best order takes, about.

    Parameters
    ----------
    n_levels : ndarray of shape (n_trees,)
        Levels of each tree that has any, the root included.
    box : int
        States of a box.
    n_classes, n_rows, n_threads : int
        Sizes of the problem.
    """
    n_states = math.prod(n_levels.tolist())
    margins = 8 * int(n_levels.sum()) * max(1, n_classes - 1) * n_rows
    per_thread = margins + 8 * 4 * max(box, 20_000)
    return (
        n_states
        + 8 * (n_states // int(n_levels[0]))
        + margins * 2
        + (n_threads * per_thread)
    )


def _refuse_beyond_memory(
    n_levels: NDArray[np.int64],
    box: int,
    n_classes: int,
    n_rows: int,
    n_threads: int,
    max_bytes: int | None,
) -> None:
    """Raise if the states cannot be kept."""
    n_states = math.prod(n_levels.tolist())
    needed = bytes_needed(n_levels, box, n_classes, n_rows, n_threads)
    allowed = memory_allowed() if max_bytes is None else max_bytes
    hint = (
        'Use order="backward_squirrel", which comes close to the optimal order in a '
        "time that grows with the square of the number of trees, or fewer or "
        "shallower trees."
    )
    if len(n_levels) > MAX_TREES:
        msg = (
            f"The optimal order is found for up to {MAX_TREES} trees, got "
            f"{len(n_levels)}. {hint}"
        )
        raise InvalidArgumentError(msg)
    if needed > allowed:
        msg = (
            f"The optimal order of {len(n_levels)} trees of depth up to "
            f"{int(n_levels.max()) - 1} has {_shown(n_states)} states to evaluate and "
            f"needs about {_shown(needed / 2**30)} GiB of memory; "
            f"{_shown(allowed / 2**30)} GiB are allowed. {hint}"
        )
        raise InvalidArgumentError(msg)


def _shown(number: float) -> str:
    """Return a number of any size in few characters."""
    if number < 10_000:
        return f"{number:.3g}"
    return (
        f"{number:,}"
        if number < 10**15 and number == int(number)
        else (f"10^{math.log10(number):.1f}")
    )


def memory_allowed() -> int:
    """Return the memory that a search may take: half of that of the machine."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        total = 8 * 2**30  # a system that does not tell
    return int(MEMORY_SHARE * total)
