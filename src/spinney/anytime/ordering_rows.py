"""Labelled rows to rate step orders on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spinney.anytime.paths import Paths, leaf_numbers, paths_of
from spinney.forest import Forest
from spinney.runtime.sharing import in_threads, threads_for
from spinney.runtime.steps.sums import ClassSums, class_sums

# Rows whose states are followed together.
CURVE_ROWS = 1024

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class OrderingRows:
    """A forest and labelled rows, prepared for the search for an order.

    Usually made by `of_rows`.

    Parameters
    ----------
    forest : Forest
        A classifier.
    rows : ndarray of shape (n_rows, n_features)
        Rows as the forest's engine makes them.
    labels : ndarray of shape (n_rows,), dtype=int64
        The right classes, as indices.
    sums : ClassSums
        What the nodes add.
    paths : Paths
        The paths of the forest.
    leaf : ndarray of shape (n_trees, n_rows), dtype=int32
        Number of the leaf at which each row ends in each tree.
    """

    forest: Forest
    rows: NDArray[np.floating]
    labels: NDArray[np.int64]
    sums: ClassSums
    paths: Paths
    leaf: NDArray[np.int32]

    @classmethod
    def of_rows(
        cls,
        forest: Forest,
        rows: NDArray[np.floating],
        labels: NDArray[np.integer],
        n_jobs: int | None = None,
    ) -> OrderingRows:
        """Prepare rows.

        Parameters
        ----------
        forest : Forest
            A classifier with values at its inner nodes.
        rows : ndarray of shape (n_rows, n_features)
            Rows as the forest's engine makes them, at least one.
        labels : ndarray of shape (n_rows,)
            Their classes, as indices.
        n_jobs : int or None, default=None
            Number of threads; None means one, -1 all cores.
        """
        sums, paths = class_sums(forest), paths_of(forest)
        leaf = leaf_numbers(forest, paths, rows, n_jobs)
        return cls(forest, rows, np.array(labels, dtype=np.int64), sums, paths, leaf)

    def correct_along(
        self, order: NDArray[np.int64], n_jobs: int | None = None
    ) -> NDArray[np.int64]:
        """Return how many rows are right in every state along an order.

        Parameters
        ----------
        order : ndarray of shape (n_steps,), dtype=int64
            Tree to step in.
        n_jobs : int or None, default=None
            Number of threads; None means one, -1 all cores.

        Returns
        -------
        correct : ndarray of shape (n_steps + 1,), dtype=int64
            The initial state first.
        """
        from spinney.anytime.search_kernels import count_along

        paths = self.paths
        values = self.sums.by_class()
        change = values - values[paths.parent]
        start = self.sums.at_roots()
        shares: list[NDArray[np.int64]] = []

        def count(begin: int, end: int) -> None:
            counts = np.zeros(len(order) + 1, dtype=np.int64)
            for first in range(begin, end, CURVE_ROWS):
                labels = self.labels[first : min(end, first + CURVE_ROWS)]
                count_along(
                    order,
                    paths,
                    self.leaf,
                    first,
                    change,
                    labels,
                    np.repeat(paths.root[:, None], len(labels), axis=1),
                    np.tile(start, (len(labels), 1)),
                    counts,
                )
            shares.append(counts)

        in_threads(count, len(self.labels), threads_for(len(self.labels), n_jobs))
        return np.sum(shares, axis=0) + self._forest_decides(order)

    @cached_property
    def _close_calls(self) -> list[tuple[NDArray[np.int64], int]]:
        """Rows that the forest itself decides otherwise than the sums.

        Its rounded sums may break a tie that is one in whole numbers. For each such
        row: how deep its leaves are, and whether a correct prediction is gained
        or lost.
        """
        values = self.sums.by_class()
        nodes = self.forest.engine.leaves(self.rows)
        totals = np.tile(self.sums.base, (len(nodes), 1))
        for tree in range(self.forest.n_trees):
            totals += values[nodes[:, tree]]
        close = self.sums.close_calls(totals)
        winner = totals[close].argmax(axis=1)
        own = self.forest.winners(self.forest.engine.raw(self.rows[close]))
        labels = self.labels[close]
        gain = (own == labels).astype(np.int64) - (winner == labels)
        return [
            (self.paths.level[nodes[close[i]]].astype(np.int64), int(gain[i]))
            for i in np.flatnonzero(gain)
        ]

    def _forest_decides(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what changes because complete rows get the forest's own prediction."""
        extra = np.zeros(len(order) + 1, dtype=np.int64)
        for depths, gain in self._close_calls:
            # A row is complete once each tree has taken as many steps as needed.
            missing = depths.copy()
            last = 0
            for k, tree in enumerate(order):
                if missing[tree] > 0:
                    missing[tree] -= 1
                    last = k + 1
            extra[last:] += gain
        return extra
