"""Sums that decide early: one form for floats and for whole numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.exit_kinds import DROPPING
from spinney.runtime.score_bins import ScoreBins


@dataclass(frozen=True, eq=False)
class EarlySums:
    """What is added up, and what the sums have to look like for a row to exit.

    Parameters
    ----------
    ctype : str
        Type of a sum: ``"double"``, or an integer type.
    values : ndarray of shape (n_nodes, n_values)
        What each node adds, in the order of the evaluation.
    tree_output : ndarray of shape (n_trees,) or None
        The sum that a tree adds to, if it is only one of several.
    start : ndarray of shape (n_sums,)
        Sums before the first tree.
    kind : int
        Which way of deciding, one of `exit_kinds`.
    exit_points : ndarray of shape (n_exit_points,), dtype=int64
        Numbers of trees.
    bounds : ndarray of shape (2, n_exit_points)
        Bounds on sums, in the unit of the sums; leads, as in `ExitRule`, where classes
        are dropped.
    table : ndarray of shape (n_exit_points, n_counts), dtype=int32
        Answers or limits by votes; trees by stage and class where classes are dropped.
    bins : ScoreBins or None
        What bins decide.
    threshold : float or int
        With one sum: the smallest that means the second class in the end.
    tolerance : float
        Sums this close are left to the model itself; 0 if none are.
    at_once : bool
        Whether all rows exit before the first tree.
    """

    ctype: str
    values: NDArray[np.generic]
    tree_output: NDArray[np.int32] | None
    start: NDArray[np.generic]
    kind: int
    exit_points: NDArray[np.int64]
    bounds: NDArray[np.generic]
    table: NDArray[np.int32]
    bins: ScoreBins | None
    threshold: float
    tolerance: float
    at_once: bool = False

    @property
    def n_sums(self) -> int:
        """Number of sums."""
        return len(self.start)

    @property
    def drops(self) -> bool:
        """Whether classes are dropped on the way."""
        return self.kind == DROPPING and len(self.exit_points) > 0

    @property
    def is_integer(self) -> bool:
        """Whether sums are whole numbers."""
        return self.ctype != "double"

    @property
    def needs_model(self) -> bool:
        """Whether the model itself decides some rows."""
        return not self.at_once and (self.tolerance > 0 or self.bins is not None)
