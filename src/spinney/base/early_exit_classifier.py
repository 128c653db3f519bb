"""What classifiers share that evaluate trees until the prediction is decided."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from spinney.base.comparison import Comparison
from spinney.base.early_probabilities import EarlyProbabilities
from spinney.base.estimator import (
    EnsembleClassifier,
    is_trained,
    through_tables,
)
from spinney.base.parameters import check_choice
from spinney.calibration.bounds import Certificate
from spinney.calibration.class_changes import (
    ClassChange,
    class_changes,
    warn_of_lost_classes,
)
from spinney.calibration.fitted_rule import FittedRule
from spinney.calibration.ladder import (
    boldest_kept,
    certificate_of,
    warn_of_certain_exits,
)
from spinney.calibration.ladder_rows import LadderRows
from spinney.calibration.limits import Bounds, Limits, limits_for
from spinney.calibration.promise import Promise
from spinney.calibration.row_splits import (
    SHARES,
    RowParts,
    split_by_class,
    split_by_use,
)
from spinney.forest import Forest
from spinney.persistence.kinds import is_saved_as_it_is
from spinney.persistence.store import from_bytes, to_bytes
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.scoring import decision_threshold, scoring_forest


class CountingClassifier(EnsembleClassifier, ABC):
    """Base of the classifiers that count how many trees each prediction has taken."""

    _takes_sparse = True
    max_disagreement: Bounds
    n_jobs: int | None
    certificate_: Certificate | None
    promise_: Promise | None
    acceleration_: Comparison

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels, evaluating as few trees as the exit rule allows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        """
        return self.predict_counted(X)[0]

    def predict_counted(self, X: Any) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Predict class labels, and return how many trees were evaluated.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        n_evaluated : ndarray of shape (n_rows,), dtype=int32
            Number of trees (or other voters) evaluated for each row.
        """
        classes, n_evaluated = self._evaluate(self._rows(X))
        return self.classes_.take(classes), n_evaluated

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of `classes_`, consistent with `predict`. For rows evaluated
            by all trees, those of the model itself. For rows that exit early, the
            model's mean over calibration rows that exited at the same exit point with
            the same prediction and a similar partial score.
        """
        return self._probabilities(self._rows(X))

    def predictor(self, kind: str = "label") -> Callable[[NDArray[np.floating]], Any]:
        """Return a lightweight callable that predicts one row at a time.

        Parameters
        ----------
        kind : {"label", "proba"}, default="label"
            What it returns: the label, or the probabilities of the classes as
            `predict_proba` has them.

        Returns
        -------
        predictor : callable
            ``predictor(row)`` takes a one-dimensional array of `n_features_in_`
            numbers, float32 or the type that the model compares in, and returns the
            label or the probabilities. Nothing beyond type and length is checked, which
            makes it fast. A sequence with strings for categories, a dict keyed by
            column name, and a data frame of one row are accepted, too; for a pipeline
            that was fitted on a data frame, a row of any of these kinds is converted.
        """
        check_is_fitted(self)
        check_choice("kind", kind, ("label", "proba"))
        if self.forest_ is None or self.has_preprocessing:
            return through_tables(
                self, self.predict if kind == "label" else self.predict_proba
            )
        return self._row_predictor() if kind == "label" else self._row_probabilities()

    def at_levels(self, X: Any, levels: Iterable[float]) -> Iterator[Self]:
        """Yield copies fitted to rows, one for each bound.

        Work that does not depend on the bound is done once, and the order of the trees
        stays as it is. Nothing is proven about the copies.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to fit to.
        levels : iterable of float
            Values of `max_disagreement`.

        Yields
        ------
        classifier : fitted classifier
            One for each level.
        """
        yield from self._at_levels(self._rows(X), levels)

    def full_sums(self, X: Any) -> tuple[NDArray[np.floating], float]:
        """Return the sums over all trees, and the threshold they are compared with.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        sums : ndarray of shape (n_rows, n_sums)
            With two classes one sum: the number of votes for the second class, or its
            score. With more, one sum per class.
        threshold : float
            With two classes: between the sums of the two classes.
        """
        return self._full_sums(self._rows(X))

    def _full_sums(self, rows: Any) -> tuple[NDArray[np.floating], float]:
        """Return what `full_sums` returns, for converted rows."""
        scoring = scoring_forest(self.forest_, "soft")
        sums = scoring.engine.raw(rows, self.n_jobs)
        return sums, decision_threshold(self.forest_, "soft")

    @abstractmethod
    def _at_levels(self, rows: Any, levels: Iterable[float]) -> Iterator[Self]:
        """Yield what `at_levels` yields, for converted rows."""

    @abstractmethod
    def _evaluate(self, rows: Any) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Return class indices and numbers of trees, for converted rows."""

    def _probabilities(self, rows: Any) -> NDArray[np.floating]:
        """Return the probabilities of converted rows: those of all trees."""
        forest: Forest = self.forest_
        return forest.probabilities(forest.engine.raw(rows, self.n_jobs))

    def _row_probabilities(self) -> Callable[[Any], NDArray[np.floating]]:
        """Return what gives the probabilities of one row at a time, likewise."""
        found: Callable[[Any], NDArray[np.floating]] = self.forest_.predictor("proba")
        return found

    @abstractmethod
    def _row_predictor(self) -> Callable[[NDArray[np.floating]], Any]:
        """Return what predicts one row at a time, for a model without preprocessing."""

    # A pickle is the classifier's file, where it has one: as small, with nothing
    # compiled, and without the trained model of another library. A classifier that
    # trains its own model is pickled as it is, and can be trained again.
    def __reduce_ex__(self, protocol: Any) -> Any:
        if is_trained(self.estimator) and is_saved_as_it_is(self):
            try:
                return from_bytes, (to_bytes(self),)
            except (TypeError, ValueError):  # not fitted, or more than a file holds
                pass
        return super().__reduce_ex__(protocol)

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        parameters = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "acceleration_"):
            return parameters
        return f"{parameters}\n{self.acceleration_}"


class EarlyExitClassifier(EarlyProbabilities, CountingClassifier):
    """Base of the classifiers that execute an exit rule."""

    per_class: bool
    confidence: float | None
    rule_: ExitRule
    order_: NDArray[np.int64]
    exit_points_: NDArray[np.int64]
    expected_disagreement_: float
    class_changes_: tuple[ClassChange, ...]
    _engine: EarlyExitEngine

    def _calibrated(
        self,
        ladder: Sequence[Callable[[], FittedRule]],
        certain: Callable[[], FittedRule],
        rows: Any,
        full: NDArray[np.intp],
        parts: RowParts,
        engine_for: Callable[[ExitRule, EarlyExitEngine | None], EarlyExitEngine],
        limits: Limits,
    ) -> FittedRule:
        """Return the most aggressive rule that keeps all bounds on new rows.

        Sets `promise_`, `certificate_` and `class_changes_`.

        Parameters
        ----------
        ladder : sequence of callables
            Make rules, from the most conservative to the most aggressive.
        certain : callable
            Makes the rule that is taken if none of them keeps the bound: its
            predictions are those of the full ensemble on any row.
        rows : array-like
            Rows that nothing was fitted to, as the engine takes them.
        full : ndarray of shape (n_rows,)
            Class indices that the full ensemble gives them.
        parts : RowParts
            How rows were shared out.
        engine_for : callable
            Makes the engine for a rule, given the last engine.
        limits : Limits
            The bounds.
        """
        engine: EarlyExitEngine | None = None
        level = limits.level
        ladder_rows = LadderRows(rows, full, self.n_jobs)

        def answers_of(fitted: FittedRule) -> NDArray[np.intp]:
            nonlocal engine
            engine = engine_for(fitted.rule, engine)
            return ladder_rows.answers(engine)

        kept = None
        if level > 0.0 and len(ladder) and limits.are_enough(full):
            kept = boldest_kept((make() for make in ladder), answers_of, full, limits)
        if kept is None:
            self._promise(Promise("never", level))
            if level > 0.0 and len(ladder):
                warn_of_certain_exits(
                    limits,
                    full,
                    parts.given,
                    share=SHARES["prove"],
                    fallback=(
                        "rows exit only where the rest of the ensemble cannot change "
                        "the prediction"
                    ),
                    stacklevel=4,
                )
            return certain()
        fitted, promise = kept
        self._promise(promise)
        labels = (self.classes_[codes] for codes in (full, answers_of(fitted)))
        self.class_changes_ = class_changes(self.classes_, *labels)
        warn_of_lost_classes(self.class_changes_, promise, stacklevel=4)
        return fitted

    def _limits(self) -> Limits:
        """Return the requested bounds, now that the classes are known."""
        return limits_for(
            self.max_disagreement, self.per_class, self.classes_, self.confidence
        )

    def _shared_out(
        self,
        n_rows: int,
        full: Callable[[], NDArray[np.intp]],
        limits: Limits,
        rng: np.random.RandomState,
    ) -> RowParts:
        """Split rows into those to fit to, as bounds weigh them, and those to prove on.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        full : callable
            Returns the class indices that the full ensemble gives them.
        limits : Limits
            The bounds.
        rng : RandomState
            Draws which row comes where.
        """
        if limits.by_class is None:
            return split_by_use(n_rows, SHARES, limits.n_to_prove, rng)
        codes = full()
        parts = split_by_class(codes, SHARES, limits.n_to_prove_by_class, rng)
        return replace(parts, fit=limits.balanced(parts.fit, codes[parts.fit], rng))

    def _promise(self, promise: Promise) -> None:
        """Set what is promised; no class has changed as far as is known."""
        self.promise_ = promise
        self.certificate_ = certificate_of(promise)
        self.class_changes_ = ()

    def _adopt(self, fitted: FittedRule, last: EarlyExitEngine | None = None) -> None:
        """Take over a rule, and what the runtime has laid out for the last one.

        A subclass sets the attributes that are its own.
        """
        self._engine = self._engine_for(fitted.rule, last)
        self._exit_probabilities = None
        self.rule_ = fitted.rule
        self.order_ = fitted.rule.order
        self.exit_points_ = fitted.rule.exit_points
        self.expected_disagreement_ = fitted.disagreement

    @abstractmethod
    def _engine_for(
        self, rule: ExitRule, last: EarlyExitEngine | None
    ) -> EarlyExitEngine:
        """Return what executes a rule, sharing what it can with the last engine."""

    def _copy_at(
        self, level: float, fitted: FittedRule, last: EarlyExitEngine | None
    ) -> Self:
        """Return a copy with another bound and rule, of which nothing is proven."""
        other = copy.copy(self)
        other.set_params(
            max_disagreement=float(level), per_class=False, confidence=None
        )
        other.certificate_ = other.promise_ = None
        other.class_changes_ = ()
        if hasattr(other, "acceleration_"):
            del other.acceleration_
        other._adopt(fitted, last)
        return other

    def _copies(
        self, level: float, make_each: Iterable[Callable[[], FittedRule]]
    ) -> list[Callable[[], Self]]:
        """Return what makes copies with rules that are made when called for."""
        last: EarlyExitEngine | None = None

        def made(make: Callable[[], FittedRule]) -> Any:
            nonlocal last
            other = self._copy_at(level, make(), last)
            last = other._engine
            return other

        return [lambda make=make: made(make) for make in make_each]  # type: ignore[misc]

    def _evaluate(self, rows: Any) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        return self._engine.evaluate(rows, self.n_jobs)

    def ladder_rows(self, X: Any, full: NDArray[np.intp]) -> LadderRows:
        """Return rows that several rules of this kind are to be tested on.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        full : ndarray of shape (n_rows,)
            Class indices that the full ensemble gives them.
        """
        return LadderRows(self._rows(X), full, self.n_jobs)

    def answers_on(self, ladder_rows: LadderRows) -> NDArray[np.intp]:
        """Return the class indices of rows that several rules are tested on.

        Parameters
        ----------
        ladder_rows : LadderRows
            The rows, converted.
        """
        return ladder_rows.answers(self._engine)

    def _row_predictor(self) -> Callable[[NDArray[np.floating]], Any]:
        return self._engine.predictor()
