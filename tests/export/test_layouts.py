"""How trees are written: every number of trees, every way to share thresholds."""

from __future__ import annotations

import numpy as np
import pytest

from export.native import Native
from spinney.export.inputs import float_keys, make_slots
from spinney.export.packed_layout import PackedLayout
from spinney.export.preorder import preorder
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


@pytest.mark.parametrize(
    ("input_type", "n_features", "width"),
    [("int8", 40, 3), ("int16", 3000, 5), (None, 40, 6), (None, 3000, 7)],
)
def test_nodes_of_any_width(input_type, n_features, width, tmp_path):
    forest = random_forest(
        2, n_trees=4, depth=200, task="sum score", n_features=n_features
    )
    rng = np.random.default_rng(0)
    forest = forest.replace(threshold=rng.normal(0, 50, size=forest.n_nodes))
    layout = PackedLayout(forest, make_slots(forest, input_type, 1.0))
    assert layout._width == width
    rows = rng.integers(-128, 128, size=(100, n_features))
    native = Native(forest, tmp_path, layout="packed", input_type=input_type)
    expected = forest.winners(forest.engine.raw(forest.engine.rows(rows)))
    assert np.array_equal(native.counted(rows)[0], expected)


@pytest.mark.parametrize("n_distinct", [3, 40, None])
def test_leaves_hold_values_where_that_is_shorter(n_distinct, tmp_path):
    forest = random_forest(2, n_trees=30, depth=60, task="sum score", n_features=3)
    rng = np.random.default_rng(0)
    value = rng.normal(size=forest.value.shape)
    if n_distinct is not None:
        value = rng.choice(value[:n_distinct, 0], size=forest.value.shape)
    forest = forest.replace(value=value)
    rows = random_rows(forest, 300, dtype=np.float32)
    found = []
    for layout in ("fast", "packed"):
        native = Native(forest, tmp_path, layout=layout, arithmetic="integer", X=rows)
        found.append(native.counted(rows)[0])
        shares = "m_score[" in native.source.code
        assert shares == (layout == "packed" and n_distinct is not None)
        (tmp_path / "m.so").unlink()
    assert np.array_equal(*found)
    expected = forest.winners(forest.engine.raw(forest.engine.rows(rows)))
    assert np.mean(found[0] != expected) < 0.05
