"""Choose among ways to evaluate a model on held-out rows: bounds first, then time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from spinney.acceleration.timing import microseconds_per_row
from spinney.base.all_trees import AllTreesClassifier
from spinney.base.comparison import Candidate, Comparison
from spinney.base.wording import percent
from spinney.calibration.bounds import clopper_pearson_upper
from spinney.calibration.ladder import boldest_proven
from spinney.errors import SpinneyWarning

# What makes fitted classifiers, from the most cautious to the boldest.
Ladder = list[Callable[[], Any]]


@dataclass(frozen=True)
class Parts:
    """Rows by what they are for.

    Parameters
    ----------
    to_order, to_fit : array-like
        Rows to choose an order on, and to fit thresholds to.
    to_order_and_fit : array-like
        Both of them together.
    to_compare : array-like
        Rows to compare on.
    to_prove : array-like or None
        Rows to prove a bound on.
    usual_share : float
        Which share of all rows is usually kept for proof.
    n_given : int
        How many rows there are in all.
    """

    to_order: Any
    to_fit: Any
    to_order_and_fit: Any
    to_compare: Any
    to_prove: Any
    usual_share: float
    n_given: int


@dataclass(frozen=True)
class Approach:
    """A way to evaluate fewer trees, more or less boldly.

    Parameters
    ----------
    name, method : str
        As in `Candidate`.
    ladder : callable
        Takes the model, settings and `Parts`, and returns what makes fitted
        classifiers, from the most cautious to the boldest.
    """

    name: str
    method: str
    ladder: Callable[[Any, dict[str, Any], Parts], Ladder]


@dataclass
class FittedCandidate:
    """What one approach has come to: a classifier, and what is known about it."""

    classifier: Any
    ladder: Ladder
    record: Candidate


class Selection:
    """Candidates for evaluating a model, compared on held-out rows.

    Parameters
    ----------
    whole : AllTreesClassifier
        The model with all its trees.
    parts : Parts
        Rows by what they are for.
    bound : float
        Share of the rows that may be answered otherwise than by the model.
    confidence : float or None
        Confidence that was asked for.
    """

    def __init__(
        self,
        whole: AllTreesClassifier,
        parts: Parts,
        bound: float,
        confidence: float | None,
    ) -> None:
        self.whole = whole
        self.parts = parts
        self.bound = bound
        self.confidence = confidence
        self._proof_failed = False
        self._reference = whole.predict(parts.to_compare)
        self._where_fitted = whole.predict(parts.to_order_and_fit)
        self.candidates: list[FittedCandidate] = []
        self._full = _untimed(
            "all trees", "all trees", math.nan, 0.0, whole.forest_.n_trees, True
        )

    @property
    def n_compared(self) -> int:
        """Number of rows that everything is compared on."""
        return len(self._reference)

    @property
    def any_kept_promise(self) -> bool:
        """Whether any candidate kept the bound."""
        return any(one.record.kept_promise for one in self.candidates)

    def add(self, approach: Approach, model: Any, settings: dict[str, Any]) -> None:
        """Add the boldest on a ladder that keeps the bound on the held-out rows.

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
            ladder = approach.ladder(model, settings, self.parts)
            for make in reversed(ladder):
                fitted = make()
                labels, counts = fitted.predict_counted(self.parts.to_compare)
                disagreement = float(np.mean(labels != self._reference))
                kept = self._keeps_bound(disagreement, fitted)
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
        self.candidates.append(FittedCandidate(fitted, ladder, record))

    def _keeps_bound(self, disagreement: float, fitted: Any) -> bool:
        """Whether the bound is kept on all rows so far, or is likely to be proven."""
        if self.confidence is not None:
            n_rows = _num_samples(self.parts.to_prove)
            n_expected = math.ceil(disagreement * n_rows)
            likely = clopper_pearson_upper(n_expected, n_rows, self.confidence)
            return likely <= self.bound
        if disagreement > self.bound:
            return False
        labels = fitted.predict(self.parts.to_order_and_fit)
        return float(np.mean(labels != self._where_fitted)) <= self.bound

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
        record = candidate.record
        faster = _slowness(record) < _slowness(self._full) or not must_be_faster
        return faster and record.trees < self._full.trees

    def proven(
        self, chosen: FittedCandidate, must_be_faster: bool
    ) -> FittedCandidate | None:
        """Return the chosen one as bold as is proven, or None if nothing is.

        Parameters
        ----------
        chosen : FittedCandidate
            Chosen on other rows than those for proof.
        must_be_faster : bool
            Whether it has to be faster than all trees.
        """
        fresh = self.parts.to_prove
        assert self.confidence is not None
        proven = boldest_proven(
            (make() for make in chosen.ladder),
            lambda candidate: candidate.predict(fresh),
            self.whole.predict(fresh),
            max_disagreement=self.bound,
            confidence=self.confidence,
            share=self.parts.usual_share,
            n_given=self.parts.n_given,
        )
        if proven is None:
            self._proof_failed = True
            chosen.record = replace(chosen.record, kept_promise=False)
            return None
        chosen.classifier, certificate = proven
        chosen.classifier.certificate_ = certificate
        _, counts = chosen.classifier.predict_counted(self.parts.to_compare)
        times = microseconds_per_row(
            [self.whole, chosen.classifier], self.parts.to_compare
        )
        self._full = _timed(self._full, *times[0])
        chosen.record = replace(
            _timed(chosen.record, *times[1]),
            aimed_at=chosen.classifier.expected_disagreement_,
            disagreement=certificate.disagreement,
            trees=float(counts.mean()),
        )
        return chosen if self._pays(chosen, must_be_faster) else None

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
            classifier.set_params(estimator=model, confidence=self.confidence)
            classifier.estimator_ = model
        records = [replace(self._full, chosen=chosen is None)]
        records += [
            replace(one.record, chosen=one is chosen) for one in self.candidates
        ]
        classifier.acceleration_ = Comparison(
            tuple(records),
            self.whole.forest_.n_trees,
            len(self._where_fitted),
            self.n_compared,
            self.bound,
            self.confidence,
            self._outcome(chosen),
        )
        return classifier

    def _outcome(self, chosen: FittedCandidate | None) -> str:
        """Return what came out, in words."""
        full, n_trees = self._full, self.whole.forest_.n_trees
        if chosen is not None:
            record = chosen.record
            batch = full.microseconds_batch / record.microseconds_batch
            single = full.microseconds_single / record.microseconds_single
            told = (
                f"Chosen: {record.name}, with {record.trees:.1f} of {n_trees:,} trees "
                f"per row; {batch:.1f} times as fast as all trees in batches, "
                f"{single:.1f} times for single rows."
            )
            proof = chosen.classifier.certificate_
            if proof is not None:
                told += (
                    f"\nIt disagreed on {proof.n_disagreements:,} of {proof.n_rows:,} "
                    f"rows kept for proof: at most {percent(self.bound)} of new rows, "
                    f"with {percent(self.confidence)} confidence."
                )
            return told
        if not self.candidates:
            reason = "Nothing else could be tried"
        elif self._proof_failed:
            reason = "The rows kept for proof did not prove the bound"
        elif not self.any_kept_promise:
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
