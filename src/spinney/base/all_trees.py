"""A classifier that evaluates all trees: the measure of those that evaluate fewer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spinney.base.classifier_fields import classifier_from_parts, classifier_to_parts
from spinney.base.early_exit_classifier import CountingClassifier
from spinney.calibration.promise import Promise
from spinney.persistence.container import Arrays, Settings


class AllTreesClassifier(CountingClassifier):
    """Answer with all trees of the model, in spinney's runtime.

    `spinney.accelerate` returns it where evaluating fewer trees does not pay or cannot
    be promised. It has the methods of the other classifiers, so that it can stand in
    for them.

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
        Trees in the order in which they are evaluated.
    forest_ : Forest
        The ensemble.
    estimator_ : estimator
        The trained ensemble.
    promise_ : Promise
        No answer ever differs from that of the model.
    certificate_ : None
        Nothing has to be proven.
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
        self._train_or_unwrap(X, y, hold_out=None)
        self._set_order()
        return self

    def _set_order(self) -> None:
        self.order_ = np.arange(self.forest_.n_trees)
        self.certificate_ = None
        self.promise_ = Promise("never", 0.0)

    def _evaluate(self, rows: Any) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        raw = self.forest_.engine.raw(rows, self.n_jobs)
        n_evaluated = np.full(len(rows), self.forest_.n_trees, dtype=np.int32)
        return self.forest_.winners(raw), n_evaluated

    def _row_predictor(self) -> Callable[[NDArray[np.floating]], Any]:
        return self.forest_.predictor()

    def _at_levels(self, rows: Any, levels: Iterable[float]) -> Iterator[Self]:
        for _ in levels:
            yield self

    def __spinney_save__(self) -> tuple[Settings, Arrays]:
        return classifier_to_parts(self)

    @classmethod
    def __spinney_load__(cls, settings: Settings, arrays: Arrays) -> Self:
        classifier: Self = classifier_from_parts(cls, settings, arrays)
        classifier._set_order()
        return classifier
