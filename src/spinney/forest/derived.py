"""Models whose prediction is computed from the sums of a forest in a way of its own.

A `Forest` has one score per class, and the largest wins. These do something else with
what their trees return: a weighted vote that is normalised first, a weighted median, a
score of isolation, several labels at once. All trees are evaluated; the arithmetic
behind them is that of the library, operation by operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidForestError
from spinney.forest.forest import Forest
from spinney.forest.links import logistic

# Rows whose trees are looked at one by one at a time.
BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Derived:
    """Base: a forest, and what is computed from it."""

    forest: Forest

    # The name of the kind in a file; never changes.
    kind: ClassVar[str]

    @property
    def n_features(self) -> int:
        """Number of columns of a row."""
        return self.forest.n_features

    def _raw(self, X: Any, n_jobs: int | None) -> NDArray[np.floating]:
        engine = self.forest.engine
        return engine.raw(engine.rows(X), n_jobs)


@dataclass(frozen=True, eq=False)
class WeightedVote(Derived):
    """AdaBoost of scikit-learn: trees vote with weights, the sums are normalised.

    Parameters
    ----------
    forest : Forest
        What each tree adds: with two classes one column, the score of the second; with
        more, one per class.
    classes_ : ndarray of shape (n_classes,)
        Labels, at least two.
    total : float
        Sum of the weights.
    """

    classes_: NDArray[Any]
    total: float

    kind: ClassVar[str] = "weighted_vote"

    def __post_init__(self) -> None:
        n_classes = len(self.classes_)
        if self.forest.n_outputs != (1 if n_classes == 2 else n_classes):
            msg = f"a weighted vote of {n_classes} classes needs a sum for each."
            raise InvalidForestError(msg)

    def decision_function(
        self, X: Any, n_jobs: int | None = None
    ) -> NDArray[np.floating]:
        """Return normalised scores: one, or one per class if there are several."""
        scores = self._raw(X, n_jobs) / self.total
        # scikit-learn adds the score of the second class and minus that of the first,
        # which are the same number.
        return 2.0 * scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any, n_jobs: int | None = None) -> NDArray[Any]:
        """Return labels."""
        scores = self.decision_function(X, n_jobs)
        if len(self.classes_) == 2:
            return self.classes_.take(scores > 0)
        return self.classes_.take(scores.argmax(axis=1))

    def predict_proba(self, X: Any, n_jobs: int | None = None) -> NDArray[np.floating]:
        """Return the probability of each class."""
        from sklearn.utils.extmath import softmax

        scores = self.decision_function(X, n_jobs)
        if len(self.classes_) == 2:
            scores = np.vstack([-scores, scores]).T / 2
        else:
            scores = scores / (len(self.classes_) - 1)
        found: NDArray[np.floating] = softmax(scores, copy=False)
        return found


@dataclass(frozen=True, eq=False)
class WeightedMedian(Derived):
    """AdaBoost of scikit-learn for numbers: the weighted median of the trees.

    Parameters
    ----------
    forest : Forest
        A regressor.
    weights : ndarray of shape (n_trees,)
        Weight of each tree.
    """

    weights: NDArray[np.float64]

    kind: ClassVar[str] = "weighted_median"

    def __post_init__(self) -> None:
        if self.weights.shape != (self.forest.n_trees,):
            msg = f"{self.forest.n_trees} trees need as many weights."
            raise InvalidForestError(msg)

    def predict(self, X: Any, n_jobs: int | None = None) -> NDArray[np.floating]:
        """Return numbers."""
        engine = self.forest.engine
        rows = engine.rows(X)
        if hasattr(rows, "by_block"):  # sparse
            return rows.by_block(lambda block: self._medians(block, n_jobs))
        parts = [
            self._medians(rows[start : start + BLOCK_ROWS], n_jobs)
            for start in range(0, max(len(rows), 1), BLOCK_ROWS)
        ]
        return np.concatenate(parts)

    def _medians(self, rows: Any, n_jobs: int | None) -> NDArray[np.floating]:
        numbers = self.forest.engine.scores(rows, n_jobs)
        order = np.argsort(numbers, axis=1)
        below = np.cumsum(self.weights[order], axis=1)
        reached = below >= 0.5 * below[:, -1][:, np.newaxis]
        each = np.arange(len(numbers))
        return numbers[each, order[each, reached.argmax(axis=1)]]


@dataclass(frozen=True, eq=False)
class Isolation(Derived):
    """An isolation forest of scikit-learn: rows that are easy to part are outliers.

    Parameters
    ----------
    forest : Forest
        Of the classes -1 and 1; the trees add up the depths at which a row ends.
    denominator : float
        What the sum of depths is divided by.
    offset : float
        Score from which a row is an inlier.
    """

    denominator: float
    offset: float

    kind: ClassVar[str] = "isolation"

    def __post_init__(self) -> None:
        labels = () if self.forest.classes is None else self.forest.classes.tolist()
        if list(labels) != [-1, 1]:
            msg = "an isolation forest needs the classes -1 and 1."
            raise InvalidForestError(msg)

    @property
    def classes_(self) -> NDArray[Any]:
        """Outlier (-1) and inlier (1)."""
        labels: NDArray[Any] = self.forest.classes  # type: ignore[assignment]
        return labels

    @property
    def offset_(self) -> float:
        """What `decision_function` takes off the scores."""
        return self.offset

    def score_samples(self, X: Any, n_jobs: int | None = None) -> NDArray[np.floating]:
        """Return scores; the lower, the more abnormal."""
        return isolation_scores(self._raw(X, n_jobs)[:, 0], self.denominator)

    def decision_function(
        self, X: Any, n_jobs: int | None = None
    ) -> NDArray[np.floating]:
        """Return scores that are negative for outliers."""
        return self.score_samples(X, n_jobs) - self.offset

    def predict(self, X: Any, n_jobs: int | None = None) -> NDArray[Any]:
        """Return -1 for outliers and 1 for inliers."""
        return np.where(self.decision_function(X, n_jobs) < 0, -1, 1)


def isolation_scores(
    depths: NDArray[np.floating], denominator: float
) -> NDArray[np.floating]:
    """Return scores of isolation, negative, for sums of depths."""
    scores: NDArray[np.floating] = -(2 ** (-(depths / denominator)))
    return scores


@dataclass(frozen=True, eq=False)
class SeveralLabels(Derived):
    """Trees and forests of scikit-learn that predict several labels at once.

    Parameters
    ----------
    forest : Forest
        The mean over trees of the probabilities of all labels, side by side.
    labels : tuple of ndarray
        The classes of each label.
    """

    labels: tuple[NDArray[Any], ...]

    kind: ClassVar[str] = "several_labels"

    def __post_init__(self) -> None:
        if not self.labels or self.forest.n_outputs != sum(map(len, self.labels)):
            msg = "several labels need an output for each class of each label."
            raise InvalidForestError(msg)

    @property
    def classes_(self) -> list[NDArray[Any]]:
        """The classes of each label."""
        return list(self.labels)

    def predict_proba(
        self, X: Any, n_jobs: int | None = None
    ) -> list[NDArray[np.floating]]:
        """Return the probabilities of the classes, for one label after another."""
        ends = np.cumsum([len(classes) for classes in self.labels])[:-1]
        parts = np.split(self._raw(X, n_jobs), ends, axis=1)
        return [np.ascontiguousarray(part) for part in parts]

    def predict(self, X: Any, n_jobs: int | None = None) -> NDArray[Any]:
        """Return labels, one column for each."""
        columns = [
            classes.take(part.argmax(axis=1))
            for classes, part in zip(
                self.labels, self.predict_proba(X, n_jobs), strict=True
            )
        ]
        answers = np.empty((len(columns[0]), len(columns)), dtype=self.labels[0].dtype)
        for index, column in enumerate(columns):
            answers[:, index] = column
        return answers


@dataclass(frozen=True, eq=False)
class LabelSet(Derived):
    """XGBoost with several labels of two classes: a probability for each.

    Parameters
    ----------
    forest : Forest
        A raw score for each label.
    threshold : float
        The smallest raw score with which a row has a label.
    as_booster : bool
        Whether `predict` returns probabilities, as that of a Booster does.
    """

    threshold: float
    as_booster: bool

    kind: ClassVar[str] = "label_set"

    @property
    def classes_(self) -> NDArray[Any]:
        """The two classes of each label: 0 and 1."""
        return np.arange(2)

    def predict_proba(self, X: Any, n_jobs: int | None = None) -> NDArray[np.floating]:
        """Return the probability of each label; the columns do not add up to one."""
        return logistic(self._raw(X, n_jobs))

    def predict(self, X: Any, n_jobs: int | None = None) -> NDArray[Any]:
        """Return whether a row has each label, as 0 or 1."""
        raw = self._raw(X, n_jobs)
        if self.as_booster:
            return logistic(raw)
        return (raw >= raw.dtype.type(self.threshold)).astype(np.float64)
