"""Ways of asking a model, compared on rows kept back: bounds first, then time."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from spinney.base.all_trees import AllTreesClassifier
from spinney.base.comparison import Acceleration, Trial
from spinney.calibration.bounds import boldest_proven, clopper_pearson_upper
from spinney.errors import SpinneyWarning

# What is timed, and how often.
BATCH = 10_000
SINGLE_ROWS = 200
ROUNDS = 5

# What makes fitted classifiers, from the most cautious to the boldest.
Candidates = list[Callable[[], Any]]


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
    share_to_prove : float
        Which share of all rows these are.
    """

    to_order: Any
    to_fit: Any
    to_order_and_fit: Any
    to_compare: Any
    to_prove: Any
    share_to_prove: float


@dataclass(frozen=True)
class Way:
    """A way of asking fewer trees.

    Parameters
    ----------
    name, method : str
        As in `Trial`.
    candidates : callable
        Takes the model, settings and `Parts`, and returns what makes fitted
        classifiers, from the most cautious to the boldest.
    """

    name: str
    method: str
    candidates: Callable[[Any, dict[str, Any], Parts], Candidates]


@dataclass
class Entry:
    """What one way of asking has come to."""

    fitted: Any
    candidates: Candidates  # as far as the one entered
    trial: Trial


class Contest:
    """Ways of asking a model, compared on rows kept back.

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
        self.entries: list[Entry] = []
        n_trees = float(whole.forest_.n_trees)
        self._full = Trial(
            "all trees",
            "all trees",
            math.nan,
            0.0,
            n_trees,
            math.nan,
            math.nan,
            True,
            False,
        )

    @property
    def n_compared(self) -> int:
        """Number of rows that everything is compared on."""
        return len(self._reference)

    @property
    def any_kept_promise(self) -> bool:
        """Whether asking fewer trees kept the bound in any way."""
        return any(entry.trial.kept_promise for entry in self.entries)

    def enter(self, way: Way, model: Any, settings: dict[str, Any]) -> None:
        """Take the boldest candidate that keeps the bound on the rows kept back.

        Parameters
        ----------
        way : Way
            What to try.
        model : estimator or Forest
            The trained model.
        settings : dict
            Parameters that all classifiers have.
        """
        with _no_advice():
            candidates = way.candidates(model, settings, self.parts)
            for make in reversed(candidates):
                fitted = make()
                labels, counts = fitted.predict_counted(self.parts.to_compare)
                disagreement = float(np.mean(labels != self._reference))
                kept = self._keeps_bound(disagreement, fitted)
                if kept:
                    break
        if not candidates:
            return
        trial = Trial(
            way.name,
            way.method,
            fitted.expected_disagreement_,
            disagreement,
            float(counts.mean()),
            math.nan,
            math.nan,
            kept,
            False,
        )
        self.entries.append(Entry(fitted, candidates, trial))

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
        """Measure how long all trees take, and each entry that kept the bound."""
        runners = [entry for entry in self.entries if entry.trial.kept_promise]
        classifiers = [self.whole, *(entry.fitted for entry in runners)]
        times = _microseconds(classifiers, self.parts.to_compare)
        self._full = _timed(self._full, *times[0])
        for entry, (batch, single) in zip(runners, times[1:], strict=True):
            entry.trial = _timed(entry.trial, batch, single)

    def winner(self, must_be_faster: bool) -> Entry | None:
        """Return the fastest entry that kept the bound, if there is one.

        Parameters
        ----------
        must_be_faster : bool
            Whether it has to be faster than all trees.
        """
        runners = [entry for entry in self.entries if entry.trial.kept_promise]
        if not runners:
            return None
        best = min(runners, key=lambda entry: _slowness(entry.trial))
        return best if self._pays(best, must_be_faster) else None

    def _pays(self, entry: Entry, must_be_faster: bool) -> bool:
        """Whether fewer trees are asked and, if it must be so, in less time."""
        trial = entry.trial
        faster = _slowness(trial) < _slowness(self._full) or not must_be_faster
        return faster and trial.trees < self._full.trees

    def proven(self, winner: Entry, must_be_faster: bool) -> Entry | None:
        """Return the winner as boldly as is proven, or None if nothing is.

        Parameters
        ----------
        winner : Entry
            Chosen on other rows than those for proof.
        must_be_faster : bool
            Whether it has to be faster than all trees.
        """
        fresh = self.parts.to_prove
        assert self.confidence is not None
        proven = boldest_proven(
            (make() for make in winner.candidates),
            lambda candidate: candidate.predict(fresh),
            self.whole.predict(fresh),
            max_disagreement=self.bound,
            confidence=self.confidence,
            share=self.parts.share_to_prove,
        )
        if proven is None:
            self._proof_failed = True
            winner.trial = replace(winner.trial, kept_promise=False)
            return None
        winner.fitted, certificate = proven
        winner.fitted.certificate_ = certificate
        _, counts = winner.fitted.predict_counted(self.parts.to_compare)
        times = _microseconds([self.whole, winner.fitted], self.parts.to_compare)
        self._full = _timed(self._full, *times[0])
        winner.trial = replace(
            _timed(winner.trial, *times[1]),
            aimed_at=winner.fitted.expected_disagreement_,
            disagreement=certificate.disagreement,
            trees=float(counts.mean()),
        )
        return winner if self._pays(winner, must_be_faster) else None

    def result(self, winner: Entry | None) -> Any:
        """Return the classifier that was kept, with the comparison.

        Parameters
        ----------
        winner : Entry or None
            What was kept; None for all trees.
        """
        chosen: Any = self.whole if winner is None else winner.fitted
        if winner is not None:
            model = self.whole.estimator
            chosen.set_params(estimator=model, confidence=self.confidence)
            chosen.estimator_ = model
        trials = [replace(self._full, chosen=winner is None)]
        trials += [
            replace(entry.trial, chosen=entry is winner) for entry in self.entries
        ]
        chosen.acceleration_ = Acceleration(
            tuple(trials),
            self.whole.forest_.n_trees,
            len(self._where_fitted),
            self.n_compared,
            self.bound,
            self.confidence,
            self._outcome(winner),
        )
        return chosen

    def _outcome(self, winner: Entry | None) -> str:
        """Return what came out, in words."""
        full, n_trees = self._full, self.whole.forest_.n_trees
        if winner is not None:
            trial = winner.trial
            batch = full.microseconds_batch / trial.microseconds_batch
            single = full.microseconds_single / trial.microseconds_single
            told = (
                f"Kept: {trial.name}, with {trial.trees:.1f} of {n_trees:,} trees per "
                f"row; {batch:.1f} times as fast as all trees in batches, "
                f"{single:.1f} times for single rows."
            )
            proof = winner.fitted.certificate_
            if proof is not None:
                told += (
                    f"\nIt disagreed on {proof.n_disagreements:,} of {proof.n_rows:,} "
                    f"rows kept for proof: at most {self.bound:.4g} of new rows, with "
                    f"a confidence of {self.confidence:g}."
                )
            return told
        if not self.entries:
            reason = "Nothing else could be tried"
        elif self._proof_failed:
            reason = "The rows kept for proof did not prove the bound"
        elif not self.any_kept_promise:
            reason = "No other way of asking kept the bound"
        else:
            reason = "No other way of asking that kept the bound was faster"
        return f"{reason}, so all {n_trees:,} trees are asked."


def _timed(trial: Trial, batch: float, single: float) -> Trial:
    """Return a trial with the time per row, in batches and alone."""
    return replace(trial, microseconds_batch=batch, microseconds_single=single)


def _slowness(trial: Trial) -> float:
    """Return the time of batches and of single rows as one number."""
    return math.sqrt(trial.microseconds_batch * trial.microseconds_single)


def _microseconds(classifiers: Sequence[Any], X: Any) -> list[tuple[float, float]]:
    """Return the shortest times per row, in batches and alone, measured in turns."""
    rows = classifiers[0]._rows(X)[:BATCH]
    preprocessed = classifiers[0]._has_preprocessing()
    # Repeated if there are fewer: a batch of a few thousand is mostly overhead.
    numbers = np.resize(np.arange(len(rows)), BATCH)
    batch = _safe_indexing(X, numbers)
    singles: Any = rows[:SINGLE_ROWS]
    askers: list[Callable[[Any], Any]] = [one.predictor() for one in classifiers]
    if preprocessed:
        # Steps before the last one cost the most then; they are part of the answer.
        n_single = min(len(rows), SINGLE_ROWS // 10)
        singles = [_safe_indexing(X, [number]) for number in range(n_single)]
        askers = [one.predict for one in classifiers]
    best = np.full((len(classifiers), 2), np.inf)
    for _ in range(ROUNDS):
        for place, classifier in enumerate(classifiers):
            took = (
                _seconds(classifier.predict, [batch]) / BATCH,
                _seconds(askers[place], singles) / len(singles),
            )
            best[place] = np.minimum(best[place], took)
    return [(1e6 * float(one), 1e6 * float(other)) for one, other in best]


def _seconds(ask: Callable[[Any], Any], inputs: Sequence[Any]) -> float:
    """Return how long it takes to ask about each of the inputs."""
    start = time.perf_counter()
    for one in inputs:
        ask(one)
    return time.perf_counter() - start


@contextmanager
def _no_advice() -> Iterator[None]:
    """Keep back what candidates would warn of: another may do better."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpinneyWarning)
        yield
