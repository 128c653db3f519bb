"""How trees are written: every number of trees, every way to share thresholds."""

from __future__ import annotations

import numpy as np
import pytest

from export.native import Native
from spinney.export.inputs import float_keys, make_slots
from spinney.export.packed_layout import PackedLayout, preorder
from strategies import ODD_NUMBERS, random_forest, random_rows


@pytest.mark.parametrize("n_trees", [1, 3, 4, 5, 8, 9, 12, 13, 17])
def test_groups_of_any_size(n_trees, tmp_path):
    forest = random_forest(
        n_trees, n_trees=n_trees, depth=30, shape="unequal", task="sum score"
    )
    rows = random_rows(forest, 300, dtype=np.float32)
    native = Native(forest, tmp_path)
    expected = forest.winners(forest.engine.raw(forest.engine.rows(rows)))
    assert np.array_equal(native.counted(rows)[0], expected)


@pytest.mark.parametrize("is_shared", [True, False])
def test_thresholds_are_shared_where_that_is_shorter(is_shared, tmp_path):
    forest = random_forest(2, n_trees=30, depth=60, task="vote", n_features=3)
    rng = np.random.default_rng(0)
    few = rng.choice([-1.0, 0.0, 0.5, 2.0], size=forest.n_nodes)
    threshold = few if is_shared else rng.normal(size=forest.n_nodes)
    forest = forest.replace(threshold=threshold)
    layout = PackedLayout(forest, make_slots(forest, None, 1.0))
    assert layout.is_shared == is_shared
    rows = random_rows(forest, 300, dtype=np.float32)
    native = Native(forest, tmp_path, layout="packed")
    expected = forest.winners(forest.engine.raw(forest.engine.rows(rows)))
    assert np.array_equal(native.counted(rows)[0], expected)


def test_preorder_is_what_a_recursion_finds():
    forest = random_forest(3, n_trees=4, depth=20, shape="unequal")
    slots = make_slots(forest, None, 1.0)
    found = preorder(forest, slots)
    at = leaf = 0

    def visit(node):
        """Number a subtree; return how many inner nodes it has."""
        nonlocal at, leaf
        assert found.leaf[node] == leaf
        if forest.left[node] < 0:
            leaf += 1
            return 0
        assert found.at[node] == at
        at += 1
        n_left = visit(forest.left[node])
        assert found.n_left[node] == n_left
        return 1 + n_left + visit(forest.right[node])

    for tree, root in enumerate(forest.tree_offsets[:-1]):
        assert found.start[tree] == at
        visit(root)
    assert found.start[-1] == at


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_keys_keep_the_order_of_the_numbers(kind):
    with np.errstate(over="ignore", under="ignore"):
        odd = np.concatenate([ODD_NUMBERS, -ODD_NUMBERS, [np.inf, -np.inf]])
        numbers = np.sort(odd.astype(kind)).astype(np.float64)
    keys = float_keys(numbers, kind)
    ahead = numbers[:, None] > numbers[None]
    assert np.array_equal(keys[:, None] > keys[None], ahead)
    bits = 32 if kind == "float32" else 64
    assert keys.min() > 0  # room for a missing value on either side
    assert int(keys.max()) < 2**bits - 1
