"""Where rows may exit a cascade."""

from __future__ import annotations

import numpy as np

import strategies
from spinney.cascade.exit_points import paying_exit_points, spread_exit_points


def test_possible_exit_points_are_a_tenth_apart_and_end_before_the_last_tree():
    assert spread_exit_points(1).tolist() == []
    assert spread_exit_points(6).tolist() == [1, 2, 3, 4, 5]
    points = spread_exit_points(1000)
    assert points[-1] < 1000
    assert (np.diff(points) <= np.maximum(1, 0.11 * points[:-1] + 1)).all()


def test_in_random_order_it_does_not_count_which_trees_come_first():
    forest = strategies.random_forest(
        1, n_trees=40, depth=12, n_features=5, shape="unequal", task="sum score"
    )
    rng = np.random.default_rng(0)
    points = np.arange(1, 40)
    by_size = np.argsort(np.diff(forest.tree_offsets))
    undecided = np.sort(rng.random(39))[::-1]

    def planned(order):
        return paying_exit_points(forest, points, undecided, order).tolist()

    assert planned(by_size) != planned(by_size[::-1])
    assert planned(None)


def test_where_no_exit_point_pays_the_one_that_spares_most_trees_is_taken():
    forest = strategies.random_forest(1, n_trees=4, depth=2, n_features=3)
    points = np.array([1, 2, 3])
    undecided = np.array([1.0, 0.97, 0.96])
    found = paying_exit_points(forest, points, undecided, np.arange(4))
    assert found.tolist() == [2]  # 3.94 trees on average, and 3.96 with the third
