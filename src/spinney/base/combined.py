"""Models made of models (voting, stacking, calibration per fold) with fast members.

The model of scikit-learn stays what it is and does what it does; only the tree
ensembles inside it are replaced by drop-ins that predict exactly as they do. So the
combination is exact whatever its arithmetic, in every version of scikit-learn. Members
that are no trees (a logistic regression, say) stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from spinney.errors import UnsupportedModelError
from spinney.forest import Forest
from spinney.forest.derived import Derived
from spinney.readers import read_model
from spinney.readers.dispatch import library_of
from spinney.readers.fitted import require_fitted
from spinney.readers.wrapped import names_of_bases

# Makes the drop-in for a member, or returns the member itself.
StandIn = Callable[[Any], Any]


def whole_model(ensemble: Any, n_jobs: int | None = None) -> Any:
    """Return what predicts exactly as a model, all trees evaluated by spinney.

    Parameters
    ----------
    ensemble : fitted model or Forest
        Without the steps of a pipeline.
    n_jobs : int, default=None
        Number of threads for the members of a combined model.

    Returns
    -------
    model : Forest, Derived, or an estimator of scikit-learn
        The last one with drop-ins in place of its tree ensembles.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be read.
    """
    if isinstance(ensemble, (Forest, Derived)):
        return ensemble
    library = library_of(ensemble)
    if library == "sklearn":
        from spinney.readers.sklearn_derived import read_derived

        derived = read_derived(ensemble)
        if derived is not None:
            return derived
        return _sklearn_model(ensemble, n_jobs)
    if library == "xgboost":
        from spinney.readers.xgboost import read_xgboost_labels

        labels = read_xgboost_labels(ensemble)
        if labels is not None:
            return labels
    return read_model(ensemble)


def _sklearn_model(ensemble: Any, n_jobs: int | None) -> Any:
    names = names_of_bases(type(ensemble))  # type: ignore[arg-type]
    replace = next((COMBINED[name] for name in COMBINED if name in names), None)
    if replace is None:
        return read_model(ensemble)
    if "CalibratedClassifierCV" in names:
        try:
            return read_model(ensemble)  # one model and two classes: still one forest
        except UnsupportedModelError:
            pass
    if type(ensemble).__module__.partition(".")[0] != "sklearn":
        msg = (
            f"{type(ensemble).__name__} cannot be read: it inherits from a combined "
            "model of scikit-learn, and may predict differently.\nHint: use "
            "the class of scikit-learn itself."
        )
        raise UnsupportedModelError(msg)
    n_trees = 0

    def stand_in(member: Any) -> Any:
        nonlocal n_trees
        made = _stand_in(member, n_jobs)
        n_trees += made is not member
        return made

    combined = replace(copy.copy(ensemble), stand_in)
    if n_trees == 0:
        msg = (
            f"{type(ensemble).__name__} cannot be read: none of its members is an "
            "ensemble of trees that spinney can read."
        )
        raise UnsupportedModelError(msg)
    return combined


def _stand_in(member: Any, n_jobs: int | None) -> Any:
    """Return a drop-in for a member, or the member itself if it is no trees."""
    from spinney.base.all_trees import all_trees

    if member is None or isinstance(member, str):  # "drop", "passthrough"
        return member
    try:
        return all_trees(FrozenEstimator(member), n_jobs)
    except (UnsupportedModelError, NotFittedError):
        return member


def _in_list(model: Any, stand_in: StandIn, final: str | None = None) -> Any:
    """Replace the members of a voting or stacking."""
    require_fitted(model, "estimators_")
    made = [stand_in(member) for member in model.estimators_]
    named, left = [], list(made)
    for name, member in model.estimators:
        dropped = isinstance(member, str) and member == "drop"
        # With cv="prefit" members were never copied, and stand there themselves.
        named.append((name, member if dropped else left.pop(0)))
    model.estimators_, model.estimators = made, named
    vars(model).pop("named_estimators_", None)
    if final is not None:
        model.final_estimator_ = stand_in(model.final_estimator_)
        model.final_estimator = None
        model.cv = None
    return model


def _in_folds(model: Any, stand_in: StandIn) -> Any:
    """Replace the models inside a calibrated one."""
    require_fitted(model, "calibrated_classifiers_")
    parts = []
    for part in model.calibrated_classifiers_:
        part = copy.copy(part)
        part.estimator = stand_in(part.estimator)
        parts.append(part)
    model.calibrated_classifiers_ = parts
    model.estimator, model.cv = None, None
    return model


def _behind_target(model: Any, stand_in: StandIn) -> Any:
    """Replace the regressor behind a transformed target."""
    require_fitted(model, "regressor_")
    model.regressor_ = stand_in(model.regressor_)
    model.regressor = model.transformer = model.func = model.inverse_func = None
    return model


COMBINED: dict[str, Callable[[Any, StandIn], Any]] = {
    "_BaseVoting": _in_list,
    "_BaseStacking": partial(_in_list, final="final_estimator_"),
    "CalibratedClassifierCV": _in_folds,
    "TransformedTargetRegressor": _behind_target,
}


def forests_of(model: Any) -> list[Forest]:
    """Return all forests inside what `whole_model` returned.

    Parameters
    ----------
    model : Forest, Derived or estimator
        The model.
    """
    if isinstance(model, Forest):
        return [model]
    if isinstance(model, Derived):
        return [model.forest]
    if hasattr(model, "forest_"):  # a drop-in
        return forests_of(model.combined_ if model.forest_ is None else model.forest_)
    if not names_of_bases(type(model)).intersection(COMBINED):  # type: ignore[arg-type]
        return []  # a member that is no trees
    members = list(getattr(model, "estimators_", []))
    for name in ("final_estimator_", "regressor_"):
        members += [getattr(model, name)] if hasattr(model, name) else []
    parts = getattr(model, "calibrated_classifiers_", [])
    members += [part.estimator for part in parts]
    return [forest for member in members for forest in forests_of(member)]
