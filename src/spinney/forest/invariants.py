"""What makes arrays a forest: checked once, when a `Forest` is made.

Files can be forged, so nothing is taken on trust here: a forest that passes can be
walked by compiled code that checks no index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidForestError
from spinney.forest.arrays import ARRAYS_PER_NODE, frozen
from spinney.forest.levels import levels
from spinney.forest.links import LINKS
from spinney.forest.nodes import LEAF

if TYPE_CHECKING:
    from spinney.forest import Forest

# Nodes and columns are numbered by 32-bit integers.
MAX_NODES = MAX_FEATURES = 2**31 - 1

CHOICES = {
    "aggregation": ("vote", "mean", "sum"),
    "category_rule": ("truncate", "floor", "exact"),
    "base_added": ("first", "last"),
    "link": LINKS,
    "decides_by": ("raw", "probability"),
    "exponential": ("numpy", "c", "scipy"),
    "input_dtype": ("float32", "float64"),
    "sum_dtype": ("float32", "float64"),
    "unseen_category": ("missing", "error"),
    "absent": ("zero", "missing"),
    "rounded_rows": ("none", "integers", "non_floats"),
    "model_predicts": ("answer", "probability", "raw"),
}


def _refuse(msg: str) -> NoReturn:
    raise InvalidForestError(msg)


def _refuse_node(
    forest: Forest, wrong: NDArray[np.bool_], what: str, values: NDArray | None = None
) -> None:
    """Raise, naming the first node where `wrong` is true, if there is one."""
    if not wrong.any():
        return
    node = int(np.argmax(wrong))
    tree = int(np.searchsorted(forest.tree_offsets, node, side="right")) - 1
    got = "" if values is None else f", got {values[node].item()!r}"
    start = int(forest.tree_offsets[tree])
    _refuse(f"tree {tree}, node {node - start}: {what}{got}.")


def check_count(name: str, value: Any, most: int) -> None:
    """Raise `InvalidForestError` unless `value` is an integer from 1 to `most`."""
    if not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
        _refuse(f"{name} must be a whole number from 1 to {most:,}, got {value!r}.")


def check_forest(forest: Forest) -> None:
    """Raise `InvalidForestError` unless `forest` can be walked without any check."""
    _check_settings(forest)
    _check_shapes(forest)
    _check_encoder(forest)
    _check_offsets(forest)
    _check_nodes(forest)
    _check_categories(forest)
    _check_outputs(forest)


def _check_settings(forest: Forest) -> None:
    for name, choices in CHOICES.items():
        if getattr(forest, name) not in choices:
            _refuse(f"{name} must be one of {choices}, got {getattr(forest, name)!r}.")
    check_count("n_features", forest.n_features, MAX_FEATURES)
    for name in ("link_scale", "decision_threshold"):
        if not np.isfinite(getattr(forest, name)):
            _refuse(f"{name} must be finite, got {getattr(forest, name)}.")
    if forest.missing_value is not None and not np.isfinite(forest.missing_value):
        _refuse(f"missing_value must be finite, got {forest.missing_value}.")
    names = forest.feature_names
    if names is not None and len(names) != forest.n_features:
        _refuse(
            f"feature_names must have {forest.n_features} entries, one per column, "
            f"got {len(names)}."
        )


def _check_shapes(forest: Forest) -> None:
    if forest.feature.ndim != 1 or not 1 <= forest.n_nodes <= MAX_NODES:
        _refuse(
            "feature must be a one-dimensional array with at least one node, got "
            f"shape {forest.feature.shape}."
        )
    for name in ARRAYS_PER_NODE:
        array = getattr(forest, name)
        if name == "value" or array is None:
            continue
        if array.shape != forest.feature.shape:
            _refuse(
                f"{name} must have one entry for each of the {forest.n_nodes} nodes, "
                f"got shape {array.shape}."
            )
    if forest.value.ndim != 2 or forest.value.shape[0] != forest.n_nodes:
        _refuse(
            f"value must have one row for each of the {forest.n_nodes} nodes, got "
            f"shape {forest.value.shape}."
        )
    if forest.value.shape[1] < 1:
        _refuse("value must have at least one column.")


def _check_encoder(forest: Forest) -> None:
    if forest.encoder is None:
        return
    forest.encoder.check_columns(forest.n_features)
    check_count("the number of encoded columns", forest.width, MAX_FEATURES)
    others = ("category_set", "categories", "zero_is_missing", "missing_value")
    for name in others:
        if getattr(forest, name) is not None:
            _refuse(f"a forest with an encoder must have no {name}.")
    if forest.input_dtype != "float32":
        _refuse(f"an encoder makes rows of float32, got {forest.input_dtype}.")
    columns = forest.encoder.category_columns
    wrong = np.isin(forest.feature, columns)
    what = "a column of category values cannot be compared"
    if wrong.any():
        _refuse(f"node {int(np.argmax(wrong))}: {what}.")


def _check_offsets(forest: Forest) -> None:
    offsets = forest.tree_offsets
    if offsets.ndim != 1 or len(offsets) < 2:
        _refuse("a forest needs at least one tree, got none.")
    if offsets[0] != 0 or offsets[-1] != forest.n_nodes:
        _refuse(
            f"tree_offsets must run from 0 to the number of nodes, {forest.n_nodes}, "
            f"got {int(offsets[0])} to {int(offsets[-1])}."
        )
    # Compared, not subtracted: a difference of forged numbers could wrap around.
    empty = offsets[1:] <= offsets[:-1]
    if empty.any():
        _refuse(f"tree {int(np.argmax(empty))}: must have at least one node.")


def _check_nodes(forest: Forest) -> None:
    feature, left, right = forest.feature, forest.left, forest.right
    leaf = feature == LEAF
    wrong = (feature < -1) | (feature >= forest.width)
    what = f"feature must be -1 (leaf) or below {forest.width}"
    _refuse_node(forest, wrong, what, feature)
    _refuse_node(
        forest, np.isnan(forest.threshold), "the threshold must be a number, got NaN"
    )
    _refuse_node(
        forest,
        np.logical_not(np.isfinite(forest.value).all(axis=1)),
        "values must be finite numbers, got NaN or infinity",
    )
    if forest.n_node_samples is not None:
        wrong = ~(np.isfinite(forest.n_node_samples) & (forest.n_node_samples >= 0))
        what = "the number of training rows must be finite and not negative"
        _refuse_node(forest, wrong, what, forest.n_node_samples)

    sizes = np.diff(forest.tree_offsets)
    start = np.repeat(forest.tree_offsets[:-1], sizes)
    end = np.repeat(forest.tree_offsets[1:], sizes)
    for name, child in (("left", left), ("right", right)):
        what = f"a leaf must have {name} child -1"
        _refuse_node(forest, leaf & (child != -1), what, child)
        # The root is no node's child, hence "<=".
        wrong = ~leaf & ((child <= start) | (child >= end))
        _refuse_node(forest, wrong, f"{name} child outside its own tree", child)
    parents = np.bincount(left[~leaf], minlength=forest.n_nodes)
    parents += np.bincount(right[~leaf], minlength=forest.n_nodes)
    parents[forest.tree_offsets[:-1]] += 1  # each root counts as reached
    _refuse_node(forest, parents > 1, "reached from more than one parent")
    _refuse_node(forest, parents < 1, "not reached from any parent")
    # With one parent each, nodes that no root reaches lie on a cycle of their own.
    reached = np.zeros(forest.n_nodes, dtype=bool)
    for level in levels(left, right, forest.tree_offsets[:-1]):
        reached[level] = True
    _refuse_node(forest, ~reached, "lies on a cycle, or below one")


def tree_depths(forest: Forest) -> NDArray[np.int64]:
    """Return the number of levels below the root of each tree of a valid forest."""
    depths = np.zeros(forest.n_trees, dtype=np.int64)
    roots = forest.tree_offsets[:-1]
    for depth, level in enumerate(levels(forest.left, forest.right, roots)):
        trees = np.searchsorted(forest.tree_offsets, level, side="right") - 1
        depths[trees] = depth
    return frozen(depths)


def _check_categories(forest: Forest) -> None:
    parts = (forest.category_set, forest.category_offsets, forest.category_words)
    if all(part is None for part in parts):
        return
    chosen, offsets, words = parts
    if chosen is None or offsets is None or words is None:
        _refuse(
            "category_set, category_offsets and category_words belong together: give "
            "all three or none."
        )
    if offsets.ndim != 1 or words.ndim != 1 or len(offsets) < 1:
        _refuse("category_offsets and category_words must have one dimension.")
    if (
        offsets[0] != 0
        or offsets[-1] != len(words)
        or (offsets[1:] < offsets[:-1]).any()
    ):
        _refuse(
            f"category_offsets must rise from 0 to the number of words, {len(words)}."
        )
    n_sets = len(offsets) - 1
    wrong = (chosen < -1) | (chosen >= n_sets)
    _refuse_node(forest, wrong, f"category_set must be -1 or below {n_sets}", chosen)
    wrong = (chosen != -1) & (forest.feature == -1)
    _refuse_node(forest, wrong, "a leaf cannot have a category set", chosen)


def _n_classes(forest: Forest) -> int:
    return 0 if forest.classes is None else len(forest.classes)


def _check_outputs(forest: Forest) -> None:
    n_values = forest.value.shape[1]
    if forest.tree_output is None:
        if n_values != forest.n_outputs:
            _refuse(
                f"value must have {forest.n_outputs} columns, one per output, got "
                f"{n_values}."
            )
    else:
        if n_values != 1:
            _refuse(
                "with tree_output each node has a single value, got "
                f"{n_values} columns."
            )
        if forest.tree_output.shape != (forest.n_trees,):
            _refuse(
                f"tree_output must have one entry for each of the {forest.n_trees} "
                f"trees, got shape {forest.tree_output.shape}."
            )
        wrong = (forest.tree_output < 0) | (forest.tree_output >= forest.n_outputs)
        if wrong.any():
            tree = int(np.argmax(wrong))
            _refuse(
                f"tree {tree}: tree_output must be between 0 and "
                f"{forest.n_outputs - 1}, got {int(forest.tree_output[tree])}."
            )
    if forest.curve is not None and (forest.n_outputs, _n_classes(forest)) != (1, 2):
        _refuse("a calibration curve needs two classes and a single output.")
    if forest.n_outputs > 1 and forest.decision_threshold != 0:
        _refuse(
            f"decision_threshold is for a single output, and this forest has "
            f"{forest.n_outputs}, of which the largest wins; got "
            f"{forest.decision_threshold}. With two classes that are averaged, keep "
            "the second alone: replace(value=forest.value[:, 1:], n_outputs=1, "
            "base_score=0.0, decision_threshold=...)."
        )
    if not np.isfinite(forest.base_score).all():
        _refuse(f"base_score must be finite, got {forest.base_score.tolist()}.")
    if forest.aggregation != "sum" and forest.base_score.any():
        _refuse(f"a {forest.aggregation} has no base score, got {forest.base_score}.")
    if forest.classes is None:
        if forest.model_predicts == "probability":
            _refuse("a model that predicts probabilities needs classes, got none.")
        if forest.aggregation == "vote":
            _refuse("a vote needs classes, got none.")
        if forest.link not in ("identity", "exp"):
            _refuse(f"link {forest.link!r} needs classes, got none.")
        return
    if forest.classes.ndim != 1 or len(forest.classes) < 1:
        _refuse("classes must be a one-dimensional array with at least one label.")
    n_classes = len(forest.classes)
    if forest.link == "exp":
        _refuse("link 'exp' is for regressors, and this forest has classes.")
    if n_classes != forest.n_outputs and (n_classes, forest.n_outputs) != (2, 1):
        _refuse(
            f"{n_classes} classes need {n_classes} outputs (two classes may have a "
            f"single one), got {forest.n_outputs}."
        )
    if forest.aggregation == "vote" and not forest.votes_by_class:
        _refuse("a vote needs one value per class at every node.")
