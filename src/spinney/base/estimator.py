"""What all classifiers of spinney share: a trained model inside, read as a forest."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import (
    Tags,
    assert_all_finite,
    check_random_state,
    column_or_1d,
    get_tags,
    indexable,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_n_features,
    check_is_fitted,
    validate_data,
)

from spinney.calibration.row_splits import held_out_split, plain_held_out_split
from spinney.errors import (
    InvalidArgumentError,
    SpinneyWarning,
    UnsupportedModelError,
)
from spinney.forest import Forest
from spinney.forest.blocks import BlockedRows
from spinney.forest.derived import Derived
from spinney.forest.frames import as_known_frame, in_order_of, is_frame, rows_at
from spinney.forest.sparse import is_sparse
from spinney.readers import read_model
from spinney.readers.wrapped import parted, through_steps
from spinney.runtime.row_predictors import row_as_table

if TYPE_CHECKING:
    from spinney.report import Report

# What rows of numbers may be, as types that are quick to compare.
_FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


class ReportMixin:
    """Gives a classifier its method `report`."""

    def report(self, X: Any, y: Any = None, *, verbose: Any = None) -> Report:
        """Measure this classifier on rows; the result is a dict and a page.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows, best ones that the classifier was not fitted to.
        y : array-like of shape (n_rows,), default=None
            Labels, for errors against the truth.
        verbose : bool, callable or None, default=None
            Whether to draw a progress bar on standard error; a callable is given the
            share of the work that is done. None draws one in interactive use, if it
            takes more than two seconds.

        Returns
        -------
        report : Report
            A dict of plain values; ``report.save("page.html")`` writes it as a page
            that needs no network.
        """
        from spinney.report import make_report

        check_is_fitted(self)
        return make_report(self, as_known_frame(X), y, verbose=verbose)


class EnsembleEstimator(MetaEstimatorMixin):
    """Mixin for what has a trained ensemble inside and predicts rows with it.

    A subclass has a parameter `estimator`: a trained model as
    ``FrozenEstimator(model)`` (or a `Forest`), which is taken as it is, or an
    unfitted estimator, which `fit` trains.
    """

    estimator: Any
    forest_: Any
    # Probability from which the second of two classes is predicted, where it is a
    # parameter; None for as the model decides.
    decision_threshold: float | None = None
    # Whether sparse rows may stay sparse until they are evaluated.
    _takes_sparse = False

    def _checked_rows(self, X: Any) -> Any:
        """Return `X`, checked as far as no forest is needed for it."""
        model = unwrapped(self.estimator)
        names = getattr(model, "feature_names", None)
        X = in_order_of(X, getattr(model, "feature_names_in_", names))
        if is_sparse(X) and self._stays_sparse():
            X = X.tocsr()  # of which rows can be taken
        if self._takes_as_is(X):
            validate_data(self, X, skip_check_array=True)
            return X
        return validate_data(self, X, ensure_all_finite=not self._takes_missing())

    def _takes_missing(self) -> bool:
        """Whether rows may hold NaN and infinities: a forest evaluates them.

        A model that is still to be trained may not have one.
        """
        return (
            is_trained(self.estimator) or get_tags(self.estimator).input_tags.allow_nan
        )

    def _takes_as_is(self, X: Any) -> bool:
        """Whether scikit-learn's check of arrays would lose something.

        A pipeline may take texts, and so may a model with category values; the forest
        itself looks after the columns of a data frame, whose names and categories an
        array has no longer.
        """
        if is_sparse(X) and self._stays_sparse():
            return True
        if is_frame(X):
            return True
        forest = getattr(self, "forest_", None)
        if forest is not None:
            # scikit-learn makes float64 of objects, a Booster of LightGBM float32.
            rounded = forest.rounded_rows == "non_floats" and _may_hold_objects(X)
            if rounded or (forest.categories is not None and _may_hold_texts(X)):
                return True
        steps, model = parted(self.estimator)
        return bool(steps) or (_takes_category_values(model) and _may_hold_texts(X))

    def _stays_sparse(self) -> bool:
        """Whether sparse rows may be passed: a model to be trained may not take any."""
        return self._takes_sparse and (
            is_trained(self.estimator) or get_tags(self.estimator).input_tags.sparse
        )

    def _rows(self, X: Any) -> NDArray[np.floating]:
        """Return rows to be predicted as `forest_` takes them, or say what is wrong."""
        if not hasattr(self, "forest_"):  # the check itself takes longer than this
            check_is_fitted(self)
        if self._is_plain(X):
            return self.forest_.engine.rows(X)
        X = in_order_of(X, getattr(self, "feature_names_in_", None))
        if self._takes_as_is(X):
            self._check_columns(X)
        else:
            finite = not self._takes_missing()
            X = validate_data(self, X, reset=False, ensure_all_finite=finite)
        return self._converted(self._preprocessed(X))

    def _check_columns(self, X: Any) -> None:
        """Check the columns of rows by the names of the fit, or leave it to the forest.

        A forest with names of its own checks them, by the rules of the library that it
        was read from. scikit-learn would warn that there are none.
        """
        if self.has_preprocessing and is_frame(X):
            return  # by the first step: a ColumnTransformer takes further columns
        forest = self.forest_
        by_forest = forest is not None and forest.feature_names is not None
        if by_forest and not (
            hasattr(self, "feature_names_in_") or self.has_preprocessing
        ):
            _check_n_features(self, X, reset=False)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)

    def _converted(self, X: Any) -> Any:
        """Return rows as the engine takes them; dense, if they have to be."""
        rows = self.forest_.engine.rows(X)
        if isinstance(rows, BlockedRows) and not self._takes_sparse:
            return rows.dense()
        return rows

    def _is_plain(self, X: Any) -> bool:
        """Whether scikit-learn would find nothing to say about rows.

        It takes a tenth of a millisecond to find that out, as long as all trees do for
        a hundred rows.
        """
        return (
            type(X) is np.ndarray
            and X.dtype in _FLOATS
            and X.ndim == 2
            and X.shape[0] > 0
            and X.shape[1] == getattr(self, "n_features_in_", None)
            and not hasattr(self, "feature_names_in_")
            and self._takes_missing()
            and not parted(self.estimator).steps
        )

    def _preprocessed(self, X: Any) -> Any:
        """Return what the steps of a pipeline before the last one make of rows."""
        return through_steps(X, parted(self.estimator_).steps)

    @property
    def has_preprocessing(self) -> bool:
        """Whether the model is a pipeline that changes rows before the last step."""
        return bool(parted(self.estimator_).steps)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._stays_sparse()
        tags.input_tags.allow_nan = self._takes_missing()
        tags.target_tags.required = not is_trained(self.estimator)
        return tags


class EnsembleClassifier(
    EnsembleEstimator, ReportMixin, ClassifierMixin, BaseEstimator
):
    """Base of the classifiers that evaluate a trained ensemble in a cheaper way.

    An unfitted estimator is trained on a part of the rows. Subclasses with chance in
    them have a parameter `random_state`.
    """

    def _train_or_unwrap(
        self, X: Any, y: Any = None, hold_out: str | None = "plain"
    ) -> tuple[NDArray[np.floating], NDArray[np.intp] | None]:
        """Set the trained model and its forest; return the rows left to calibrate on.

        Sets `estimator_`, `forest_`, `classes_`, `n_features_in_` and, for data
        frames, `feature_names_in_`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,), optional
            Labels. Needed if the estimator is still to be trained.
        hold_out : {"plain", "by_class", None}, default="plain"
            Which rows to keep back from training: a plain random part, from which
            something can be said about new rows; a part of each class, of which at
            least one row is trained on; or none.

        Returns
        -------
        rows : ndarray of shape (n_left, n_columns)
            Rows that the model was not trained on by this call, as `forest_` takes
            them: all of `X` for a trained model, a held-out part otherwise.
        codes : ndarray of shape (n_left,) or None
            Their labels as indices into `classes_`; None if there is no `y`. -1 where
            the model that was trained on the other rows does not know the label.
        """
        X, y = self._train(X, y, hold_out)
        forest = read_model(
            parted(self.estimator_).ensemble, decision_threshold=self.decision_threshold
        )
        if forest.classes_ is None:
            msg = (
                "Early exit is for classifiers, got a regressor "
                f"({forest.source or 'made by hand'}). spinney.accelerate(model) "
                "without rows evaluates all trees of any model, exactly."
            )
            raise UnsupportedModelError(msg)
        self.forest_ = forest
        self.classes_ = forest.classes_
        rows = self._converted(self._preprocessed(X))
        return rows, None if y is None else self._codes(y)

    def _train(self, X: Any, y: Any, hold_out: str | None = "plain") -> tuple[Any, Any]:
        """Set `estimator_`, trained if need be; return the rows and labels left.

        With ``hold_out=None`` nothing is kept back from training, and all rows are
        returned.
        """
        X, y = self._checked(X, y)
        if is_trained(self.estimator):
            self.estimator_ = self.estimator
            return X, y
        if y is None:
            # scikit-learn's common checks look for the first words.
            msg = (
                "requires y to be passed, but the target y is None: the estimator "
                f"{type(self.estimator).__name__} is not trained yet. Pass labels, "
                "or FrozenEstimator(model) for a model that is already trained."
            )
            raise InvalidArgumentError(msg)
        check_classification_targets(y)
        if hold_out is None:
            self.estimator_ = clone(self.estimator).fit(X, y)
            return X, y
        rng = check_random_state(getattr(self, "random_state", None))
        if hold_out == "by_class":
            trained_on, left = held_out_split(y, rng)
        else:
            trained_on, left = plain_held_out_split(len(y), rng)
            _warn_of_unknown_classes(y, trained_on)
        self.estimator_ = clone(self.estimator).fit(
            rows_at(X, trained_on), y[trained_on]
        )
        return rows_at(X, left), y[left]

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return `X` and `y`, checked as far as no forest is needed for it."""
        X = as_known_frame(X)
        indexable(X, y)
        if y is not None:
            y = column_or_1d(y, warn=True)
            assert_all_finite(y, input_name="y")
        return self._checked_rows(X), y

    def _codes(self, y: NDArray[Any]) -> NDArray[np.intp]:
        """Return labels as indices into `classes_`.

        Labels that the model does not know are an error if it was trained elsewhere,
        and -1 if they were kept back from it here.
        """
        return class_codes(self.classes_, y, is_trained(self.estimator))

    def predict_full(self, X: Any) -> NDArray[Any]:
        """Predict with the full ensemble, as the trained model does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        """
        rows, n_jobs = self._rows(X), getattr(self, "n_jobs", None)
        return self.forest_.predictions(self.forest_.engine.raw(rows, n_jobs))

    def predict_model(self, X: Any) -> NDArray[Any]:
        """Predict as the trained model's own `predict` does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        """
        return self.predict_full(X)


