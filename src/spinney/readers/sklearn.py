"""scikit-learn estimators: single trees, forests, bagging, and what wraps them.

Estimators are recognised by the names of their classes, so scikit-learn is not
imported to find out what a model is. Gradient boosting has a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.forest import Forest
from spinney.readers.fitted import require_fitted
from spinney.readers.joining import NodeArrays, join_trees
from spinney.readers.known_members import warn_of_newer_version
from spinney.readers.sklearn_boosting import (
    read_gradient_boosting,
    read_hist_gradient_boosting,
)
from spinney.readers.sklearn_derived import (
    read_adaboost,
    read_isolation_forest,
)
from spinney.readers.sklearn_thresholds import (
    read_calibrated,
    read_moved_threshold,
)
from spinney.readers.sklearn_trees import (
    column_names,
    nodes_of_tree,
    values_of_tree,
)
from spinney.readers.wrapped import names_of_steps, parted


def read_sklearn(model: Any) -> Forest:
    """Turn a fitted scikit-learn estimator into a `Forest`.

    Parameters
    ----------
    model : estimator
        A decision tree, extra tree, random forest, extra-trees forest, bagging of
        trees, gradient boosting or histogram gradient boosting, classifier or
        regressor with one target. A ``FrozenEstimator`` is looked through, and so are
        a parameter search and a ``Pipeline`` that does nothing to rows.

    Returns
    -------
    forest : Forest
        Labels are those of `model` on every row. Forests and bagging give the same
        probabilities to the last bit as ``n_jobs=1`` does; with more jobs
        scikit-learn itself adds the trees up in an order that varies. Boosting gives
        the same raw scores to the last bit, and probabilities up to the rounding of
        the exponential function.

    Raises
    ------
    UnsupportedModelError
        If the estimator is of another kind, has several targets, or changes the
        prediction of the class it inherits from.
    sklearn.exceptions.NotFittedError
        If the estimator has not been trained.
    """
    warn_of_newer_version("scikit-learn", sklearn.__version__)
    for base in type(model).__mro__:
        if base.__module__.partition(".")[0] != "sklearn":
            continue
        if base.__name__ in WRAPPERS:
            return WRAPPERS[base.__name__](model)
        if base.__name__ in READERS:
            _check_prediction_is_inherited(model, base)
            return READERS[base.__name__](model)
        if base.__name__ in REFUSED:
            reason, hint = REFUSED[base.__name__]
            msg = f"{type(model).__name__} cannot be read: {reason}.\nHint: {hint}."
            raise UnsupportedModelError(msg)
    msg = (
        f"{type(model).__name__} cannot be read: it is not one of scikit-learn's tree "
        f"ensembles.\nHint: supported are {SUPPORTED}."
    )
    raise UnsupportedModelError(msg)


def _check_prediction_is_inherited(model: Any, base: type) -> None:
    """Refuse a class from elsewhere that predicts in a way of its own."""
    for method in ("predict", "predict_proba", "decision_function"):
        for owner in type(model).__mro__:
            if method not in vars(owner):
                continue
            if owner.__module__.partition(".")[0] != "sklearn":
                msg = (
                    f"{type(model).__name__} cannot be read: its {method} is not that "
                    f"of {base.__name__}, so the trees alone do not determine what it "
                    f"predicts.\nHint: train a {base.__name__} itself."
                )
                raise UnsupportedModelError(msg)
            break


# ------------------------------------------------------------------ trees and forests


def _read_tree(model: Any) -> Forest:
    require_fitted(model, "tree_")
    return _mean_of_trees(model, [model], [None])


def _read_forest(model: Any) -> Forest:
    require_fitted(model, "estimators_")
    return _mean_of_trees(model, model.estimators_, [None] * len(model.estimators_))


def _read_bagging(model: Any) -> Forest:
    require_fitted(model, "estimators_")
    for member in model.estimators_:
        names = {base.__name__ for base in type(member).__mro__}
        if names.isdisjoint(("DecisionTreeClassifier", "DecisionTreeRegressor")):
            msg = (
                f"{type(model).__name__} of {type(member).__name__} cannot be read: "
                "its members must be single trees.\n"
                "Hint: give it a decision tree as estimator, or use a random forest."
            )
            raise UnsupportedModelError(msg)
        _check_prediction_is_inherited(member, type(member))
    return _mean_of_trees(model, model.estimators_, model.estimators_features_)


def _mean_of_trees(
    model: Any, members: list[Any], columns: list[NDArray[np.integer] | None]
) -> Forest:
    """Return the forest that averages what the trees of `members` say."""
    name = type(model).__name__
    classes = getattr(model, "classes_", None)
    # With several targets `classes_` is a list, one array for each.
    n_values = 1 if classes is None or isinstance(classes, list) else len(classes)
    parts: list[NodeArrays] = []
    for member, chosen in zip(members, columns, strict=True):
        tree = member.tree_
        nodes = nodes_of_tree(tree, chosen)
        several = classes is None and tree.n_outputs > 1
        nodes["value"] = (
            tree.value[:, :, 0] if several else values_of_tree(tree, n_values, name)
        )
        known = getattr(member, "classes_", ())
        if classes is not None and len(known) < n_values:
            # A member of a bagging that saw only some of the classes: its own labels
            # are indices into those of the bagging.
            nodes["value"] = np.zeros((tree.node_count, n_values))
            nodes["value"][:, known] = values_of_tree(tree, len(known), name)
        parts.append(nodes)
    return Forest(
        **join_trees(parts),
        n_features=int(model.n_features_in_),
        aggregation="mean",
        classes=classes,
        feature_names=column_names(model),
        source=name,
    )


# ------------------------------------------------------------------ wrappers


def _read_inside(model: Any) -> Forest:
    """Read what a `FrozenEstimator` holds."""
    from spinney.readers.dispatch import read_model

    return read_model(model.estimator)


def _read_last_step(model: Any) -> Forest:
    """Read the last step of a `Pipeline`, if it is all that the pipeline does."""
    from spinney.readers.dispatch import read_model

    name, last = model.steps[-1]
    if last is None or isinstance(last, str):
        msg = (
            f"{type(model).__name__} cannot be read: its last step {name!r} is "
            f"{last!r}, not a model.\nHint: put a tree ensemble last."
        )
        raise UnsupportedModelError(msg)
    forest = read_model(last)
    before = names_of_steps(parted(model).steps)
    if before:
        msg = (
            f"{type(model).__name__} cannot be read: rows go through other steps first "
            f"({', '.join(before)}), and a Forest is the trees alone.\n"
            "Hint: spinney.accelerate(pipeline, ...) and spinney's classifiers apply "
            "the steps. For the trees alone, read pipeline[-1] and pass rows as "
            "pipeline[:-1].transform returns them."
        )
        raise UnsupportedModelError(msg)
    return forest


def _read_best(model: Any) -> Forest:
    """Read the estimator that a parameter search has found."""
    from spinney.readers.dispatch import read_model

    require_fitted(model, "cv_results_")
    if not hasattr(model, "best_estimator_"):
        msg = (
            f"{type(model).__name__} cannot be read: it has not kept its best "
            f"estimator (refit={model.refit!r}).\n"
            "Hint: search with refit=True, or train a model with the best parameters."
        )
        raise UnsupportedModelError(msg)
    return read_model(model.best_estimator_)


READERS: dict[str, Callable[[Any], Forest]] = {
    "DecisionTreeClassifier": _read_tree,  # ExtraTreeClassifier inherits from it
    "DecisionTreeRegressor": _read_tree,
    "RandomForestClassifier": _read_forest,
    "RandomForestRegressor": _read_forest,
    "ExtraTreesClassifier": _read_forest,
    "ExtraTreesRegressor": _read_forest,
    "BaggingClassifier": _read_bagging,
    "BaggingRegressor": _read_bagging,
    "GradientBoostingClassifier": read_gradient_boosting,
    "GradientBoostingRegressor": read_gradient_boosting,
    "HistGradientBoostingClassifier": read_hist_gradient_boosting,
    "HistGradientBoostingRegressor": read_hist_gradient_boosting,
    "AdaBoostClassifier": read_adaboost,
    "AdaBoostRegressor": read_adaboost,
    "IsolationForest": read_isolation_forest,
}

WRAPPERS: dict[str, Callable[[Any], Forest]] = {
    "FrozenEstimator": _read_inside,
    "Pipeline": _read_last_step,
    "BaseSearchCV": _read_best,
    "CalibratedClassifierCV": read_calibrated,
    "BaseThresholdClassifier": read_moved_threshold,
}

SUPPORTED = (
    "DecisionTree, ExtraTree, RandomForest, ExtraTrees, Bagging (of trees), "
    "GradientBoosting and HistGradientBoosting classifiers and regressors, AdaBoost "
    "with two classes, IsolationForest, also inside "
    "FrozenEstimator, or found by a parameter search; a Pipeline of other steps and "
    "one of these is for spinney.accelerate and spinney's classifiers"
)

_MEMBERS = "spinney.accelerate(model), without rows, evaluates all its trees, exactly"

REFUSED = {
    "_BaseVoting": ("it combines models of different kinds", _MEMBERS),
    "_BaseStacking": (
        "a second model decides on the predictions of the first ones",
        _MEMBERS,
    ),
    "RandomTreesEmbedding": (
        "it returns leaf indices, not predictions",
        "train a random forest on the labels instead",
    ),
}
