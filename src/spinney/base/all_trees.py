"""A classifier that asks all trees: the measure of those that ask fewer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from spinney.base.classifier_fields import classifier_from_parts, classifier_to_parts
from spinney.base.early_exit_classifier import EarlyStoppingClassifier
from spinney.persistence.container import Arrays, Settings


class AllTreesClassifier(EarlyStoppingClassifier):
    """Answer with all trees of the model, in spinney's runtime.

    `spinney.accelerate` returns it where asking fewer trees does not pay or cannot be
    promised. It has the methods of the other classifiers, so that it can take their
    place.

    Parameters
    ----------
    estimator : estimator or Forest
        The ensemble. ``FrozenEstimator(model)`` for a trained model; an unfitted
        estimator is trained by `fit`.
    n_jobs : int, default=None
        Number of threads; None means one, -1 all cores.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    order_ : ndarray of shape (n_trees,)
        Trees in the order in which they are asked.
    forest_ : Forest
        The ensemble.
    estimator_ : estimator
        The trained ensemble.
    certificate_ : None
        Nothing has to be proven: the answers are those of the model.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if `X` was a data frame.

    See Also
    --------
    spinney.accelerate : Looks for something faster.

    Examples
    --------
    >>> import spinney
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> same = spinney.AllTreesClassifier(FrozenEstimator(model)).fit(X)
    >>> bool((same.predict(X) == model.predict(X)).all())
    True
    """

    # What others promise; here nothing ever differs, on any rows.
    max_disagreement = 0.0
    confidence = None

    def __init__(self, estimator: Any, *, n_jobs: int | None = None) -> None:
        self.estimator = estimator
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> AllTreesClassifier:
        """Read the model, or train it first.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows of the kind that will be predicted, or to train on.
        y : array-like of shape (n_rows,), default=None
            Labels; needed only to train the estimator.

        Returns
        -------
        self : AllTreesClassifier
            The fitted classifier.
        """
        self._train_or_unwrap(X, y, hold_out=False)
        self._adopt()
        return self

    def _adopt(self) -> None:
        self.order_ = np.arange(self.forest_.n_trees)
        self.certificate_ = None

    def _ask(self, rows: Any) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        raw = self.forest_.engine.raw(rows, self.n_jobs)
        counts = np.full(len(rows), self.forest_.n_trees, dtype=np.int32)
        return self.forest_.winners(raw), counts

    def _at_levels(self, X: Any, levels: Iterable[float]) -> Iterator[Self]:
        for _ in levels:
            yield self

    def predictor(self) -> Callable[[NDArray[np.floating]], Any]:
        """Return a thin callable that answers one row at a time, for serving.

        Returns
        -------
        predictor : callable
            ``predictor(row)`` takes a one-dimensional array of `n_features_in_`
            numbers, float32 or the type that the model compares in, and returns the
            label. Nothing beyond type and length is checked, which makes it fast.
        """
        check_is_fitted(self)
        if self._has_preprocessing():
            return lambda row: self.predict(np.asarray(row).reshape(1, -1))[0]
        return self.forest_.predictor()

    def __spinney_save__(self) -> tuple[Settings, Arrays]:
        return classifier_to_parts(self)

    @classmethod
    def __spinney_load__(cls, settings: Settings, arrays: Arrays) -> AllTreesClassifier:
        classifier: AllTreesClassifier = classifier_from_parts(cls, settings, arrays)
        classifier._adopt()
        return classifier
