"""Orders of forests: exact, greedy, by tree sequences; and what they are judged by."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import datasets
import reference
from anytime.states_reference import right_rows, states_of
from anytime.tables import best_order, greedy_order, table_of_states
from runtime.steps.steps_reference import (
    CLASSIFYING,
    is_silent,
    state_sums,
    winner_of,
)
from spinney import InvalidArgumentError, read_model
from spinney.anytime import ORDERS, normalised_mean_accuracy, orders
from spinney.anytime import states as states_module
from spinney.anytime.ordering_rows import OrderingRows
from spinney.anytime.orders import check_order, make_order
from spinney.anytime.squirrel import squirrel_steps
from spinney.anytime.states import optimal_steps
from strategies import random_forest, random_rows

SLOW = bool(numba.config.DISABLE_JIT)


def ordering_rows(forest, n_rows, seed=0):
    """Rows for `forest` with labels drawn at random."""
    X = random_rows(forest, n_rows, seed=seed)
    labels = np.random.default_rng(seed).integers(len(forest.classes), size=n_rows)
    rows = forest.engine.rows(X)
    return X, labels, OrderingRows.of_rows(forest, rows, labels)


@st.composite
def small_problems(draw):
    """A forest with few states, and labelled rows."""
    task = draw(st.sampled_from(CLASSIFYING))
    forest = random_forest(
        draw(st.integers(0, 10_000)),
        n_trees=draw(st.integers(1, 4)),
        shape=draw(st.sampled_from(["leaf", "stump", "grown", "unequal"])),
        depth=draw(st.integers(1, 4)),
        task=task,
        n_outputs=draw(st.integers(1 if task == "vote" else 2, 4)),
        categories=draw(st.sampled_from([None, "exact"])),
    )
    assume(not is_silent(forest))
    n_rows = draw(st.integers(1, 12))
    return (forest, *ordering_rows(forest, n_rows, draw(st.integers(0, 100))))


@given(small_problems())
def test_table_of_states_counts_the_right_rows_of_every_state(problem):
    forest, X, labels, data = problem
    table = table_of_states(data)
    assert table.shape == tuple(forest.depths + 1)
    some = np.random.default_rng(0).permutation(table.size)[:8]
    for number in some:
        state = np.unravel_index(number, table.shape)
        assert table[state] == right_rows(forest, X, labels, state)


@given(small_problems())
@settings(max_examples=8 if SLOW else 100)
def test_searches_of_a_forest_find_what_searches_of_its_table_find(problem):
    _, _, _, data = problem
    table = table_of_states(data)
    for worst in (False, True):
        found = optimal_steps(data, worst=worst)
        assert found.tolist() == best_order(table, worst=worst).tolist()
    for backward in (False, True):
        found = squirrel_steps(data, backward=backward)
        assert found.tolist() == greedy_order(table, backward=backward).tolist()


@given(small_problems(), st.integers(0, 1000))
def test_correct_along_counts_every_state_of_an_order(problem, seed):
    forest, X, labels, data = problem
    order = make_order(data, "random", random_state=seed)
    counts = data.correct_along(order)
    passed = list(states_of(order, forest.n_trees))
    table = table_of_states(data)
    for state, count in list(zip(passed, counts, strict=True))[:-1]:
        assert abs(int(table[state]) - int(count)) <= len(close_rows(forest, X))
    assert counts[-1] == np.count_nonzero(forest.predict(X) == forest.classes[labels])


def close_rows(forest, X):
    """Rows whose full answer hangs on rounding."""
    rows = reference.rounded_rows(forest, X)
    leads = [
        winner_of(forest, state_sums(forest, row, forest.depths))[1] for row in rows
    ]
    largest = np.abs(forest.value).max() * forest.n_trees + 1
    return [r for r, lead in enumerate(leads) if lead <= 1e-3 * largest]


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_optimal_is_at_least_as_good_as_every_other_order(n_classes):
    X, y = datasets.bundled("digits")
    y = y % n_classes
    model = RandomForestClassifier(4, max_depth=3, random_state=0).fit(X[:500], y[:500])
    forest = read_model(model)
    rows = forest.engine.rows(X[500:900])
    data = OrderingRows.of_rows(forest, rows, y[500:900])
    sums = {}
    for name in ORDERS:
        if "qwyc" in name and n_classes > 2:
            continue
        order = make_order(data, name, random_state=0)
        assert np.bincount(order, minlength=4).tolist() == data.forest.depths.tolist()
        # All but the last state, which is the same for all.
        sums[name] = int(data.correct_along(order)[:-1].sum())
    assert max(sums, key=sums.get) == "optimal" or sums["optimal"] == max(sums.values())
    assert sums["unoptimal"] == min(sums.values())
    for seed in range(20):
        order = make_order(data, "random", random_state=seed)
        total = int(data.correct_along(order)[:-1].sum())
        assert sums["unoptimal"] <= total <= sums["optimal"]


@pytest.mark.parametrize("box", [1, 30, 10**6])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_boxes_and_threads_do_not_change_the_optimal_order(monkeypatch, box, n_jobs):
    forest = random_forest(3, n_trees=5, depth=3, task="mean classes", shape="chain")
    _, _, data = ordering_rows(forest, 40)
    expected = best_order(table_of_states(data))
    monkeypatch.setattr(states_module, "BOX_STATES", box)
    calls = []
    found = optimal_steps(
        data, n_jobs=n_jobs, on_progress=lambda *now: calls.append(now)
    )
    assert found.tolist() == expected.tolist()
    assert calls[-1] == (4**5, 4**5)


def test_threads_do_not_change_a_squirrel_order():
    forest = random_forest(1, n_trees=6, depth=5, task="mean classes", shape="chain")
    _, _, data = ordering_rows(forest, 700)
    calls = []
    for name in ("forward_squirrel", "backward_squirrel"):
        alone = make_order(data, name, on_progress=lambda *now: calls.append(now))
        assert make_order(data, name, n_jobs=2).tolist() == alone.tolist()
        curve = data.correct_along(alone)
        assert curve.tolist() == data.correct_along(alone, n_jobs=2).tolist()
    assert calls[-1] == (30, 30)


def test_too_many_states_are_refused_with_the_numbers_and_a_remedy():
    forest = random_forest(0, n_trees=12, depth=9, task="mean classes", shape="chain")
    _, _, data = ordering_rows(forest, 5)
    with pytest.raises(InvalidArgumentError) as caught:
        make_order(data, "optimal")
    text = str(caught.value)
    assert "1,000,000,000,000 states" in text
    assert "GiB are allowed" in text
    assert "backward_squirrel" in text
    small = random_forest(0, n_trees=4, shape="stump", task="mean classes")
    _, _, data = ordering_rows(small, 5)
    with pytest.raises(InvalidArgumentError, match=r"16 states.* 0 GiB are allowed"):
        optimal_steps(data, max_bytes=0)


def test_astronomically_many_states_are_refused_too():
    forest = random_forest(0, n_trees=200, depth=9, task="vote", shape="chain")
    _, _, data = ordering_rows(forest, 2)
    with pytest.raises(InvalidArgumentError, match=r"10\^200\.0 states"):
        make_order(data, "unoptimal")
    forest = random_forest(0, n_trees=300, shape="stump", task="vote")
    _, _, data = ordering_rows(forest, 2)
    with pytest.raises(InvalidArgumentError, match="up to 255 trees, got 300"):
        make_order(data, "optimal")


def test_depth_and_breadth_follow_the_sequence():
    depths = np.array([2, 0, 1, 3])
    sequence = np.array([3, 0, 1, 2])
    assert orders.depth_order(sequence, depths).tolist() == [3, 3, 3, 0, 0, 2]
    assert orders.breadth_order(sequence, depths).tolist() == [3, 0, 2, 3, 0, 3]
    nothing = orders.breadth_order(np.array([0, 1]), np.zeros(2, dtype=np.int64))
    assert nothing.tolist() == []


def test_random_order_is_repeatable():
    _, _, data = ordering_rows(random_forest(0, task="vote"), 3)
    drawn = [make_order(data, "random", random_state=seed) for seed in (1, 1, 2)]
    assert drawn[0].tolist() == drawn[1].tolist() != drawn[2].tolist()


def test_qwyc_needs_two_classes():
    _, _, data = ordering_rows(random_forest(0, task="vote", n_outputs=3), 3)
    with pytest.raises(
        InvalidArgumentError, match="two classes, and this forest has 3"
    ):
        make_order(data, "depth_qwyc")


@pytest.mark.parametrize("task", CLASSIFYING)
def test_every_order_steps_every_kind_of_forest_to_its_leaves(task):
    forest = random_forest(
        2, n_trees=4, depth=3, shape="unequal", task=task, n_outputs=2
    )
    _, _, data = ordering_rows(forest, 60)
    for name in ORDERS:
        order = make_order(data, name, random_state=0)
        counts = np.bincount(order, minlength=forest.n_trees)
        assert counts.tolist() == forest.depths.tolist(), name


def test_unknown_order_is_refused_with_the_alternatives():
    _, _, data = ordering_rows(random_forest(0, task="vote"), 3)
    for name in ("squirrel", "depth_", "depth_random", "breadth-drep"):
        with pytest.raises(InvalidArgumentError, match=r"'backward_squirrel'.* got '"):
            make_order(data, name)


@pytest.mark.parametrize(
    ("order", "match"),
    [
        ([0, 0, 1], "steps 1 times in tree 1, which is 2 deep"),
        ([0, 0, 1, 1, 1], "steps 3 times in tree 1"),
        ([0, 0, 1, 2], "names tree 2, and the forest has the trees 0 to 1"),
        ([0, 0, 1, -1], "names tree -1"),
        ([0.0, 0.0, 1.0, 1.0], "one-dimensional array of tree indices, got float64"),
        ([[0, 0], [1, 1]], "got int64 of shape"),
    ],
)
def test_orders_that_miss_a_step_are_refused(order, match):
    with pytest.raises(InvalidArgumentError, match=match):
        check_order(order, np.array([2, 2]))


def test_given_order_is_taken_as_it_is():
    forest = random_forest(0, n_trees=3, depth=2, shape="chain", task="vote")
    _, _, data = ordering_rows(forest, 3)
    assert make_order(data, [2, 0, 1, 1, 0, 2]).tolist() == [2, 0, 1, 1, 0, 2]


def test_normalised_mean_accuracy_is_relative_to_the_end():
    assert normalised_mean_accuracy([0.4, 0.8, 0.6, 0.6]) == pytest.approx(1.0)
    assert normalised_mean_accuracy([0.25, 0.5]) == pytest.approx(0.75)
    assert np.isnan(normalised_mean_accuracy([0.5, 0.0]))
    with pytest.raises(InvalidArgumentError, match="one accuracy per state"):
        normalised_mean_accuracy([])
