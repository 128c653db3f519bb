"""Small trees as masks over their leaves: the bits of the reference, for a few rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import spinney
from spinney.runtime import Engine
from spinney.runtime.leaf_masks import MAX_ROWS, least_rows, mask_leaves
from spinney.runtime.mask_kernels import score_masked_rows
from strategies import forests, random_rows


def masked_raw(forest, X):
    """Return the raw scores by masks, whether or not they are the quickest way."""
    engine = Engine(forest)
    rows = engine.rows(X)
    arguments = mask_leaves(forest, rows.dtype.type, engine._added, engine.tree_output)
    total = np.empty((len(rows), forest.n_outputs), engine.sum_dtype)
    score_masked_rows(rows, *arguments, engine._ends, total)
    return total


def is_known(forest):
    plain = forest.category_set is None and forest.zero_is_missing is None
    leaves = np.diff(forest.tree_offsets) // 2 + 1
    return plain and forest.encoder is None and leaves.max() <= 64


@given(forest=forests(max_depth=8), n_rows=st.sampled_from([0, 1, 8, 9, 16, 17, 64]))
def test_masks_give_the_bits_of_the_reference(forest, n_rows):
    if not is_known(forest):
        return
    X = random_rows(forest, n_rows, seed=n_rows, dtype=forest.input_dtype)
    assert masked_raw(forest, X).tobytes() == reference.raw(forest, X).tobytes()


def comb(n_leaves, to_the_left):
    """Return a tree whose inner nodes are all on one path."""
    n_inner = n_leaves - 1
    inner = np.arange(n_inner)
    leaf, further = n_inner + inner, np.append(inner[1:], 2 * n_inner)
    left, right = (further, leaf) if to_the_left else (leaf, further)
    none = np.full(n_leaves, -1)
    return {
        "feature": np.concatenate([inner % 3, none]),
        "threshold": np.concatenate([np.linspace(-1, 1, n_inner), np.zeros(n_leaves)]),
        "left": np.concatenate([left, none]),
        "right": np.concatenate([right, none]),
        "value": np.arange(2 * n_leaves - 1, dtype=np.float64) ** 1.5,
    }


@pytest.mark.parametrize("to_the_left", [True, False])
@pytest.mark.parametrize("n_leaves", [2, 3, 63, 64])
def test_a_comb_may_have_as_many_leaves_as_a_mask_has_bits(n_leaves, to_the_left):
    tree = comb(n_leaves, to_the_left)
    forest = spinney.Forest(
        tree_offsets=[0, 2 * n_leaves - 1], n_features=3, aggregation="sum", **tree
    )
    X = np.random.default_rng(0).uniform(-1.2, 1.2, (64, 3)).astype(np.float32)
    X[::5, 1] = np.nan
    X[1::7, 2] = np.inf
    assert masked_raw(forest, X).tobytes() == reference.raw(forest, X).tobytes()
    assert least_rows(forest) >= 2


def test_trees_that_masks_do_not_know_are_left_to_others():
    tree = comb(65, True)
    large = spinney.Forest(
        tree_offsets=[0, 129], n_features=3, aggregation="sum", **tree
    )
    assert least_rows(large) > MAX_ROWS
    small = spinney.Forest(
        tree_offsets=[0, 3], n_features=3, aggregation="sum", **comb(2, True)
    )
    assert least_rows(small) <= MAX_ROWS
    zero = small.replace(zero_is_missing=np.array([True, False, False]))
    assert least_rows(zero) > MAX_ROWS


def test_many_conditions_call_for_more_rows():
    rng = np.random.default_rng(0)

    def stumps(thresholds):
        offsets = 3 * np.arange(len(thresholds) + 1)
        child = np.full(offsets[-1], -1)
        left, right = child.copy(), child.copy()
        left[::3], right[::3] = offsets[:-1] + 1, offsets[:-1] + 2
        child[::3] = 0
        return spinney.Forest(
            tree_offsets=offsets,
            feature=child,
            threshold=np.repeat(thresholds, 3),
            left=left,
            right=right,
            value=rng.normal(size=len(child)),
            n_features=1,
            aggregation="sum",
        )

    shared, own = stumps(np.zeros(200)), stumps(np.arange(200.0))
    assert 2 <= least_rows(shared) <= least_rows(own)
    X = rng.uniform(0, 200, (60, 1)).astype(np.float32)
    for one in (shared, own):
        for n_rows in (1, 2, 3, 10, 47, 48, 60):
            raw = one.engine.raw(one.engine.rows(X[:n_rows]))
            assert raw.tobytes() == reference.raw(one, X[:n_rows]).tobytes()
