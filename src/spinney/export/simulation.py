"""What integer code predicts, computed here, so that rows can prove it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.export.anytime import StepSums
from spinney.export.early_sums import EarlySums
from spinney.forest import Forest
from spinney.runtime.exit_rule import ExitRule

# Rows whose leaves are kept at a time.
BLOCK_ROWS = 4096

Answers = tuple[NDArray[np.intp], NDArray[np.int32]]


def early_answers(
    ordered: Forest, sums: EarlySums, rows: NDArray[np.floating], n_classes: int
) -> Answers:
    """Return the classes that integer sums lead to, and the number of trees.

    Parameters
    ----------
    ordered : Forest
        The trees in the order of the evaluation.
    sums : EarlySums
        Whole numbers.
    rows : ndarray of shape (n_rows, n_features)
        Rows, as the forest's engine makes them.
    n_classes : int
        Number of classes.
    """
    classes = np.zeros(len(rows), dtype=np.intp)
    n_evaluated = np.zeros(len(rows), dtype=np.int32)
    if sums.at_once:
        return classes, n_evaluated
    # The rule decides by comparisons alone, so that it serves for whole numbers too.
    rule = ExitRule(
        sums.kind,
        "hard",
        np.arange(ordered.n_trees),
        sums.exit_points,
        np.asarray(sums.bounds, dtype=np.float64),
        sums.table,
    )
    values = np.asarray(sums.values, dtype=np.float64)
    for first in range(0, len(rows), BLOCK_ROWS):
        leaves = ordered.engine.leaves(rows[first : first + BLOCK_ROWS])

        def add(
            start: int,
            end: int,
            index: NDArray[np.int64],
            totals: NDArray[np.float64],
            leaves: NDArray[np.int32] = leaves,
        ) -> None:
            for tree in range(start, end):
                said = values[leaves[index, tree]]
                if sums.tree_output is None:
                    totals += said
                else:
                    totals[:, sums.tree_output[tree]] += said[:, 0]

        start = np.tile(np.asarray(sums.start, dtype=np.float64), (len(leaves), 1))
        found, counts, left, totals = rule.follow(start, add)
        last = int(sums.exit_points[-1]) if len(sums.exit_points) else 0
        add(last, ordered.n_trees, left, totals)
        if n_classes == 1:
            found[left] = 0
        elif sums.n_sums == 1:
            found[left] = totals[:, 0] >= sums.threshold
        else:
            found[left] = totals.argmax(axis=1)
        classes[first : first + BLOCK_ROWS] = found
        n_evaluated[first : first + BLOCK_ROWS] = counts
    return classes, n_evaluated


def final_answers(
    forest: Forest, steps: StepSums, rows: NDArray[np.floating]
) -> NDArray[np.intp]:
    """Return the classes after all steps.

    Parameters
    ----------
    forest : Forest
        The trees.
    steps : StepSums
        Whole numbers.
    rows : ndarray of shape (n_rows, n_features)
        Rows, as the forest's engine makes them.
    """
    classes = np.zeros(len(rows), dtype=np.intp)
    roots = forest.tree_offsets[:-1]
    for first in range(0, len(rows), BLOCK_ROWS):
        leaves = forest.engine.leaves(rows[first : first + BLOCK_ROWS])
        gained = steps.values[leaves] - steps.values[roots]
        totals = np.tile(steps.start, (len(leaves), 1))
        for tree in range(forest.n_trees):
            if steps.output is None:
                totals += gained[:, tree]
            else:
                totals[:, steps.output[tree]] += gained[:, tree, 0]
        classes[first : first + BLOCK_ROWS] = totals.argmax(axis=1)
    return classes
