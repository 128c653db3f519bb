"""Probabilities of classifiers that exit early, exact or learnt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _num_samples

from spinney.base.estimator import EnsembleClassifier
from spinney.calibration.exit_probabilities import LEAD, ExitProbabilities
from spinney.calibration.leaf_means import LeafMeans
from spinney.errors import FormatError
from spinney.forest import Forest
from spinney.forest.frames import rows_at
from spinney.persistence.container import Arrays
from spinney.persistence.fields import take_array
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_kinds import DROPPING
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.row_predictors import one_row

# More rows than this hardly change a mean, and all trees are evaluated for them.
MOST_ROWS = 50_000


class EarlyProbabilities(EnsembleClassifier):
    """Gives a classifier that executes an exit rule its probabilities.

    For rows that stay to the end they are those of the model itself. For rows that
    leave they are the mean that the model gave to calibration rows that left in the
    same way; see `spinney.calibration.exit_probabilities`. Where classes are dropped,
    all trees are evaluated, and the prediction is the likeliest class.
    """

    classes_: NDArray[Any]
    rule_: ExitRule
    n_jobs: int | None
    _engine: EarlyExitEngine
    _exit_probabilities: ExitProbabilities | None

    def fit_probabilities(self, X: Any) -> Self:
        """Learn from rows which probabilities rows get that exit early.

        `fit` and `spinney.accelerate` have done so with the rows given to them. It is
        of use for copies with another bound and for files of older versions, or to
        learn from more rows. Labels that are predicted do not change.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows of the kind that will be predicted, without labels. Of more than
            50,000 some are left out.

        Returns
        -------
        self : classifier
            The same classifier.
        """
        self._learn_probabilities(self._rows(X))
        return self

    def predict_proba_full(self, X: Any) -> NDArray[np.floating]:
        """Return the probabilities that all trees give, those of the model itself.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of `classes_`.
        """
        return self._own_probabilities(self._rows(X))

    def _learn_probabilities(self, rows: Any) -> None:
        """Set what rows get that exit early, from converted rows."""
        n_rows = _num_samples(rows)
        if n_rows > MOST_ROWS:
            spread = np.linspace(0, n_rows - 1, MOST_ROWS).astype(np.intp)
            rows = rows_at(rows, spread)
        points, scale = self._points_and_scale()
        self._exit_probabilities = None
        if self.rule_.kind == DROPPING:
            return  # what was left out for a row is not known: all trees are evaluated
        has_some = self.forest_ is None or self.forest_.link != "none"
        if len(self.classes_) > 1 and len(points) and has_some:
            classes, n_evaluated, sums = self._engine.evaluate_with_sums(
                rows, self.n_jobs
            )
            full = self._own_probabilities(rows)
            leaf_means = None
            if len(self.classes_) == 2 and self.forest_ is not None:
                learnt = LeafMeans.learn(
                    self.forest_, self.rule_.order, n_evaluated, rows, full
                )
                if learnt is not None:
                    leaf_means, scores = learnt
                    here = n_evaluated == leaf_means.point
                    sums[here, 0] = scores[here]
                    scale[points == leaf_means.point] = 1.0
            self._exit_probabilities = ExitProbabilities.learn(
                points,
                scale,
                self._probability_limits(),
                (classes, n_evaluated, sums),
                full,
                leaf_means,
            )

    def _points_and_scale(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return exit points, and what makes the sums at them comparable."""
        rule = self.rule_
        points = rule.exit_points
        if rule.at_once:
            points = np.zeros(1, dtype=np.int64)
        averages = self.forest_ is None or self.forest_.aggregation != "sum"
        scale = np.ones(len(points))
        if averages:
            scale = rule.n_trees / np.maximum(points, 1)
        return points, scale

    def _probability_limits(self) -> tuple[float, float]:
        """Return the probabilities of the second of two classes next to a decision."""
        forest = self.forest_
        if forest is None:
            return 0.5, float(np.nextafter(0.5, 1.0))
        if forest.n_outputs != 1:
            raw = np.zeros((1, forest.n_outputs), dtype=forest.engine.sum_dtype)
            half = forest.probabilities(raw).dtype.type(0.5)
            return 0.5, float(np.nextafter(half, half + half))
        dtype = forest.engine.sum_dtype.type
        least = dtype(forest.effective_threshold)
        raw = np.array([[np.nextafter(least, dtype(-np.inf))], [least]], dtype=dtype)
        low, high = np.clip(forest.probabilities(raw)[:, 1], 0.0, 1.0)
        if high == 0.5:  # where the largest of two probabilities is the first
            high = np.nextafter(high, high.dtype.type(1.0))
        if low >= high:  # by rounding
            low = np.nextafter(high, high.dtype.type(0.0))
        return float(low), float(high)

    def _own_probabilities(
        self, rows: Any, sums: NDArray[np.float64] | None = None
    ) -> NDArray[np.floating]:
        """Return the probabilities of the model itself.

        Parameters
        ----------
        rows : array-like
            Converted rows.
        sums : ndarray of shape (n_rows, n_sums), optional
            What all members add up to, where that is known.
        """
        forest: Forest = self.forest_
        return forest.probabilities(forest.engine.raw(rows, self.n_jobs))

    def _probabilities(self, rows: Any) -> NDArray[np.floating]:
        """Return the probabilities of converted rows."""
        if self.rule_.kind == DROPPING:
            answers, _ = self._engine.evaluate(rows, self.n_jobs)
            return self._agreeing(self._own_probabilities(rows), answers)
        classes, n_evaluated, sums = self._engine.evaluate_with_sums(rows, self.n_jobs)
        stays = n_evaluated == self.rule_.n_trees
        last = np.flatnonzero(stays)
        if not stays.all():
            own = self._own_probabilities(rows_at(rows, last), sums[last])
        else:
            own = self._own_probabilities(rows, sums)
        if self._decides_otherwise():
            own = self._agreeing(own, classes[last])
        if stays.all():
            return own
        early = np.flatnonzero(~stays)
        found = np.empty((len(classes), own.shape[1]), dtype=own.dtype)
        found[last] = own
        known = self._known_probabilities()
        if known.leaf_means is not None:
            here = np.flatnonzero(n_evaluated == known.leaf_means.point)
            if len(here):
                sums[here, 0] = known.leaf_means.scores(
                    rows_at(rows, here), self.n_jobs
                )
        found[early] = known.probabilities(
            classes[early], n_evaluated[early], sums[early]
        )
        return found

    def _decides_otherwise(self) -> bool:
        """Whether predictions may differ from what the probabilities imply."""
        hard = self.rule_.voting == "hard"
        return hard and self.forest_ is not None and self.forest_.aggregation != "vote"

    def _agreeing(
        self, own: NDArray[np.floating], classes: NDArray[np.integer]
    ) -> NDArray[np.floating]:
        """Return the model's probabilities, moved where a prediction contradicts."""
        if own.shape[1] == 1:
            return own
        own = own.copy()
        if own.shape[1] == 2:
            low, high = self._probability_limits()
            second = np.where(classes == 1, high, low)
            wrong = (own[:, 1] >= high) != (classes == 1)
            own[wrong] = np.column_stack([1.0 - second, second])[wrong]
            return own
        likeliest = own.argmax(axis=1)
        wrong = np.flatnonzero(likeliest != classes)
        answered, other = classes[wrong], likeliest[wrong]
        most, less = own[wrong, other], own[wrong, answered]
        own[wrong, answered] = most
        own[wrong, other] = np.minimum(less, most * (1.0 - LEAD))
        return own

    def _known_probabilities(self) -> ExitProbabilities:
        """Return what rows get that exit early, or say what to do."""
        if self._exit_probabilities is None:
            msg = (
                "The probabilities of rows that exit early have not been fitted: this "
                "classifier is a copy with another rule, or comes from a file of an "
                "older version. Call fit_probabilities(X) with a few thousand rows; "
                "labels are not needed."
            )
            raise NotFittedError(msg)
        return self._exit_probabilities

    def _row_probabilities(self) -> Callable[[Any], NDArray[np.floating]]:
        """Return what gives the probabilities of one row at a time."""
        forest: Forest = self.forest_
        if len(self.classes_) == 1:
            return forest.predictor("proba")
        if self.rule_.kind == DROPPING:
            return lambda row: self._probabilities(
                forest.engine.rows(one_row(row, forest))
            )[0]
        if forest.encoder is not None:
            forest = forest.engine.encoding.plain  # rows are encoded once, before
        own = forest.predictor("proba")
        # Without exit points no row exits early, and there is nothing to look up.
        lookup: Callable[..., Any] = lambda *_: None  # noqa: E731
        if len(self._points_and_scale()[0]):
            lookup = self._known_probabilities().of_single_rows()

        def at_the_end(row: Any, winner: int) -> NDArray[np.floating]:
            if self._decides_otherwise():
                return self._agreeing(own(row)[None], np.array([winner]))[0]
            return own(row)

        return self._engine.probability_predictor(
            lookup,
            at_the_end,
            lambda X: self._probabilities(forest.engine.rows(X))[0],
        )

    # ---------------------------------------------------------------- files

    def _probabilities_to_arrays(self) -> Arrays:
        """Return what has been learnt as arrays for a file."""
        known = self._exit_probabilities
        if known is None:
            return {}
        arrays = {
            "probability_tables": known.tables.reshape(len(known.points), -1),
            "probability_offsets": known.offsets,
            "probability_scores": known.scores,
            "probability_values": known.values,
        }
        if known.leaf_means is not None:
            arrays["probability_leaf_point"] = np.array([known.leaf_means.point])
            arrays["probability_leaf_means"] = known.leaf_means.means
        return arrays

    def _take_probabilities(self, arrays: Arrays) -> None:
        """Take what has been learnt out of arrays; older files do not have it."""
        self._exit_probabilities = None
        if "probability_tables" not in arrays:
            return
        points, scale = self._points_and_scale()
        tables = take_array(arrays, "probability_tables", np.int64, 2)
        offsets = take_array(arrays, "probability_offsets", np.int64, 1)
        scores = take_array(arrays, "probability_scores", np.float64, 1)
        values = take_array(arrays, "probability_values", np.float64, 1)
        n_classes = len(self.classes_)
        n_columns = 1 if n_classes == 2 else n_classes
        if n_classes < 2 or tables.shape != (len(points), 2 * n_columns):
            msg = "its probabilities of early exits do not belong to its rule"
            raise FormatError(msg)
        leaf_means = None
        if "probability_leaf_means" in arrays:
            point = take_array(arrays, "probability_leaf_point", np.int64, 1)
            means = take_array(arrays, "probability_leaf_means", np.float64, 1)
            here = np.isin(points, point) & (points > 0)
            of_two = n_classes == 2 and LeafMeans.suits(self.forest_)
            if len(point) != 1 or not here.any() or not of_two:
                msg = "its means of leaves do not belong to its rule"
                raise FormatError(msg)
            leaf_means = LeafMeans.of(
                self.forest_, self.rule_.order, int(point[0]), np.array(means)
            )
            scale[here] = 1.0
        known = ExitProbabilities(
            points,
            scale,
            n_classes,
            self._probability_limits(),
            np.array(tables).reshape(len(points), n_columns, 2),
            np.array(offsets),
            np.array(scores),
            np.array(values),
            leaf_means,
        )
        known.check()
        self._exit_probabilities = known
