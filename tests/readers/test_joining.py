"""Trees put end to end."""

from __future__ import annotations

import numpy as np

from spinney.readers.joining import join_trees


def test_children_are_counted_from_the_first_tree_and_leaves_stay_leaves():
    leaf = {"left": np.array([-1]), "right": np.array([-1]), "value": np.array([9.0])}
    split = {
        "left": np.array([1, -1, -1], dtype=np.int8),
        "right": np.array([2, -1, -1]),
        "value": np.array([1.0, 2.0, 3.0]),
    }
    joined = join_trees([split, leaf, split])
    np.testing.assert_array_equal(joined["tree_offsets"], [0, 3, 4, 7])
    np.testing.assert_array_equal(joined["left"], [1, -1, -1, -1, 5, -1, -1])
    np.testing.assert_array_equal(joined["right"], [2, -1, -1, -1, 6, -1, -1])
    np.testing.assert_array_equal(joined["value"], [1, 2, 3, 9, 1, 2, 3])


def test_one_tree_stays_as_it_is():
    tree = {"left": np.array([1, -1, -1]), "right": np.array([2, -1, -1])}
    joined = join_trees([tree])
    for name, array in tree.items():
        np.testing.assert_array_equal(joined[name], array)
