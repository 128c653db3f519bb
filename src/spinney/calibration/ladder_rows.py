"""Predictions of one rule after another for the same rows, where they may matter.

A rule that drops classes never drops the one in front. So a row in which the class that
wins in the end is in front at every exit point is predicted rightly by every rule with
these exit points, however aggressive. These are nine rows of ten in boosting with
several classes, and only the others are evaluated for each of a hundred rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest import Forest
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_kinds import DROPPING
from spinney.runtime.exit_rule import ExitRule


class LadderRows:
    """Rows that the rules of a ladder are tested on.

    Parameters
    ----------
    rows : array-like
        Rows as the engines take them.
    full : ndarray of shape (n_rows,)
        Class indices that the full ensemble gives them.
    n_jobs : int or None
        Number of threads.
    """

    def __init__(self, rows: Any, full: NDArray[np.intp], n_jobs: int | None) -> None:
        self._rows = rows
        self._full = full
        self._n_jobs = n_jobs
        self._points: NDArray[np.int64] | None = None
        self._in_doubt = np.empty(0, dtype=np.intp)
        self._doubtful_rows = rows

    def answers(self, engine: EarlyExitEngine) -> NDArray[np.intp]:
        """Return the class indices that a rule gives the rows.

        Parameters
        ----------
        engine : EarlyExitEngine
            For the rule, of the same ensemble and in the same order as the last one.
        """
        rule = engine.rule
        if rule.kind != DROPPING or not isinstance(self._rows, np.ndarray):
            return engine.evaluate(self._rows, self._n_jobs)[0]
        if self._points is None or not np.array_equal(self._points, rule.exit_points):
            self._in_doubt = np.flatnonzero(self._may_be_wrong(engine))
            self._doubtful_rows = self._rows[self._in_doubt]
            self._points = rule.exit_points
        answers = self._full.copy()
        found, _ = engine.evaluate(self._doubtful_rows, self._n_jobs)
        answers[self._in_doubt] = found
        return answers

    def _may_be_wrong(self, engine: EarlyExitEngine) -> NDArray[np.bool_]:
        """Return in which rows another class is in front, or nearly so, somewhere."""
        forest, rule = engine.ensemble, engine.rule
        assert isinstance(forest, Forest)
        assert forest.tree_output is not None
        shape = (len(rule.exit_points), forest.n_outputs, forest.n_outputs)
        doubtful = np.zeros(len(self._rows), dtype=np.bool_)
        for k, point in enumerate(rule.exit_points.tolist()):
            # Here all classes but the one in front are dropped, and none before. If
            # one is too close for that, the row goes on. Exit points are those of the
            # rule, so that trees are laid out once.
            leads = np.full(shape, np.inf)
            leads[k] = _rounding(forest)
            at_once = ExitRule.dropping(
                rule.order, rule.exit_points, leads, forest.tree_output
            )
            left = np.flatnonzero(~doubtful)
            front, n_evaluated = engine.with_rule(at_once).evaluate(
                self._rows[left], self._n_jobs
            )
            doubtful[left] = (front != self._full[left]) | (n_evaluated > point)
        return doubtful


def _rounding(forest: Forest) -> float:
    """Return more than sums of leaf values can be off by, however they are added up."""
    assert forest.tree_output is not None
    n_added = int(np.bincount(forest.tree_output).max()) + 1
    largest = float(np.abs(forest.value).max(initial=0.0))
    largest = max(largest, float(np.abs(np.asarray(forest.base_score)).max(initial=0)))
    eps = float(np.finfo(forest.engine.sum_dtype).eps)
    return 2.0 * n_added * n_added * eps * largest
