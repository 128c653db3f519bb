"""Orders of nodes agree with plain loops; equal rows are found whatever their bits."""

from __future__ import annotations

import time
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from spinney.runtime import building, layout
from spinney.runtime.building import arrange_nodes, distinct_rows, leaves_below


def numbers(kind, size):
    """Return values whose bits are apt to collide: few low or few high ones differ."""
    rng = np.random.default_rng(0)
    return {
        "float64": rng.normal(size=size),
        "float32": rng.normal(size=size).astype(np.float32).astype(np.float64),
        "integers": np.arange(size, dtype=np.float64),
        "fractions": np.arange(size) / 1024,
        "shares": rng.integers(0, 20, size=(size, 5)) / 20,
        "equal": np.full(size, 0.1),
        "signs of zero": np.where(rng.random(size) < 0.5, 0.0, -0.0),
        "powers of two": 2.0 ** rng.integers(-1000, 1000, size=size),
        "neighbours": np.arange(size, dtype=np.int64).view(np.float64),
    }[kind].reshape(size, -1)


KINDS = [
    "float64",
    "float32",
    "integers",
    "fractions",
    "shares",
    "equal",
    "signs of zero",
    "powers of two",
    "neighbours",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 900])
def test_rows_are_numbered_in_the_order_in_which_they_appear(kind, size):
    bits = numbers(kind, size).view(np.int64)
    number, n_distinct = distinct_rows(bits)
    seen = {}
    expected = [seen.setdefault(row.tobytes(), len(seen)) for row in bits]
    assert number.tolist() == expected
    assert n_distinct == len(seen)


def test_rows_that_share_a_key_are_told_apart(monkeypatch):
    monkeypatch.setattr(
        building, "_keys_of", lambda bits: np.zeros(len(bits), dtype=np.uint64)
    )
    test_rows_are_numbered_in_the_order_in_which_they_appear("shares", 900)


def test_no_rows_at_all_have_no_numbers():
    number, n_distinct = distinct_rows(np.empty((0, 3), dtype=np.int64))
    assert number.shape == (0,)
    assert n_distinct == 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_pattern_of_bits_takes_long(kind):
    # About 0.02 s where the keys differ, much longer where they collide.
    bits = numbers(kind, 200_000).view(np.int64)
    start = time.perf_counter()
    distinct_rows(bits)
    assert time.perf_counter() - start < 2


def slots_one_by_one(forest, weight):
    """Return slots and roots, walking depth first, to the heavier child first."""
    slot = np.zeros(forest.n_nodes, dtype=np.int64)
    root = [0]
    for first in forest.tree_offsets[:-1]:
        stack, free = [first], 2
        while stack:
            node = stack.pop()
            left, right = forest.left[node], forest.right[node]
            if left >= 0:
                slot[left], slot[right] = free, free + 1
                free += 2
                is_left_next = weight[left] >= weight[right]
                stack += [right, left] if is_left_next else [left, right]
        root.append(root[-1] + free)
    return slot, np.array(root)


@given(forest=strategies.forests(), seed=st.integers(0, 99), ties=st.booleans())
def test_likelier_children_follow_their_parents(forest, seed, ties):
    rng = np.random.default_rng(seed)
    weight = rng.random(forest.n_nodes)
    if ties:
        weight = np.round(weight)
    slot, root = arrange_nodes(forest.tree_offsets, forest.left, forest.right, weight)
    expected_slot, expected_root = slots_one_by_one(forest, weight)
    assert np.array_equal(slot, expected_slot)
    assert np.array_equal(root, expected_root)


@given(forest=strategies.forests())
def test_leaves_are_counted_below_each_node(forest):
    def count(node):
        if forest.left[node] < 0:
            return 1
        return count(forest.left[node]) + count(forest.right[node])

    found = leaves_below(forest.tree_offsets, forest.left, forest.right)
    assert found.tolist() == [count(node) for node in range(forest.n_nodes)]


@given(forest=strategies.forests(), at_a_time=st.integers(1, 9))
def test_leaves_share_numbers_however_many_are_compared_at_a_time(forest, at_a_time):
    leaves = np.flatnonzero(forest.left < 0)
    tree = np.searchsorted(forest.tree_offsets, leaves, side="right")
    seen: dict[tuple[int, bytes], int] = {}
    expected = [
        seen.setdefault((number, forest.value[leaf].tobytes()), len(seen))
        for number, leaf in zip(tree.tolist(), leaves.tolist(), strict=True)
    ]
    with patch.object(layout, "LEAVES_AT_A_TIME", at_a_time):
        found, n_distinct = layout._number_by_value(forest, leaves)
    assert found.tolist() == expected
    assert n_distinct == len(seen)
