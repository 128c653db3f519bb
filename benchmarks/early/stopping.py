"""Early exit fitted to a model: what it evaluates, and how often it disagrees."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

import spinney
from benchmarks.early.cases import Rows, Way
from spinney.cascade.classifier import CascadeClassifier

# LightGBM's early stopping looks after every so many trees, and stops rows whose
# doubled raw score is beyond the margin. Frequencies and margins to choose from.
FREQUENCIES = (1, 2, 5, 10, 20)
MARGINS = np.geomspace(0.5, 50.0, 128)


@dataclass(frozen=True)
class Fitted:
    """Classifiers of one kind, fitted several times, and what came out.

    Parameters
    ----------
    way : Way
        How it stops.
    classifier : estimator
        The first of them; the one that is timed.
    fit_seconds : float
        How long its `fit` took.
    shares, disagreements, own_disagreements : list of float
        For each fit, over held-out rows: trees evaluated, as a share of all; how often
        the prediction differs from that of the whole ensemble, and from the model's own
        `predict`. The last two differ only for hard votes.
    """

    way: Way
    classifier: Any
    fit_seconds: float
    shares: list[float]
    disagreements: list[float]
    own_disagreements: list[float]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for a JSON file."""
        return {
            "name": self.way.name,
            "level": self.way.level,
            "fit_seconds": self.fit_seconds,
            "checks": self.classifier.exit_points_.tolist(),
            "shares": self.shares,
            "disagreements": self.disagreements,
            "own_disagreements": self.own_disagreements,
        }


def whole_ensemble(estimator: Any, voting: str) -> spinney.Forest:
    """Return all trees of a model; for hard votes, as their majority decides."""
    forest = spinney.read_model(estimator)
    return forest.replace(aggregation="vote") if voting == "hard" else forest


def fit_votes(
    estimator: Any, rows: Rows, voting: str, way: Way, seeds: Sequence[int]
) -> Fitted:
    """Stop the vote of a forest early, once for each seed of the order of its trees."""
    whole = whole_ensemble(estimator, voting).predict(rows.X_test)
    own = np.asarray(estimator.predict(rows.X_test))

    def fit(seed: int) -> Any:
        return spinney.SequentialVotingClassifier(
            FrozenEstimator(estimator),
            max_disagreement=way.level,
            voting=voting,
            random_state=seed,
        ).fit(rows.X_cal)

    return _fitted(way, fit, seeds, [(rows.X_test, whole, own)] * len(seeds))


def fit_cascade(estimator: Any, rows: Rows, way: Way, seeds: Sequence[int]) -> Fitted:
    """Stop the sum of boosted trees early, once for each draw of calibration rows.

    The order of the trees is chosen on the training rows, so that nothing in it is
    random; between fits, rows to calibrate on and rows to predict are mixed.
    """
    draws = {
        seed: rows if i == 0 else rows.parted_again(seed)
        for i, seed in enumerate(seeds)
    }
    order: list[NDArray[np.int64]] = []

    def fit(seed: int) -> Any:
        classifier = CascadeClassifier(
            FrozenEstimator(estimator),
            max_disagreement=way.level,
            rule=way.rule,
            order=order[0] if order else "qwyc",
            random_state=0,
        )
        classifier.fit(draws[seed].X_cal, X_order=rows.X_train)
        order.append(classifier.order_)
        return classifier

    judged = []
    for draw in draws.values():
        own = np.asarray(estimator.predict(draw.X_test))
        judged.append((draw.X_test, own, own))
    return _fitted(way, fit, seeds, judged)


def _fitted(
    way: Way,
    fit: Callable[[int], Any],
    seeds: Sequence[int],
    judged: Sequence[tuple[NDArray, NDArray, NDArray]],
) -> Fitted:
    """Fit and predict for each seed; `judged` holds rows, whole and own predictions."""
    classifiers, seconds, n_evaluated = [], [], []
    differs: list[tuple[float, float]] = []
    for seed, (X, whole, own) in zip(seeds, judged, strict=True):
        started = time.perf_counter()
        classifiers.append(fit(seed))
        seconds.append(time.perf_counter() - started)
        labels, counts = classifiers[-1].predict_counted(X)
        n_evaluated.append(float(counts.mean()))
        differs.append((float(np.mean(labels != whole)), float(np.mean(labels != own))))
    n_trees = classifiers[0].forest_.n_trees
    return Fitted(
        way=way,
        classifier=classifiers[0],
        fit_seconds=seconds[0],
        shares=[mean / n_trees for mean in n_evaluated],
        disagreements=[from_whole for from_whole, _ in differs],
        own_disagreements=[from_own for _, from_own in differs],
    )


# --------------------------------------------------------- LightGBM's own


@dataclass(frozen=True)
class LightGBMStop:
    """LightGBM's `pred_early_stop`, with settings found on calibration rows."""

    predict: Callable[[NDArray], NDArray]
    frequency: int
    margin: float
    disagreement_cal: float
    disagreement: float

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for a JSON file."""
        return {
            "frequency": self.frequency,
            "margin": self.margin,
            "disagreement_cal": self.disagreement_cal,
            "disagreement": self.disagreement,
        }


def stop_lightgbm(estimator: Any, rows: Rows, allowed: float) -> LightGBMStop:
    """Return LightGBM's early stopping at the disagreement `allowed`, or below.

    For each frequency the smallest margin is taken that disagrees on at most this
    share of the calibration rows; among these settings, the quickest.
    """
    booster = estimator.booster_

    def predicting(frequency: int, margin: float) -> Callable[[NDArray], NDArray]:
        return lambda X: booster.predict(
            X,
            num_threads=1,
            validate_features=False,
            pred_early_stop=True,
            pred_early_stop_freq=frequency,
            pred_early_stop_margin=margin,
        )

    def disagreement(predict: Callable[[NDArray], NDArray], X: NDArray) -> float:
        labels = estimator.classes_[(predict(X) > 0.5).astype(int)]
        return float(np.mean(labels != np.asarray(estimator.predict(X))))

    best: tuple[float, LightGBMStop] | None = None
    for frequency in FREQUENCIES:
        # Wider margins disagree on fewer rows: halve the range until one is left.
        low, high = 0, len(MARGINS) - 1
        while low < high:
            middle = (low + high) // 2
            found = disagreement(predicting(frequency, MARGINS[middle]), rows.X_cal)
            low, high = (low, middle) if found <= allowed else (middle + 1, high)
        margin = float(MARGINS[low])
        predict = predicting(frequency, margin)
        seconds = min(_seconds(predict, rows.X_cal) for _ in range(3))
        if best is None or seconds < best[0]:
            on_cal = disagreement(predict, rows.X_cal)
            on_test = disagreement(predict, rows.X_test)
            best = seconds, LightGBMStop(predict, frequency, margin, on_cal, on_test)
    assert best is not None
    return best[1]


def _seconds(predict: Callable[[NDArray], NDArray], X: NDArray) -> float:
    started = time.perf_counter()
    predict(X)
    return time.perf_counter() - started
