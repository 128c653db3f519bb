"""The trees in CatBoost's JSON export, laid out as the nodes of a forest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.forest import LEAF
from spinney.readers.catboost_categories import CategorySplits
from spinney.readers.catboost_document import (
    INNER_MEMBERS,
    LEAF_MEMBERS,
    SPLIT_MEMBERS,
    Columns,
    numbers,
    part,
    refuse,
)
from spinney.readers.inner_means import inner_means
from spinney.readers.joining import NodeArrays, join_trees
from spinney.readers.known_members import refuse_unknown

# CatBoost itself stops at 16. The number of leaves doubles with each level, so a
# forged list of splits must be refused before anything is laid out.
MAX_OBLIVIOUS_DEPTH = 30

# What identifies a one-hot split.
ONE_HOT = ("cat_feature_index", "value")


class _Tree(NamedTuple):
    """Nodes of one tree, root first; children relative to the root, -1 at a leaf."""

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]  # zero at inner nodes
    weight: NDArray[np.float64] | None  # zero at inner nodes


def read_columns(features: dict[str, Any]) -> Columns:
    """Return where the features are among the columns of a row.

    Parameters
    ----------
    features : dict
        ``features_info`` of the document.
    """
    column: dict[int, int] = {}
    category: dict[int, int] = {}
    nan_right: set[int] = set()
    names: dict[int, str] = {}
    for kind in ("float_features", "categorical_features"):
        if features.get(kind) is None:
            continue
        for number, feature in enumerate(part(features, kind, list, "features_info")):
            where = f"{kind} {number}"
            flat = part(feature, "flat_feature_index", int, where)
            if not 0 <= flat < 2**31 - 1:
                refuse(f"'flat_feature_index' of {where} is {flat}")
            if flat in names:
                refuse(f"{where} is column {flat}, as another feature is")
            names[flat] = str(feature.get("feature_id") or flat)
            index = part(feature, "feature_index", int, where)
            if kind == "categorical_features":
                category[index] = flat
            else:
                column[index] = flat
                treatment = part(feature, "nan_value_treatment", str, where)
                if treatment not in ("AsIs", "AsFalse", "AsTrue"):
                    refuse(f"'nan_value_treatment' of {where} is {treatment!r}")
                # Where training saw no NaN, CatBoost ignores the treatment.
                if part(feature, "has_nans", bool, where) and treatment == "AsTrue":
                    nan_right.add(flat)
    if not names:
        refuse("features_info lists no features")
    n_features = max(names) + 1
    # Columns without names are called "0", "1", ..., which says nothing; and a gap in
    # the list would leave a column without a name.
    named = len(names) == n_features and any(
        name != str(flat) for flat, name in names.items()
    )
    ordered = tuple(names[flat] for flat in range(n_features)) if named else None
    return Columns(column, category, frozenset(nan_right), n_features, ordered)


# ---------------------------------------------------------------------------- trees


def read_trees(
    document: dict[str, Any], columns: Columns, categories: CategorySplits
) -> NodeArrays:
    """Return the node arrays of all trees, by the names a `Forest` has for them.

    Parameters
    ----------
    document : dict
        The whole export.
    columns : Columns
        From `read_columns`.
    categories : CategorySplits
        From `read_categories`.
    """
    oblivious = "oblivious_trees" in document
    key = "oblivious_trees" if oblivious else "trees"
    read_tree = _oblivious_tree if oblivious else _nested_tree
    if document.get(key, ()) in (None, []):
        msg = "This CatBoost model has no trees. Train it for at least one iteration."
        raise UnsupportedModelError(msg)
    entries = part(document, key, list, "the document")
    trees = [
        read_tree(entry, columns, categories, f"tree {number}")
        for number, entry in enumerate(entries)
    ]
    n_values = trees[0].value.shape[1]
    for number, tree in enumerate(trees):
        if tree.value.shape[1] != n_values:
            refuse(
                f"tree {number} has {tree.value.shape[1]} values per leaf, tree 0 has "
                f"{n_values}"
            )
    arrays = _joined(trees)
    # Leaves have column -1, which is no feature.
    right = np.isin(arrays["feature"], sorted(columns.nan_right))
    return arrays | {"missing_left": ~right}


def _split(
    split: Any, columns: Columns, categories: CategorySplits, where: str
) -> tuple[int, float]:
    """Return the column and the largest value that goes left."""
    kind = part(split, "split_type", str, where)
    if kind in SPLIT_MEMBERS:
        refuse_unknown("CatBoost", where, split, SPLIT_MEMBERS[kind])
    if kind == "OneHotFeature":
        key = tuple(part(split, name, int, where) for name in ONE_HOT)
        if key not in categories.one_hot:
            refuse(f"{where} compares categorical feature {key}, which is not listed")
        return categories.one_hot[key], 0.5
    if kind == "OnlineCtr":
        return _statistic(split, categories, where)
    if kind != "FloatFeature":
        reason = {
            "EstimatedFeature": "uses a text or embedding feature",
        }.get(kind, "is unknown")
        msg = (
            f"CatBoost model has a split of type {kind} ({where}), which {reason}; "
            "spinney reads splits of numeric and categorical features.\nHint: train "
            "without text_features and embedding_features."
        )
        raise UnsupportedModelError(msg)
    index = part(split, "float_feature_index", int, where)
    if index not in columns.column:
        refuse(f"{where} uses float feature {index}, which is not listed")
    border = numbers([split.get("border")], f"'border' of {where}")[0]
    with np.errstate(over="ignore"):
        threshold = float(np.float32(border))
    if not math.isfinite(threshold):
        refuse(f"'border' of {where} must be a finite float32, got {border}")
    return columns.column[index], threshold


def _statistic(split: Any, categories: CategorySplits, where: str) -> tuple[int, float]:
    """Return the added column of a statistic and the largest value that goes left."""
    index = part(split, "split_index", int, where)
    if index not in categories.statistics:
        refuse(f"{where} uses the statistic at border {index}, which is not listed")
    column, border, target = categories.statistics[index]
    given = numbers([split.get("border")], f"'border' of {where}")[0]
    if np.float32(given) != np.float32(border) or target != split.get(
        "ctr_target_border_idx"
    ):
        refuse(f"{where} does not fit the statistic that it names")
    return column, border


def _oblivious_tree(
    entry: Any, columns: Columns, categories: CategorySplits, where: str
) -> _Tree:
    """Lay out a tree that has the same split at all nodes of a level."""
    # A tree that is one leaf has null for a list of splits.
    bare = isinstance(entry, dict) and entry.get("splits", ()) is None
    splits = [] if bare else part(entry, "splits", list, where)
    depth = len(splits)
    if depth > MAX_OBLIVIOUS_DEPTH:
        refuse(f"{where} has {depth} splits, more than {MAX_OBLIVIOUS_DEPTH}")
    values = numbers(part(entry, "leaf_values", list, where), f"leaves of {where}")
    n_leaves = 2**depth
    n_nodes = 2 * n_leaves - 1
    if not len(values) or len(values) % n_leaves:
        refuse(
            f"{where} has {len(values)} leaf values, no multiple of its {n_leaves} "
            "leaves"
        )
    feature = np.full(n_nodes, LEAF, dtype=np.int64)
    threshold = np.zeros(n_nodes)
    # Level by level, the first split at the root: it was chosen first and says most.
    # Bit i of a leaf's number is the outcome of split i, while its index in the last
    # level has the first outcome as its highest bit.
    leaf_number = np.zeros(1, dtype=np.int64)
    for level, split in enumerate(splits):
        nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
        spot = f"split {level} of {where}"
        feature[nodes], threshold[nodes] = _split(split, columns, categories, spot)
        leaf_number = np.add.outer(leaf_number, np.array([0, 1 << level])).ravel()
    value = np.zeros((n_nodes, len(values) // n_leaves))
    value[n_leaves - 1 :] = values.reshape(n_leaves, -1)[leaf_number]
    weight = None
    if entry.get("leaf_weights") is not None:
        given = numbers(entry["leaf_weights"], f"leaf weights of {where}")
        if len(given) != n_leaves:
            refuse(f"{where} has {len(given)} leaf weights for {n_leaves} leaves")
        weight = np.zeros(n_nodes)
        weight[n_leaves - 1 :] = given[leaf_number]
    left = np.where(feature == LEAF, LEAF, 2 * np.arange(n_nodes) + 1)
    right = np.where(feature == LEAF, LEAF, left + 1)
    return _Tree(feature, threshold, left, right, value, weight)


def _nested_tree(
    entry: Any, columns: Columns, categories: CategorySplits, where: str
) -> _Tree:
    """Lay out a tree grown node by node (``Depthwise``, ``Lossguide``)."""
    feature: list[int] = []
    threshold: list[float] = []
    children: tuple[list[int], list[int]] = ([], [])
    leaves: dict[int, NDArray[np.float64]] = {}
    weights: dict[int, Any] = {}
    waiting: list[tuple[Any, int, int]] = [(entry, -1, 0)]  # node, parent, side
    while waiting:
        node, parent, side = waiting.pop()
        index = len(feature)
        spot = f"node {index} of {where}"
        if parent >= 0:
            children[side][parent] = index
        for child in children:
            child.append(LEAF)
        if isinstance(node, dict):
            known = LEAF_MEMBERS if "value" in node else INNER_MEMBERS
            refuse_unknown("CatBoost", spot, node, known)
        if isinstance(node, dict) and "value" in node:
            given = node["value"]
            given = given if isinstance(given, list) else [given]
            leaves[index] = numbers(given, f"'value' of {spot}")
            weights[index] = node.get("weight")
            feature.append(LEAF)
            threshold.append(0.0)
        else:
            column, border = _split(
                part(node, "split", dict, spot), columns, categories, spot
            )
            feature.append(column)
            threshold.append(border)
            waiting.append((part(node, "right", dict, spot), index, 1))
            waiting.append((part(node, "left", dict, spot), index, 0))
    sizes = {len(leaf) for leaf in leaves.values()}
    if len(sizes) != 1 or 0 in sizes:
        refuse(f"the leaves of {where} have {sorted(sizes)} values each")
    indices = list(leaves)
    value = np.zeros((len(feature), sizes.pop()))
    value[indices] = list(leaves.values())
    weight = None
    if all(given is not None for given in weights.values()):
        weight = np.zeros(len(feature))
        weight[indices] = numbers(list(weights.values()), f"leaf weights of {where}")
    return _Tree(
        np.array(feature),
        np.array(threshold),
        np.array(children[0]),
        np.array(children[1]),
        value,
        weight,
    )


def _joined(trees: Sequence[_Tree]) -> NodeArrays:
    """Join the trees and give the inner nodes their values."""
    known = all(tree.weight is not None for tree in trees)
    wanted = [name for name in _Tree._fields if known or name != "weight"]
    nodes = join_trees(
        [{name: getattr(tree, name) for name in wanted} for tree in trees]
    )
    means = inner_means(
        nodes["left"],
        nodes["right"],
        nodes["tree_offsets"][:-1],
        nodes["value"],
        nodes.pop("weight", None),
        remainder="left",
    )
    nodes["value"] = means.value
    nodes["n_node_samples"] = means.weight if known else None
    return nodes
