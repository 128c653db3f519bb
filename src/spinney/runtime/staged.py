"""Ask a forest in stages, and let rows leave between them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.runtime.batch_kernels import MIN_BLOCK_ROWS
from spinney.runtime.engine import (
    Engine,
    RowPredictor,
    in_threads,
    rows_per_block,
    threads_for,
)
from spinney.runtime.kernel_arrays import own_copy
from spinney.runtime.row_kernels import (
    BETWEEN,
    BY_COUNT,
    BY_LEAD,
    BY_MARGIN,
    ExitArguments,
    early_class_of_row,
    settle_rows,
)
from spinney.runtime.stage_kernels import Stage, Stages, evaluate_stages, join_stages

if TYPE_CHECKING:
    from spinney.forest import Forest


@dataclass(frozen=True)
class ExitRule:
    """After which trees a row may leave, and with which answer.

    Made by the class methods, one for each way of deciding.

    Parameters
    ----------
    kind : int
        Which way.
    checks : ndarray of shape (n_checks,), dtype=int64
        Numbers of trees, ascending, after which a row may leave. All rows leave after
        the last tree, which needs no check.
    bounds : ndarray of shape (2, n_checks), dtype=float64
        Bounds on sums, where sums decide.
    stops : ndarray of shape (n_checks, n_counts), dtype=int32
        Answers or limits by the number of votes, where votes decide.
    """

    kind: int
    checks: NDArray[np.int64]
    bounds: NDArray[np.float64]
    stops: NDArray[np.int32]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The parts that the kernels take beside the checks."""
        return self.kind, self.bounds, self.stops

    @classmethod
    def between(cls, checks: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> ExitRule:
        """Leave with the first class below `lower`, with the second above `upper`.

        Parameters
        ----------
        checks : array-like of shape (n_checks,)
            Numbers of trees after which a row may leave.
        lower, upper : array-like of shape (n_checks,)
            Bounds on the sum of the trees asked so far, one pair per check.
        """
        return cls._made(BETWEEN, checks, bounds=(lower, upper))

    @classmethod
    def by_count(cls, checks: ArrayLike, answers: ArrayLike) -> ExitRule:
        """Leave as a table says for the number of votes for the second class.

        Parameters
        ----------
        checks : array-like of shape (n_checks,)
            Numbers of trees after which a row may leave.
        answers : array-like of shape (n_checks, n_trees + 1)
            The class for each check and each number of votes, -1 to stay.
        """
        return cls._made(BY_COUNT, checks, stops=answers)

    @classmethod
    def by_margin(cls, checks: ArrayLike, margin: ArrayLike) -> ExitRule:
        """Leave with the leading class if it is ahead of the next by more than a bound.

        Parameters
        ----------
        checks : array-like of shape (n_checks,)
            Numbers of trees after which a row may leave.
        margin : array-like of shape (n_checks,)
            The bounds.
        """
        return cls._made(BY_MARGIN, checks, bounds=(margin, margin))

    @classmethod
    def by_lead(cls, checks: ArrayLike, limits: ArrayLike) -> ExitRule:
        """Leave with the leading class if the next one has few enough votes.

        Parameters
        ----------
        checks : array-like of shape (n_checks,)
            Numbers of trees after which a row may leave.
        limits : array-like of shape (n_checks, n_trees + 1)
            For each check and each number of votes of the leading class the largest
            number of votes of the next one; -1 to stay.
        """
        return cls._made(BY_LEAD, checks, stops=limits)

    @classmethod
    def _made(
        cls,
        kind: int,
        checks: ArrayLike,
        bounds: Any = None,
        stops: ArrayLike | None = None,
    ) -> ExitRule:
        steps = own_copy(checks, np.int64)
        empty = np.zeros((2, 0))
        return cls(
            kind,
            steps,
            empty if bounds is None else own_copy(bounds, np.float64),
            np.zeros((0, 1), dtype=np.int32)
            if stops is None
            else own_copy(stops, np.int32),
        )


class StagedEngine:
    """Evaluates a forest stage by stage and keeps only undecided rows.

    The trees between two checks are a stage, with a layout of its own: the questions
    of small trees are shared within it. Safe to use from several threads at once.

    Parameters
    ----------
    forest : Forest
        Its trees are asked in their order and their values added up, whatever its
        `aggregation`: one value per tree, or one per class.
    rule : ExitRule
        When rows leave.
    positive_from : float
        With one output: the smallest sum of all trees that means the second class.
    tolerance : float
        Rows that stay to the end with sums this close are left undecided.
    """

    def __init__(
        self, forest: Forest, rule: ExitRule, positive_from: float, tolerance: float
    ) -> None:
        self.forest = forest
        self.rule = rule
        self._ends = (float(positive_from), float(tolerance))
        self._exit_arguments = ExitArguments(
            rule.checks, rule.kind, rule.bounds, rule.stops, *self._ends
        )
        self._start = forest.base_score.astype(np.float64)
        self._steps = [0, *rule.checks.tolist(), forest.n_trees]
        self._stages: dict[type, Stages] = {}
        self._lock = threading.Lock()

    def with_rule(self, rule: ExitRule) -> StagedEngine:
        """Return an engine with another rule, and the same stages if checks are too.

        Parameters
        ----------
        rule : ExitRule
            When rows leave.

        Returns
        -------
        engine : StagedEngine
            For the same trees.
        """
        other = StagedEngine(self.forest, rule, *self._ends)
        if np.array_equal(rule.checks, self.rule.checks):
            # The same dict and lock: whoever is the first makes stages for both.
            other._stages, other._lock = self._stages, self._lock
        return other

    def _stages_for(self, dtype: type[np.floating]) -> Stages:
        """Return the stages for rows of `dtype`, made on first use."""
        with self._lock:
            if dtype not in self._stages:
                parts = []
                for start, end in pairwise(self._steps):
                    engine = Engine(self.forest.take(np.arange(start, end)))
                    layout = engine.layout(dtype)
                    parts.append(
                        Stage(
                            layout.forms,
                            rows_per_block(layout, np.empty(0, dtype=dtype)),
                            engine.table(layout, dtype),
                            engine.tree_output,
                        )
                    )
                self._stages[dtype] = join_stages(parts)
            return self._stages[dtype]

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
        classes : ndarray of shape (n_rows,), dtype=intp
            Class indices; -1 for rows that stayed to the end and are too close to
            call.
        counts : ndarray of shape (n_rows,), dtype=int32
            Number of trees asked.
        """
        whole = self.forest.engine
        rows = whole.rows(X)
        classes = np.empty(len(rows), dtype=np.intp)
        counts = np.empty(len(rows), dtype=np.int32)

        def evaluate(start: int, end: int) -> None:
            self._ask_share(rows[start:end], classes[start:end], counts[start:end])

        in_threads(evaluate, len(rows), threads_for(len(rows), n_jobs))
        return classes, counts

    def _ask_share(
        self,
        rows: NDArray[np.floating],
        classes: NDArray[np.intp],
        counts: NDArray[np.int32],
    ) -> None:
        """Answer the rows of one thread."""
        dtype = rows.dtype.type
        by_row = self.forest.engine.row_arguments(dtype)
        if len(rows) < MIN_BLOCK_ROWS and by_row is not None:
            k, n_left = 0, len(rows)
            place = np.arange(n_left)
            totals = np.tile(self._start, (n_left, 1))
        else:
            place = np.empty(len(rows), dtype=np.int64)
            totals = np.empty((len(rows), len(self._start)))
            k, n_left = evaluate_stages(
                rows,
                self._stages_for(dtype),
                0 if by_row is None else MIN_BLOCK_ROWS,
                *self._exit_arguments,
                self._start,
                totals,
                place,
                classes,
                counts,
            )
        if by_row is not None and n_left > 0:
            settle_rows(
                rows,
                *by_row,
                *self._exit_arguments,
                k,
                totals[:n_left],
                place[:n_left],
                classes,
                counts,
            )

    def predictor(
        self, labels: list[Any], answer: Callable[[NDArray[Any]], Any]
    ) -> RowPredictor:
        """Return a thin callable that answers one row at a time.

        Parameters
        ----------
        labels : list
            Labels of the classes.
        answer : callable
            Answers rows that the quick way does not take.
        """
        whole = self.forest.engine
        arguments = {}
        for dtype in whole.dtypes_of_single_rows():
            by_row = whole.row_arguments(dtype)
            if by_row is not None:
                arguments[np.dtype(dtype)] = (
                    *by_row,
                    *self._exit_arguments,
                    self._start,
                )
        return RowPredictor(
            self.forest.n_features, labels, early_class_of_row, arguments, answer
        )
