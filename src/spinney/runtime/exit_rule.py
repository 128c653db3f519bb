"""When a row may exit before the last tree: the one form of a rule.

Whichever method has found it, a rule is this small frozen object of arrays: in which
order the trees are evaluated, after how many of them a row may leave (the exit
points), what is added up, and what that sum has to look like at each exit point. It
owns nothing compiled and knows nothing of the rows it was fitted to; files, reports
and engines are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError
from spinney.runtime.count_tables import (
    PER_WORD,
    n_ranks,
    packed,
    ranks_of_counts,
    unpacked,
)
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
from spinney.runtime.kernel_arrays import own_copy
from spinney.runtime.score_bins import ScoreBins

Numbers = NDArray[np.float64]

VOTINGS = ("hard", "soft")
# A prediction of four bits is one of so many classes, or to stay.
MOST_CLASSES = 15


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
        problem = self._problem(n_trees, n_sums)
        if problem is None and self.kind == DROPPING:
            problem = self._problem_of_dropping(n_sums, tree_class)
        one_sum = self.kind in (BETWEEN, BY_COUNT, BY_BIN)
        if problem is None and one_sum != (n_sums == 1):
            problem = f"it must be made for {n_sums} sums"
        if problem is not None:
            msg = f"This exit rule does not fit a forest of {n_trees} trees: {problem}."
            raise InvalidArgumentError(msg)

    def _problem(self, n_trees: int, n_sums: int) -> str | None:
        """Return what is wrong with the parts of this rule, None if nothing is."""
        points, table = self.exit_points, self.table
        n_points = len(points)
        ends = np.concatenate([[0], points, [n_trees]]) if points.ndim == 1 else points
        if points.ndim != 1 or (ends[1:] <= ends[:-1]).any():
            return f"exit points must rise from 1 to at most {n_trees - 1}"
        if self.voting not in VOTINGS:
            return f"voting must be one of {', '.join(VOTINGS)}"
        if self.kind in (BETWEEN, BY_MARGIN):
            if self.bounds.shape != (2, n_points) or np.isnan(self.bounds).any():
                return "there must be two bounds for each exit point, none of them NaN"
        elif self.kind == DROPPING:
            if self.voting != "soft":
                return "classes are dropped by scores, not by votes"
        elif self.kind == BY_BIN:
            if self.bins is None or not self.bins.fit_together(n_points):
                return "its bins do not fit together"
        elif (
            self.kind not in (BY_COUNT, BY_LEAD, BY_ALL_COUNTS) or self.voting != "hard"
        ):
            return "a rule by votes needs votes to be counted"
        elif self.kind == BY_ALL_COUNTS:
            return self._problem_of_count_tables(n_sums)
        elif table.ndim != 2 or len(table) != n_points or table.shape[1] <= n_trees:
            return "there must be an entry for each exit point and each number of votes"
        elif self.kind == BY_COUNT and ((table < -1) | (table > 1)).any():
            return "answers must be -1, 0 or 1"
        return None

    def _problem_of_count_tables(self, n_sums: int) -> str | None:
        """Return what is wrong with tables by the votes of all classes."""
        table, points = self.table, self.exit_points
        if not 1 < n_sums <= MOST_CLASSES:
            return f"a rule by all votes is for up to {MOST_CLASSES} classes"
        if table.ndim != 2 or len(table) != len(points):
            return "there must be a table of answers for each exit point"
        width = PER_WORD * table.shape[1]
        for k, point in enumerate(points.tolist()):
            if n_ranks(point, n_sums) > width:
                return "there must be an answer for all that votes can come to"
            if unpacked(table[k], np.arange(width)).max() >= n_sums:
                return "answers must be classes"
        return None

    def _problem_of_dropping(
        self, n_sums: int, tree_class: ArrayLike | None
    ) -> str | None:
        """Return what is wrong with the parts of a rule that drops classes."""
        shape = (len(self.exit_points), n_sums * n_sums)
        if n_sums < 2 or tree_class is None:
            return "classes can be dropped only where each tree adds to one of several"
        if self.bounds.shape != shape or np.isnan(self.bounds).any():
            return "there must be a lead for each exit point and pair of classes"
        stages = trees_of_stages(self.order, self.exit_points, tree_class, n_sums)
        if not np.array_equal(self.table, stages):
            return "it counts the trees of the classes otherwise than they are"
        return None


def trees_of_stages(
    order: ArrayLike, exit_points: ArrayLike, tree_class: ArrayLike, n_classes: int
) -> NDArray[np.int32]:
    """Return how many trees add to each class between exit points.

    Parameters
    ----------
    order : array-like of shape (n_trees,)
        Trees in the order in which they are evaluated.
    exit_points : array-like of int
        Exit points.
    tree_class : array-like of shape (n_trees,)
        The one class that each tree adds to.
    n_classes : int
        Number of classes.

    Returns
    -------
    n_trees : ndarray of shape (n_exit_points + 1, n_classes), dtype=int32
        The last stage goes from the last exit point to the end.
    """
    classes = np.asarray(tree_class)[np.asarray(order)]
    of_class = classes[:, None] == np.arange(n_classes)
    ends = np.concatenate(
        [[0], np.asarray(exit_points, dtype=np.int64), [len(classes)]]
    )
    so_far = np.concatenate([np.zeros((1, n_classes)), np.cumsum(of_class, axis=0)])
    return np.diff(so_far[ends], axis=0).astype(np.int32)


def leading_class(totals: Numbers) -> tuple[NDArray[np.int64], Numbers, Numbers]:
    """Return the class of the largest sum, this sum, and the next largest one.

    Parameters
    ----------
    totals : ndarray of shape (n_rows, n_classes)
        Sums, of at least two classes. Of equal ones the first leads.
    """
    winner = totals.argmax(axis=1).astype(np.int64)
    best_two = np.partition(totals, -2, axis=1)[:, -2:]
    return winner, best_two[:, 1], best_two[:, 0]


def final_answers(
    totals: Numbers, decision_threshold: float, tolerance: float
) -> NDArray[np.int64]:
    """Return the classes of rows that all trees were evaluated for.

    Parameters
    ----------
    totals : ndarray of shape (n_rows, n_sums)
        Sums of all trees.
    decision_threshold : float
        With one sum: the smallest one of the second class.
    tolerance : float
        Sums that lie closer together than this (or to `decision_threshold`) are left
        open; 0 if sums are exact.

    Returns
    -------
    answers : ndarray of shape (n_rows,), dtype=int64
        Class indices, -1 where the sums are too close to call.
    """
    if totals.shape[1] == 1:
        answers = (totals[:, 0] >= decision_threshold).astype(np.int64)
        apart = np.abs(totals[:, 0] - decision_threshold)
    else:
        answers, most, next_most = leading_class(totals)
        apart = most - next_most
    return np.where(apart > tolerance, answers, -1) if tolerance > 0 else answers


def check_order(order: ArrayLike, n_trees: int) -> NDArray[np.int64]:
    """Return an order of all trees as an array of its own, or raise.

    Parameters
    ----------
    order : array-like of shape (n_trees,)
        A permutation of the trees.
    n_trees : int
        Number of trees.
    """
    hint = f"Pass every number from 0 to {n_trees - 1} exactly once."
    given = np.asarray(order)
    if given.dtype.kind not in "iu" or given.ndim != 1:
        msg = (
            "order must be a one-dimensional array of integers, got dtype "
            f"{given.dtype} and shape {given.shape}. {hint}"
        )
        raise InvalidArgumentError(msg)
    checked = given.astype(np.int64)
    if len(checked) != n_trees:
        msg = (
            f"order must name each of the {n_trees} trees once, got {len(checked)} "
            f"numbers. {hint}"
        )
        raise InvalidArgumentError(msg)
    if not np.array_equal(np.sort(checked), np.arange(n_trees)):
        strange = np.flatnonzero((checked < 0) | (checked >= n_trees))
        if len(strange):
            problem = f"names tree {checked[strange[0]]}, which there is not"
        else:
            twice = np.flatnonzero(np.bincount(checked) > 1)[0]
            problem = f"names tree {twice} more than once"
        msg = f"order must be a permutation of the trees, but {problem}. {hint}"
        raise InvalidArgumentError(msg)
    return checked


def check_exit_points(
    exit_points: ArrayLike | None, n_trees: int, least: int = 1
) -> NDArray[np.int64]:
    """Return the exit points as integers, or raise.

    Parameters
    ----------
    exit_points : array-like of int or None
        Numbers of trees after which a row may leave. None stands for all of them:
        after 1, 2, ..., `n_trees` - 1 trees. After the last one all rows leave anyway.
    n_trees : int
        Number of trees.
    least : int, default=1
        The smallest number allowed.
    """
    if exit_points is None:
        return np.arange(1, n_trees, dtype=np.int64)
    given = np.asarray(exit_points)
    if given.size == 0 and given.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if (
        given.dtype.kind not in "iu"
        or given.ndim != 1
        or np.any(given[1:] <= given[:-1])
        or given[0] < least
        or given[-1] >= n_trees
    ):
        msg = (
            f"exit_points must be ascending integers from {least} to the number of "
            f"trees less one ({n_trees - 1}), got {exit_points!r}. Write range(8, "
            f"{n_trees}, 8) to let rows exit after every eighth tree."
        )
        raise InvalidArgumentError(msg)
    return given.astype(np.int64)
