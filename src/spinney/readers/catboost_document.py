"""Parts of CatBoost's JSON export, none of which is taken on trust.

Whatever is missing, of another type or out of range ends in an `UnsupportedModelError`
that says where.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.readers.known_members import refuse_unknown

# All that documents of CatBoost 1.2 have; see `known_members`. What a leaf or a split
# of a non-symmetric tree has is told by the ones above it, so only roots are looked at.
MEMBERS = {
    "document": (
        "ctr_data",
        "features_info",
        "model_info",
        "oblivious_trees",
        "scale_and_bias",
        "trees",
    ),
    "features_info": (
        "cat_features_hash",
        "categorical_features",
        "ctrs",
        "embedding_features",
        "float_features",
        "text_features",
    ),
    "float_features": (
        "borders",
        "feature_id",
        "feature_index",
        "feature_name",
        "flat_feature_index",
        "has_nans",
        "nan_value_treatment",
    ),
    "categorical_features": (
        "feature_id",
        "feature_index",
        "feature_name",
        "flat_feature_index",
        "values",
    ),
    "ctrs": (
        "borders",
        "ctr_type",
        "elements",
        "identifier",
        "prior_denomerator",
        "prior_numerator",
        "scale",
        "shift",
        "target_border_idx",
    ),
    "oblivious_trees": ("leaf_values", "leaf_weights", "splits"),
    "trees": ("left", "right", "split", "value", "weight"),
    "class_params": (
        "class_label_type",
        "class_names",
        "class_to_label",
        "classes_count",
    ),
}
# Of a split of each type.
SPLIT_MEMBERS = {
    "FloatFeature": ("border", "float_feature_index", "split_index", "split_type"),
    "OneHotFeature": ("cat_feature_index", "split_index", "split_type", "value"),
    "OnlineCtr": ("border", "ctr_target_border_idx", "split_index", "split_type"),
}
# Of a node of a tree that was grown node by node.
LEAF_MEMBERS, INNER_MEMBERS = ("value", "weight"), ("left", "right", "split")


class Columns(NamedTuple):
    """What splits need to know about the features."""

    column: dict[int, int]  # by float feature index: column of X
    category: dict[int, int]  # by categorical feature index: column of X
    nan_right: frozenset[int]  # columns in which NaN goes right
    n_features: int
    names: tuple[str, ...] | None


def refuse(what: str, cause: Exception | None = None) -> NoReturn:
    """Raise the error for a document that is not as CatBoost writes it."""
    msg = (
        f"This CatBoost document is damaged: {what}.\n"
        "Hint: export the model again with save_model(path, format='json')."
    )
    raise UnsupportedModelError(msg) from cause


def refuse_unknown_members(document: dict[str, Any]) -> None:
    """Refuse a document with members on whose meaning predictions may depend."""
    refuse_unknown("CatBoost", "the document", document, MEMBERS["document"])
    features = document.get("features_info")
    if isinstance(features, dict):
        refuse_unknown("CatBoost", "features_info", features, MEMBERS["features_info"])
    else:
        features = {}
    info = document.get("model_info")
    classes = info.get("class_params") if isinstance(info, dict) else None
    if isinstance(classes, dict):
        known = MEMBERS["class_params"]
        refuse_unknown("CatBoost", "'class_params'", classes, known)
    for name, known in MEMBERS.items():
        listed = document.get(name, features.get(name))
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict):
                refuse_unknown("CatBoost", f"{name!r}", each, known)


def part(holder: Any, key: str, kind: type, where: str) -> Any:
    """Return ``holder[key]`` if it is there and of that kind."""
    if not isinstance(holder, dict):
        refuse(f"{where} must be an object, got {type(holder).__name__}")
    if key not in holder:
        refuse(f"{where} has no {key!r}")
    found = holder[key]
    # True and False are integers to Python, never to CatBoost.
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        refuse(
            f"{key!r} of {where} must be {kind.__name__}, got {type(found).__name__}"
        )
    return found


def numbers(values: Any, what: str) -> NDArray[np.float64]:
    """Return a list of finite numbers as an array; anything else is refused."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        refuse(f"{what} must be a list of numbers", error)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "fiu"):
        refuse(f"{what} must be a list of numbers")
    found = array.astype(np.float64)
    if not np.isfinite(found).all():
        refuse(f"{what} must be finite")
    return found
