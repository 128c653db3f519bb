"""scikit-learn's AdaBoost, isolation forest, and forests of several labels.

What they do with their trees is not what a `Forest` does, apart from two cases that
are a matter of one threshold on one sum: AdaBoost with two classes, and whether a row
is an outlier. These two can exit early, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.forest import Forest
from spinney.forest.curves import turning_point
from spinney.forest.derived import (
    Derived,
    Isolation,
    SeveralLabels,
    WeightedMedian,
    WeightedVote,
    isolation_scores,
)
from spinney.readers.fitted import require_fitted
from spinney.readers.joining import NodeArrays, join_trees
from spinney.readers.sklearn_trees import column_names, nodes_of_tree

# The smallest number above zero: a score must be above zero to mean the second class.
ABOVE_ZERO = float(np.nextafter(0.0, 1.0))

TREES = ("DecisionTreeClassifier", "DecisionTreeRegressor")
FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier")


def read_derived(model: Any) -> Derived | None:
    """Read an estimator that does something of its own with the sums of its trees.

    Parameters
    ----------
    model : estimator
        Fitted.

    Returns
    -------
    derived : Derived or None
        None if it is an estimator of another kind.

    Raises
    ------
    UnsupportedModelError
        If it is of such a kind and cannot be read.
    """
    names = {
        base.__name__
        for base in type(model).__mro__
        if base.__module__.partition(".")[0] == "sklearn"
    }
    if "IsolationForest" in names:
        return read_isolation(model)
    if "AdaBoostClassifier" in names:
        return _read_weighted_vote(model)
    if "AdaBoostRegressor" in names:
        return _read_weighted_median(model)
    if isinstance(getattr(model, "classes_", None), list):
        if not names.isdisjoint(FORESTS):
            return _read_several_labels(model, model.estimators_)
        if TREES[0] in names:
            return _read_several_labels(model, [model])
    return None


def _require_trees(model: Any, members: list[Any], regression: bool) -> None:
    wanted = TREES[1] if regression else TREES[0]
    for member in members:
        bases = {base.__name__ for base in type(member).__mro__}
        own = type(member).__module__.partition(".")[0] != "sklearn"
        if wanted not in bases or own:
            msg = (
                f"{type(model).__name__} of {type(member).__name__} cannot be read: "
                "its members must be single trees.\nHint: boost decision trees."
            )
            raise UnsupportedModelError(msg)


def _settings(model: Any) -> dict[str, Any]:
    return {
        "n_features": int(model.n_features_in_),
        "feature_names": column_names(model),
        "source": type(model).__name__,
    }


# ------------------------------------------------------------------ AdaBoost


def read_adaboost(model: Any) -> Forest:
    """Read AdaBoost with two classes as a forest, which can exit early."""
    vote = _read_weighted_vote(model) if hasattr(model, "classes_") else None
    if vote is None or len(vote.classes_) != 2:
        what = "a weighted median of its members" if vote is None else "several classes"
        msg = (
            f"{type(model).__name__} cannot be read as a forest: it has {what}.\nHint: "
            "spinney.accelerate(model), without rows, evaluates all trees, exactly."
        )
        raise UnsupportedModelError(msg)
    return vote.forest.replace(
        classes=vote.classes_,
        link="logistic",
        link_scale=2.0 / vote.total,
        decision_threshold=ABOVE_ZERO,
    )


def _read_weighted_vote(model: Any) -> WeightedVote:
    require_fitted(model, "estimators_")
    _require_trees(model, model.estimators_, regression=False)
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":  # until scikit-learn 1.5
        msg = (
            f"{type(model).__name__} cannot be read: algorithm='SAMME.R' adds up "
            "logarithms of probabilities.\nHint: train with algorithm='SAMME'."
        )
        raise UnsupportedModelError(msg)
    classes = np.asarray(model.classes_)
    n_classes = len(classes)
    if n_classes < 2:
        msg = f"{type(model).__name__} cannot be read: it has a single class."
        raise UnsupportedModelError(msg)
    # In scikit-learn's own order of operations.
    weights = [float(weight) for weight in model.estimator_weights_]
    parts: list[NodeArrays] = []
    for member, weight in zip(model.estimators_, weights, strict=False):
        if list(member.classes_) != list(classes) or member.tree_.n_outputs != 1:
            msg = f"{type(model).__name__} cannot be read: its trees differ in classes."
            raise UnsupportedModelError(msg)
        winner = member.tree_.value[:, 0, :].argmax(axis=1)
        value = np.full((len(winner), n_classes), -1 / (n_classes - 1) * weight)
        value[np.arange(len(winner)), winner] = weight
        nodes = nodes_of_tree(member.tree_)
        nodes["value"] = value[:, 1:] if n_classes == 2 else value
        parts.append(nodes)
    forest = Forest(**join_trees(parts), aggregation="sum", **_settings(model))
    return WeightedVote(forest, classes, float(np.sum(model.estimator_weights_)))


def _read_weighted_median(model: Any) -> WeightedMedian:
    require_fitted(model, "estimators_")
    _require_trees(model, model.estimators_, regression=True)
    parts: list[NodeArrays] = []
    for member in model.estimators_:
        nodes = nodes_of_tree(member.tree_)
        nodes["value"] = member.tree_.value[:, 0, :1]
        parts.append(nodes)
    forest = Forest(**join_trees(parts), aggregation="mean", **_settings(model))
    weights = np.array(model.estimator_weights_[: len(parts)], dtype=np.float64)
    return WeightedMedian(forest, weights)


# ------------------------------------------------------------------ isolation forest


def read_isolation_forest(model: Any) -> Forest:
    """Read an isolation forest as a forest of the classes -1 and 1."""
    return read_isolation(model).forest


def read_isolation(model: Any) -> Isolation:
    """Read an isolation forest with its scores."""
    from sklearn.ensemble._iforest import _average_path_length

    require_fitted(model, "estimators_")
    name = type(model).__name__
    lengths = getattr(model, "_decision_path_lengths", None)
    averages = getattr(model, "_average_path_length_per_tree", None)
    if lengths is None or averages is None:
        msg = (
            f"{name} cannot be read: this version of scikit-learn stores no depths."
            "\nHint: train it with scikit-learn 1.6 or later."
        )
        raise UnsupportedModelError(msg)
    n_features = int(model.n_features_in_)
    chosen: list[NDArray[np.integer] | None] = list(model.estimators_features_)
    if model._max_features == n_features:
        chosen = [None] * len(chosen)
    parts: list[NodeArrays] = []
    for member, columns, length, average in zip(
        model.estimators_, chosen, lengths, averages, strict=True
    ):
        nodes = nodes_of_tree(member.tree_, columns)
        nodes["value"] = (length + average - 1.0).reshape(-1, 1)
        parts.append(nodes)
    [mean_depth] = _average_path_length([model._max_samples])
    denominator = float(len(parts) * mean_depth)
    if denominator == 0.0:
        msg = f"{name} cannot be read: its trees have seen a single row each."
        raise UnsupportedModelError(msg)
    offset = float(model.offset_)

    def is_inlier(depths: NDArray[np.floating]) -> NDArray[np.bool_]:
        return ~(isolation_scores(depths, denominator) - offset < 0)

    forest = Forest(
        **join_trees(parts),
        aggregation="sum",
        classes=np.array([-1, 1]),
        link="none",
        **_settings(model),
    )
    reach = 2.0 * float(np.abs(forest.value).max()) * forest.n_trees + 1.0
    threshold = turning_point(is_inlier, np.float64, reach)
    return Isolation(forest.replace(decision_threshold=threshold), denominator, offset)


# ------------------------------------------------------------------ several labels


def _read_several_labels(model: Any, members: list[Any]) -> SeveralLabels:
    _require_trees(model, members, regression=False)
    labels = tuple(np.asarray(classes) for classes in model.classes_)
    parts: list[NodeArrays] = []
    for member in members:
        nodes = nodes_of_tree(member.tree_)
        nodes["value"] = np.concatenate(
            [
                member.tree_.value[:, label, : len(classes)]
                for label, classes in enumerate(labels)
            ],
            axis=1,
        )
        parts.append(nodes)
    forest = Forest(**join_trees(parts), aggregation="mean", **_settings(model))
    return SeveralLabels(forest, labels)
