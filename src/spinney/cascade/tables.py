"""Tables of scores for the trees of a forest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.forest import Forest
from spinney.ordering import ScoreTable
from spinney.runtime.scoring import decision_threshold, scoring_forest

# A table has at most so many numbers (a quarter of a gigabyte); of more rows a random
# part is taken, which is still plenty.
MAX_NUMBERS = 2**25


def table_of(
    forest: Forest, rows: NDArray[np.floating], n_jobs: int | None = None
) -> ScoreTable:
    """Return what every tree of a forest adds to the sums that a rule sees.

    Parameters
    ----------
    forest : Forest
        A classifier.
    rows : ndarray of shape (n_rows, n_features)
        Converted rows.
    n_jobs : int or None, default=None
        Number of threads.
    """
    scoring = scoring_forest(forest, "soft")
    decisions = forest.winners(forest.engine.raw(rows, n_jobs))
    output = scoring.tree_output
    scores = scoring.engine.scores(rows, n_jobs, only_own=output is not None)
    return ScoreTable.of_scores(
        scores,
        beta=decision_threshold(forest, "soft"),
        base=scoring.base_score,
        decisions=decisions,
        tree_output=output,
        n_classes=scoring.n_outputs,
    )


def most_rows(forest: Forest) -> int:
    """Return how many rows a table for this forest may have."""
    per_tree = 1 if forest.tree_output is not None else forest.n_outputs
    return max(1, MAX_NUMBERS // (forest.n_trees * per_tree))
