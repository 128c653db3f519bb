"""What every tree adds to the score of every row: the material of orders and rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError
from spinney.runtime.exit_kinds import DROPPING
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.final_classes import leading_class


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores by tree and row, and the decision of all trees together.

    Usually made by `of_scores`.

    Parameters
    ----------
    scores : ndarray of shape (n_trees, n_rows) or (n_trees, n_rows, n_values)
        What each tree adds. Two axes for two classes; three for more, with a value per
        class, or a single one where `tree_output` says to which class it is added.
    base : ndarray of shape (n_outputs,)
        Score before any tree.
    decisions : ndarray of shape (n_rows,), dtype=int64
        Class index that the full ensemble decides for; 0 or 1 with two classes.
    beta : float
        With two classes: the score from which the full ensemble decides for class 1.
    tree_output : ndarray of shape (n_trees,), dtype=int64
        The class that each tree adds to; -1 where it adds to all (or where there is
        only one score).
    """

    scores: NDArray[np.float64]
    base: NDArray[np.float64]
    decisions: NDArray[np.int64]
    beta: float
    tree_output: NDArray[np.int64]
    _kept_sums: dict[tuple[bytes, bytes], NDArray[np.float64]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of_scores(
        cls,
        scores: ArrayLike,
        *,
        beta: float = 0.0,
        base: ArrayLike = 0.0,
        decisions: ArrayLike | None = None,
        tree_output: ArrayLike | None = None,
        n_classes: int | None = None,
    ) -> ScoreTable:
        """Make a table from an array of scores.

        Parameters
        ----------
        scores : array-like of shape (n_rows, n_trees) or (n_rows, n_trees, n_classes)
            What each tree adds to the score of a row; with three axes to the score of
            each class. No NaN; with two axes infinities are allowed unless they cancel.
        beta : float, default=0.0
            With two classes: a row is positive if its full score is at least `beta`.
        base : float or array-like of shape (n_classes,), default=0.0
            Score before any tree.
        decisions : array-like of shape (n_rows,), optional
            Decision of the full ensemble as class indices, where it is known. By
            default the full scores decide.
        tree_output : array-like of shape (n_trees,), optional
            For several classes with `scores` of two axes: the class that each tree
            adds to.
        n_classes : int, optional
            Number of classes; needed only together with `tree_output`.

        Returns
        -------
        table : ScoreTable
            The checked table.
        """
        given = _numbers("scores", scores)
        if given.ndim not in (2, 3) or given.shape[1] == 0:
            msg = (
                "scores must have shape (n_rows, n_trees) or (n_rows, n_trees, "
                f"n_classes) with at least one tree, got {given.shape}."
            )
            raise InvalidArgumentError(msg)
        by_tree = np.ascontiguousarray(np.swapaxes(given, 0, 1))
        n_trees, n_rows = by_tree.shape[:2]
        outputs = np.full(n_trees, -1, dtype=np.int64)
        n_outputs = 1 if by_tree.ndim == 2 else by_tree.shape[2]
        if tree_output is not None:
            outputs = np.array(tree_output, dtype=np.int64)
            n_outputs = n_classes or 0
            if (
                by_tree.ndim != 2
                or outputs.shape != (n_trees,)
                or np.any((outputs < 0) | (outputs >= n_outputs))
            ):
                msg = (
                    "tree_output must give a class from 0 to n_classes - 1 for each "
                    f"of the {n_trees} trees, with scores of shape (n_rows, n_trees)."
                )
                raise InvalidArgumentError(msg)
            by_tree = by_tree[:, :, np.newaxis]
        elif by_tree.ndim == 3 and n_outputs < 2:
            msg = (
                "scores with three axes must have at least two classes, got "
                f"{n_outputs}. Leave the last axis out for a single score."
            )
            raise InvalidArgumentError(msg)
        start = np.broadcast_to(_numbers("base", base), (n_outputs,)).copy()
        _refuse_bad_scores(by_tree, start)
        table = cls(
            by_tree, start, np.zeros(n_rows, dtype=np.int64), float(beta), outputs
        )
        if decisions is None:
            full = table.full_scores()
            decided = full >= table.beta if full.ndim == 1 else full.argmax(axis=1)
        else:
            decided = np.asarray(decisions)
            if decided.shape != (n_rows,):
                msg = (
                    f"decisions must have shape ({n_rows},), one per row, got "
                    f"{decided.shape}."
                )
                raise InvalidArgumentError(msg)
        return cls(
            table.scores, table.base, decided.astype(np.int64), table.beta, outputs
        )

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.scores.shape[0]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.scores.shape[1]

    @property
    def is_binary(self) -> bool:
        """Whether there is a single score, that of the second of two classes."""
        return self.scores.ndim == 2

    def take_rows(self, rows: ArrayLike) -> ScoreTable:
        """Return a table of some of the rows."""
        chosen = np.asarray(rows)
        scores = np.ascontiguousarray(self.scores[:, chosen])
        decisions = self.decisions[chosen]
        return ScoreTable(scores, self.base, decisions, self.beta, self.tree_output)

    def start(self) -> NDArray[np.float64]:
        """Return the partial scores before any tree, one row each."""
        if self.is_binary:
            return np.full(self.n_rows, self.base[0])
        return np.tile(self.base, (self.n_rows, 1))

    def add_tree(
        self,
        tree: int,
        partial: NDArray[np.float64],
        rows: NDArray[np.int64] | slice = slice(None),
    ) -> None:
        """Add what a tree says about `rows` to their partial scores, in place."""
        output = self.tree_output[tree]
        if output >= 0:
            partial[:, output] += self.scores[tree, rows, 0]
        else:
            partial += self.scores[tree, rows]

    def partial_scores(
        self, order: NDArray[np.int64]
    ) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield (number of trees, partial scores of all rows) along an order.

        The array is the same one each time, overwritten.
        """
        partial = self.start()
        for step, tree in enumerate(order, start=1):
            self.add_tree(int(tree), partial)
            yield step, partial

    def follow(self, rule: ExitRule) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Decide the rows of the table as an exit rule says.

        Parameters
        ----------
        rule : ExitRule
            When rows exit, and in which order trees are evaluated.

        Returns
        -------
        decisions : ndarray of shape (n_rows,)
            Class indices. Rows that no exit point lets go have the full decision, or
            the best of the classes that were not dropped.
        n_evaluated : ndarray of shape (n_rows,)
            Trees evaluated for each row.
        """

        sums = self._sums_at(rule.order, rule.exit_points)
        number = {end: k for k, end in enumerate([*rule.exit_points, rule.n_trees])}

        def add(
            start: int,
            end: int,
            rows: NDArray[np.int64],
            totals: NDArray[np.float64],
        ) -> None:
            dropped = totals == -np.inf
            totals[:] = sums[number[end]][rows]
            if rule.kind == DROPPING:
                totals[dropped] = -np.inf

        start = self.start()
        totals = start[:, None] if self.is_binary else start
        classes, n_evaluated, left, totals = rule.follow(totals, add)
        classes[left] = self.decisions[left]
        if rule.kind == DROPPING and len(left):
            last = int(rule.exit_points[-1]) if len(rule.exit_points) else 0
            add(last, rule.n_trees, left, totals)
            # The full decision, unless it is for a class that was dropped.
            dropped = totals[np.arange(len(left)), self.decisions[left]] == -np.inf
            classes[left[dropped]] = totals[dropped].argmax(axis=1)
        return classes, n_evaluated

    def _sums_at(
        self, order: NDArray[np.int64], exit_points: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the sums of all rows at exit points, and at the end.

        Those of the last call are kept: many rules have the same exit points.
        """
        key = (order.tobytes(), exit_points.tobytes())
        if key not in self._kept_sums:
            wanted = {int(end) for end in exit_points} | {self.n_trees}
            made = [
                partial.reshape(self.n_rows, -1).copy()
                for step, partial in self.partial_scores(order)
                if step in wanted
            ]
            self._kept_sums.clear()
            self._kept_sums[key] = np.array(made)
        return self._kept_sums[key]

    def rule_of(
        self,
        order: NDArray[np.int64],
        exit_points: NDArray[np.int64],
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
    ) -> ExitRule:
        """Return the rule with these thresholds; with several classes on the lead.

        Parameters
        ----------
        order, exit_points : ndarray
            As in `ExitRule`.
        lower, upper : ndarray of shape (n_exit_points,)
            Thresholds; with several classes only `upper` counts.
        """
        if self.is_binary:
            return ExitRule.between(order, exit_points, lower, upper)
        return ExitRule.by_margin(order, exit_points, upper)

    def full_scores(self) -> NDArray[np.float64]:
        """Return the scores of all trees together, added in the order they come in."""
        partial = self.start()
        for tree in range(self.n_trees):
            self.add_tree(tree, partial)
        return partial


def margins(
    partial: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the class of the largest partial score, and its lead over the second."""
    winner, largest, second = leading_class(partial)
    return winner, largest - second


def _numbers(name: str, given: ArrayLike) -> NDArray[np.float64]:
    """Return `given` as float64, or raise."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"{name} must be numbers, got {type(given).__name__}: {error}"
        raise InvalidArgumentError(msg) from error


def _refuse_bad_scores(by_tree: NDArray[np.float64], base: NDArray[np.float64]) -> None:
    """Raise for NaN, and for infinities that cancel or have no margin."""
    hint = "Leave such rows out, or find out which tree returns it."
    # A sum is NaN if one of the trees is, or if infinities of both signs meet.
    with np.errstate(invalid="ignore"):
        total = by_tree.sum(axis=0)
    bad = np.isnan(total) if by_tree.ndim == 2 else ~np.isfinite(total)
    if np.any(bad):
        row = int(np.argwhere(bad)[0, 0])
        of_row = by_tree[:, row].reshape(len(by_tree), -1)
        trees = np.flatnonzero(~np.isfinite(of_row).all(axis=1))
        kind = "NaN or infinities that cancel" if by_tree.ndim == 2 else "not finite"
        where = f"tree {trees[0]}" if len(trees) else "the sum over the trees"
        msg = f"scores of row {row} are {kind}: see {where}. {hint}"
        raise InvalidArgumentError(msg)
    if not np.isfinite(base).all():
        msg = f"base must be finite, got {base.tolist()}."
        raise InvalidArgumentError(msg)
