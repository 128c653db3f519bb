"""Sums in whole numbers say what the values of the nodes say."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reference
from runtime.steps.steps_reference import (
    CLASSIFYING,
    is_silent,
    node_after,
    state_sums,
    winner_of,
)
from spinney import Forest, UnsupportedModelError
from spinney.runtime.steps.sums import class_sums
from strategies import forests, random_forest, random_rows

SLOW = bool(numba.config.DISABLE_JIT)


def test_forests_without_answers_at_inner_nodes_are_refused():
    forest = random_forest(0, task="sum classes", shape="balanced", depth=2)
    value = np.where(forest.feature[:, None] >= 0, 0.0, forest.value)
    with pytest.raises(
        UnsupportedModelError, match=r"spinney\.read_model, which keeps"
    ):
        class_sums(forest.replace(value=value))
    with pytest.raises(UnsupportedModelError, match="regressor"):
        class_sums(random_forest(0, task="sum numbers"))


def test_stumps_may_have_nothing_to_say_at_their_roots():
    forest = random_forest(0, task="sum score", shape="stump")
    value = np.where(forest.feature[:, None] >= 0, 0.0, forest.value)
    sums = class_sums(forest.replace(value=value))
    assert sums.at_roots().tolist() == sums.base.tolist()


@given(forests(tasks=CLASSIFYING, max_trees=5, max_depth=12), st.integers(0, 100))
@settings(max_examples=6 if SLOW else 60)
def test_whole_numbers_say_what_the_fractions_say(forest, seed):
    assume(not is_silent(forest))
    sums = class_sums(forest)
    X = reference.rounded_rows(forest, random_rows(forest, 4, seed=seed))
    rng = np.random.default_rng(seed)
    reach = float(np.abs(forest.value).max()) * forest.n_trees + float(
        np.abs(forest.base_score).max()
    )
    for row in X:
        state = [int(rng.integers(depth + 1)) for depth in forest.depths]
        totals = sums.base.copy()
        for tree in range(forest.n_trees):
            node = node_after(forest, tree, row, state[tree])
            totals += sums.by_class()[node]
        exact = state_sums(forest, row, state)
        winner, lead = winner_of(forest, exact)
        if lead > 1e-12 * reach:
            assert totals.argmax() == winner
        raw = sums.raw(totals[None])[0]
        np.testing.assert_allclose(
            raw, [float(x) for x in exact], rtol=1e-6, atol=1e-7 * reach
        )


def test_ties_go_to_the_first_class_whatever_the_path():
    # Three trees that say 1/4, 3/4 and 1/2: the sums of both classes are equal.
    share = np.array([0.25, 0.75, 0.5])
    forest = Forest(
        tree_offsets=np.arange(4),
        feature=np.full(3, -1),
        threshold=np.zeros(3),
        left=np.full(3, -1),
        right=np.full(3, -1),
        value=np.stack([share, 1 - share], axis=1),
        n_features=1,
        aggregation="mean",
        classes=np.array([5, 6]),
    )
    sums = class_sums(forest)
    for some in itertools.permutations(range(3)):
        totals = sums.base + sum(sums.by_class()[tree] for tree in some)
        assert totals[0] == totals[1]