def through_tables(
    estimator: EnsembleEstimator, predict: Callable[[Any], NDArray[Any]]
) -> Callable[[Any], Any]:
    """Return what predicts one row by way of a table of one row.

    Parameters
    ----------
    estimator : fitted estimator
        Whose columns the row has. A pipeline that begins with a text vectoriser has
        none: its row is whatever the first step takes several of.
    predict : callable
        What predicts tables.
    """
    n_columns = getattr(estimator, "n_features_in_", None)
    if n_columns is None:
        return lambda row: predict(_rows_of_one(row))[0]
    width, names = int(n_columns), getattr(estimator, "feature_names_in_", None)
    return lambda row: predict(row_as_table(row, width, names))[0]


def _rows_of_one(row: Any) -> Any:
    """Return a text, a dict, an array or a data frame of one row as rows."""
    if isinstance(row, np.ndarray):
        return row.reshape(1, -1)
    return row if is_frame(row) else [row]


def class_codes(
    classes: NDArray[Any], y: NDArray[Any], must_be_known: bool = True
) -> NDArray[np.intp]:
    """Return labels as indices of classes.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        The labels of a model.
    y : ndarray of shape (n_rows,)
        Labels.
    must_be_known : bool, default=True
        Whether a label that the model does not know is an error; -1 if not.
    """
    order = np.argsort(classes)
    try:
        index = np.searchsorted(classes, y, sorter=order)
        codes = order[np.minimum(index, len(classes) - 1)]
        strange = classes[codes] != y
    except TypeError:  # texts and numbers have no order
        known = {label: code for code, label in enumerate(classes.tolist())}
        codes = np.array([known.get(label, -1) for label in y.tolist()], dtype=np.intp)
        strange = codes < 0
    if not np.any(strange):
        return codes
    if not must_be_known:
        return np.where(strange, -1, codes)
    first = np.asarray(y)[strange][:1].tolist()[0]
    msg = (
        f"y holds the label {first!r}, which the model does not know; its classes are "
        f"{_shortened(classes)}. Pass labels like those the model was trained with."
    )
    raise InvalidArgumentError(msg)


