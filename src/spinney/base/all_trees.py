"""Drop-ins that evaluate all trees: the model's own answers, in spinney's runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags, check_array, check_consistent_length, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from spinney.base.classifier_fields import (
    classifier_from_parts,
    classifier_to_parts,
    estimator_from_parts,
)
from spinney.base.columns import set_columns_of_model
from spinney.base.early_exit_classifier import CountingClassifier
from spinney.base.estimator import EnsembleEstimator, is_trained, unwrapped
from spinney.calibration.promise import Promise
from spinney.errors import (
    FormatError,
    InvalidArgumentError,
    UnsupportedModelError,
)
from spinney.forest import Forest
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_setting
from spinney.readers import read_model
from spinney.readers.wrapped import parted
from spinney.runtime.row_predictors import row_as_table

RowAnswer = Callable[[Any], Any]


def _has_decision_function(estimator: Any) -> bool:
    """Whether the model itself has raw scores, under this name."""
    return bool(getattr(estimator, "_has_scores", False))


class AllTreesClassifier(CountingClassifier):
    """Answer with all trees of a classifier, exactly as it does itself.

    ``spinney.accelerate(model)`` returns it, and so does ``accelerate(model, X)`` where
    evaluating fewer trees does not pay or cannot be promised. It has the methods of the
    other classifiers, so that it can stand in for them, and those of the model.

    Parameters
    ----------
    estimator : estimator or Forest
        The ensemble. ``FrozenEstimator(model)`` for a trained model; an unfitted
        estimator is trained by `fit`.
    decision_threshold : float, default=None
        For two classes: the probability of the second class from which it is
        predicted, as in `spinney.read_model`; None for as the model decides.
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
        Names of the columns, if the model or `X` has them.

    See Also
    --------
    AllTreesRegressor : The same for regressors and rankers.
    spinney.accelerate : Makes it of a model, or looks for something faster.

    Examples
    --------
    >>> import spinney
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> same = spinney.accelerate(model)
    >>> bool((same.predict_proba(X) == model.predict_proba(X)).all())
    True
    """

    # What others promise; here nothing ever differs, on any rows.
    max_disagreement = 0.0
    per_class = False
    confidence = None

    def __init__(
        self,
        estimator: Any,
        *,
        decision_threshold: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.decision_threshold = decision_threshold
        self.n_jobs = n_jobs

    def fit(self, X: Any = None, y: Any = None) -> AllTreesClassifier:
        """Read the model, or train it first.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), default=None
            Rows of the kind that will be predicted, or to train on. A trained model
            needs none.
        y : array-like of shape (n_rows,), default=None
            Labels; needed only to train the estimator.

        Returns
        -------
        self : AllTreesClassifier
            The fitted classifier.
        """
        if X is None and is_trained(self.estimator):
            forest = read_model(
                parted(self.estimator).ensemble,
                decision_threshold=self.decision_threshold,
            )
            if forest.classes_ is None:
                msg = (
                    f"AllTreesClassifier needs a classifier, got a regressor "
                    f"({forest.source}). Use AllTreesRegressor."
                )
                raise UnsupportedModelError(msg)
            return self._adopt(forest)
        self._train_or_unwrap(X, y, hold_out=None)
        return self._completed()

    def _adopt(self, forest: Forest) -> AllTreesClassifier:
        """Take over a trained model that has been read."""
        self.estimator_ = self.estimator
        assert forest.classes_ is not None
        self.forest_, self.classes_ = forest, forest.classes_
        set_columns_of_model(self, unwrapped(self.estimator), forest)
        return self._completed()

    def _completed(self) -> AllTreesClassifier:
        ensemble = parted(self.estimator_).ensemble
        self._has_scores = not isinstance(ensemble, Forest) and hasattr(
            ensemble, "decision_function"
        )
        self._set_order()
        return self

    def _set_order(self) -> None:
        self.order_ = np.arange(self.forest_.n_trees)
        self.certificate_ = None
        self.promise_ = Promise("never", 0.0)

    def predict(self, X: Any) -> NDArray[Any]:
        """Answer rows as the model's own `predict` does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        answers : ndarray of shape (n_rows,) or (n_rows, n_classes)
            Class labels. Of a Booster of LightGBM or XGBoost probabilities, and of the
            class ``CatBoost`` raw scores, as from these.
        """
        raw = self._raw(X)  # or says that nothing is fitted yet
        return self.forest_.model_answers(raw)

    def predict_model(self, X: Any) -> NDArray[Any]:
        """Answer as the trained model's own `predict` does; the same as `predict`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        answers : ndarray of shape (n_rows,) or (n_rows, n_classes)
            As of `predict`.
        """
        return self.predict(X)

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return the probability of each class, as the model does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of `classes_`.
        """
        raw = self._raw(X)
        return self.forest_.probabilities(raw)

    @available_if(_has_decision_function)
    def decision_function(self, X: Any) -> NDArray[np.floating]:
        """Return raw scores, where the model has a method of this name.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_rows,) or (n_rows, n_classes)
            One score of the second of two classes, or one per class.
        """
        raw = self._raw(X)
        return raw[:, 0] if self.forest_.n_outputs == 1 else raw

    def _raw(self, X: Any) -> NDArray[np.floating]:
        rows = self._rows(X)
        return self.forest_.engine.raw(rows, self.n_jobs)

    def predictor(self, kind: str = "label") -> RowAnswer:
        """Return a thin callable that answers one row at a time, for serving.

        Parameters
        ----------
        kind : {"label", "proba"}, default="label"
            What it returns: what `predict` returns for a row, or the probabilities of
            the classes.

        Returns
        -------
        predictor : callable
            ``predictor(row)`` takes a one-dimensional array of `n_features_in_`
            numbers, float32 or the type that the model compares in. Nothing beyond
            type and length is checked, which makes it fast. A sequence with texts for
            categories, a dict by the names of the columns, and a data frame of one row
            are taken, too; for a pipeline that was fitted on a data frame, a row of
            any of these kinds becomes one.
        """
        if kind not in ("label", "proba"):
            msg = f"kind must be 'label' or 'proba', got {kind!r}."
            raise InvalidArgumentError(msg)
        check_is_fitted(self)
        predict = self.predict if kind == "label" else self.predict_proba
        if self.has_preprocessing:
            return _through_tables(self, predict)
        forest = self.forest_
        if kind == "proba" or forest.model_predicts == "answer":
            return forest.predictor(kind)
        if forest.model_predicts == "raw":
            return _through_tables(self, predict)
        of_classes = forest.predictor("proba")
        if forest.n_outputs > 1:
            return of_classes
        return lambda row: of_classes(row)[1]

    def _evaluate(self, rows: Any) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        raw = self.forest_.engine.raw(rows, self.n_jobs)
        n_evaluated = np.full(len(rows), self.forest_.n_trees, dtype=np.int32)
        return self.forest_.winners(raw), n_evaluated

    def _row_predictor(self) -> RowAnswer:
        return self.predictor()

    def _at_levels(self, rows: Any, levels: Iterable[float]) -> Iterator[Self]:
        for _ in levels:
            yield self

    def __spinney_save__(self) -> tuple[Settings, Arrays]:
        settings, arrays = classifier_to_parts(self)
        if self._has_scores:
            settings["has_scores"] = True
        return settings, arrays

    @classmethod
    def __spinney_load__(cls, settings: Settings, arrays: Arrays) -> Self:
        classifier: Self = classifier_from_parts(cls, settings, arrays)
        classifier._has_scores = "has_scores" in settings and take_setting(
            settings, "has_scores", bool
        )
        classifier._set_order()
        return classifier


