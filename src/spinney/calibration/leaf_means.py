"""What the full ensemble says, on average, of the rows in each leaf of the first trees.

Most rows of a forest exit after a few trees, and a sum over three trees ranks rows
badly: a pure leaf of three training rows counts as much as one of three thousand. The
mean full probability of the calibration rows in a leaf tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.exit_probabilities import LEAST_ROWS
from spinney.errors import FormatError
from spinney.forest import Forest

Numbers = NDArray[np.float64]

# So many rows count for what the value of a leaf itself lets expect.
PRIOR_ROWS = 3.0
# After more trees than this, sums rank well enough.
MOST_TREES = 32


@dataclass(frozen=True, eq=False)
class LeafMeans:
    """Scores for rows that exit at one exit point, from leaves instead of sums.

    Parameters
    ----------
    point : int
        The exit point.
    forest : Forest
        The trees before it, as a regressor: the value of a leaf is the mean.
    """

    point: int
    forest: Forest

    @staticmethod
    def suits(forest: Forest) -> bool:
        """Whether there is something to gain: sums of boosting rank well."""
        return forest.aggregation != "sum" and forest.encoder is None

    @classmethod
    def of(
        cls, forest: Forest, order: NDArray[np.integer], point: int, means: Numbers
    ) -> Self:
        """Return scores for a forest from a mean for each node.

        Parameters
        ----------
        forest : Forest
            A classifier of two classes.
        order : ndarray of shape (n_trees,)
            The order of its trees.
        point : int
            The exit point.
        means : ndarray of shape (n_nodes,)
            The means, for the nodes of the trees before it.
        """
        trees = forest.take(order[:point])
        if means.shape != (trees.n_nodes,) or not np.isfinite(means).all():
            msg = "its means of leaves do not belong to its trees"
            raise FormatError(msg)
        ranking = trees.replace(
            value=means[:, None],
            n_outputs=1,
            aggregation="mean",
            classes=None,
            base_score=0.0,
            link="identity",
            link_scale=1.0,
            curve=None,
            decision_threshold=0.0,
            decides_by="raw",
            model_predicts="answer",
            sum_dtype="float64",
        )
        return cls(point, ranking)

    @classmethod
    def learn(
        cls,
        forest: Forest,
        order: NDArray[np.integer],
        n_evaluated: NDArray[np.integer],
        rows: Any,
        full: NDArray[np.floating],
    ) -> tuple[Self, Numbers] | None:
        """Return scores for the exit point at which most calibration rows exit.

        Parameters
        ----------
        forest, order
            As for `of`.
        n_evaluated : ndarray of shape (n_rows,)
            How many trees each calibration row is given.
        rows : ndarray of shape (n_rows, n_features)
            Calibration rows, as the engine of the forest takes them.
        full : ndarray of shape (n_rows, 2)
            Probabilities that the full ensemble gives.

        Returns
        -------
        learnt : tuple or None
            The scores, and those of the calibration rows themselves, each without its
            own part in the means. None where there is nothing to gain.
        """
        if not cls.suits(forest):
            return None
        n_leaving = np.bincount(n_evaluated, minlength=forest.n_trees + 1)
        n_leaving[[0, forest.n_trees]] = 0
        point = int(n_leaving.argmax())
        if n_leaving[point] < LEAST_ROWS or point > MOST_TREES:
            return None
        trees = forest.take(order[:point])
        leaves = trees.engine.leaves(rows)
        second = full[:, 1].astype(np.float64)
        inside = np.broadcast_to(second[:, None], leaves.shape).ravel()
        n_rows = np.bincount(leaves.ravel(), minlength=trees.n_nodes)
        sums: Numbers = np.bincount(
            leaves.ravel(), weights=inside, minlength=trees.n_nodes
        ).astype(np.float64)
        prior = _expected(trees.value[:, -1], n_rows, sums)
        means = (sums + PRIOR_ROWS * prior) / (n_rows + PRIOR_ROWS)
        others = sums[leaves] - second[:, None] + PRIOR_ROWS * prior[leaves]
        others /= n_rows[leaves] - 1.0 + PRIOR_ROWS
        return cls.of(forest, order, point, means), others.mean(axis=1)

    @property
    def means(self) -> Numbers:
        """The mean of each node."""
        return self.forest.value[:, 0]

    def scores(self, rows: Any, n_jobs: int | None = None) -> NDArray[np.floating]:
        """Return the scores of rows that left at the exit point.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Rows as the engine of the original forest takes them.
        n_jobs : int or None, default=None
            Number of threads.
        """
        return self.forest.engine.raw(rows, n_jobs)[:, 0]


def _expected(values: Numbers, n_rows: NDArray[np.integer], sums: Numbers) -> Numbers:
    """Return what the values of leaves let expect: a straight line through all rows."""
    reached = np.flatnonzero(n_rows)
    weights, x = n_rows[reached], values[reached]
    middle = np.average(x, weights=weights)
    level = sums[reached].sum() / weights.sum()
    spread = (weights * (x - middle) ** 2).sum()
    if spread == 0.0:
        return np.full(len(values), level)
    slope = ((x - middle) * sums[reached]).sum() / spread
    return np.clip(level + slope * (values - middle), 0.0, 1.0)