def is_trained(estimator: Any) -> bool:
    """Whether this is a trained model, or several, to be taken as they are."""
    return isinstance(estimator, (FrozenEstimator, Forest, Derived, list, tuple))


def _takes_category_values(model: Any) -> bool:
    """Whether a trained model takes category values that are no numbers."""
    if isinstance(model, Forest):
        return model.encoder is not None
    columns = getattr(model, "get_cat_feature_indices", None)  # of CatBoost
    return columns is not None and model.is_fitted() and len(columns()) > 0


def _may_hold_texts(X: Any) -> bool:
    """Whether rows are lists or an array of Python objects, texts among them."""
    if isinstance(X, np.ndarray):
        return X.ndim == 2 and X.dtype.kind in "OUS"
    if not isinstance(X, (list, tuple)) or not X or not isinstance(X[0], (list, tuple)):
        return False
    return any(isinstance(value, (str, bytes)) for row in X for value in row)


def _may_hold_objects(X: Any) -> bool:
    """Whether rows are lists or an array of Python objects."""
    if isinstance(X, np.ndarray):
        return X.ndim == 2 and X.dtype.kind == "O"
    return isinstance(X, (list, tuple)) and bool(X) and isinstance(X[0], (list, tuple))


def unwrapped(estimator: Any) -> Any:
    """Return the model inside a `FrozenEstimator`, or the estimator itself."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def _warn_of_unknown_classes(y: NDArray[Any], trained_on: NDArray[np.intp]) -> None:
    """Warn if the rows to train on lack some classes."""
    classes = np.unique(y)
    unknown = np.setdiff1d(classes, y[trained_on])
    if len(unknown):
        msg = (
            f"All rows of {len(unknown):,} of the {len(classes):,} classes "
            f"({_shortened(unknown)}) are among those held out for calibration, so "
            "the model does not know these classes and never predicts them. Pass more "
            "rows, or train the model on other rows and pass FrozenEstimator(model)."
        )
        warnings.warn(msg, SpinneyWarning, stacklevel=5)


def _shortened(classes: NDArray[Any]) -> str:
    """Return class labels as a text of bounded length."""
    shown = ", ".join(repr(label) for label in classes[:8].tolist())
    return shown if len(classes) <= 8 else f"{shown}, ... ({len(classes)} in all)"