class AllTreesRegressor(EnsembleEstimator, RegressorMixin, BaseEstimator):
    """Answer with all trees of a regressor or ranker, exactly as it does itself.

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
    forest_ : Forest
        The ensemble.
    estimator_ : estimator
        The trained ensemble.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if the model or `X` has them.

    See Also
    --------
    AllTreesClassifier : The same for classifiers.
    spinney.accelerate : Makes it of a model.

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
            Rows of the kind that will be predicted, or to train on. A trained model
            needs none.
        y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Targets; needed only to train the estimator.

        Returns
        -------
        self : AllTreesRegressor
            The fitted regressor.
        """
        if is_trained(self.estimator):
            self.estimator_ = self.estimator
        else:
            self._train(X, y)
        forest = read_model(parted(self.estimator_).ensemble)
        if forest.classes_ is not None:
            msg = (
                f"AllTreesRegressor needs a regressor or ranker, got a classifier "
                f"({forest.source}). Use AllTreesClassifier."
            )
            raise UnsupportedModelError(msg)
        if X is None:
            return self._adopt(forest)
        self.forest_ = forest
        self._checked_rows(X)
        return self

    def _adopt(self, forest: Forest) -> AllTreesRegressor:
        """Take over a trained model that has been read."""
        self.estimator_ = self.estimator
        self.forest_ = forest
        set_columns_of_model(self, unwrapped(self.estimator), forest)
        return self

    def _train(self, X: Any, y: Any) -> None:
        if y is None:
            # scikit-learn's common checks look for the first words.
            msg = (
                "requires y to be passed, but the target y is None: the estimator "
                f"{type(self.estimator).__name__} is still to be trained. Pass "
                "targets, or FrozenEstimator(model) for a model that is trained."
            )
            raise InvalidArgumentError(msg)
        X = self._checked_rows(X)
        y = check_array(y, ensure_2d=False, input_name="y")
        check_consistent_length(X, y)
        self.estimator_ = clone(self.estimator).fit(X, y)

    def predict(self, X: Any) -> NDArray[np.floating]:
        """Answer rows as the model's own `predict` does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        numbers : ndarray of shape (n_rows,) or (n_rows, n_targets)
            What the model predicts; of a ranker, its scores.
        """
        rows = self._rows(X)
        return self.forest_.model_answers(self.forest_.engine.raw(rows, self.n_jobs))

    def predictor(self) -> RowAnswer:
        """Return a thin callable that answers one row at a time, for serving.

        Returns
        -------
        predictor : callable
            ``predictor(row)`` takes a row as that of `AllTreesClassifier` does, and
            returns what `predict` returns for it.
        """
        check_is_fitted(self)
        if self.has_preprocessing or self.forest_.model_predicts != "answer":
            return _through_tables(self, self.predict)
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
        if regressor.forest_.classes_ is not None:
            msg = "its forest must not have classes"
            raise FormatError(msg)
        return regressor


def all_trees(
    trained: Any, n_jobs: int | None = None
) -> AllTreesClassifier | AllTreesRegressor:
    """Return a trained model as a drop-in that evaluates all trees.

    Parameters
    ----------
    trained : FrozenEstimator or Forest
        A classifier, regressor or ranker.
    n_jobs : int, default=None
        Number of threads; None means one, -1 all cores.
    """
    forest = read_model(parted(trained).ensemble)
    kind = AllTreesRegressor if forest.classes_ is None else AllTreesClassifier
    return kind(trained, n_jobs=n_jobs)._adopt(forest)


def _through_tables(estimator: Any, predict: RowAnswer) -> RowAnswer:
    """Return what answers a row by way of a table of one row."""
    names = getattr(estimator, "feature_names_in_", None)
    width = int(estimator.n_features_in_)
    return lambda row: predict(row_as_table(row, width, names))[0]
