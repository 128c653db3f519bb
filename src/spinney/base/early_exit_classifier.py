"""What classifiers share that ask the trees of a forest until the answer is clear."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spinney.base.comparison import Comparison
from spinney.base.estimator import EnsembleClassifier
from spinney.calibration.bounds import Certificate


class EarlyStoppingClassifier(EnsembleClassifier, ABC):
    """Base of the classifiers that count how many trees each answer has taken."""

    max_disagreement: float
    certificate_: Certificate | None
    acceleration_: Comparison

    def predict(self, X: Any) -> NDArray[Any]:
        """Answer rows, asking as few trees as the rule allows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        """
        return self.predict_counted(X)[0]

    def predict_counted(self, X: Any) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Answer rows, and tell how many trees were asked.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        n_asked : ndarray of shape (n_rows,), dtype=int32
            Number of trees (or other voters) asked for each row.
        """
        classes, counts = self._ask(self._rows(X))
        return self.classes_.take(classes), counts

    @abstractmethod
    def _ask(self, rows: Any) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Return class indices and numbers of trees asked, for rows as voters take."""

    @abstractmethod
    def _at_levels(self, X: Any, levels: Iterable[float]) -> Iterator[Self]:
        """Yield copies that are fitted to rows `X`, each to a bound of its own.

        Work that does not depend on the bound is done once, and the order of the trees
        stays as it is.
        """

    def _copy_at(self, level: float) -> Self:
        """Return a copy with another bound, of which nothing is proven."""
        fitted = copy.copy(self)
        fitted.set_params(max_disagreement=float(level), confidence=None)
        fitted.certificate_ = None
        if hasattr(fitted, "acceleration_"):
            del fitted.acceleration_
        return fitted

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        parameters = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "acceleration_"):
            return parameters
        return f"{parameters}\n{self.acceleration_}"
