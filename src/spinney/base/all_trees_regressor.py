"""A drop-in for regressors and rankers that evaluates all trees."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags, check_array, check_consistent_length, get_tags
from sklearn.utils.validation import check_is_fitted

from spinney.base.classifier_fields import classifier_to_parts, estimator_from_parts
from spinney.base.combined import whole_model
from spinney.base.drop_in import DropIn, RowAnswer
from spinney.base.estimator import is_trained
from spinney.errors import FormatError, InvalidArgumentError, UnsupportedModelError
from spinney.persistence.container import Arrays, Settings
from spinney.readers.wrapped import parted


class AllTreesRegressor(DropIn, RegressorMixin, BaseEstimator):
    """Predict with all trees of a regressor or ranker, exactly as the model does.

    ``spinney.accelerate(model)`` returns it.

    Parameters
    ----------
    estimator : estimator or Forest
        The ensemble. ``FrozenEstimator(model)`` for a trained model; an unfitted
        estimator is trained by `fit`.
    n_jobs : int, default=None
        Number of threads; None means one, -1 all cores.

    Attributes
    ----------
    forest_ : Forest or None
        The ensemble.
    combined_ : object or None
        The model, where it is not one forest: voting, stacking, a transformed target
        (with drop-ins for members that are trees), AdaBoost.
    n_trees_ : int
        Number of trees, those of all members together.
    estimator_ : estimator
        The trained ensemble.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if the model or `X` has them.

    See Also
    --------
    AllTreesClassifier : The same for classifiers.
    spinney.accelerate : Builds it from a model.

    Examples
    --------
    >>> import spinney
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RandomForestRegressor(10, random_state=0).fit(X, y)
    >>> same = spinney.accelerate(model)
    >>> bool((same.predict(X) == model.predict(X)).all())
    True
    """

    _takes_sparse = True

    def __init__(self, estimator: Any, *, n_jobs: int | None = None) -> None:
        self.estimator = estimator
        self.n_jobs = n_jobs

    def fit(self, X: Any = None, y: Any = None) -> AllTreesRegressor:
        """Read the model, or train it first.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), default=None
            Rows like those to be predicted, or to train on. A trained model needs none.
        y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Targets; needed only to train the estimator.

        Returns
        -------
        self : AllTreesRegressor
            The fitted regressor.
        """
        if is_trained(self.estimator):
            whole = whole_model(parted(self.estimator).ensemble, self.n_jobs)
            if X is None:
                return self._adopt(whole)
            self._checked_rows(X)
            self.estimator_ = self.estimator
        else:
            self._train(X, y)
            whole = whole_model(parted(self.estimator_).ensemble, self.n_jobs)
        self._set_whole(whole)
        self._refuse_classes()
        return self

    def _adopt(self, whole: Any) -> AllTreesRegressor:
        """Take over a trained model that has been read."""
        self._take_over(whole)
        self._refuse_classes()
        return self

    def _refuse_classes(self) -> None:
        whole = self.combined_ if self.forest_ is None else self.forest_
        if getattr(whole, "classes_", None) is not None:
            source = getattr(whole, "source", "") or type(whole).__name__
            msg = (
                f"AllTreesRegressor needs a regressor or ranker, got a classifier "
                f"({source}). Use AllTreesClassifier."
            )
            raise UnsupportedModelError(msg)

    def _train(self, X: Any, y: Any) -> None:
        if y is None:
            # scikit-learn's common checks look for the first words.
            msg = (
                "requires y to be passed, but the target y is None: the estimator "
                f"{type(self.estimator).__name__} is not trained yet. Pass "
                "targets, or FrozenEstimator(model) for a model that is trained."
            )
            raise InvalidArgumentError(msg)
        X = self._checked_rows(X)
        y = check_array(y, ensure_2d=False, input_name="y")
        check_consistent_length(X, y)
        self.estimator_ = clone(self.estimator).fit(X, y)

    def predict(self, X: Any) -> NDArray[np.floating]:
        """Predict as the model's own `predict` does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        numbers : ndarray of shape (n_rows,) or (n_rows, n_targets)
            What the model predicts; for a ranker, its scores.
        """
        if self._is_combined():
            return self._answer("predict", X)
        raw: NDArray[np.floating] = self.forest_.model_predictions(self._raw(X))
        return raw

    def predictor(self) -> RowAnswer:
        """Return a lightweight callable that predicts one row at a time.

        Returns
        -------
        predictor : callable
            ``predictor(row)`` takes the same rows as that of `AllTreesClassifier`, and
            returns what `predict` returns.
        """
        check_is_fitted(self)
        forest = self.forest_
        if (
            self.has_preprocessing
            or forest is None
            or forest.model_predicts != "answer"
        ):
            return self._through_tables(self.predict)
        return self.forest_.predictor()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if not is_trained(self.estimator):
            # A model to be trained takes one target or several, as it says itself.
            given = get_tags(self.estimator).target_tags
            tags.target_tags.multi_output = given.multi_output
            tags.target_tags.single_output = given.single_output
        return tags

    def __spinney_save__(self) -> tuple[Settings, Arrays]:
        return classifier_to_parts(self)

    @classmethod
    def __spinney_load__(cls, settings: Settings, arrays: Arrays) -> Self:
        regressor: Self = estimator_from_parts(cls, settings, arrays)
        try:
            regressor._refuse_classes()
        except UnsupportedModelError as error:
            msg = "a regressor must not have classes"
            raise FormatError(msg) from error
        return regressor
