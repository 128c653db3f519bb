"""The text in which LightGBM stores a model, taken apart and checked.

A file can be cut off, edited or forged. Whatever is wrong with it, the error says so,
and no number in it decides how much memory is taken: arrays are as long as the lines
they are read from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.readers.known_members import members_once, refuse_unknown

VERSIONS = ("v2", "v3", "v4")  # of LightGBM 2.0 to 2.2, 2.3 to 3.3, and 4

# What the numbers in `decision_type` are made of.
CATEGORICAL, DEFAULT_LEFT = 1, 2
NOTHING_MISSING, ZERO_MISSING, NAN_MISSING = 0, 1, 2

# All that texts of LightGBM 2.0 to 4.7 have; see `known_members`.
HEADER_LINES = (
    "average_output",
    "feature_infos",
    "feature_names",
    "label_index",
    "max_feature_idx",
    "monotone_constraints",
    "num_class",
    "num_tree_per_iteration",
    "objective",
    "tree",
    "tree_sizes",
    "version",
)
TREE_LINES = (
    "Tree",
    "cat_boundaries",
    "cat_threshold",
    "decision_type",
    "internal_count",
    "internal_value",
    "internal_weight",
    "is_linear",
    "leaf_count",
    "leaf_value",
    "leaf_weight",
    "left_child",
    "num_cat",
    "num_leaves",
    "right_child",
    "shrinkage",
    "split_feature",
    "split_gain",
    "threshold",
)
OBJECTIVE_OPTIONS = ("num_class", "sigmoid", "sqrt")

SAVE_AGAIN = "Hint: save the model again with Booster.save_model."


class ModelText(NamedTuple):
    """A model text taken apart; arrays are those of all trees, end to end."""

    n_features: int
    feature_names: list[str]
    objective: str | None
    options: dict[str, str]
    n_outputs: int
    averaged: bool
    n_leaves: NDArray[np.int64]  # per tree, as the next one
    n_category_sets: NDArray[np.int64]
    trees: dict[str, NDArray[Any]]
    categories: dict[
        int, list[Any]
    ]  # by column: its values in the order of their codes


def refuse_damaged(what: str, cause: Exception | None = None) -> NoReturn:
    """Raise the error that says what is wrong with a model text."""
    msg = f"The LightGBM model text is damaged: {what}.\n{SAVE_AGAIN}"
    raise UnsupportedModelError(msg) from cause


def parse_text(text: str) -> ModelText:
    """Return the parts of a model text.

    Parameters
    ----------
    text : str
        What ``Booster.save_model`` writes.

    Raises
    ------
    UnsupportedModelError
        If the text is damaged, or holds trees that are no trees of plain numbers.
    """
    # Lines end with "\n" and words with " ", nothing else: names of columns may hold
    # any other character that `splitlines` or `split` would take for an end.
    head, found, trees = text.partition("\nTree=")
    lines = head.split("\n")
    if lines[0] != "tree":
        msg = (
            "This is not a LightGBM model text: it must begin with the line 'tree', "
            f"got {lines[0][:40]!r}.\n{SAVE_AGAIN}"
        )
        raise UnsupportedModelError(msg)
    header = _fields(lines, "")
    version = header.get("version")
    if version not in VERSIONS:
        msg = (
            f"LightGBM model text has version {version!r}, and spinney reads "
            f"{', '.join(VERSIONS)} (LightGBM 2 to 4).\nHint: load it in LightGBM 4, "
            "check its predictions and save it again."
        )
        raise UnsupportedModelError(msg)
    if version == "v2" and "average_output" in header:
        # Nothing in the text tells which, and LightGBM 4 does not check.
        msg = (
            "LightGBM model text of version 2 is a random forest, which holds "
            "probabilities if LightGBM 2.1 or older wrote it and scores otherwise.\n"
            "Hint: train it again with a newer LightGBM."
        )
        raise UnsupportedModelError(msg)

    n_features = _integer(header, "max_feature_idx") + 1
    names = _required(header, "feature_names").split(" ")
    if len(names) != n_features:
        refuse_damaged(f"{n_features} features, but {len(names)} feature names")
    sizes = numbers(header, "tree_sizes", None, int)
    if not found or not len(sizes):
        if len(sizes):
            refuse_damaged("it ends before the first tree")
        msg = "LightGBM model has no trees.\nHint: train it for at least one iteration."
        raise UnsupportedModelError(msg)
    refuse_unknown("LightGBM", "its header", filter(None, header), HEADER_LINES)
    n_outputs = _integer(header, "num_tree_per_iteration")
    if n_outputs < 1 or len(sizes) % n_outputs:
        refuse_damaged(f"{len(sizes)} trees cannot serve {n_outputs} outputs")

    parsed, tail = _split_trees("Tree=" + trees, sizes.tolist(), version)
    categories = _categories(tail, names)
    objective, *words = header.get("objective", "").split(" ")
    options = dict(word.partition(":")[::2] for word in words)
    refuse_unknown("LightGBM", "'objective'", filter(None, options), OBJECTIVE_OPTIONS)
    return ModelText(
        n_features=n_features,
        feature_names=names,
        objective=objective or None,
        options=options,
        n_outputs=n_outputs,
        averaged="average_output" in header,
        n_leaves=np.array([len(tree["leaf_value"]) for tree in parsed]),
        n_category_sets=np.array([len(tree["set_sizes"]) for tree in parsed]),
        trees={
            name: np.concatenate([tree[name] for tree in parsed])
            for name in parsed[0]
            if all(name in tree for tree in parsed)
        },
        categories=categories,
    )


def _fields(lines: list[str], where: str) -> dict[str, str]:
    """Return what lines of the form ``name=value`` say."""
    try:
        return members_once(line.partition("=")[::2] for line in lines if line)
    except ValueError as error:
        refuse_damaged(f"{where}{error}", error)


def _required(fields: dict[str, str], name: str, where: str = "") -> str:
    if name not in fields:
        refuse_damaged(f"{where}the line {name!r} is missing")
    return fields[name]


def _integer(fields: dict[str, str], name: str, where: str = "") -> int:
    return int(numbers(fields, name, 1, int, where)[0])


def numbers(
    fields: dict[str, str],
    name: str,
    expected: int | None,
    kind: Callable[[str], Any],
    where: str = "",
) -> NDArray[Any]:
    """Return a line of numbers; `expected` is how many there must be, if known."""
    words = _required(fields, name, where).split()
    if expected is not None and len(words) != expected:
        refuse_damaged(
            f"{where}{name!r} must have {expected} numbers, got {len(words)}"
        )
    try:
        return np.array(
            list(map(kind, words)), dtype=np.int64 if kind is int else np.float64
        )
    except (ValueError, OverflowError) as error:
        refuse_damaged(f"{where}{name!r} holds something that is not a number", error)


def _split_trees(
    text: str, sizes: list[int], version: str
) -> tuple[list[dict[str, NDArray[Any]]], str]:
    """Return the arrays of each tree, and the text that follows the last tree."""
    trees = []
    start = 0
    for index, size in enumerate(sizes):
        block = text[start : start + max(size, 0)]
        # The sizes reveal a text that was cut off or edited, even inside a number.
        if not block.startswith(f"Tree={index}\n") or not block.endswith("\n\n"):
            refuse_damaged(f"tree {index} is not where 'tree_sizes' says")
        trees.append(_parse_tree(block, f"tree {index}: "))
        start += size
    tail = text[start:]
    # Before LightGBM 2.2, trees ended without such a line.
    ends = ("end of trees\n", "\nfeature importances:\n")
    if not tail.startswith(ends if version == "v2" else ends[:1]):
        refuse_damaged("the line 'end of trees' does not follow the last tree")
    return trees, tail


def _parse_tree(block: str, where: str) -> dict[str, NDArray[Any]]:
    fields = _fields(block.split("\n"), where)
    if fields.get("is_linear", "0") != "0":
        msg = (
            "LightGBM model uses linear trees (linear_tree=True), which spinney cannot "
            "read.\nHint: retrain with linear_tree=False. Supported: gbdt, rf and dart "
            "boosters with constant leaves."
        )
        raise UnsupportedModelError(msg)
    refuse_unknown("LightGBM", "a tree", filter(None, fields), TREE_LINES)
    n_leaves = _integer(fields, "num_leaves", where)
    if n_leaves < 1:
        refuse_damaged(f"{where}'num_leaves' must be at least 1, got {n_leaves}")
    n_inner = n_leaves - 1
    tree = {"leaf_value": numbers(fields, "leaf_value", n_leaves, float, where)}
    for name in ("split_feature", "decision_type", "left_child", "right_child"):
        tree[name] = numbers(fields, name, n_inner, int, where)
    for name in ("threshold", "internal_value", "internal_count"):
        tree[name] = numbers(fields, name, n_inner, float, where)
    if fields.get("leaf_count"):  # older versions leave it empty for a single leaf
        tree["leaf_count"] = numbers(fields, "leaf_count", n_leaves, float, where)
    _check_nodes(tree, where)
    return tree | _parse_categories(fields, tree, where)


def _check_nodes(tree: dict[str, NDArray[Any]], where: str) -> None:
    n_leaves, n_inner = len(tree["leaf_value"]), len(tree["threshold"])
    for name in ("left_child", "right_child"):
        if ((tree[name] < -n_leaves) | (tree[name] >= n_inner)).any():
            refuse_damaged(f"{where}{name!r} points outside the tree")
    if (tree["split_feature"] < 0).any():
        refuse_damaged(f"{where}'split_feature' must not be negative")
    decision = tree["decision_type"]
    if ((decision < 0) | (decision >> 2 > NAN_MISSING)).any():
        refuse_damaged(f"{where}'decision_type' must be between 0 and 11")


def _parse_categories(
    fields: dict[str, str], tree: dict[str, NDArray[Any]], where: str
) -> dict[str, NDArray[Any]]:
    """Return the sizes and the words of the category sets of a tree."""
    words = sizes = np.empty(0, dtype=np.int64)
    n_sets = _integer(fields, "num_cat", where)
    if n_sets:
        bounds = numbers(fields, "cat_boundaries", n_sets + 1, int, where)
        words = numbers(fields, "cat_threshold", None, int, where)
        sizes = np.diff(bounds)
        falls = (bounds[1:] < bounds[:-1]).any()
        if bounds[0] != 0 or falls or bounds[-1] != len(words):
            refuse_damaged(f"{where}'cat_boundaries' does not fit 'cat_threshold'")
        if ((words < 0) | (words >= 2**32)).any():
            refuse_damaged(f"{where}'cat_threshold' must hold 32-bit words")
    # At these nodes the threshold is the number of a set.
    chosen = tree["threshold"][tree["decision_type"] & CATEGORICAL > 0]
    if not np.isin(chosen, np.arange(len(sizes))).all():
        refuse_damaged(f"{where}a node refers to a category set that is not there")
    return {"set_sizes": sizes, "words": words}


def _categories(tail: str, feature_names: list[str]) -> dict[int, list[Any]]:
    """Return the categories of a data frame that the model was trained on.

    They stand behind the trees, as a list for each category column of the frame. Which
    columns these were is not said with them: they are those that were declared to be
    categorical, unless other columns were, too.
    """
    if "\nparameters:" in tail and "\nend of parameters" not in tail:
        refuse_damaged("it ends inside the parameters")
    parameters, found, after = tail.rpartition("\npandas_categorical:")
    if not found:
        return {}
    try:
        columns = json.loads(after) or []
        values = [list(codes) for codes in columns]
    except (ValueError, TypeError, RecursionError) as error:
        refuse_damaged("the line 'pandas_categorical' is not valid", error)
    if not values:
        return {}
    declared = _declared(parameters, feature_names)
    for codes in values:
        kinds = {type(code) for code in codes}
        if len(kinds) > 1 or not kinds <= {str, int, float, bool}:
            msg = (
                "LightGBM model was trained on a DataFrame with categories of several "
                f"types in a column ({sorted(kind.__name__ for kind in kinds)}), which "
                "spinney does not read.\nHint: convert them to strings before training."
            )
            raise UnsupportedModelError(msg)
    if len(declared) == len(values):
        return dict(zip(declared, values, strict=True))
    # Where the categories are 0, 1, 2, ... in this order, a value is its own code, and
    # values that were not seen in training go right with or without the recoding.
    in_order = all(codes == list(range(len(codes))) for codes in values)
    if in_order and all(type(code) is int for codes in values for code in codes):
        return {}
    msg = (
        f"LightGBM model was trained on a DataFrame with {len(values)} category "
        f"columns and {len(declared)} columns declared as categorical, and its text "
        "does not say which of them are the same.\nHint: train with "
        "categorical_feature='auto' and unordered categories, or turn such columns "
        "into integer codes (0, 1, 2, ...) first."
    )
    raise UnsupportedModelError(msg)


def _declared(parameters: str, feature_names: list[str]) -> list[int]:
    """Return the columns that were declared as categorical, in their order."""
    line = re.search(r"^\[categorical_feature: (.*)\]$", parameters, re.MULTILINE)
    words = line.group(1) if line else ""
    if words.startswith("name:"):
        names = words.removeprefix("name:").split(",")
        if not set(names) <= set(feature_names):
            refuse_damaged("'categorical_feature' names a column that is not there")
        return sorted(feature_names.index(name) for name in names)
    columns = [int(word) for word in words.split(",") if word.strip().isdigit()]
    if any(column >= len(feature_names) for column in columns):
        refuse_damaged("'categorical_feature' names a column that is not there")
    return sorted(set(columns))
