"""Probabilities for rows that exit early, learnt from what the full ensemble says.

A row that leaves before the last tree has no probability of its own: the trees that
would have made it up were not evaluated. What can be said honestly is what the full
ensemble said of calibration rows that left in the same way: at the same exit point,
with the same prediction and a similar partial score. These means are kept here,
isotonic in the partial score. They need no labels. At one exit point of a forest
`leaf_means` gives the scores; all else are sums.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import FormatError

if TYPE_CHECKING:
    from spinney.calibration.leaf_means import LeafMeans

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

# Exit points with fewer rows than this are put together with the next.
LEAST_ROWS = 100
# A mean is over at least so many rows, and there are no more means than that.
ROWS_PER_MEAN = 20
MOST_MEANS = 40
# What of several classes was predicted is ahead of all others by this part, at least.
LEAD = 1e-6


@dataclass(frozen=True, eq=False)
class ExitProbabilities:
    """Mean full probabilities by exit point, prediction and partial score.

    Parameters
    ----------
    points : ndarray of shape (n_points,), dtype=int64
        Exit points; 0 alone if all rows exit before the first tree.
    scale : ndarray of shape (n_points,)
        What sums at an exit point are multiplied with, so that those of neighbouring
        ones can be compared.
    n_classes : int
        Number of classes, at least two.
    limits : tuple of two floats
        With two classes: the largest probability of the second one with which the first
        is predicted, and the smallest with which the second is.
    tables : ndarray of shape (n_points, n_columns, 2), dtype=int64
        Which curve is for an exit point, a class (with two classes: only the second
        one), and whether this class was predicted.
    offsets : ndarray of shape (n_curves + 1,), dtype=int64
        Where curves begin in the next two.
    scores, values : ndarray of shape (n_knots,)
        Scores, ascending within a curve, and the mean full probability there. Between
        two scores it is linear, beyond the ends constant.
    leaf_means : LeafMeans, optional
        What gives the scores at one exit point, instead of sums; its scale is 1.
    """

    points: Integers
    scale: Numbers
    n_classes: int
    limits: tuple[float, float]
    tables: Integers
    offsets: Integers
    scores: Numbers
    values: Numbers
    leaf_means: LeafMeans | None = None

    @classmethod
    def learn(
        cls,
        points: Integers,
        scale: Numbers,
        limits: tuple[float, float],
        answered: tuple[NDArray[np.integer], NDArray[np.integer], Numbers],
        full: NDArray[np.floating],
        leaf_means: LeafMeans | None = None,
    ) -> ExitProbabilities:
        """Return what calibration rows say.

        Parameters
        ----------
        points, scale, limits
            As above.
        answered : tuple of three ndarrays
            Class indices, numbers of trees and sums, as
            `EarlyExitEngine.evaluate_with_sums` returns them.
        full : ndarray of shape (n_rows, n_classes)
            Probabilities that the full ensemble gives.
        leaf_means : LeafMeans, optional
            What the sums of the rows at one exit point have been replaced by.
        """
        classes, n_evaluated, sums = answered
        left = np.flatnonzero(np.isin(n_evaluated, points))
        typical = 1.0
        if len(left):
            typical = float(full[left, classes[left]].mean(dtype=np.float64))
        elif len(full):
            typical = float(full.max(axis=1).mean(dtype=np.float64))
        k = np.searchsorted(points, n_evaluated[left])
        scores = _scores(sums[left] * scale[k, None])
        n_classes = full.shape[1]
        columns = [1] if n_classes == 2 else list(range(n_classes))
        tables = np.zeros((len(points), len(columns), 2), dtype=np.int64)
        curves: list[tuple[Numbers, Numbers]] = []
        # Scores of leaves are not put together with sums.
        own = n_evaluated[left] == (-1 if leaf_means is None else leaf_means.point)
        for c, label in enumerate(columns):
            for side in (0, 1):
                predicted = (classes[left] == label) == bool(side)
                rows = np.flatnonzero(predicted & ~own)
                groups = np.zeros(len(points), dtype=np.int64)
                first = len(curves)
                if len(rows):
                    groups = _groups(np.bincount(k[rows], minlength=len(points)))
                    for group in range(int(groups[-1]) + 1):
                        some = rows[groups[k[rows]] == group]
                        curves.append(_curve(scores[some, c], full[left[some], label]))
                else:
                    # No row has exited in this way: what is usual for a prediction.
                    rest = (1.0 - typical) / (n_classes - 1)
                    curves.append((np.zeros(1), np.array([typical if side else rest])))
                tables[:, c, side] = first + groups
                if own.any():
                    some = np.flatnonzero(own & predicted)
                    if len(some) < LEAST_ROWS:
                        some = np.flatnonzero(own)
                    tables[k[own][0], c, side] = len(curves)
                    curves.append(_curve(scores[some, c], full[left[some], label]))
        lengths = [len(curve[0]) for curve in curves]
        return cls(
            points,
            scale,
            n_classes,
            limits,
            tables,
            np.append(0, np.cumsum(lengths)).astype(np.int64),
            np.concatenate([curve[0] for curve in curves]),
            np.concatenate([curve[1] for curve in curves]),
            leaf_means,
        )

    def probabilities(
        self,
        classes: NDArray[np.integer],
        n_evaluated: NDArray[np.integer],
        sums: Numbers,
    ) -> Numbers:
        """Return the probabilities of rows that exited early.

        Parameters
        ----------
        classes : ndarray of shape (n_rows,)
            Class indices with which they left.
        n_evaluated : ndarray of shape (n_rows,)
            Exit points at which they did.
        sums : ndarray of shape (n_rows, n_sums)
            What the trees evaluated add up to, or the scores of `leaf_means`.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            They add up to one, and agree with `classes`.
        """
        k = np.searchsorted(self.points, n_evaluated)
        scores = _scores(sums * self.scale[k, None])
        if self.n_classes == 2:
            second = self._mean(self.tables[k, 0, classes], scores[:, 0])
            second = np.where(
                classes == 1,
                np.maximum(second, self.limits[1]),
                np.minimum(second, self.limits[0]),
            )
            return np.column_stack([1.0 - second, second])
        found = np.empty((len(classes), self.n_classes))
        for c in range(self.n_classes):
            tables = self.tables[k, c, (classes == c).astype(np.int64)]
            found[:, c] = self._mean(tables, scores[:, c])
        rows = np.arange(len(classes))
        # A prediction that its own mean contradicts is moved up to the next best class.
        own = np.maximum(found[rows, classes], 1.0 / self.n_classes)
        found = np.minimum(found, own[:, None] * (1.0 - LEAD))
        found[rows, classes] = own
        return found / found.sum(axis=1, keepdims=True)

    def _mean(self, tables: Integers, scores: Numbers) -> Numbers:
        """Return the mean full probability on a curve for each row."""
        order = np.argsort(tables, kind="stable")
        ends = np.searchsorted(tables[order], np.arange(len(self.offsets)))
        found = np.empty(len(scores))
        for curve in np.flatnonzero(np.diff(ends)):
            rows = order[ends[curve] : ends[curve + 1]]
            knots = slice(self.offsets[curve], self.offsets[curve + 1])
            found[rows] = np.interp(
                scores[rows], self.scores[knots], self.values[knots]
            )
        return found

    def of_single_rows(self) -> Callable[[int, int, Numbers, Any], Numbers]:
        """Return what `probabilities` does, for one row at a time and without arrays.

        Returns
        -------
        lookup : callable
            Takes a class index, a number of trees, an array of sums and the row.
        """
        places = {point: k for k, point in enumerate(self.points.tolist())}
        scale, tables = self.scale.tolist(), self.tables.tolist()
        ends = self.offsets.tolist()
        scores = [self.scores[a:b].tolist() for a, b in pairwise(ends)]
        values = [self.values[a:b].tolist() for a, b in pairwise(ends)]
        n_classes = self.n_classes
        most, least = self.limits

        def mean(curve: int, score: float) -> float:
            x, y = scores[curve], values[curve]
            right = bisect_right(x, score)
            if right == 0:
                return y[0]
            if right == len(x):
                return y[-1]
            low, high = x[right - 1], x[right]
            slope = (y[right] - y[right - 1]) / (high - low)
            return slope * (score - low) + y[right - 1]

        point, score = -1, None
        if self.leaf_means is not None:
            point, score = self.leaf_means.point, self.leaf_means.forest.predictor()

        def of_two(winner: int, n_evaluated: int, sums: Numbers, row: Any) -> Numbers:
            k = places[n_evaluated]
            one = sums[0]
            if n_evaluated == point and score is not None:
                one = score(row)
            second = mean(tables[k][0][winner], float(one) * scale[k])
            second = max(second, least) if winner else min(second, most)
            return np.array((1.0 - second, second))

        def of_several(winner: int, n_evaluated: int, sums: Numbers, _: Any) -> Numbers:
            k = places[n_evaluated]
            scaled = [one * scale[k] for one in sums.tolist()]
            best = max(scaled)
            first = scaled.index(best)
            second = max(one for c, one in enumerate(scaled) if c != first)
            found = [
                mean(
                    tables[k][c][int(c == winner)],
                    one - (second if c == first else best),
                )
                for c, one in enumerate(scaled)
            ]
            own = max(found[winner], 1.0 / n_classes)
            found = [min(one, own * (1.0 - LEAD)) for one in found]
            found[winner] = own
            return np.array(found) / sum(found)

        return of_two if n_classes == 2 else of_several

    def check(self) -> None:
        """Raise `FormatError` if arrays from a file do not fit together."""
        n_columns = 1 if self.n_classes == 2 else self.n_classes
        offsets, scores, values = self.offsets, self.scores, self.values
        n_curves = len(offsets) - 1
        fits = (
            self.tables.shape == (len(self.points), n_columns, 2)
            and n_curves >= 1
            and offsets[0] == 0
            and bool((np.diff(offsets) > 0).all())
            and len(scores) == len(values) == offsets[-1]
            and bool(((self.tables >= 0) & (self.tables < n_curves)).all())
            and bool(np.isfinite(scores).all())
            and bool(((values >= 0.0) & (values <= 1.0)).all())
        )
        if fits:
            rises = np.diff(scores) > 0
            rises[offsets[1:-1] - 1] = True  # from one curve to the next
            fits = bool(rises.all())
        if not fits:
            msg = "its probabilities of early exits do not fit together"
            raise FormatError(msg)


def _scores(sums: Numbers) -> Numbers:
    """Return the sum of two classes as it is; of several, how far each is ahead."""
    if sums.shape[1] == 1:
        return sums
    if len(sums) == 0:
        return sums
    rows = np.arange(len(sums))
    first = sums.argmax(axis=1)
    best_two = np.partition(sums, -2, axis=1)[:, -2:]
    ahead = sums - best_two[:, 1:]
    ahead[rows, first] = sums[rows, first] - best_two[:, 0]
    return ahead


def _groups(counts: NDArray[np.integer]) -> Integers:
    """Return the group of each exit point, such that all have rows enough."""
    groups = np.zeros(len(counts), dtype=np.int64)
    group, n_rows = 0, 0
    for k, count in enumerate(counts.tolist()):
        groups[k] = group
        n_rows += count
        if n_rows >= LEAST_ROWS:
            group, n_rows = group + 1, 0
    if n_rows < LEAST_ROWS and group > 0:
        # What is left over joins the last group that has enough.
        groups = np.minimum(groups, group - 1)
    return groups


def _curve(scores: Numbers, full: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Return scores and mean probabilities at some of them, rising."""
    from sklearn.isotonic import isotonic_regression

    n_means = min(max(len(scores) // ROWS_PER_MEAN, 1), MOST_MEANS)
    ranked = np.sort(scores)
    edges = np.unique(ranked[np.arange(1, n_means) * len(ranked) // n_means])
    part = np.searchsorted(edges, scores, side="right")
    counts = np.bincount(part)
    known = counts > 0
    counts = counts[known]
    at = np.bincount(part, weights=scores)[known] / counts
    mean = np.bincount(part, weights=full.astype(np.float64))[known] / counts
    values = isotonic_regression(mean, sample_weight=counts)
    # Rounding may make the means of close scores equal, or put them in another order.
    rises = np.append(True, at[1:] > np.maximum.accumulate(at)[:-1])
    at, values = at[rises], values[rises]
    # Where the curve is level, only its ends are needed.
    kept = np.ones(len(at), dtype=np.bool_)
    kept[1:-1] = (values[1:-1] != values[:-2]) | (values[1:-1] != values[2:])
    return at[kept], np.clip(values, 0.0, 1.0)[kept]
