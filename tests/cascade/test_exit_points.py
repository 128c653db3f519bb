"""Where rows may leave a cascade."""

from __future__ import annotations

import numpy as np

import strategies
from spinney.cascade.exit_points import paying_exit_points, quickest_plan
from spinney.ordering import ScoreTable


def test_in_random_order_it_does_not_count_which_trees_come_first():
    forest = strategies.random_forest(
        1, n_trees=40, depth=12, n_features=5, shape="unequal", task="sum score"
    )
    rng = np.random.default_rng(0)
    # All trees say the same, so that rows leave after as many of them in any order.
    table = ScoreTable.of_scores(np.repeat(rng.normal(size=(200, 1)), 40, axis=1))
    points = np.arange(1, 40)
    by_size = np.argsort(np.diff(forest.tree_offsets))
    wait = np.sort(rng.random(39))[::-1] * 20

    def planned(order, is_random):
        rule = table.rule_of(order, points, -wait, wait)
        return paying_exit_points(forest, rule, table, points, is_random).tolist()

    assert planned(by_size, False) != planned(by_size[::-1], False)
    random = planned(by_size, True)
    assert random == planned(by_size[::-1], True)

    def quickest(order):
        return quickest_plan(
            forest,
            [points, np.array(random), points[:5]],
            lambda some: table.rule_of(order, some, -wait[some - 1], wait[some - 1]),
            table,
            is_random=True,
        ).tolist()

    assert quickest(by_size) == quickest(by_size[::-1])
