"""Base class of classifiers whose features have a cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from spinney.base.estimator import ReportMixin
from spinney.pruning.costs import Purchases
from spinney.pruning.lazy import Fetch, LazyPrediction, predict_lazily


class FeatureCostClassifier(ReportMixin, ClassifierMixin, BaseEstimator, ABC):
    """Base of the classifiers that predict with a forest and pay for its features.

    A subclass sets `forest_` and `purchases_` in `fit`.
    """

    forest_: Any
    purchases_: Purchases
    n_jobs: int | None

    # Whether rows with NaN or infinite values are refused: a forest trained without
    # them has no sensible prediction for them.
    _finite_only = False

    @abstractmethod
    def _rows(self, X: Any) -> NDArray[np.floating]:
        """Return rows converted for `forest_`, or raise."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row with `forest_`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels; the first of them if several are equally likely.
        """
        rows = self._rows(X)  # first, because it raises if the classifier is not fitted
        return self.forest_.predictions(self.forest_.engine.raw(rows, self.n_jobs))

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return the probability of each class by `forest_`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of `classes_`.
        """
        rows = self._rows(X)
        return self.forest_.probabilities(self.forest_.engine.raw(rows, self.n_jobs))

    def features_used(self, X: Any) -> NDArray[np.bool_]:
        """Return the columns that `forest_` needs, row by row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        used : ndarray of shape (n_rows, n_columns), dtype=bool
            True where any tree compares a column on the path of a row.
        """
        from spinney.pruning.kernels import describe_trees
        from spinney.pruning.measure_kernels import mark_features

        rows = self._rows(X)
        forest = self.forest_
        used = np.zeros((len(rows), forest.n_features), dtype=np.bool_)
        parent = describe_trees(
            forest.tree_offsets, forest.left, forest.right, forest.feature
        )[1]
        mark_features(
            forest.engine.leaves(rows, self.n_jobs), parent, forest.feature, used
        )
        return used

    def feature_cost(self, X: Any) -> NDArray[np.float64]:
        """Return the cost of the features that each row needs.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        cost : ndarray of shape (n_rows,)
            Sum of the costs of the features on the paths of each row, each counted
            once; columns that are bought together count once, too.
        """
        return self.purchases_.cost_of(self.features_used(X))

    def predict_lazily(self, fetch: Fetch, n_rows: int) -> LazyPrediction:
        """Predict rows whose features are bought one by one, as the trees need them.

        Parameters
        ----------
        fetch : callable
            ``fetch(feature, rows)`` returns the values of one feature (an int, the
            number of the column) for some rows (an ascending array of row numbers), in
            the order of `rows`. It is called at most once for any feature of any row.
        n_rows : int
            Number of rows; they are called 0 to ``n_rows - 1``.

        Returns
        -------
        prediction : LazyPrediction
            `labels` and `probabilities` as `predict` and `predict_proba` give them,
            `cost` as `feature_cost`, the mask `bought`, and the number of calls.
        """
        check_is_fitted(self)
        return predict_lazily(
            self.forest_,
            fetch,
            n_rows,
            purchases=self.purchases_,
            finite_only=self._finite_only,
            n_jobs=self.n_jobs,
        )
