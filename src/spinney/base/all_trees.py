"""Drop-ins that evaluate all trees: the model's own predictions, faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from spinney.base.all_trees_regressor import AllTreesRegressor
from spinney.base.classifier_fields import classifier_from_parts, classifier_to_parts
from spinney.base.combined import whole_model
from spinney.base.drop_in import DropIn, RowAnswer
from spinney.base.early_exit_classifier import CountingClassifier
from spinney.base.estimator import is_trained
from spinney.calibration.promise import Promise
from spinney.errors import InvalidArgumentError, UnsupportedModelError
from spinney.forest import Forest
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_setting
from spinney.readers import read_model
from spinney.readers.wrapped import parted


def _has(method: str, before_fit: bool = False) -> Callable[[Any], bool]:
    """Return whether the model itself has a method, as a function of the drop-in."""

    def check(self: AllTreesClassifier) -> bool:
        if not hasattr(self, "forest_"):
            return before_fit
        if self.forest_ is None:
            return hasattr(self.combined_, method)
        if method == "predict_proba":
            return self.forest_.link != "none"
        return method == "decision_function" and self._has_scores

    return check


class AllTreesClassifier(DropIn, CountingClassifier):
    """Predict with all trees of a classifier, exactly as the model does.

    ``spinney.accelerate(model)`` returns it, and so does ``accelerate(model, X)`` where
    early exit is not faster or cannot keep the bound. It has the methods of the other
    classifiers, so that it can replace them, and those of the model.

    Parameters
    ----------
    estimator : estimator or Forest
        The ensemble. ``FrozenEstimator(model)`` for a trained model; an unfitted
        estimator is trained by `fit`.
    decision_threshold : float, default=None
        For two classes: the probability of the second class from which it is
        predicted, as in `spinney.read_model`; None for the model's own decision.
    n_jobs : int, default=None
        Number of threads; None means one, -1 all cores.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels; one array for each of several labels.
    order_ : ndarray of shape (n_trees,)
        Trees in the order in which they are evaluated.
    forest_ : Forest or None
        The ensemble.
    combined_ : object or None
        The model, where it is not one forest: several members (voting, stacking,
        calibration per fold) with drop-ins for those that are trees; AdaBoost; an
        isolation forest; several labels.
    n_trees_ : int
        Number of trees, those of all members together.
    estimator_ : estimator
        The trained ensemble.
    promise_ : Promise
        No prediction ever differs from the model's.
    certificate_ : None
        There is nothing to prove.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if the model or `X` has them.

    See Also
    --------
    AllTreesRegressor : The same for regressors and rankers.
    spinney.accelerate : Builds it from a model, or finds something faster.

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
            Rows like those to be predicted, or to train on. A trained model needs none.
        y : array-like of shape (n_rows,), default=None
            Labels; needed only to train the estimator.

        Returns
        -------
        self : AllTreesClassifier
            The fitted classifier.
        """
        if not is_trained(self.estimator):
            return self.fit_forest(X, y)
        ensemble = parted(self.estimator).ensemble
        if self.decision_threshold is None:
            whole = whole_model(ensemble, self.n_jobs)
        else:
            whole = read_model(ensemble, decision_threshold=self.decision_threshold)
        if X is None:
            return self._adopt(whole)
        X, y = self._checked(X, y)
        self.estimator_ = self.estimator
        self._set_whole(whole)
        self._complete()
        if self.forest_ is not None:  # or say what is wrong with the rows
            self._converted(self._preprocessed(X))
            if y is not None:
                self._codes(y)
        return self

    def fit_forest(self, X: Any, y: Any = None) -> AllTreesClassifier:
        """Read the model as one forest, as the early-exit classifiers do.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows like those to be predicted, or to train on.
        y : array-like of shape (n_rows,), default=None
            Labels; needed only to train the estimator.

        Returns
        -------
        self : AllTreesClassifier
            The fitted classifier; its `forest_` is not None.

        Raises
        ------
        UnsupportedModelError
            If the model is not one forest.
        """
        self.combined_ = None
        self._train_or_unwrap(X, y, hold_out=None)
        self._complete()
        return self

    def _adopt(self, whole: Any) -> AllTreesClassifier:
        """Take over a trained model that has been read."""
        self._take_over(whole)
        self._complete()
        return self

    def _complete(self) -> None:
        """Set what follows from the model that has been read."""
        whole = self.combined_ if self.forest_ is None else self.forest_
        if getattr(whole, "classes_", None) is None:
            source = getattr(whole, "source", "") or type(whole).__name__
            msg = (
                f"AllTreesClassifier needs a classifier, got a regressor ({source}). "
                "Use AllTreesRegressor."
            )
            raise UnsupportedModelError(msg)
        self.classes_ = whole.classes_
        ensemble = parted(self.estimator_).ensemble
        # Behind a moved threshold, AdaBoost's scores are divided by a sum of weights.
        inside = parted(getattr(ensemble, "estimator_", ensemble)).ensemble
        self._has_scores = (
            not isinstance(ensemble, Forest)
            and hasattr(ensemble, "decision_function")
            and type(inside).__name__ != "AdaBoostClassifier"
        )
        self._set_order()

    def _set_order(self) -> None:
        self._summed: Forest | None = None
        self.order_ = np.arange(self.n_trees_)
        self.certificate_ = None
        self.promise_ = Promise("never", 0.0)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict as the model's own `predict` does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        answers : ndarray of shape (n_rows,) or (n_rows, n_classes)
            Class labels. Probabilities for a Booster of LightGBM or XGBoost, and raw
            scores for the class ``CatBoost``, as these return.
        """
        if self._is_combined():
            return self._answer("predict", X)
        return self.forest_.model_predictions(self._raw(X))

    def predict_model(self, X: Any) -> NDArray[Any]:
        """Predict as the trained model's own `predict` does; the same as `predict`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        answers : ndarray of shape (n_rows,) or (n_rows, n_classes)
            As for `predict`.
        """
        return self.predict(X)

    @available_if(_has("predict_proba", before_fit=True))
    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return the probability of each class, as the model does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of `classes_`; for several labels, what the model returns.
        """
        if self._is_combined():
            return self._answer("predict_proba", X)
        return self.forest_.probabilities(self._raw(X))

    @available_if(_has("decision_function"))
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
        if self._is_combined():
            return self._answer("decision_function", X)
        raw = self._scoring().engine.raw(self._rows(X), self.n_jobs)
        return raw[:, 0] if self.forest_.n_outputs == 1 else raw

    def _scoring(self) -> Forest:
        """Return the forest with the raw scores of the model's `decision_function`.

        LightGBM's random forests average for probabilities, and add up for raw scores.
        """
        if self.forest_.aggregation != "mean":
            return self.forest_
        if self._summed is None:
            self._summed = self.forest_.replace(aggregation="sum")
        return self._summed

    @available_if(_has("score_samples"))
    def score_samples(self, X: Any) -> NDArray[np.floating]:
        """Return the scores of an isolation forest; the lower, the more abnormal.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_rows,)
            As from the model.
        """
        return self._answer("score_samples", X)

    def predict_counted(self, X: Any) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Predict class labels, and return how many trees were evaluated: all.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        n_evaluated : ndarray of shape (n_rows,), dtype=int32
            Number of trees, those of all members together.
        """
        if not self._is_combined():
            return super().predict_counted(X)
        labels = self.predict(X)
        return labels, np.full(len(labels), self.n_trees_, dtype=np.int32)

    def predict_full(self, X: Any) -> NDArray[Any]:
        """Predict class labels with the full ensemble, as `predict` always does here.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        """
        return self.predict(X) if self._is_combined() else super().predict_full(X)

    def predictor(self, kind: str = "label") -> RowAnswer:
        """Return a lightweight callable that predicts one row at a time.

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
            type and length is checked, which makes it fast. A sequence with strings for
            categories, a dict keyed by column name, and a data frame of one row are
            accepted, too; for a pipeline that was fitted on a data frame, a row of
            any of these kinds is converted to one.
        """
        if kind not in ("label", "proba"):
            msg = f"kind must be 'label' or 'proba', got {kind!r}."
            raise InvalidArgumentError(msg)
        check_is_fitted(self)
        predict = self.predict if kind == "label" else self.predict_proba
        if self.has_preprocessing or self.forest_ is None:
            return self._through_tables(predict)
        forest = self.forest_
        if kind == "proba" or forest.model_predicts == "answer":
            return forest.predictor(kind)
        if forest.model_predicts == "raw":
            return self._through_tables(predict)
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
    whole = whole_model(parted(trained).ensemble, n_jobs)
    if getattr(whole, "classes_", None) is None:
        return AllTreesRegressor(trained, n_jobs=n_jobs)._adopt(whole)
    return AllTreesClassifier(trained, n_jobs=n_jobs)._adopt(whole)
