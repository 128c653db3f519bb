"""What the drop-ins share: they evaluate all trees, and predict as the model does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from spinney.base.columns import set_columns_of_model
from spinney.base.combined import forests_of
from spinney.base.estimator import EnsembleEstimator, through_tables, unwrapped
from spinney.forest import Forest
from spinney.forest.derived import Derived
from spinney.forest.frames import in_order_of, is_frame

RowAnswer = Callable[[Any], Any]


class DropIn(EnsembleEstimator):
    """Mixin for `AllTreesClassifier` and `AllTreesRegressor`.

    A model is one forest, `forest_`, or combined from several (or from one, in a way of
    its own), `combined_`; the other one is None.
    """

    n_jobs: int | None
    combined_: Any = None

    @property
    def n_trees_(self) -> int:
        """Number of trees, those of all members together."""
        check_is_fitted(self)
        return sum(forest.n_trees for forest in forests_of(self))

    def _take_over(self, whole: Any) -> None:
        """Set what a trained model has been read as, and the columns that it takes."""
        self.estimator_ = self.estimator
        self._set_whole(whole)
        set_columns_of_model(self, unwrapped(self.estimator), whole)

    def _set_whole(self, whole: Any) -> None:
        is_forest = isinstance(whole, Forest)
        self.forest_, self.combined_ = (whole, None) if is_forest else (None, whole)

    def _raw(self, X: Any) -> Any:
        """Return the raw scores of `forest_`."""
        engine = self.forest_.engine
        if self._is_plain(X):
            return engine.raw_of(X, self.n_jobs)
        return engine.raw(self._rows(X), self.n_jobs)

    def _is_combined(self) -> bool:
        if not hasattr(self, "forest_"):
            check_is_fitted(self)
        return self.forest_ is None

    def _answer(self, method: str, X: Any) -> NDArray[Any]:
        """Return what a method of the combined model returns."""
        X = in_order_of(X, getattr(self, "feature_names_in_", None))
        # scikit-learn's own code checks frames, and takes further columns in places.
        if isinstance(self.combined_, Derived) or not is_frame(X):
            self._check_columns(X)
        answer = getattr(self.combined_, method)
        rows = self._preprocessed(X)
        if isinstance(self.combined_, Derived):
            return answer(rows, self.n_jobs)
        return answer(rows)

    def _through_tables(self, predict: RowAnswer) -> RowAnswer:
        """Return what predicts a row by way of a table of one row."""
        return through_tables(self, predict)
