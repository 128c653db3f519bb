"""An order of trees with thresholds: when to stop on the way, and with which answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spinney.ordering.score_table import ScoreTable, margins


@dataclass(frozen=True, eq=False)
class ExitPolicy:
    """In which order trees are asked, and when a row is decided before the last.

    Parameters
    ----------
    order : ndarray of shape (n_trees,), dtype=int64
        Trees in the order in which they are asked.
    check_steps : ndarray of shape (n_checks,), dtype=int64
        Numbers of trees after which a row may be decided, ascending, below `n_trees`.
    lower, upper : ndarray of shape (n_checks,) or None
        With two classes: negative if the partial score is below `lower`, positive if
        it is above `upper`; ``-inf`` and ``inf`` where that never happens. Never is
        `lower` above `upper`.
    margin : ndarray of shape (n_checks,) or None
        With several classes: the class of the largest partial score wins if it leads
        the second by more than this.
    """

    order: NDArray[np.int64]
    check_steps: NDArray[np.int64]
    lower: NDArray[np.float64] | None = None
    upper: NDArray[np.float64] | None = None
    margin: NDArray[np.float64] | None = None

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.order)

    @property
    def is_binary(self) -> bool:
        """Whether this is about two classes."""
        return self.margin is None

    def widened(self, table: ScoreTable, deviations: float) -> ExitPolicy:
        """Return a more cautious policy, with thresholds further out.

        Parameters
        ----------
        table : ScoreTable
            Rows whose partial scores tell what is far.
        deviations : float
            How far: in standard deviations of the partial scores (or leads) at each
            check, not negative.
        """
        wanted = {step: check for check, step in enumerate(self.check_steps.tolist())}
        spread = np.zeros(len(self.check_steps))
        for step, partial in table.partial_scores(self.order):
            if step in wanted:
                value = partial if self.is_binary else margins(partial)[1]
                spread[wanted[step]] = deviations * value.std()
        if self.margin is not None:
            return replace(self, margin=self.margin + spread)
        assert self.lower is not None
        assert self.upper is not None
        return replace(self, lower=self.lower - spread, upper=self.upper + spread)

    def follow(self, table: ScoreTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Decide the rows of a table as the policy says.

        Parameters
        ----------
        table : ScoreTable
            Scores of all trees for the rows; those not needed are not looked at.

        Returns
        -------
        decisions : ndarray of shape (n_rows,)
            Class indices. Rows that no check decides have the full decision.
        n_asked : ndarray of shape (n_rows,)
            Trees asked for each row.
        """
        decisions = table.decisions.copy()
        n_asked = np.full(table.n_rows, self.n_trees, dtype=np.int64)
        rows = np.arange(table.n_rows)
        partial = table.start()
        step = 0
        for check, end in enumerate(self.check_steps):
            for tree in self.order[step:end]:
                table.add_tree(int(tree), partial, rows)
            step = int(end)
            winner, stops = self.stops(check, partial)
            decisions[rows[stops]] = winner[stops]
            n_asked[rows[stops]] = end
            rows, partial = rows[~stops], partial[~stops]
            if len(rows) == 0:
                break
        return decisions, n_asked

    def stops(
        self, check: int, partial: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return for partial scores at a check the class, and whether to stop there.

        Parameters
        ----------
        check : int
            Place in `check_steps`.
        partial : ndarray of shape (n_rows,) or (n_rows, n_classes)
            Partial scores.
        """
        if self.margin is not None:
            winner, lead = margins(partial)
            return winner, lead > self.margin[check]
        assert self.lower is not None
        assert self.upper is not None
        positive = partial > self.upper[check]
        return positive.astype(np.int64), positive | (partial < self.lower[check])


def never_stop(table: ScoreTable, order: NDArray[np.int64]) -> ExitPolicy:
    """Return the policy that asks all trees for every row."""
    nothing = np.empty(0, dtype=np.int64)
    none = np.empty(0)
    if table.is_binary:
        return ExitPolicy(order, nothing, none, none)
    return ExitPolicy(order, nothing, margin=none)
