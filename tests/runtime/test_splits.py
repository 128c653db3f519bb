"""Splits and codes of trees agree with a plain loop over each tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from spinney.runtime.splits import bit_lengths, list_splits


def splits_one_by_one(root, left, right, n_planes, by_level):
    """Return node, slot and bits that change of each split, and the codes of leaves."""
    taken, code_of_leaf, splits = {0}, {}, []
    stack = [(root, 0, 0, 0)]
    while stack:
        node, code, slot, level = stack.pop()
        if left[node] < 0:
            code_of_leaf[node] = code
            continue
        if by_level:
            new = code ^ (1 << (n_planes - 1 - level))
        else:
            close = [code ^ (1 << plane) for plane in range(n_planes)]
            codes = [*close, *range(1 << n_planes)]
            new = next(one for one in codes if one not in taken)
        taken.add(new)
        splits.append((node, slot, code ^ new))
        stack.append((left[node], code, slot, level + 1))
        stack.append((right[node], new, slot + 1, level + 1))
    return splits, code_of_leaf


@given(forest=strategies.forests(), spare=st.integers(0, 2), seed=st.integers(0, 99))
def test_splits_and_codes_are_those_of_a_plain_loop(forest, spare, seed):
    rng = np.random.default_rng(seed)
    trees = np.flatnonzero(rng.random(forest.n_trees) < 0.8)
    n_leaves = (np.diff(forest.tree_offsets)[trees] + 1) // 2
    depths = forest.depths[trees].astype(np.int64)
    planes = bit_lengths(n_leaves - 1) + spare
    by_level = (planes >= depths) & (rng.random(len(trees)) < 0.5)
    roots = forest.tree_offsets[trees]
    found = list_splits(roots, forest.left, forest.right, planes, by_level)
    for k, root in enumerate(roots):
        expected, code_of_leaf = splits_one_by_one(
            root, forest.left, forest.right, int(planes[k]), by_level[k]
        )
        part = slice(*found.offsets[k : k + 2])
        changed = found.flips[part] | (1 << found.plane[part])
        nodes, slots = found.node[part].tolist(), found.slot[part].tolist()
        assert list(zip(nodes, slots, changed.tolist(), strict=True)) == expected
        assert (found.flips[part] & (1 << found.plane[part]) == 0).all()
        for leaf, code in code_of_leaf.items():
            assert found.code[leaf] == code
        assert len(set(code_of_leaf.values())) == len(code_of_leaf)


@pytest.mark.parametrize("bits", [1, 7, 31, 52])
def test_bit_lengths_are_those_of_python(bits):
    numbers = [0, 1, (1 << bits) - 1, 1 << bits, (1 << bits) + 1]
    expected = [number.bit_length() for number in numbers]
    assert bit_lengths(np.array(numbers)).tolist() == expected
