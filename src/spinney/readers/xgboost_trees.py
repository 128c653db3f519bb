"""From the trees of an XGBoost document to the arrays of a `Forest`."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidForestError, UnsupportedModelError
from spinney.forest import LEAF
from spinney.forest.levels import levels
from spinney.readers.category_bits import pack_sets
from spinney.readers.inner_means import inner_means
from spinney.readers.joining import NodeArrays, join_trees

# XGBoost counts categories in floats: from here on it knows none.
MAX_CATEGORY = 2**24


def refuse_damaged(what: str, cause: Exception | None = None) -> NoReturn:
    """Raise the error for a document that is not as XGBoost writes it."""
    msg = f"The XGBoost model is damaged: {what}. Save the model again."
    raise UnsupportedModelError(msg) from cause


def part(holder: Any, name: str, kind: type) -> Any:
    """Return ``holder[name]``, which must be of type `kind`."""
    if not isinstance(holder, dict) or not isinstance(holder.get(name), kind):
        refuse_damaged(f"{name!r} is missing, or no {kind.__name__}")
    return holder[name]


def numbers(holder: Any, name: str, kinds: str = "iub") -> NDArray[Any]:
    """Return ``holder[name]`` as a one-dimensional array of numbers.

    Parameters
    ----------
    holder : dict
        A part of the document.
    name : str
        Name of a list, or of an array.
    kinds : str, default="iub"
        Kinds of NumPy types that are welcome: whole numbers only by default.
    """
    given = holder.get(name) if isinstance(holder, dict) else None
    try:
        array = np.asarray(given if isinstance(given, (list, np.ndarray)) else None)
    except ValueError:  # a list of lists of different lengths
        array = np.asarray(None)
    if array.ndim != 1 or (array.size and array.dtype.kind not in kinds):
        refuse_damaged(f"{name!r} is missing, or no list of numbers")
    return array if array.size else array.astype(np.int64)


class _Tree(NamedTuple):
    """One tree, its nodes numbered from 0 as in the document."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.bool_]
    value: NDArray[np.float32]
    hessian: NDArray[np.float32]
    categorical: NDArray[np.bool_]
    members: list[NDArray[np.int64]]


def read_trees(trees: list[Any], n_values: int) -> NodeArrays:
    """Return the arrays of a forest, values at the leaves only.

    Parameters
    ----------
    trees : list of dict
        Trees of a document, at least one.
    n_values : int
        Numbers per leaf.

    Returns
    -------
    arrays : dict
        Parameters of `Forest`, and ``"hessian"``, the weight of each node.
    """
    read = [_read_tree(tree, n, n_values) for n, tree in enumerate(trees)]
    members = [each for tree in read for each in tree.members]
    wanted = [name for name in _Tree._fields if name != "members"]
    joined = join_trees(
        [{name: getattr(tree, name) for name in wanted} for tree in read]
    )
    offsets = joined.pop("tree_offsets")
    categorical = joined.pop("categorical")
    leaf = joined["left"] == LEAF
    kept = _reached(joined["left"], joined["right"], offsets[:-1])
    arrays = {name: array[kept] for name, array in joined.items()}
    # Pruning leaves deleted nodes behind; the others move up.
    position = np.cumsum(kept) - 1
    inner = ~leaf[kept]
    for child in ("left", "right"):
        arrays[child] = np.where(inner, position[arrays[child]], LEAF)
    arrays["tree_offsets"] = np.concatenate([[0], np.cumsum(kept)[offsets[1:] - 1]])
    if members:
        which = np.full(len(leaf), -1)
        which[categorical] = np.arange(len(members))
        arrays["category_set"] = which[kept]
        arrays |= pack_sets(members, "The XGBoost model")
    return arrays


def _read_tree(tree: Any, number: int, n_values: int) -> _Tree:
    left = numbers(tree, "left_children").astype(np.int64)
    n_nodes = len(left)
    right = _per_node(tree, "right_children", n_nodes).astype(np.int64)
    condition = _per_node(tree, "split_conditions", n_nodes, "iuf")
    with np.errstate(over="ignore"):  # infinite leaves are refused by the forest
        condition = condition.astype(np.float32)
    default_left = _per_node(tree, "default_left", n_nodes) != 0
    leaf = left == LEAF
    inner = ~leaf
    for child in (left, right):
        if (inner & ((child <= 0) | (child >= n_nodes))).any() or n_nodes == 0:
            refuse_damaged(f"tree {number} has a child outside its own nodes")
    feature = _per_node(tree, "split_indices", n_nodes).astype(np.int64)

    value = _leaf_values(tree, leaf, condition, right, n_values)
    hessian = np.ones(n_nodes, dtype=np.float32)
    if "sum_hessian" in tree:  # vector leaves: since XGBoost 3.2
        # JSON has the digits of a float32 only, so that is what they are read as.
        with np.errstate(over="ignore"):
            hessian = _per_node(tree, "sum_hessian", n_nodes, "iuf").astype(np.float32)
    categorical = np.zeros(n_nodes, dtype=bool)
    if "split_type" in tree:  # since XGBoost 1.3
        categorical = inner & (_per_node(tree, "split_type", n_nodes) != 0)

    # x < t goes left, that is, x <= the float before t.
    threshold = np.nextafter(condition, np.float32(-np.inf))
    # x < -inf holds for no number at all: all of them go left once the children have
    # changed places. Members of a category set go right in XGBoost, left in a Forest.
    nothing_left = inner & ~categorical & (condition == -np.inf)
    threshold[nothing_left] = np.inf
    threshold[leaf | categorical] = 0
    swapped = nothing_left | categorical
    return _Tree(
        left=np.where(swapped, right, left),
        # A leaf's right child may be an index into 'leaf_weights'.
        right=np.where(leaf, LEAF, np.where(swapped, left, right)),
        feature=np.where(leaf, LEAF, feature),
        threshold=threshold,
        missing_left=(default_left ^ swapped) & inner,
        value=value,
        hessian=np.where((hessian > 0) & np.isfinite(hessian), hessian, 0.0),
        categorical=categorical,
        members=_members(tree, number, categorical),
    )


