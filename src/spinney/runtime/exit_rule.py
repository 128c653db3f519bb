"""When a row may exit before the last tree: the one form of a rule.

Whichever method has fitted it, a rule is this small frozen object of arrays: the order
in which the trees are evaluated, the numbers of trees after which a row may exit (the
exit points), what is added up, and the condition on that sum at each exit point. It
holds no compiled code and nothing about the rows it was fitted to; files, reports and
engines are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError
from spinney.runtime.count_tables import packed, ranks_of_counts, unpacked
from spinney.runtime.exit_kinds import (
    BETWEEN,
    BY_ALL_COUNTS,
    BY_BIN,
    BY_COUNT,
    BY_LEAD,
    BY_MARGIN,
    DROPPING,
    STAY,
    TO_THE_END,
)
from spinney.runtime.exit_rule_checks import (
    problem_of,
    problem_of_dropping,
    trees_of_stages,
)
from spinney.runtime.final_classes import leading_class
from spinney.runtime.kernel_arrays import own_copy
from spinney.runtime.order_checks import check_order
from spinney.runtime.score_bins import ScoreBins

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExitRule:
    """After which trees a row may exit, and with which class.

    Made by the class methods, one for each way of deciding.

    Parameters
    ----------
    kind : int
        Which way, one of the numbers in `exit_kinds`.
    voting : {"hard", "soft"}
        What is added up: one vote per tree, or what each tree adds to the raw score.
    order : ndarray of shape (n_trees,), dtype=int64
        Trees in the order in which they are evaluated.
    exit_points : ndarray of shape (n_exit_points,), dtype=int64
        Numbers of trees, ascending, after which a row may exit. All rows exit after the
        last tree, which is not listed.
    bounds : ndarray of shape (2, n_exit_points), dtype=float64
        Bounds on sums, where sums decide. Where classes are dropped, of shape
        ``(n_exit_points, n_classes * n_classes)``: see `leads`.
    table : ndarray of shape (n_exit_points, n_entries), dtype=int32
        Classes or limits by the number of votes, where votes decide. Where classes are
        dropped, of shape ``(n_exit_points + 1, n_classes)``: how many trees add to each
        class in each stage.
    bins : ScoreBins or None
        What bins of scores decide, where they do.
    at_once : bool
        Whether all rows exit before the first tree, with the first class.
    """

    kind: int
    voting: str
    order: NDArray[np.int64]
    exit_points: NDArray[np.int64]
    bounds: Numbers
    table: NDArray[np.int32]
    bins: ScoreBins | None = None
    at_once: bool = False

    # ---------------------------------------------------------------- making

    @classmethod
    def between(
        cls,
        order: ArrayLike,
        exit_points: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        voting: str = "soft",
    ) -> ExitRule:
        """Exit with the first class below `lower`, with the second above `upper`.

        Parameters
        ----------
        order, exit_points : array-like
            As above.
        lower, upper : array-like of shape (n_exit_points,)
            Bounds on the sum of the trees evaluated so far; ``-inf`` and ``inf`` where
            no row exits. `lower` is never above `upper`.
        voting : {"hard", "soft"}, default="soft"
            As above.
        """
        return cls._made(BETWEEN, voting, order, exit_points, bounds=(lower, upper))

    @classmethod
    def by_count(
        cls,
        order: ArrayLike,
        exit_points: ArrayLike,
        classes: ArrayLike,
        at_once: bool = False,
    ) -> ExitRule:
        """Exit as a table says for the number of votes for the second class.

        Parameters
        ----------
        order, exit_points : array-like
            As above.
        classes : array-like of shape (n_exit_points, n_trees + 1)
            The class for each exit point and each number of votes, -1 to continue.
        at_once : bool, default=False
            As above.
        """
        return cls._made(
            BY_COUNT, "hard", order, exit_points, table=classes, at_once=at_once
        )

    @classmethod
    def by_margin(
        cls,
        order: ArrayLike,
        exit_points: ArrayLike,
        margin: ArrayLike,
        voting: str = "soft",
    ) -> ExitRule:
        """Exit with the leading class if it is ahead of the next by more than a bound.

        Parameters
        ----------
        order, exit_points : array-like
            As above.
        margin : array-like of shape (n_exit_points,)
            The bounds.
        voting : {"hard", "soft"}, default="soft"
            As above.
        """
        return cls._made(BY_MARGIN, voting, order, exit_points, bounds=(margin, margin))

    @classmethod
    def by_lead(
        cls, order: ArrayLike, exit_points: ArrayLike, limits: ArrayLike
    ) -> ExitRule:
        """Exit with the leading class if the next one has few enough votes.

        Parameters
        ----------
        order, exit_points : array-like
            As above.
        limits : array-like of shape (n_exit_points, n_trees + 1)
            For each exit point and each number of votes of the leading class the
            largest number of votes of the next one; -1 to continue.
        """
        return cls._made(BY_LEAD, "hard", order, exit_points, table=limits)

    @classmethod
    def by_all_counts(
        cls, order: ArrayLike, exit_points: ArrayLike, classes: Sequence[ArrayLike]
    ) -> ExitRule:
        """Exit as a table says for the votes of all classes.

        Parameters
        ----------
        order, exit_points : array-like
            As above.
        classes : sequence of array-like of int
            For each exit point the class for every rank of counts, as
            `spinney.runtime.count_tables` numbers them; -1 to continue. There may be
            up to 15 classes.
        """
        return cls._made(
            BY_ALL_COUNTS, "hard", order, exit_points, table=packed(classes)
        )

    @classmethod
    def by_bin(
        cls, order: ArrayLike, exit_points: ArrayLike, bins: ScoreBins
    ) -> ExitRule:
        """Exit as the bin of the partial score says.

        Parameters
        ----------
        order, exit_points : array-like
            As above.
        bins : ScoreBins
            The bins of all exit points.
        """
        return cls._made(BY_BIN, "soft", order, exit_points, bins=bins)

    @classmethod
    def dropping(
        cls,
        order: ArrayLike,
        exit_points: ArrayLike,
        leads: ArrayLike,
        tree_class: ArrayLike,
    ) -> ExitRule:
        """Drop classes that are too far behind; exit when a single one is left.

        The trees of a class that is dropped are not evaluated any more.

        Parameters
        ----------
        order, exit_points : array-like
            As above.
        leads : array-like of shape (n_exit_points, n_classes, n_classes)
            By how much the first class has to be ahead of the second for that one to
            be dropped, if the first is ahead of all that are left. The leading class is
            never dropped.
        tree_class : array-like of shape (n_trees,)
            The one class that each tree adds to.
        """
        bounds = np.asarray(leads, dtype=np.float64)
        n_classes = bounds.shape[-1]
        stages = trees_of_stages(order, exit_points, tree_class, n_classes)
        flat = bounds.reshape(len(bounds), n_classes * n_classes)
        return cls._made(
            DROPPING, "soft", order, exit_points, bounds=flat, table=stages
        )

    @classmethod
    def never(cls, order: ArrayLike, n_sums: int, voting: str = "soft") -> ExitRule:
        """Evaluate all trees for every row.

        Parameters
        ----------
        order : array-like of shape (n_trees,)
            As above.
        n_sums : int
            How many sums there are for a row: one for two classes, else one per class.
        voting : {"hard", "soft"}, default="soft"
            As above.
        """
        if n_sums == 1:
            return cls.between(order, [], [], [], voting)
        return cls.by_margin(order, [], [], voting)

    @classmethod
    def _made(
        cls,
        kind: int,
        voting: str,
        order: ArrayLike,
        exit_points: ArrayLike,
        bounds: Any = ((), ()),
        table: Any = None,
        bins: ScoreBins | None = None,
        at_once: bool = False,
    ) -> ExitRule:
        return cls(
            kind,
            voting,
            own_copy(order, np.int64),
            own_copy(exit_points, np.int64),
            own_copy(bounds, np.float64),
            own_copy(np.zeros((0, 1)) if table is None else table, np.int32),
            bins,
            at_once,
        )

    # ---------------------------------------------------------------- what it says

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.order)

    @property
    def lower(self) -> Numbers | None:
        """Sums below this exit with the first class; None for other kinds of rules."""
        return self.bounds[0] if self.kind == BETWEEN else None

    @property
    def upper(self) -> Numbers | None:
        """Sums above this exit with the second class; None for other kinds."""
        return self.bounds[1] if self.kind == BETWEEN else None

    @property
    def margin(self) -> Numbers | None:
        """A row with a lead above this exits; None for other kinds of rules."""
        return self.bounds[0] if self.kind == BY_MARGIN else None

    @property
    def leads(self) -> Numbers | None:
        """Leads at which classes are dropped; None for other kinds of rules.

        Of shape (n_exit_points, n_classes, n_classes): the leading class comes first.
        """
        if self.kind != DROPPING:
            return None
        n_classes = self.table.shape[1]
        return self.bounds.reshape(len(self.exit_points), n_classes, n_classes)

    def drop(self, k: int, totals: Numbers) -> None:
        """Set the sums of classes that are dropped at an exit point to minus infinity.

        Parameters
        ----------
        k : int
            Index of the exit point.
        totals : ndarray of shape (n_rows, n_classes)
            Sums of the trees so far, overwritten; ``-inf`` for classes that were
            dropped before.
        """
        leads = self.leads
        assert leads is not None
        rows = np.arange(len(totals))
        leader = totals.argmax(axis=1)
        ahead = totals[rows, leader][:, None] - totals
        behind = ahead > leads[k][leader]
        behind[rows, leader] = False
        totals[behind] = -np.inf

    def decide(self, k: int, totals: Numbers) -> NDArray[np.int64]:
        """Return the class with which each row exits, or why it does not.

        Parameters
        ----------
        k : int
            Index of the exit point.
        totals : ndarray of shape (n_rows, n_sums)
            Sums of the trees so far.

        Returns
        -------
        decisions : ndarray of shape (n_rows,), dtype=int64
            A class index, or `STAY` until the next exit point, or `TO_THE_END`.
        """
        if self.bins is not None:
            return self.bins.decide(k, totals[:, 0])
        if self.kind == BETWEEN:
            lower, upper = self.bounds[:, k]
            above = np.where(totals[:, 0] > upper, 1, STAY)
            return np.where(totals[:, 0] < lower, 0, above)
        if self.kind == DROPPING:
            alone = (totals > -np.inf).sum(axis=1) == 1
            return np.where(alone, totals.argmax(axis=1), STAY)
        if self.kind == BY_COUNT:
            return self.table[k, totals[:, 0].astype(np.int64)].astype(np.int64)
        if self.kind == BY_ALL_COUNTS:
            return unpacked(self.table[k], ranks_of_counts(totals.astype(np.int64)))
        winner, most, next_most = leading_class(totals)
        if self.kind == BY_MARGIN:
            leaves = most - next_most > self.bounds[0, k]
        else:
            leaves = next_most <= self.table[k, most.astype(np.int64)]
        return np.where(leaves, winner, STAY)

    def follow(
        self,
        totals: Numbers,
        add: Callable[[int, int, NDArray[np.int64], Numbers], None],
        sums: Numbers | None = None,
    ) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.int64], Numbers]:
        """Let rows exit at the exit points, while a caller adds up scores of trees.

        This is the one loop for all that is not compiled: voters that are called,
        tables of scores, bins, trees in the plain engine.

        Parameters
        ----------
        totals : ndarray of shape (n_rows, n_sums)
            Sums before the first tree; overwritten.
        add : callable
            ``add(start, end, rows, totals)`` adds the scores of the trees
            ``order[start:end]`` for some of the rows, given by their indices, to
            their sums.
        sums : ndarray of shape (n_rows, n_sums), optional
            Overwritten with the sums with which rows exit.

        Returns
        -------
        classes : ndarray of shape (n_rows,), dtype=intp
            Class indices; -1 for rows that have not exited.
        n_evaluated : ndarray of shape (n_rows,), dtype=int32
            Number of trees; for such rows all of them, or all of the classes that are
            left.
        left : ndarray of shape (n_left,), dtype=int64
            Indices of these rows.
        totals : ndarray of shape (n_left, n_sums)
            Their sums at the last exit point; ``-inf`` for classes that were dropped,
            whatever is added to them.
        """
        classes = np.full(len(totals), -1, dtype=np.intp)
        n_evaluated = np.full(len(totals), self.n_trees, dtype=np.int32)
        drops = self.kind == DROPPING
        n_seen = np.zeros(len(totals), dtype=np.int32)  # where classes are dropped
        left = np.arange(len(totals))
        may_leave = np.ones(len(totals), dtype=np.bool_)
        for k, (start, end) in enumerate(pairwise([0, *self.exit_points.tolist()])):
            if len(left) == 0:
                break
            if drops:
                n_seen[left] += (totals > -np.inf) @ self.table[k]
            add(start, end, left, totals)
            if drops:
                self.drop(k, totals)
            answers = self.decide(k, totals)
            leaves = may_leave & (answers >= 0)
            classes[left[leaves]] = answers[leaves]
            n_evaluated[left[leaves]] = n_seen[left[leaves]] if drops else end
            if sums is not None:
                sums[left[leaves]] = totals[leaves]
            may_leave &= answers != TO_THE_END
            if leaves.any():
                stays = ~leaves
                left, totals = left[stays], totals[stays]
                may_leave = may_leave[stays]
        if drops:
            n_evaluated[left] = n_seen[left] + (totals > -np.inf) @ self.table[-1]
        return classes, n_evaluated, left, totals

    # ---------------------------------------------------------------- checking

    def check(
        self, n_trees: int, n_sums: int, tree_class: ArrayLike | None = None
    ) -> None:
        """Raise if kernels, which do not validate, could not follow this rule.

        Parameters
        ----------
        n_trees : int
            Number of trees of the ensemble.
        n_sums : int
            How many sums there are for a row.
        tree_class : array-like of shape (n_trees,), optional
            The one class that each tree adds to, if there is one.
        """
        check_order(self.order, n_trees)
        problem = problem_of(self, n_trees, n_sums)
        if problem is None and self.kind == DROPPING:
            problem = problem_of_dropping(self, n_sums, tree_class)
        one_sum = self.kind in (BETWEEN, BY_COUNT, BY_BIN)
        if problem is None and one_sum != (n_sums == 1):
            problem = f"it must be made for {n_sums} sums"
        if problem is not None:
            msg = f"This exit rule does not fit a forest of {n_trees} trees: {problem}."
            raise InvalidArgumentError(msg)
