"""Choose among ways to evaluate a model on held-out rows: bounds first, then time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from spinney.acceleration.timing import microseconds_per_row
from spinney.base.all_trees import AllTreesClassifier
from spinney.base.comparison import PROMISED, Candidate, Comparison
from spinney.base.estimator import class_codes
from spinney.calibration.class_changes import (
    ClassChange,
    class_changes,
    warn_of_lost_classes,
)
from spinney.calibration.ladder import (
    boldest_kept,
    certificate_of,
    warn_of_certain_exits,
)
from spinney.calibration.limits import Limits
from spinney.calibration.promise import Promise
from spinney.errors import SpinneyWarning

# What makes fitted classifiers, from the most conservative to the most aggressive.
Ladder = list[Callable[[], Any]]


@dataclass(frozen=True)
class Parts:
    """Rows by what they are for.

    Parameters
    ----------
    to_fit : array-like
        Rows to fit order and thresholds to.
    to_compare : array-like
        Rows to compare on.
    to_prove : array-like
        Rows that nothing is fitted to or chosen by, to establish a promise on.
    given : ndarray of int
        How many rows there are, of each class if that is known.
    share_to_prove : float
        Which share of the rows is meant for the promise.
    true_compare, true_prove : ndarray of int or None
        True classes of the rows to compare and to prove on, as indices, if there is a
        bound on the loss of accuracy.
    """

    to_fit: Any
    to_compare: Any
    to_prove: Any
    given: NDArray[np.int64]
    share_to_prove: float
    true_compare: NDArray[np.intp] | None = None
    true_prove: NDArray[np.intp] | None = None


@dataclass(frozen=True)
class Approach:
    """A way to evaluate fewer trees, with exits from late to early.

    Parameters
    ----------
    name, method : str
        As in `Candidate`.
    ladder : callable
        Takes the model, settings and rows to fit to, and returns what makes fitted
        classifiers, from the most conservative to the most aggressive.
    is_certain : bool
        Whether the first of them never differs from the model. (It does if it counts
        the votes of a model that averages probabilities.)
    """

    name: str
    method: str
    ladder: Callable[[Any, dict[str, Any], Any], Ladder]
    is_certain: bool


@dataclass
class FittedCandidate:
    """What one approach has come to: a classifier, and what is known about it.

    Parameters
    ----------
    classifier : fitted classifier
        The most aggressive that kept the bound where candidates are compared.
    certain : callable or None
        Makes the one that never differs from the model, if there is one.
    ladder : list of callables
        Make all others, from the most conservative to the most aggressive.
    record : Candidate
        What is known, as it was compared.
    promised : Candidate or None
        For the chosen candidate: its results when it exits as promised.
    """

    classifier: Any
    certain: Callable[[], Any] | None
    ladder: Ladder
    record: Candidate
    promised: Candidate | None = None

    @property
    def latest(self) -> Candidate:
        """What is known about the classifier as it is now."""
        return self.record if self.promised is None else self.promised


class Selection:
    """Candidates for evaluating a model, compared on held-out rows.

    Parameters
    ----------
    whole : AllTreesClassifier
        The model with all its trees.
    parts : Parts
        Rows by what they are for.
    limits : Limits
        The bounds.
    """

    def __init__(self, whole: AllTreesClassifier, parts: Parts, limits: Limits) -> None:
        self.whole = whole
        self.parts = parts
        self.limits = limits
        self._reference = self._codes_of(whole, parts.to_compare)
        self._changes: tuple[ClassChange, ...] = ()
        self.candidates: list[FittedCandidate] = []
        self._full = _untimed(
            "all trees", "all trees", math.nan, 0.0, whole.forest_.n_trees, True
        )

    @property
    def n_compared(self) -> int:
        """Number of rows that everything is compared on."""
        return len(self._reference)

    @property
    def can_be_bold(self) -> bool:
        """Whether there are candidates that may differ from the model."""
        return any(one.ladder for one in self.candidates)

    def add(self, approach: Approach, model: Any, settings: dict[str, Any]) -> None:
        """Add the most aggressive rule that keeps the bound on the held-out rows.

        Parameters
        ----------
        approach : Approach
            What to try.
        model : estimator or Forest
            The trained model.
        settings : dict
            Parameters that all classifiers have.
        """
        with _no_advice():
            ladder = approach.ladder(model, settings, self.parts.to_fit)
            certain = ladder[0] if approach.is_certain else None
            if not approach.is_certain:
                del ladder[0]
            for make in reversed(ladder):
                fitted = make()
                labels, counts = fitted.predict_counted(self.parts.to_compare)
                codes = class_codes(self.whole.classes_, labels)
                disagreement = float(np.mean(codes != self._reference))
                kept = make is certain or self._is_likely_kept(codes)
                if kept:
                    break
        if not ladder:
            return
        record = _untimed(
            approach.name,
            approach.method,
            fitted.expected_disagreement_,
            disagreement,
            float(counts.mean()),
            kept,
        )
        bold = ladder if certain is None else ladder[1:]
        self.candidates.append(FittedCandidate(fitted, certain, bold, record))

    def _codes_of(self, classifier: Any, X: Any) -> NDArray[np.intp]:
        """Return the predictions of a classifier as class indices."""
        return class_codes(self.whole.classes_, classifier.predict(X))

    def _is_likely_kept(self, codes: NDArray[np.intp]) -> bool:
        """Whether a promise is to be expected from the rows that are kept for it."""
        n_to_prove = _num_samples(self.parts.to_prove)
        true = self.parts.true_compare
        return self.limits.likely_to_keep(self._reference, codes, true, n_to_prove)

    def time(self) -> None:
        """Measure how long all trees take, and each candidate that kept the bound."""
        kept = self._within_bound()
        classifiers = [self.whole, *(one.classifier for one in kept)]
        times = microseconds_per_row(classifiers, self.parts.to_compare)
        self._full = _timed(self._full, *times[0])
        for one, (batch, single) in zip(kept, times[1:], strict=True):
            one.record = _timed(one.record, batch, single)

    def fastest(self, must_be_faster: bool) -> FittedCandidate | None:
        """Return the fastest candidate that kept the bound, if there is one.

        Parameters
        ----------
        must_be_faster : bool
            Whether it has to be faster than all trees.
        """
        kept = self._within_bound()
        if not kept:
            return None
        best = min(kept, key=lambda one: _slowness(one.record))
        return best if self._pays(best, must_be_faster) else None

    def _within_bound(self) -> list[FittedCandidate]:
        return [one for one in self.candidates if one.record.kept_promise]

    def _pays(self, candidate: FittedCandidate, must_be_faster: bool) -> bool:
        """Whether fewer trees are evaluated and, if it must be so, in less time."""
        record = candidate.latest
        faster = _slowness(record) < _slowness(self._full) or not must_be_faster
        return faster and record.trees < self._full.trees

    def promised(
        self, chosen: FittedCandidate, must_be_faster: bool
    ) -> FittedCandidate | None:
        """Return the chosen candidate as the promise allows it, or None for all trees.

        Parameters
        ----------
        chosen : FittedCandidate
            Chosen on other rows than those for the promise.
        must_be_faster : bool
            Whether it has to be faster than all trees.
        """
        fresh = self.parts.to_prove
        full = np.arange(0)
        if _num_samples(fresh):
            full = self._codes_of(self.whole, fresh)
        kept = None
        if chosen.ladder:
            ladder_rows = chosen.classifier.ladder_rows(fresh, full)
            kept = boldest_kept(
                (make() for make in chosen.ladder),
                lambda candidate: candidate.answers_on(ladder_rows),
                full,
                self.limits,
                self.parts.true_prove,
            )
        if kept is not None:
            classifier, promise = kept
            labels = self.whole.classes_
            self._changes = class_changes(
                labels, labels[full], classifier.predict(fresh)
            )
            warn_of_lost_classes(self._changes, promise, stacklevel=3)
        else:
            if chosen.ladder:
                self._warn_that_nothing_is_kept(full, chosen.certain is not None)
            if chosen.certain is None:
                chosen.record = replace(chosen.record, kept_promise=False)
                return None
            classifier = chosen.certain()
            promise = Promise("never", self.limits.level)
        chosen.classifier = classifier
        classifier.promise_, classifier.certificate_ = promise, certificate_of(promise)
        classifier.class_changes_ = self._changes
        self._measure_again(chosen, promise)
        return chosen if self._pays(chosen, must_be_faster) else None

    def _measure_again(self, chosen: FittedCandidate, promise: Promise) -> None:
        """Record trees and times of the chosen candidate, as promised."""
        _, counts = chosen.classifier.predict_counted(self.parts.to_compare)
        times = microseconds_per_row(
            [self.whole, chosen.classifier], self.parts.to_compare
        )
        self._full = _timed(self._full, *times[0])
        n_rows = max(promise.n_rows, 1)
        classifier = chosen.classifier
        if math.isnan(classifier.expected_disagreement_):  # not measured by the fit
            classifier.expected_trees_ = float(counts.mean())
            classifier.expected_disagreement_ = promise.n_disagreements / n_rows
        chosen.promised = replace(
            _timed(chosen.record, *times[1]),
            aimed_at=classifier.expected_disagreement_,
            disagreement=promise.n_disagreements / n_rows,
            trees=float(counts.mean()),
            level=PROMISED,
        )

    def _warn_that_nothing_is_kept(
        self, full: NDArray[np.intp], is_certain: bool
    ) -> None:
        warn_of_certain_exits(
            self.limits,
            full,
            self.parts.given,
            share=self.parts.share_to_prove,
            fallback=(
                "rows exit only where the remaining trees cannot change the prediction"
                if is_certain
                else "all trees are evaluated"
            ),
            stacklevel=4,
        )

    def result(self, chosen: FittedCandidate | None) -> Any:
        """Return the classifier that was chosen, with the comparison.

        Parameters
        ----------
        chosen : FittedCandidate or None
            What was chosen; None for all trees.
        """
        classifier: Any = self.whole if chosen is None else chosen.classifier
        if chosen is not None:
            model = self.whole.estimator
            classifier.set_params(
                estimator=model,
                **self.limits.as_stated(),
                confidence=self.limits.confidence,
            )
            classifier.estimator_ = model
        records = [replace(self._full, chosen=chosen is None)]
        for one in self.candidates:
            records.append(one.record)
            if one.promised is not None:
                records.append(replace(one.promised, chosen=one is chosen))
        classifier.acceleration_ = Comparison(
            tuple(records),
            self.whole.forest_.n_trees,
            _num_samples(self.parts.to_fit),
            self.n_compared,
            self.limits.on_all_rows,
            self.limits.confidence,
            self._outcome(chosen),
            () if chosen is None else self._changes,
            self.limits.by_class is not None,
        )
        return classifier

    def _outcome(self, chosen: FittedCandidate | None) -> str:
        """Return the result in words."""
        full, n_trees = self._full, self.whole.forest_.n_trees
        if chosen is not None:
            record = chosen.latest
            batch = full.microseconds_batch / record.microseconds_batch
            single = full.microseconds_single / record.microseconds_single
            return (
                f"Chosen: {record.name}, with {record.trees:.1f} of {n_trees:,} trees "
                f"per row; {batch:.1f} times as fast as all trees in batches, "
                f"{single:.1f} times for single rows.\n{chosen.classifier.promise_}"
            )
        if not self.candidates:
            reason = "Nothing else could be tried"
        elif not self._within_bound():
            reason = "No other candidate kept the bound"
        else:
            reason = "No other candidate that kept the bound was faster"
        return f"{reason}, so all {n_trees:,} trees are evaluated."


def _untimed(
    name: str,
    method: str,
    aimed_at: float,
    disagreement: float,
    trees: float,
    kept_promise: bool,
) -> Candidate:
    """Return what is known about a candidate before it is timed."""
    return Candidate(
        name=name,
        method=method,
        aimed_at=aimed_at,
        disagreement=disagreement,
        trees=float(trees),
        microseconds_batch=math.nan,
        microseconds_single=math.nan,
        kept_promise=kept_promise,
        chosen=False,
    )


def _timed(record: Candidate, batch: float, single: float) -> Candidate:
    """Return a record with the time per row, in batches and alone."""
    return replace(record, microseconds_batch=batch, microseconds_single=single)


def _slowness(record: Candidate) -> float:
    """Return the time of batches and of single rows as one number."""
    return math.sqrt(record.microseconds_batch * record.microseconds_single)


@contextmanager
def _no_advice() -> Iterator[None]:
    """Keep back what candidates would warn of: another may do better."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpinneyWarning)
        yield