def _per_node(tree: Any, name: str, n_nodes: int, kinds: str = "iub") -> NDArray[Any]:
    array = numbers(tree, name, kinds)
    if len(array) != n_nodes:
        refuse_damaged(f"{name!r} has {len(array)} entries for {n_nodes} nodes")
    return array


def _leaf_values(
    tree: Any,
    leaf: NDArray[np.bool_],
    condition: NDArray[np.float32],
    right: NDArray[np.int64],
    n_values: int,
) -> NDArray[np.float32]:
    """Return (nodes, values) what each leaf adds; zeros at inner nodes."""
    if n_values == 1:
        return np.where(leaf, condition, np.float32(0)).reshape(-1, 1)
    with np.errstate(over="ignore"):
        weights = numbers(tree, "base_weights", "iuf").astype(np.float32)
        if len(weights) != len(leaf) * n_values:
            refuse_damaged(f"'base_weights' has not {n_values} numbers for each node")
        value = weights.reshape(-1, n_values).copy()
        value[~leaf] = 0
        if "leaf_weights" not in tree:  # until XGBoost 3.1
            return value
        # Since then leaves have a list of their own, and a leaf's right child says
        # where in it.
        weights = numbers(tree, "leaf_weights", "iuf").astype(np.float32)
    slot = right[leaf]
    if (
        len(weights) % n_values
        or ((slot < 0) | (slot >= len(weights) // n_values)).any()
    ):
        refuse_damaged("a leaf points outside 'leaf_weights'")
    value[leaf] = weights.reshape(-1, n_values)[slot]
    return value


def _members(
    tree: Any, number: int, categorical: NDArray[np.bool_]
) -> list[NDArray[np.int64]]:
    """Return the categories in the set of each categorical node, in node order."""
    if not categorical.any():
        return []
    nodes = numbers(tree, "categories_nodes").astype(np.int64)
    starts = _per_node(tree, "categories_segments", len(nodes)).astype(np.int64)
    sizes = _per_node(tree, "categories_sizes", len(nodes)).astype(np.int64)
    categories = numbers(tree, "categories").astype(np.int64)
    if ((categories < 0) | (categories >= MAX_CATEGORY)).any():
        refuse_damaged(f"tree {number} has a category outside [0, {MAX_CATEGORY:,})")
    wrong = (starts < 0) | (sizes < 0) | (starts > len(categories))
    if (wrong | (sizes > len(categories) - starts)).any():
        refuse_damaged(f"tree {number} has a category set outside its categories")
    set_of_node = {int(node): n for n, node in enumerate(nodes)}
    sets = []
    for node in np.flatnonzero(categorical):
        n = set_of_node.get(int(node))
        if n is None:
            refuse_damaged(f"tree {number}, node {node}: its categories are missing")
        sets.append(categories[starts[n] : starts[n] + sizes[n]])
    return sets


def _reached(
    left: NDArray[np.int64], right: NDArray[np.int64], roots: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which nodes the roots reach."""
    inner = left != LEAF
    children = np.concatenate([left[inner], right[inner]])
    # With one parent each, and none for the roots, the walk below meets no node twice.
    if (np.bincount(children, minlength=len(left)) > 1).any():
        refuse_damaged("a node has two parents")
    reached = np.zeros(len(left), dtype=bool)
    try:
        for level in levels(left, right, roots):
            reached[level] = True
    except InvalidForestError as error:
        refuse_damaged(str(error).rstrip("."), error)
    return reached


def fill_inner_values(arrays: NodeArrays) -> NDArray[np.float64]:
    """Return values for all nodes: at an inner node the mean of the leaves below it.

    The leaves are weighted by their sum of second derivatives, as XGBoost does it
    where it needs such a value itself. The weights that a document has for inner nodes
    (``base_weights``) are no alternative: they are not multiplied by the learning
    rate, the leaves are, and the document does not tell the rate.
    """
    if not np.isfinite(arrays["value"]).all():
        refuse_damaged("a leaf has no finite value")
    return inner_means(
        arrays["left"],
        arrays["right"],
        arrays["tree_offsets"][:-1],
        arrays["value"],
        arrays["hessian"],
        remainder="right",
    ).value
