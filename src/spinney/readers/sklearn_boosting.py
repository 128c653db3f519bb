"""scikit-learn's gradient boosting, the exact and the histogram kind."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.forest import LEAF, Forest
from spinney.readers.category_bits import is_member, pack_sets
from spinney.readers.fitted import require_fitted
from spinney.readers.inner_means import inner_means
from spinney.readers.joining import NodeArrays, join_trees
from spinney.readers.known_members import refuse_unknown
from spinney.readers.sklearn_trees import (
    column_names,
    nodes_of_tree,
    values_of_tree,
)

# All that scikit-learn 1.6 to 1.9 says about a node; see `known_members`.
NODE_FIELDS = (
    "bin_threshold",
    "bitset_idx",
    "count",
    "depth",
    "feature_idx",
    "gain",
    "is_categorical",
    "is_leaf",
    "left",
    "missing_go_to_left",
    "num_threshold",
    "right",
    "value",
)

# A set of categories is stored as bits up to its largest member, at every split: more
# than this would cost megabytes per tree.
MAX_CATEGORY = 65_535

# Probabilities come from raw scores by the loss's own link.
LINKS = {
    "IdentityLink": ("identity", 1.0),
    "LogLink": ("exp", 1.0),
    "LogitLink": ("logistic", 1.0),
    "HalfLogitLink": ("logistic", 2.0),
    "MultinomialLogit": ("softmax", 1.0),
}


def read_gradient_boosting(model: Any) -> Forest:
    """Read a ``GradientBoostingClassifier`` or ``GradientBoostingRegressor``."""
    require_fitted(model, "estimators_")
    _check_start(model)
    parts: list[NodeArrays] = []
    for member in model.estimators_.ravel():
        nodes = nodes_of_tree(member.tree_)
        # Only here scikit-learn does not look up where NaN goes.
        nodes["missing_left"] = np.zeros_like(nodes["missing_left"])
        values = values_of_tree(member.tree_, 1, type(model).__name__)
        # One multiplication and one rounding, as when scikit-learn predicts.
        nodes["value"] = model.learning_rate * values[:, 0]
        parts.append(nodes)
    origin = np.zeros((1, model.n_features_in_), dtype=np.float32)
    base = model._raw_predict_init(origin)[0]
    return _sum_of_trees(model, parts, base, input_dtype="float32")


def _check_start(model: Any) -> None:
    """Refuse a boosting that starts from anything but a constant."""
    start = model.init_
    if isinstance(start, str):  # "zero"
        return
    names = {base.__name__ for base in type(start).__mro__}
    constant = not names.isdisjoint(("DummyClassifier", "DummyRegressor"))
    if not constant or start.strategy == "stratified":
        msg = (
            f"{type(model).__name__} cannot be read: it starts from the predictions of "
            f"another model (init={start!r}), and a forest starts from a constant.\n"
            'Hint: train with init=None or init="zero".'
        )
        raise UnsupportedModelError(msg)


def _sum_of_trees(
    model: Any, parts: list[NodeArrays], base: NDArray[np.float64], **settings: Any
) -> Forest:
    """Return the forest that adds up trees, one per output and round."""
    joined = join_trees(parts)
    joined["value"] = inner_means(
        joined["left"],
        joined["right"],
        joined["tree_offsets"][:-1],
        joined["value"],
        joined["n_node_samples"],
    ).value
    n_outputs = len(base)
    link, scale = LINKS[type(model._loss.link).__name__]
    return Forest(
        **joined,
        **settings,
        n_features=int(model.n_features_in_),
        aggregation="sum",
        tree_output=(
            None
            if n_outputs == 1
            else np.arange(len(parts), dtype=np.int32) % n_outputs
        ),
        n_outputs=n_outputs,
        classes=getattr(model, "classes_", None),
        base_score=base,
        link=link,
        link_scale=scale,
        feature_names=column_names(model),
        source=type(model).__name__,
    )


# ------------------------------------------------------------------ histogram boosting


def read_hist_gradient_boosting(model: Any) -> Forest:
    """Read a ``HistGradientBoostingClassifier`` or ``HistGradientBoostingRegressor``.

    Notes
    -----
    With categorical columns scikit-learn first maps each category to a code, moves
    these columns to the front, and splits on the codes. Both steps are undone here:
    the forest takes rows as they are, and its sets hold the categories themselves
    where these are whole numbers. Texts stay codes, and `Forest.categories_` tells what
    they stand for. A value that is not among them is missing to scikit-learn.
    """
    require_fitted(model, "_predictors")
    name = type(model).__name__
    columns, categories, known = _columns_and_categories(model)
    parts: list[NodeArrays] = []
    sets: list[NDArray[np.int64]] = []
    for predictor in (tree for round_ in model._predictors for tree in round_):
        parts.append(_nodes_of_predictor(predictor, columns, categories, sets))
    settings: dict[str, Any] = {"input_dtype": "float64"}
    if sets:
        settings |= pack_sets(sets, name) | {"category_rule": "exact"}
    if known:
        settings["categories"] = [known.get(c) for c in range(model.n_features_in_)]
    if not sets:  # no categorical columns, or none that a tree splits on
        for nodes in parts:
            del nodes["category_set"]
    if len(getattr(model, "classes_", ())) == 2:
        # Above zero, not at zero, means the second class.
        settings["decision_threshold"] = float(np.nextafter(0.0, 1.0))
    return _sum_of_trees(model, parts, model._baseline_prediction.ravel(), **settings)


def _columns_and_categories(
    model: Any,
) -> tuple[NDArray[np.intp], dict[int, NDArray[np.int64]], dict[int, list[Any]]]:
    """Return where each column of the trees comes from, and the categories it has.

    Returns
    -------
    columns : ndarray of shape (n_features,)
        Original column of each column that the trees see.
    categories : dict
        For each categorical column of the trees: the number that stands for each of
        scikit-learn's codes in a row, the category itself or, for a text, the code.
    known : dict
        For each categorical column of a row: its categories.
    """
    if model.is_categorical_ is None:
        return np.arange(model.n_features_in_), {}, {}
    categorical = np.flatnonzero(model.is_categorical_)
    columns = np.concatenate([categorical, np.flatnonzero(~model.is_categorical_)])
    encoder = model._preprocessor.named_transformers_["encoder"]
    names = column_names(model)
    categories: dict[int, NDArray[np.int64]] = {}
    known: dict[int, list[Any]] = {}
    for place, (column, given) in enumerate(
        zip(categorical.tolist(), encoder.categories_, strict=True)
    ):
        called = repr(names[column]) if names else str(column)
        if any(value is None for value in given):
            raise _null_category(called, type(model).__name__)
        # NaN is always last and never a code.
        values = [value for value in given if value == value]
        if values and all(isinstance(value, str) for value in values):
            categories[place] = np.arange(len(values))
            known[column] = [str(value) for value in values]
            continue
        numbers = _category_numbers(values, called, type(model).__name__)
        categories[place], known[column] = numbers, numbers.tolist()
    return columns, categories, known


def _null_category(column: str, model_name: str) -> UnsupportedModelError:
    msg = (
        f"{model_name} cannot be read: column {column} has the category None. "
        "scikit-learn treats a null of Polars, or None among Python objects, as a "
        "category of its own, and only NaN as missing.\n"
        'Hint: fill nulls before training, `column.cast(pl.String).fill_null("missing")'
        ".cast(pl.Categorical)`, or train on a data frame of pandas, where they are "
        "missing values."
    )
    return UnsupportedModelError(msg)


def _category_numbers(
    known: list[Any], column: str, model_name: str
) -> NDArray[np.int64]:
    """Return the categories of one column as integers, or refuse them."""
    numbers = []
    for category in known:
        fits = (
            isinstance(category, (Real, np.bool_))
            and 0 <= float(category) <= MAX_CATEGORY
        )
        if not fits or category != int(category):
            shown = category.item() if isinstance(category, np.generic) else category
            msg = (
                f"{model_name} cannot be read: column {column} has the category "
                f"{shown!r}, and categories must be strings, or whole numbers from "
                f"0 to {MAX_CATEGORY:,}.\n"
                "Hint: encode the column before training, for instance with "
                "sklearn.preprocessing.OrdinalEncoder as an earlier step of a Pipeline."
            )
            raise UnsupportedModelError(msg)
        numbers.append(int(category))
    return np.array(numbers, dtype=np.int64)


def _nodes_of_predictor(
    predictor: Any,
    columns: NDArray[np.intp],
    categories: dict[int, NDArray[np.int64]],
    sets: list[NDArray[np.int64]],
) -> NodeArrays:
    """Return the node arrays of one tree; its category sets are appended to `sets`."""
    nodes = predictor.nodes
    fields = nodes.dtype.names
    refuse_unknown("scikit-learn", "the nodes of a tree", fields, NODE_FIELDS)
    inner = nodes["is_leaf"] == 0
    left = np.where(inner, nodes["left"].astype(np.int64), LEAF)
    right = np.where(inner, nodes["right"].astype(np.int64), LEAF)
    missing_left = inner & (nodes["missing_go_to_left"] != 0)
    category_set = np.full(len(nodes), -1)
    for node in np.flatnonzero(inner & (nodes["is_categorical"] != 0)):
        known = categories[int(nodes["feature_idx"][node])]
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        members = is_member(words, np.arange(len(known)))
        if missing_left[node]:
            # Unknown categories go where missing values go, and what is in no set
            # goes right: so the set names those that went right, and the children
            # change places.
            members = ~members
            left[node], right[node] = right[node], left[node]
            missing_left[node] = False
        category_set[node] = len(sets)
        sets.append(known[members])
    return {
        "feature": np.where(inner, columns[nodes["feature_idx"]], LEAF),
        "threshold": np.where(inner, nodes["num_threshold"], 0.0),
        "left": left,
        "right": right,
        "missing_left": missing_left,
        "category_set": category_set,
        "value": nodes["value"],
        "n_node_samples": nodes["count"],
    }
