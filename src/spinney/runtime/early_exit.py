"""Evaluate an ensemble by an exit rule: only as many trees as each row needs.

The trees between two exit points are a *stage*, with a layout of its own: the splits of
small trees are shared within it. Rows that are decided leave between stages, so that
the blocks of rows stay dense. All stages are evaluated in one call of a kernel: a call
from Python takes as long as a stage does for some hundred rows.

Members that are no trees are called one by one, for undecided rows only; so are trees
under a rule that no kernel knows, and all trees while the plain engine serves. That
loop is `ExitRule.follow`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.forest import Forest
from spinney.forest.blocks import BlockedRows
from spinney.forest.locks import ForkSafeLock
from spinney.runtime.batch_kernels import MIN_BLOCK_ROWS
from spinney.runtime.choice import Kernels, either
from spinney.runtime.dropping_kernels import (
    dropping_class_of_row,
    settle_dropping_rows,
)
from spinney.runtime.engine import (
    Engine,
    rows_per_block,
)
from spinney.runtime.exit_kinds import BY_BIN, DROPPING
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.final_classes import final_answers
from spinney.runtime.kernel_arrays import read_only
from spinney.runtime.row_kernels import (
    ExitArguments,
    early_class_of_row,
    early_sums_of_row,
    settle_rows,
)
from spinney.runtime.row_nodes import RowArguments
from spinney.runtime.row_predictors import (
    Arguments,
    EarlyProbabilityPredictor,
    EncodingPredictor,
    Prepared,
    RowPredictor,
)
from spinney.runtime.scoring import (
    decision_threshold,
    rounding_tolerance,
    scoring_forest,
    tree_ranges,
)
from spinney.runtime.sharing import in_slices, in_threads, threads_for
from spinney.runtime.stage_kernels import Stage, Stages, evaluate_stages, join_stages

Answers = tuple[NDArray[np.intp], NDArray[np.int32]]


class CalledEnsemble(Protocol):
    """Members of any kind that are called, and whose predictions are added up."""

    classes: NDArray[Any]
    n_voters: int

    def start(self, n_rows: int) -> NDArray[np.float64]:
        """Return the sums of rows before the first member, (n_rows, n_sums)."""
        ...

    def take(self, rows: Any, index: NDArray[np.int64]) -> Any:
        """Return some of the rows."""
        ...

    def contribution(self, voting: str, voter: int, rows: Any) -> NDArray[np.float64]:
        """Return what one member adds to the sums of rows, (n_rows, n_sums)."""
        ...

    def decide(
        self, voting: str, rows: Any, totals: NDArray[np.float64]
    ) -> NDArray[np.intp]:
        """Return the classes of rows for which all members were called."""
        ...


class EarlyExitEngine:
    """Executes an exit rule over the trees of a forest, or over members to be called.

    Safe to use from several threads at once: stages are laid out under a lock and
    never change.

    Parameters
    ----------
    ensemble : Forest or CalledEnsemble
        A classifier.
    rule : ExitRule
        In which order its members are evaluated, and when a row exits. With two
        classes it sees one sum: the number of votes for the second class, or the score
        as `scoring_forest` has it; with more, one sum per class.
    """

    def __init__(self, ensemble: Forest | CalledEnsemble, rule: ExitRule) -> None:
        self.ensemble = ensemble
        self.rule = rule
        if isinstance(ensemble, Forest):
            scoring = scoring_forest(ensemble, rule.voting)
            rule.check(ensemble.n_trees, scoring.n_outputs, scoring.tree_output)
            self._prepare(ensemble, scoring.take(rule.order))
        elif rule.kind == DROPPING:
            msg = (
                "Classes can be dropped only if all members of the ensemble are trees."
            )
            raise InvalidArgumentError(msg)

    def _prepare(self, forest: Forest, scoring: Forest) -> None:
        """Set what depends on the order of the trees and what they add up."""
        voting = self.rule.voting
        self._scoring = scoring
        self._start = scoring.base_score.astype(np.float64)
        # Rows that stay to the end with sums this close are left to the forest itself.
        self._ends = (
            decision_threshold(forest, voting),
            rounding_tolerance(forest, scoring, voting),
        )
        self._exit_arguments = self._arguments_of(self.rule)
        self._stages: dict[type, Stages] = {}
        self._bin_stages: list[Engine] = []
        self._score_range: tuple[float, float] | None = None
        self._lock = ForkSafeLock()

    def _arguments_of(self, rule: ExitRule) -> ExitArguments:
        """Return what kernels need to know of a rule."""
        return ExitArguments(
            rule.exit_points, rule.kind, rule.bounds, rule.table, *self._ends
        )

    def with_rule(self, rule: ExitRule) -> EarlyExitEngine:
        """Return an engine for another rule that shares what does not depend on it.

        Parameters
        ----------
        rule : ExitRule
            When a row exits.

        Returns
        -------
        engine : EarlyExitEngine
            For the same ensemble.
        """
        mine, forest = self.rule, self.ensemble
        if (
            not isinstance(forest, Forest)
            or rule.voting != mine.voting
            or not np.array_equal(rule.order, mine.order)
        ):
            return EarlyExitEngine(forest, rule)
        in_order = self._scoring.tree_output
        tree_class = None if in_order is None else in_order[np.argsort(mine.order)]
        rule.check(forest.n_trees, self._scoring.n_outputs, tree_class)
        other = object.__new__(EarlyExitEngine)
        vars(other).update(vars(self), rule=rule)
        other._exit_arguments = self._arguments_of(rule)
        same_points = np.array_equal(rule.exit_points, mine.exit_points)
        same_stages = (rule.kind == DROPPING) == (mine.kind == DROPPING)
        if not (same_points and same_stages):
            # Otherwise the same dict and lock: whoever is first lays out for both.
            other._stages, other._bin_stages = {}, []
            other._lock = ForkSafeLock()
        return other

    # A pickle carries the parts, and nothing compiled.
    def __getstate__(self) -> dict[str, Any]:
        return {"ensemble": self.ensemble, "rule": self.rule}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    # ---------------------------------------------------------------- predictions

    def evaluate(self, rows: Any, n_jobs: int | None = None) -> Answers:
        """Predict rows, evaluating as many trees for each as the rule says.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Rows as `Engine.rows` returns them, or as the members expect them.
        n_jobs : int or None, default=None
            Number of threads; None means one, -1 all cores. Members that are called
            decide themselves on their threads.

        Returns
        -------
        classes : ndarray of shape (n_rows,), dtype=intp
            Class indices. Rows that stay to the end are predicted as the ensemble (or
            its majority vote) predicts them, to the last tie.
        n_evaluated : ndarray of shape (n_rows,), dtype=int32
            Number of trees, or of members called.
        """
        if isinstance(rows, BlockedRows):
            parts = [self.evaluate(block, n_jobs) for block in rows.blocks()]
            classes, n_evaluated = map(np.concatenate, zip(*parts, strict=True))
            return classes, n_evaluated
        return self._evaluate(rows, n_jobs, None)

    def evaluate_with_sums(
        self, rows: Any, n_jobs: int | None = None
    ) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.float64]]:
        """Predict rows as `evaluate` does, and return the sums with which they left.

        Parameters
        ----------
        rows, n_jobs
            As for `evaluate`.

        Returns
        -------
        classes, n_evaluated
            As of `evaluate`.
        sums : ndarray of shape (n_rows, n_sums)
            What the trees evaluated for a row add up to: one sum for two classes, else
            one per class. For rows that stay to the end, all of them, in the order of
            the rule; NaN with a rule by bins, or
            one that drops classes.
        """
        if isinstance(rows, BlockedRows):
            parts = [self.evaluate_with_sums(block, n_jobs) for block in rows.blocks()]
            classes, n_evaluated, sums = map(np.concatenate, zip(*parts, strict=True))
            return classes, n_evaluated, sums
        sums = np.full((_n_rows(rows), self._n_sums), np.nan)
        classes, n_evaluated = self._evaluate(rows, n_jobs, sums)
        return classes, n_evaluated, sums

    @property
    def _n_sums(self) -> int:
        """How many sums a rule sees."""
        classes = self.ensemble.classes
        assert classes is not None
        return 1 if len(classes) <= 2 else len(classes)

    def _evaluate(
        self, rows: Any, n_jobs: int | None, sums: NDArray[np.float64] | None
    ) -> Answers:
        """Predict rows; write the sums with which they leave, if they are wanted."""
        ensemble = self.ensemble
        if self.rule.at_once:
            n_rows = _n_rows(rows)
            if sums is not None:
                sums[:] = 0.0
            return np.zeros(n_rows, dtype=np.intp), np.zeros(n_rows, dtype=np.int32)
        if not isinstance(ensemble, Forest):
            return self._evaluate_called(ensemble, rows, sums)
        if self.rule.kind == BY_BIN:
            classes, n_evaluated = self._evaluate_by_bin(rows, n_jobs, sums)
        else:
            whole = self._scoring.engine
            few = len(rows) < MIN_BLOCK_ROWS
            what = "early exit few rows" if few else whole.named("early exit batches")
            classes, n_evaluated = either(
                whole.kernels(self._named(what), rows.dtype),
                whole.plain_seconds(len(rows)),
                lambda: self._in_shares(self._evaluate_share, rows, n_jobs, sums),
                lambda: self._in_shares(self._evaluate_plainly, rows, n_jobs, sums),
            )
        if classes.min(initial=0) < 0:
            close = np.flatnonzero(classes < 0)
            raw = ensemble.engine.raw(rows[close], n_jobs)
            classes[close] = ensemble.winners(raw)
        return classes, n_evaluated

    def _named(self, what: str) -> str:
        """Return what the kernels for this kind of rule are called."""
        return f"{what}, dropping" if self.rule.kind == DROPPING else what

    def _in_shares(
        self,
        evaluate_share: Callable[..., None],
        rows: NDArray[np.floating],
        n_jobs: int | None,
        sums: NDArray[np.float64] | None,
    ) -> Answers:
        """Predict rows in threads; class -1 where the sums are too close to call."""
        rows = read_only(rows)
        classes = np.empty(len(rows), dtype=np.intp)
        n_evaluated = np.empty(len(rows), dtype=np.int32)
        if sums is None:
            sums = np.empty((0, len(self._start)))

        def evaluate(start: int, end: int) -> None:
            share = slice(start, end)
            evaluate_share(rows[share], classes[share], n_evaluated[share], sums[share])

        sliced = in_slices(evaluate, len(self.rule.order))
        in_threads(sliced, len(rows), threads_for(len(rows), n_jobs))
        return classes, n_evaluated

    def _evaluate_plainly(
        self,
        rows: NDArray[np.floating],
        classes: NDArray[np.intp],
        n_evaluated: NDArray[np.int32],
        sums: NDArray[np.float64],
    ) -> None:
        """Predict the rows of one thread, by the plain engine."""
        rule = self.rule
        trees, table = self._scoring.engine.plain_trees(rows.dtype.type)

        def add(
            start: int,
            end: int,
            index: NDArray[np.int64],
            totals: NDArray[np.float64],
        ) -> None:
            some = rows if len(index) == len(rows) else rows[index]
            trees.add(some, table, totals, start, end)

        totals = np.tile(self._start, (len(rows), 1))
        kept = sums if len(sums) else None
        classes[:], n_evaluated[:], left, totals = rule.follow(totals, add, kept)
        if len(left):
            last = int(rule.exit_points[-1]) if len(rule.exit_points) else 0
            add(last, rule.n_trees, left, totals)
            if kept is not None:
                kept[left] = totals
            classes[left] = final_answers(totals, *self._ends)

    def _evaluate_share(
        self,
        rows: NDArray[np.floating],
        classes: NDArray[np.intp],
        n_evaluated: NDArray[np.int32],
        sums: NDArray[np.float64],
    ) -> None:
        """Predict the rows of one thread, by kernels."""
        dtype = rows.dtype.type
        whole = self._scoring.engine
        by_row, wide = whole.row_arguments(dtype), None
        if by_row is None and whole.widened is not None:
            wide = whole.widened
            by_row = wide.engine.row_arguments(dtype)
        if len(rows) < MIN_BLOCK_ROWS and by_row is not None:
            if wide is not None:
                rows, wide = read_only(wide.rows(rows)), None
            k, n_left = 0, len(rows)
            index = np.arange(n_left)
            totals = np.tile(self._start, (n_left, 1))
        else:
            index = np.empty(len(rows), dtype=np.int64)
            totals = np.empty((len(rows), len(self._start)))
            k, n_left = evaluate_stages(
                rows,
                self._stages_for(dtype),
                0 if by_row is None else MIN_BLOCK_ROWS,
                *self._exit_arguments,
                self._start,
                totals,
                index,
                classes,
                n_evaluated,
                sums,
            )
        if by_row is None or n_left == 0:
            return
        left, totals = index[:n_left], totals[:n_left]
        if wide is None:
            self._settle(rows, by_row, k, totals, left, classes, n_evaluated, sums)
            return
        # Only the rows that are left are widened, and predicted apart from the others.
        some = np.arange(n_left)
        found, counts = classes[left], n_evaluated[left]
        of_some = sums[left] if len(sums) else sums
        wider = read_only(wide.rows(rows[left]))
        self._settle(wider, by_row, k, totals, some, found, counts, of_some)
        classes[left], n_evaluated[left] = found, counts
        if len(sums):
            sums[left] = of_some

    def _settle(
        self,
        rows: NDArray[np.floating],
        by_row: RowArguments,
        k: int,
        totals: NDArray[np.float64],
        index: NDArray[np.int64],
        classes: NDArray[np.intp],
        n_evaluated: NDArray[np.int32],
        sums: NDArray[np.float64],
    ) -> None:
        """Predict a few rows, which have not come to exit point `k` yet, one by one."""
        arguments = (
            rows,
            *by_row,
            *self._exit_arguments,
            k,
            totals,
            index,
            classes,
            n_evaluated,
        )
        if self.rule.kind == DROPPING:
            settle_dropping_rows(*arguments)
        else:
            settle_rows(*arguments, sums)

    def _stages_for(self, dtype: type[np.floating]) -> Stages:
        """Return the stages for rows of `dtype`, laid out on first use."""
        with self._lock:
            if dtype not in self._stages:
                drops = self.rule.kind == DROPPING
                engines = self._engines_of_stages(self._scoring, to_the_end=True)
                stages: list[tuple[Engine, int, int]] = []
                for k, engine in enumerate(engines):
                    # Before the first exit point all classes are left.
                    by_class = _by_class(engine) if drops and k > 0 else [(engine, -1)]
                    stages += [(of_class, k, c) for of_class, c in by_class]
                self._stages[dtype] = join_stages(
                    [_stage_of(engine, c, dtype) for engine, _, c in stages],
                    np.array([k for _, k, _ in stages]),
                    np.array([c for _, _, c in stages]),
                    self._scoring.engine.layout(dtype).forms.schedule is not None,
                )
            return self._stages[dtype]

    def _engines_of_stages(self, scoring: Forest, to_the_end: bool) -> list[Engine]:
        """Return an engine for the trees of each stage."""
        ends = [0, *self.rule.exit_points.tolist()]
        if to_the_end:
            ends.append(scoring.n_trees)
        return [Engine(scoring.take(np.arange(*pair))) for pair in pairwise(ends)]

    def _evaluate_by_bin(
        self,
        rows: NDArray[np.floating],
        n_jobs: int | None,
        sums: NDArray[np.float64] | None,
    ) -> Answers:
        """Predict rows stage by stage; class -1 for those that stay to the end."""
        with self._lock:
            if not self._bin_stages:
                # The base score is there before the first stage, and only once.
                plain = self._scoring.replace(base_score=0.0)
                self._bin_stages += self._engines_of_stages(plain, to_the_end=False)
        number = {int(end): k for k, end in enumerate(self.rule.exit_points)}

        def add(
            start: int,
            end: int,
            index: NDArray[np.int64],
            totals: NDArray[np.float64],
        ) -> None:
            totals += self._bin_stages[number[end]].raw(rows[index], n_jobs)

        totals = np.tile(self._start, (len(rows), 1))
        return self.rule.follow(totals, add, sums)[:2]

    def _evaluate_called(
        self, ensemble: CalledEnsemble, rows: Any, sums: NDArray[np.float64] | None
    ) -> Answers:
        """Predict rows, calling members for undecided rows only."""
        rule = self.rule

        def add(
            start: int,
            end: int,
            index: NDArray[np.int64],
            totals: NDArray[np.float64],
        ) -> None:
            some = rows if len(index) == n_rows else ensemble.take(rows, index)
            for voter in rule.order[start:end].tolist():
                totals += ensemble.contribution(rule.voting, voter, some)

        totals = ensemble.start(_n_rows(rows))
        n_rows = len(totals)
        classes, n_evaluated, left, totals = rule.follow(totals, add, sums)
        if len(left):
            last = int(rule.exit_points[-1]) if len(rule.exit_points) else 0
            add(last, rule.n_trees, left, totals)
            if sums is not None:
                sums[left] = totals
            some = ensemble.take(rows, left)
            classes[left] = ensemble.decide(rule.voting, some, totals)
        return classes, n_evaluated

    def score_range(self) -> tuple[float, float]:
        """Return the least and the largest score that all trees can give.

        With two classes the decision threshold counts as zero.

        Returns
        -------
        low, high : float
            The range.
        """
        if self._score_range is None:
            threshold = self._ends[0] if len(self._start) == 1 else 0.0
            original = np.argsort(self.rule.order)
            least, most = (ends[original] for ends in tree_ranges(self._scoring))
            low = float(least.sum() + self._start.min() - threshold)
            high = float(most.sum() + self._start.max() - threshold)
            self._score_range = low, high
        return self._score_range

    def predictor(self) -> Callable[[NDArray[np.floating]], Any]:
        """Return a thin callable that predicts one row at a time, for serving.

        Returns
        -------
        predictor : callable
            Takes a one-dimensional array of numbers, float32 or the type that the
            original library compares in, and returns the label.
        """
        forest = self.ensemble
        assert isinstance(forest, Forest)
        if forest.encoder is not None:
            encoding = forest.engine.encoding
            plain = EarlyExitEngine(encoding.plain, self.rule)
            return EncodingPredictor(encoding.row, plain.predictor())
        labels = list(forest.classes_)  # type: ignore[arg-type]

        def answer(X: Any) -> Any:
            rows = forest.engine.rows(X)
            return labels[int(self.evaluate(rows)[0][0])]

        drops = self.rule.kind == DROPPING
        return RowPredictor(
            forest,
            dropping_class_of_row if drops else early_class_of_row,
            self._kernels(self._named("early exit single rows"), forest),
            self._prepare_single_rows,
            answer,
        )

    def probability_predictor(
        self,
        lookup: Callable[[int, int, NDArray[np.float64], Any], NDArray[np.floating]],
        at_the_end: Callable[[Any, int], NDArray[np.floating]],
        answer: Callable[[Any], NDArray[np.floating]],
    ) -> EarlyProbabilityPredictor | EncodingPredictor:
        """Return a thin callable that returns the probabilities of one row.

        Parameters
        ----------
        lookup : callable
            Returns the probabilities of a row that exited early: takes a class index, a
            number of trees, the sums with which it left and the row.
        at_the_end : callable
            Returns those of a row that stayed to the end: takes the row and its class
            index, -1 if it is too close to call.
        answer : callable
            Returns the probabilities of a table of one row, for all rows that the
            kernel does not take.

        Notes
        -----
        Where a forest takes encoded rows, so do `at_the_end` and `answer`.
        """
        forest = self.ensemble
        assert isinstance(forest, Forest)
        if forest.encoder is not None:
            encoding = forest.engine.encoding
            plain = EarlyExitEngine(encoding.plain, self.rule)
            predict = plain.probability_predictor(lookup, at_the_end, answer)
            return EncodingPredictor(encoding.row, predict)
        return EarlyProbabilityPredictor(
            forest,
            self._n_sums,
            early_sums_of_row,
            self._kernels("early exit probabilities of single rows", forest),
            self._prepare_single_rows,
            lookup,
            at_the_end,
            answer,
        )

    def _kernels(self, what: str, forest: Forest) -> Kernels:
        """Return which kernels something needs with rows as the forest takes them."""
        return self._scoring.engine.kernels(what, np.dtype(forest.input_dtype))

    def _prepare_single_rows(self) -> Prepared:
        """Return what these kernels are called with, and what widens rows for them."""
        if self.rule.kind == BY_BIN or self.rule.at_once:
            return {}, None
        by_row, widen = self._scoring.engine.arguments_of_single_rows()
        arguments: Arguments = {
            dtype: (*of_rows, *self._exit_arguments, self._start)
            for dtype, of_rows in by_row.items()
        }
        return arguments, widen


def _by_class(engine: Engine) -> list[tuple[Engine, int]]:
    """Return engines for the trees of each class of a stage, and the classes."""
    forest = engine.forest
    assert forest.tree_output is not None
    return [
        (Engine(forest.take(np.flatnonzero(forest.tree_output == c))), int(c))
        for c in np.unique(forest.tree_output)
    ]


def _stage_of(engine: Engine, of_class: int, dtype: type[np.floating]) -> Stage:
    """Return a stage for rows of `dtype`; that of one class adds to a single sum."""
    layout = engine.layout(dtype)
    output = engine.tree_output
    return Stage(
        layout.all_forms,
        rows_per_block(layout, np.empty(0, dtype=dtype)),
        engine.table(layout, dtype),
        output if of_class < 0 else np.full_like(output, -1),
    )


def _n_rows(rows: Any) -> int:
    """Return the number of rows of a table of any kind."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)
