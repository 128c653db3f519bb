"""Ask a forest by the rule of Fan et al., stage by stage."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.cascade.fan import FanPolicy
from spinney.forest import Forest
from spinney.runtime.early_exit import scoring_forest


class FanEngine:
    """Evaluates a forest in stages, and looks up in bins whether rows may leave.

    Parameters
    ----------
    forest : Forest
        A classifier of two classes.
    policy : FanPolicy
        The order and the bins.
    """

    def __init__(self, forest: Forest, policy: FanPolicy) -> None:
        self.forest = forest
        self.policy = policy
        self.order = policy.order
        scoring = scoring_forest(forest, "scores")
        self._start = scoring.base_score
        steps = [0, *policy.check_steps.tolist()]
        trees = [policy.order[start:end] for start, end in pairwise(steps)]
        # The base score is there before the first stage, and only once.
        plain = scoring.replace(base_score=0.0)
        self._stages = [plain.take(part).engine for part in trees]

    def ask(
        self, X: ArrayLike, n_jobs: int | None = None
    ) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Answer rows, asking each as many trees as the rule says.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        n_jobs : int or None, default=None
            Number of threads; None means one, -1 all cores.

        Returns
        -------
        classes : ndarray of shape (n_rows,)
            Class indices.
        counts : ndarray of shape (n_rows,), dtype=int32
            Number of trees asked.
        """
        rows = self.forest.engine.rows(X)
        classes = np.zeros(len(rows), dtype=np.intp)
        counts = np.full(len(rows), self.forest.n_trees, dtype=np.int32)
        place = np.arange(len(rows))
        partial = np.full(len(rows), self._start[0])
        for check, stage in enumerate(self._stages):
            if len(place) == 0:
                break
            partial += stage.raw(rows[place], n_jobs)[:, 0]
            says, stops, to_the_end = self.policy.stops(check, partial)
            classes[place[stops]] = says[stops]
            counts[place[stops]] = self.policy.check_steps[check]
            left = ~(stops | to_the_end)
            place, partial = place[left], partial[left]
        rest = np.flatnonzero(counts == self.forest.n_trees)
        if len(rest):
            raw = self.forest.engine.raw(rows[rest], n_jobs)
            classes[rest] = self.forest.winners(raw)
        return classes, counts

    def predictor(self) -> Callable[[NDArray[np.floating]], Any]:
        """Return a callable that answers one row at a time.

        Returns
        -------
        predictor : callable
            Takes a one-dimensional array of numbers and returns the label.
        """
        labels = list(self.forest.classes_)  # type: ignore[arg-type]

        def answer(row: NDArray[np.floating]) -> Any:
            return labels[int(self.ask(np.asarray(row).reshape(1, -1))[0][0])]

        return answer
