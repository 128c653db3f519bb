"""The columns that a trained model takes, where there are no rows to take them from."""

from __future__ import annotations

import sys
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
    after those, also where a model of scikit-learn has such names from a member.

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
    if names is not None and not _are_made_up(names):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)


def _are_made_up(names: Any) -> bool:
    """Whether LightGBM made the names up, for the columns of an array.

    Before 4.7 it tells scikit-learn of them as if they were those of a data frame, and
    a search or a stack takes them over, but does not hold rows to them. Names that
    scikit-learn has from a data frame are objects.
    """
    if np.asarray(names).dtype.kind != "U":
        return False
    if any(name != f"Column_{k}" for k, name in enumerate(names)):
        return False
    version = getattr(sys.modules.get("lightgbm"), "__version__", "4.7")
    return tuple(map(int, version.split(".")[:2])) < (4, 7)
