"""Random valid forests, and rows that lie where forests are easily wrong.

Hypothesis draws sizes, flags and a seed; NumPy builds the arrays from them. That
keeps an example cheap, and a failing one still shrinks to few trees and few flags.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from spinney import Forest
from spinney.forest import ZERO_BAND

SHAPES = ("leaf", "stump", "chain", "balanced", "grown", "unequal")
TASKS = (
    "vote",
    "mean classes",
    "mean score",
    "mean numbers",
    "sum score",
    "sum classes",
    "sum by class",
    "sum numbers",
    "sum by number",
)

F32_MAX = float(np.finfo(np.float32).max)
# Where float32 and float64, signs of zero or denormals are apt to be confused.
ODD_NUMBERS = np.array(
    [
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        1e-45,
        -1e-45,
        1e-40,
        2.3e-308,
        ZERO_BAND,
        -ZERO_BAND,
        0.1,
        float(np.float32(0.1)),
        1.0,
        2.0**24 + 1,
        1e-300,
        F32_MAX,
        -F32_MAX,
        np.nextafter(F32_MAX, np.inf),
        3.5e38,
        -3.5e38,
        1e300,
        -1e300,
        1.7976931348623157e308,
    ]
)
CODES = np.array(
    [
        *(-1.0, -0.5, 0.0, 0.5, 1.0, 31.0, 31.999, 32.0, 33.5, 63.0, 64.0, 95.5),
        *(127.0, 128.0, 1e6, 2.0**31, 2.0**32 + 1, 2.0**63, 2.0**64, 1e30),
        *(-33.0, -(2.0**31), -(2.0**63), -1e30),
    ]
)


# ------------------------------------------------------------------ forests


def tree_shape(rng, shape, depth):
    """Return (left, right) of one tree, root first, other nodes in any order.

    Leaves have children -1. `depth` is the number of levels below the root.
    """
    left, right = [-1], [-1]

    def split(node):
        left[node], right[node] = len(left), len(left) + 1
        left.extend((-1, -1))
        right.extend((-1, -1))

    if shape == "chain":
        node = 0
        for _ in range(depth):
            split(node)
            node = left[node] if rng.random() < 0.5 else right[node]
    elif shape == "balanced":
        for node in range(2 ** min(depth, 8) - 1):
            split(node)
    else:  # grown: the leaf to split is drawn from all leaves
        leaves = [0]
        for _ in range(depth):
            node = leaves.pop(int(rng.integers(len(leaves))))
            split(node)
            leaves += [left[node], right[node]]

    # Only the root has a fixed place; children may come before their parents.
    n_nodes = len(left)
    place = np.concatenate([[0], 1 + rng.permutation(n_nodes - 1)]).astype(int)
    placed = np.full((2, n_nodes), -1)
    for old, new in enumerate(place):
        if left[old] >= 0:
            placed[:, new] = place[left[old]], place[right[old]]
    return placed


def draw_thresholds(rng, size):
    """Return thresholds: ordinary, on a grid (many equal), odd and infinite ones."""
    kind = rng.integers(8, size=size)
    ordinary = rng.normal(size=size)
    return np.select(
        [kind < 2, kind == 2, kind == 3, kind == 4, kind == 5],
        [
            ordinary,
            ordinary.astype(np.float32).astype(np.float64),
            rng.integers(-2, 3, size=size) / 2,
            rng.choice(ODD_NUMBERS, size=size),
            rng.choice([np.inf, -np.inf], size=size),
        ],
        ordinary * 3,
    )


def draw_values(rng, shape, task):
    """Return node values: with ties for those who vote, hard to add for the others."""
    if task == "vote" or task == "mean classes":
        if rng.random() < 0.5:
            return rng.integers(0, 4, size=shape) / 4
        shares = rng.random(shape)
        return shares / shares.sum(axis=1, keepdims=True)
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-4, 5, size=shape)
    return values.astype(np.float32) if rng.random() < 0.5 else values


def random_forest(
    seed=0,
    *,
    n_trees=5,
    n_features=4,
    shape="grown",
    depth=6,
    task="vote",
    n_outputs=3,
    zero_is_missing=False,
    categories=None,
    **settings,
):
    """Return a valid forest, the same for the same arguments.

    Parameters
    ----------
    shape : one of `SHAPES`
        Of every tree; with "unequal" each tree has a shape and a depth of its own.
    depth : int
        Levels of a chain or (up to 8) of a balanced tree, splits of a grown one.
    task : one of `TASKS`
        Aggregation and what comes out.
    n_outputs : int
        Classes or numbers, where the task has several.
    categories : {"truncate", "floor", "exact"} or None
        With a rule, a third of the splits ask for a set of categories.
    settings : dict
        Further arguments of `Forest`.
    """
    rng = np.random.default_rng(seed)
    trees = []
    for _ in range(n_trees):
        kind, levels = shape, depth
        if shape == "unequal":
            kind = rng.choice(["leaf", "stump", "chain", "balanced", "grown"])
            levels = int(rng.integers(1, depth + 1))
        levels = {"leaf": 0, "stump": 1}.get(str(kind), levels)
        trees.append(tree_shape(rng, str(kind), levels))
    offsets = np.concatenate([[0], np.cumsum([tree.shape[1] for tree in trees])])
    children = np.concatenate(
        [
            np.where(tree < 0, -1, tree + start)
            for tree, start in zip(trees, offsets[:-1], strict=True)
        ],
        axis=1,
    )
    n_nodes = int(offsets[-1])
    inner = children[0] >= 0
    n_outputs = 1 if task.endswith("score") else n_outputs
    arguments = {
        "tree_offsets": offsets,
        "feature": np.where(inner, rng.integers(n_features, size=n_nodes), -1),
        "threshold": draw_thresholds(rng, n_nodes),
        "left": children[0],
        "right": children[1],
        "missing_left": rng.random(n_nodes) < 0.5,
        "n_features": n_features,
        "aggregation": task.split()[0],
        "n_outputs": n_outputs,
    }
    n_values = n_outputs
    if " by " in task:
        n_values = 1
        arguments["tree_output"] = rng.integers(n_outputs, size=n_trees)
    arguments["value"] = draw_values(rng, (n_nodes, n_values), task)
    if "number" not in task:
        n_classes = 2 if task.endswith("score") else n_outputs
        labels = rng.permutation(np.arange(100, 100 + n_classes))
        arguments["classes"] = labels.astype(str) if rng.random() < 0.5 else labels
    if rng.random() < 0.3:
        arguments["n_node_samples"] = rng.integers(0, 50, size=n_nodes)
    if zero_is_missing:
        arguments["zero_is_missing"] = rng.random(n_nodes) < 0.5
    if categories is not None:
        arguments |= _category_sets(rng, inner)
        arguments["category_rule"] = categories
    return Forest(**(arguments | settings))


def _category_sets(rng, inner):
    """Return category sets of 0 to 4 words for a third of the inner nodes."""
    n_sets = int(rng.integers(1, 6))
    sizes = rng.integers(0, 5, size=n_sets)
    words = rng.integers(2**32, size=int(sizes.sum()), dtype=np.uint32)
    words[rng.random(words.size) < 0.2] = 0
    words[rng.random(words.size) < 0.2] = 2**32 - 1
    asks = inner & (rng.random(inner.size) < 1 / 3)
    return {
        "category_set": np.where(asks, rng.integers(n_sets, size=inner.size), -1),
        "category_offsets": np.concatenate([[0], np.cumsum(sizes)]),
        "category_words": words,
    }


@st.composite
def forests(draw, tasks=TASKS, max_trees=12, max_depth=60):
    """Draw a random valid forest, of the given tasks only."""
    seed = draw(st.integers(0, 2**32 - 1), label="seed")
    task = draw(st.sampled_from(tasks), label="task")
    shape = draw(st.sampled_from(SHAPES), label="shape")
    n_outputs = draw(st.integers(2, 4) | st.integers(2, 30), label="n_outputs")
    settings = {
        "input_dtype": draw(st.sampled_from(["float32", "float64"])),
        "sum_dtype": draw(st.sampled_from(["float64", "float32"])),
    }
    if draw(st.booleans(), label="base"):
        # A mean or a vote has no score to start from; only sums have one.
        if task.startswith("sum"):
            n_bases = 1 if task == "sum score" else n_outputs
            settings["base_score"] = np.random.default_rng(seed).normal(size=n_bases)
            settings["base_added"] = draw(st.sampled_from(["first", "last"]))
        if task == "sum score":  # several outputs have none
            settings["decision_threshold"] = draw(st.sampled_from([0.5, 1e-300, -0.1]))
    if task in ("sum classes", "sum by class"):
        settings["link"] = draw(
            st.sampled_from(["identity", "softmax", "logistic", "logistic_each"])
        )
        settings["decides_by"] = draw(st.sampled_from(["raw", "probability"]))
    if task == "sum score":
        settings["link"] = draw(st.sampled_from(["identity", "logistic"]))
    return random_forest(
        seed,
        n_trees=draw(st.integers(1, max_trees), label="n_trees"),
        n_features=draw(st.integers(1, 6) | st.integers(1, 500), label="n_features"),
        shape=shape,
        depth=draw(st.integers(1, 8) | st.integers(1, max_depth), label="depth"),
        task=task,
        n_outputs=n_outputs,
        zero_is_missing=draw(st.booleans(), label="zero_is_missing"),
        categories=draw(
            st.sampled_from([None, "truncate", "floor", "exact"]), label="categories"
        ),
        **settings,
    )


# ------------------------------------------------------------------ rows


def random_rows(forest, n_rows, seed=0, dtype=np.float64, missing=True):
    """Return rows for `forest`: on and next to its thresholds, odd, infinite, missing.

    Half of them are led to a leaf drawn from all leaves, because a row of random
    numbers hardly ever comes to the end of a deep tree. With ``missing=False`` there
    is no NaN among them.
    """
    rng = np.random.default_rng(seed)
    shape = (n_rows, forest.n_features)
    anything = np.concatenate(
        [ODD_NUMBERS, CODES, [np.inf, -np.inf, 2 * ZERO_BAND], _near(ODD_NUMBERS)]
    )
    X = rng.normal(size=shape)
    odd = rng.random(shape) < 0.3
    X[odd] = rng.choice(anything, size=int(odd.sum()))
    for column in np.unique(forest.feature[forest.feature >= 0]):
        own = _near(np.unique(forest.threshold[forest.feature == column]))
        if forest.category_set is not None:
            own = np.concatenate([own, CODES])
        touched = rng.random(n_rows) < 0.6
        X[touched, column] = rng.choice(own, size=int(touched.sum()))
    if missing:
        share = rng.choice([0, 0.02, 0.3], size=(n_rows, 1))
        X[rng.random(shape) < share] = np.nan
    with np.errstate(over="ignore", under="ignore"):
        _lead_to_leaves(forest, X, rng)
        return X.astype(dtype)


def _lead_to_leaves(forest, X, rng):
    """Change half of the rows so that each takes the path to some leaf, if it can."""
    inner = np.flatnonzero(forest.feature >= 0)
    parent = np.full(forest.n_nodes, -1)
    parent[forest.left[inner]] = inner
    parent[forest.right[inner]] = inner
    leaves = np.flatnonzero(forest.feature < 0)
    for row in (X[i] for i in np.flatnonzero(rng.random(len(X)) < 0.5)):
        node = rng.choice(leaves)
        above, at_most = {}, {}
        while parent[node] >= 0:
            child, node = node, parent[node]
            column, threshold = forest.feature[node], forest.threshold[node]
            if child == forest.left[node]:
                at_most[column] = min(threshold, at_most.get(column, np.inf))
            else:
                above[column] = max(threshold, above.get(column, -np.inf))
        for column, threshold in above.items():
            row[column] = np.nextafter(np.float32(threshold), np.float32(np.inf))
        for column, threshold in at_most.items():
            row[column] = threshold


def _near(numbers):
    """Return `numbers` and their neighbours among the float64 and float32 numbers."""
    with np.errstate(over="ignore", under="ignore"):
        single = numbers.astype(np.float32)
        around = [
            numbers,
            np.nextafter(numbers, np.inf),
            np.nextafter(numbers, -np.inf),
            single,
            np.nextafter(single, np.float32(np.inf)),
            np.nextafter(single, np.float32(-np.inf)),
        ]
    return np.concatenate([one.astype(np.float64) for one in around])


@st.composite
def rows(draw, forest, max_rows=9):
    """Draw rows of float32 or float64 for `forest`."""
    return random_rows(
        forest,
        draw(st.integers(0, max_rows), label="n_rows"),
        seed=draw(st.integers(0, 2**32 - 1), label="row seed"),
        dtype=draw(st.sampled_from([np.float64, np.float32]), label="row dtype"),
        missing=draw(st.booleans(), label="missing"),
    )


@st.composite
def forests_and_rows(draw, max_rows=9, **kinds):
    """Draw a forest and rows for it; `kinds` go to `forests`."""
    forest = draw(forests(**kinds))
    return forest, draw(rows(forest, max_rows=max_rows))
