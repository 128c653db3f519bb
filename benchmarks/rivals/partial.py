"""What every row's prediction is after each step of a model, all steps in one table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spinney
from spinney.runtime.scoring import decision_threshold, scoring_forest


@dataclass(frozen=True)
class Partial:
    """Predictions after each step. A step is a tree, or a round of one tree per class.

    Parameters
    ----------
    sums : ndarray of shape (n_rows, n_steps) or (n_rows, n_steps, n_classes)
        What the trees add up to after each step; with two classes relative to the
        threshold, positive for the second class. Forests: means over the trees so far.
    n_trees : ndarray of shape (n_steps,)
        Trees evaluated after each step.
    """

    sums: NDArray[np.floating]
    n_trees: NDArray[np.int64]

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Class indices predicted after each step, shape (n_rows, n_steps)."""
        if self.sums.ndim == 2:
            return (self.sums > 0).astype(np.int64)
        return self.sums.argmax(axis=2)

    @cached_property
    def lead(self) -> NDArray[np.floating]:
        """By how much the leading class is ahead, shape (n_rows, n_steps)."""
        if self.sums.ndim == 2:
            return np.abs(self.sums)
        top = np.partition(self.sums, -2, axis=2)
        return top[..., -1] - top[..., -2]

    @cached_property
    def increments(self) -> NDArray[np.floating]:
        """Change of the leading class's prediction by each step, (n_rows, n_steps)."""
        sums = self.sums
        if sums.ndim == 3:
            final = sums[:, -1].argmax(axis=1)
            sums = np.take_along_axis(sums, final[:, None, None], axis=2)[..., 0]
        return np.diff(sums, axis=1, prepend=0.0)


def partial_of(model: Any, X: NDArray[np.float32]) -> Partial:
    """Return the predictions of a model after each of its steps.

    Parameters
    ----------
    model : fitted model
        A forest that averages probabilities, or a boosted model.
    X : ndarray of shape (n_rows, n_features)
        Rows.
    """
    forest = spinney.read_model(model)
    scoring = scoring_forest(forest, "soft")
    scores = scoring.scores(X)
    averaged = forest.aggregation == "mean"
    n_trees = np.arange(1, forest.n_trees + 1)
    if scores.ndim == 2:
        threshold = decision_threshold(forest, "soft")
        sums = np.cumsum(scores, axis=1)
        if averaged:  # the threshold is that of the sum of all trees
            sums = sums / n_trees - threshold / forest.n_trees
        else:
            sums = sums + float(np.sum(scoring.base_score)) - threshold
        return Partial(sums.astype(np.float32), n_trees)
    n_classes = scores.shape[2]
    per_step = 1 if averaged else n_classes
    sums = np.cumsum(scores, axis=1)[:, per_step - 1 :: per_step]
    n_trees = n_trees[per_step - 1 :: per_step]
    if averaged:
        sums = sums / n_trees[:, None]
    else:
        sums = sums + np.asarray(scoring.base_score)
    return Partial(sums.astype(np.float32), n_trees)
