"""From the trees of an XGBoost document to the arrays of a `Forest`."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.forest import LEAF
from spinney.forest.invariants import MAX_DEPTH

# XGBoost counts categories in floats: from here on it knows none.
MAX_CATEGORY = 2**24
# A quarter of a gigabyte of category sets; real models need a fraction of that.
MAX_WORDS = 2**26


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


def read_trees(trees: list[Any], n_values: int) -> dict[str, NDArray[Any]]:
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
    sizes = np.array([len(tree.left) for tree in read])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    joined = {
        name: np.concatenate([getattr(tree, name) for tree in read])
        for name in _Tree._fields
        if name != "members"
    }
    shift = np.repeat(offsets[:-1], sizes)
    leaf = joined["left"] == LEAF
    for child in ("left", "right"):
        joined[child] = np.where(leaf, LEAF, joined[child] + shift)
    members = [each for tree in read for each in tree.members]
    kept = np.zeros(len(leaf), dtype=bool)
    for level in levels(joined["left"], joined["right"], offsets[:-1]):
        kept[level] = True

    categorical = joined.pop("categorical")
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
        arrays |= _category_words(members)
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
        right=np.where(swapped, left, right),
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
    place = right[leaf]
    if (
        len(weights) % n_values
        or ((place < 0) | (place >= len(weights) // n_values)).any()
    ):
        refuse_damaged("a leaf points outside 'leaf_weights'")
    value[leaf] = weights.reshape(-1, n_values)[place]
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
    place = {int(node): n for n, node in enumerate(nodes)}
    sets = []
    for node in np.flatnonzero(categorical):
        n = place.get(int(node))
        if n is None:
            refuse_damaged(f"tree {number}, node {node}: its categories are missing")
        sets.append(categories[starts[n] : starts[n] + sizes[n]])
    return sets


def _category_words(members: list[NDArray[np.int64]]) -> dict[str, NDArray[Any]]:
    """Return the sets as bits."""
    n_words = [int(each.max()) // 32 + 1 if each.size else 0 for each in members]
    offsets = np.concatenate([[0], np.cumsum(n_words)])
    if offsets[-1] > MAX_WORDS:
        msg = (
            f"The XGBoost model has category sets of {int(offsets[-1]) * 4:,} bytes in "
            f"all; spinney reads up to {MAX_WORDS * 4:,}.\n"
            "Hint: number the categories without gaps, from 0."
        )
        raise UnsupportedModelError(msg)
    words = np.zeros(offsets[-1], dtype=np.uint32)
    for start, each in zip(offsets[:-1], members, strict=True):
        bits = np.uint32(1) << (each % 32).astype(np.uint32)
        np.bitwise_or.at(words, start + each // 32, bits)
    return {"category_offsets": offsets, "category_words": words}


def levels(
    left: NDArray[np.int64], right: NDArray[np.int64], roots: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Return the nodes that the roots reach, level by level."""
    inner = left != LEAF
    children = np.concatenate([left[inner], right[inner]])
    # With one parent each, and none for the roots, the walk below meets no node twice.
    if (np.bincount(children, minlength=len(left)) > 1).any():
        refuse_damaged("a node has two parents")
    found: list[NDArray[np.int64]] = []
    level = roots
    while level.size:
        if len(found) > MAX_DEPTH:
            refuse_damaged(f"a tree has more than {MAX_DEPTH:,} levels")
        found.append(level)
        level = level[inner[level]]
        level = np.concatenate([left[level], right[level]])
    return found


def fill_inner_values(arrays: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return values for all nodes: at an inner node the mean of the leaves below it.

    The leaves are weighted by their sum of second derivatives, as XGBoost does it
    where it needs such a value itself. The weights that a document has for inner nodes
    (``base_weights``) are no alternative: they are not multiplied by the learning
    rate, the leaves are, and the document does not tell the rate.
    """
    left, right = arrays["left"], arrays["right"]
    value = arrays["value"].astype(np.float64)
    if not np.isfinite(value).all():
        refuse_damaged("a leaf has no finite value")
    weight = arrays["hessian"].astype(np.float64)
    for level in reversed(levels(left, right, arrays["tree_offsets"][:-1])):
        node = level[left[level] != LEAF]
        first, second = left[node], right[node]
        both = weight[first] + weight[second]
        # Leaves that no training row weighs down count the same.
        share = np.divide(
            weight[first], both, out=np.full(len(node), 0.5), where=both > 0
        )
        share = share[:, np.newaxis]
        value[node] = share * value[first] + (1 - share) * value[second]
        weight[node] = both
    return value
