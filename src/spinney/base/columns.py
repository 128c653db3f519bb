"""The columns that a trained model takes, where there are no rows to take them from."""

from __future__ import annotations

from typing import Any

import numpy as np

from spinney.forest import Forest
from spinney.forest.derived import Derived
from spinney.readers.dispatch import library_of
from spinney.readers.wrapped import first_step


def set_columns_of_model(estimator: Any, model: Any, whole: Any) -> None:
    """Set `n_features_in_` and `feature_names_in_` as a trained model has them.

    Names are those of scikit-learn's models and pipelines, which hold rows to them.
    Other libraries make names up for columns that have none; the forest itself looks
    after those.

    Parameters
    ----------
    estimator : estimator of spinney
        What the two are set on.
    model : fitted model
        The model, whatever stands around it included.
    whole : Forest, Derived or estimator
        What was read from it.

    Notes
    -----
    Neither is set for a pipeline whose first step takes no table, but texts or dicts.
    """
    vars(estimator).pop("feature_names_in_", None)
    vars(estimator).pop("n_features_in_", None)
    own = isinstance(model, (Forest, Derived))
    if own or library_of(model) != "sklearn":
        estimator.n_features_in_ = whole.n_features
        return
    n_columns = getattr(model, "n_features_in_", None)
    if n_columns is None:  # a pipeline that begins with "passthrough", say
        first = first_step(model)
        n_columns = getattr(first, "n_features_in_", None)
        names = getattr(first, "feature_names_in_", None)
    else:
        names = getattr(model, "feature_names_in_", None)
    if n_columns is not None:
        estimator.n_features_in_ = int(n_columns)
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
