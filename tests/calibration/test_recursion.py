"""The Lagrangian recursion: against all rules, against the exact theory, on paths."""

from __future__ import annotations

from itertools import pairwise, product
from math import comb, lcm

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney import optimal_strategy
from spinney.calibration import recursion
from spinney.calibration.recursion import (
    Paths,
    find_cuts,
    follow_thresholds,
    margin_solver,
    optimal_thresholds,
    solve,
    threshold_solver,
)
from spinney.sequential.evaluation import cheapest_rule

WITHOUT_JIT = bool(numba.config.DISABLE_JIT)


def follow(sums, positive, costs, lower, upper):
    """Return the cost of each path and whether it disagrees, one path at a time."""
    paid, wrong = [], []
    for p, full in enumerate(positive):
        answer, cost = full, costs[-1]
        for k in range(len(lower)):
            if sums[k][p] < lower[k]:
                answer, cost = False, costs[k]
                break
            if sums[k][p] > upper[k]:
                answer, cost = True, costs[k]
                break
        paid.append(cost)
        wrong.append(answer != full)
    return np.array(paid), np.array(wrong)


def cut_codes(codes, lower, upper, costs, starts):
    """Return the cost of each path and whether it disagrees under cuts of states."""
    group_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    paid, wrong = [], []
    for path in codes.T:
        cost, miss = costs[-1], False
        for k, code in enumerate(path.tolist()):
            group, state = group_of[code >> 1], code >> 1
            if state < lower[k, group]:
                cost, miss = costs[k], code & 1 == 0
                break
            if state >= upper[k, group]:
                cost, miss = costs[k], code & 1 == 1
                break
        paid.append(cost)
        wrong.append(miss)
    return np.array(paid), np.array(wrong)


def sweep(paths, costs, price, may_fall=True, may_rise=True, before=None):
    """Return the cuts of one sweep, where paths stop, and whether they disagree."""
    n_checks, n_paths = paths.codes.shape
    shape = (n_checks, len(paths.starts) - 1)
    if before is None:
        reach = np.full(n_paths, n_checks, dtype=np.int32)
        lower, upper = np.empty(shape, np.int64), np.empty(shape, np.int64)
    else:
        lower, upper, reach, _ = (array.copy() for array in before)
    stop_at, wrong = np.empty(n_paths, np.int32), np.empty(n_paths, np.bool_)
    find_cuts(
        *(paths.codes, paths.starts, costs, price, may_fall, may_rise),
        *(reach, lower, upper, stop_at, wrong),
    )
    return lower, upper, stop_at, wrong


@st.composite
def small_paths(draw, most_checks=3, most_paths=8):
    n_checks = draw(st.integers(1, most_checks))
    n_paths = draw(st.integers(1, most_paths))
    n_groups = draw(st.integers(1, 2))
    sizes = [draw(st.integers(1, 4)) for _ in range(n_groups)]
    starts = np.append(0, np.cumsum(sizes)).astype(np.int64)
    code = st.integers(0, 2 * int(starts[-1]) - 1)
    rows = st.lists(code, min_size=n_paths, max_size=n_paths)
    codes = np.array([draw(rows) for _ in range(n_checks)], dtype=np.uint16)
    steps = draw(st.lists(st.integers(1, 5), min_size=n_checks, max_size=n_checks))
    costs = np.cumsum([*steps, draw(st.integers(1, 5))]).astype(np.float64)
    return Paths(codes, starts), costs


@st.composite
def small_sums(draw):
    n_checks = draw(st.integers(1, 4))
    n_paths = draw(st.integers(1, 12))
    # Few different values, so that ties are frequent.
    value = st.integers(-3, 3).map(lambda number: 0.1 * number)
    sums = [
        draw(st.lists(value, min_size=n_paths, max_size=n_paths))
        for _ in range(n_checks)
    ]
    positive = draw(st.lists(st.booleans(), min_size=n_paths, max_size=n_paths))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return np.array(sums, dtype=dtype), np.array(positive)


def all_cuts(starts, may_fall, may_rise):
    """Yield all pairs of cuts of all groups, as (lower, upper)."""
    pairs = []
    for first, last in pairwise(starts.tolist()):
        pairs.append(
            [
                (low, high)
                for low in range(first, last + 1)
                for high in range(low, last + 1)
                if (may_fall or low == first) and (may_rise or high == last)
            ]
        )
    for chosen in product(*pairs):
        yield np.array([low for low, _ in chosen]), np.array([up for _, up in chosen])


@given(
    small_paths(most_checks=1),
    st.sampled_from([0.0, 0.5, 2.0, 7.0, 1e6]),
    st.sampled_from([(True, True), (True, False), (False, True)]),
)
def test_one_check_gets_the_best_of_all_cuts(problem, price, allowed):
    paths, costs = problem
    lower, upper, stop_at, wrong = sweep(paths, costs, price, *allowed)

    def lagrangian(cuts):
        paid, missed = cut_codes(paths.codes, *cuts, costs, paths.starts)
        return (paid + price * missed).sum()

    best = min(
        lagrangian((low[None], up[None]))
        for low, up in all_cuts(paths.starts, *allowed)
    )
    assert lagrangian((lower, upper)) == pytest.approx(best, rel=1e-12)
    paid, missed = cut_codes(paths.codes, lower, upper, costs, paths.starts)
    np.testing.assert_array_equal(costs[stop_at], paid)
    np.testing.assert_array_equal(wrong, missed)


@given(small_paths(), st.sampled_from([0.5, 2.0, 7.0, 30.0]))
def test_a_second_sweep_never_costs_more_and_optimises_the_first_check(problem, price):
    paths, costs = problem

    def lagrangian(lower, upper):
        paid, missed = cut_codes(paths.codes, lower, upper, costs, paths.starts)
        return paid.sum() + price * missed.sum()

    first = sweep(paths, costs, price)
    second = sweep(paths, costs, price, before=first)
    value = lagrangian(*second[:2])
    assert value <= lagrangian(*first[:2]) + 1e-9
    for low, up in all_cuts(paths.starts, True, True):
        lower, upper = second[0].copy(), second[1].copy()
        lower[0], upper[0] = low, up
        assert value <= lagrangian(lower, upper) + 1e-9


@given(small_paths(), st.sampled_from([0.0, 0.1, 0.2, 0.5]))
def test_cuts_keep_the_bound_and_tell_what_they_do(problem, bound):
    paths, costs = problem
    cuts = solve(paths, costs, bound)
    paid, missed = cut_codes(paths.codes, cuts.lower, cuts.upper, costs, paths.starts)
    assert cuts.disagreement == pytest.approx(missed.mean())
    assert cuts.mean_cost == pytest.approx(paid.mean())
    assert cuts.disagreement <= bound


def best_of_all(paths, costs, bound):
    """Return the least mean cost of all cuts that keep the bound."""
    choices = list(all_cuts(paths.starts, True, True))
    best = np.inf
    for chosen in product(choices, repeat=len(paths.codes)):
        paid = np.full(paths.codes.shape[1], costs[-1])
        missed = np.zeros(paths.codes.shape[1], dtype=bool)
        for k in reversed(range(len(chosen))):
            state, risky = paths.codes[k] >> 1, paths.codes[k] & 1 == 1
            falls, rises = state < chosen[k][0], state >= chosen[k][1]
            paid[falls | rises] = costs[k]
            missed[falls], missed[rises] = ~risky[falls], risky[rises]
        if missed.mean() <= bound:
            best = min(best, paid.mean())
    return best


@pytest.mark.parametrize("bound", [0.0, 0.05, 0.15])
def test_cuts_are_close_to_the_best_of_all_rules(bound):
    ratios = []
    for seed in range(15):
        sums, positive = random_walks(60, 2, seed)
        paths, _ = recursion.bin_paths(sums, [~positive] * 2, 60, 2, 6)
        costs = np.array([1.0, 2.0, 4.0])
        ratios.append(
            solve(paths, costs, bound).mean_cost / best_of_all(paths, costs, bound)
        )
    assert min(ratios) >= 1.0 - 1e-9
    assert np.mean(ratios) <= 1.06
    assert max(ratios) <= 1.2


def vote_paths(n_voters):
    """Return all orders of votes as paths, all numbers of positive ones equally often.

    Returns the sums of every path and its full decision.
    """
    votes = np.array(list(product([0, 1], repeat=n_voters)))
    counts = votes.sum(axis=1)
    n_orders = np.array([comb(n_voters, n) for n in counts])
    votes = votes.repeat(lcm(*n_orders.tolist()) // n_orders, axis=0)
    sums = (np.cumsum(votes, axis=1) - 0.5 * np.arange(1, n_voters + 1)).T
    return sums[:-1], 2 * votes.sum(axis=1) > n_voters


@pytest.mark.parametrize("price", [1.0, 5.0, 20.0, 100.0])
def test_a_vote_costs_what_the_exact_recursion_says(price):
    n_voters = 5 if WITHOUT_JIT else 7
    shares = np.full(n_voters + 1, 1.0 / (n_voters + 1))
    sums, positive = vote_paths(n_voters)
    steps = np.arange(1, n_voters + 1).astype(np.float64)
    paths, _ = recursion.bin_paths(
        sums, [~positive] * (n_voters - 1), len(positive), n_voters - 1, 64
    )
    _, _, stop_at, wrong = sweep(paths, steps, price)
    value = (steps[stop_at] + price * wrong).mean()
    may_stop = np.arange(n_voters + 1) >= 1
    exact, _ = cheapest_rule(shares, price * shares, may_stop)
    assert value == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("bound", [0.0, 0.01, 0.05, 0.2])
def test_a_vote_is_solved_nearly_as_well_as_with_chance(bound):
    n_voters = 5 if WITHOUT_JIT else 9
    sums, positive = vote_paths(n_voters)
    steps = np.arange(1, n_voters + 1)
    found = optimal_thresholds(sums, positive, steps, bound)
    exact = optimal_strategy(n_voters, bound)
    assert found.disagreement <= bound + 1e-12
    assert found.mean_cost >= exact.lower_bound - 1e-9
    sure = optimal_strategy(n_voters, bound, round="deterministic")
    assert found.mean_cost <= sure.expected_votes + 1e-9


@given(
    small_sums(),
    st.sampled_from([0.0, 0.1, 0.25, 0.5]),
    st.sampled_from(["both", "negative", "positive"]),
    st.integers(2, 9),
)
def test_thresholds_do_on_the_paths_what_they_say(problem, bound, early_exit, n_bins):
    sums, positive = problem
    costs = np.arange(1, len(sums) + 2)
    found = optimal_thresholds(
        sums,
        positive,
        costs,
        bound,
        n_bins=n_bins,
        early_exit=early_exit,
    )
    paid, wrong = follow(sums, positive, costs, found.lower, found.upper)
    assert found.mean_cost == pytest.approx(paid.mean())
    assert found.disagreement == pytest.approx(wrong.mean())
    assert found.disagreement <= bound
    assert (found.lower <= found.upper).all()
    if early_exit == "negative":
        assert (found.upper == np.inf).all()
    if early_exit == "positive":
        assert (found.lower == -np.inf).all()
    stop_at, missed = follow_thresholds(sums, positive, found.lower, found.upper)
    np.testing.assert_array_equal(costs[stop_at], paid)
    np.testing.assert_array_equal(missed, wrong)


def random_walks(n_paths, n_checks, seed=0):
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(n_checks + 1, n_paths)) + 0.5 * rng.normal(size=n_paths)
    sums = np.cumsum(steps, axis=0)
    return sums[:-1], sums[-1] > 0.0


def test_more_disagreement_costs_less():
    sums, positive = random_walks(300 if WITHOUT_JIT else 5000, 12)
    costs = np.arange(1, 14)
    bounds = (0.0, 0.002, 0.01, 0.05, 0.2)
    found = [optimal_thresholds(sums, positive, costs, bound) for bound in bounds]
    paid = [thresholds.mean_cost for thresholds in found]
    assert sorted(paid, reverse=True) == paid
    assert paid[-1] < 0.5 * paid[0]
    if not WITHOUT_JIT:
        # Hardly any of the bound is left unused.
        for bound, thresholds in zip(bounds[1:-1], found[1:-1], strict=True):
            assert thresholds.disagreement >= 0.85 * bound


def test_sums_may_come_one_check_at_a_time():
    sums, positive = random_walks(300, 6)
    costs = np.arange(1, 8)
    at_once = optimal_thresholds(sums, positive, costs, 0.02)
    one_by_one = optimal_thresholds(iter(sums), positive, costs, 0.02)
    np.testing.assert_array_equal(at_once.lower, one_by_one.lower)
    np.testing.assert_array_equal(at_once.upper, one_by_one.upper)


def test_margins_are_thresholds_with_one_kind_of_stop():
    sums, positive = random_walks(400, 6)
    costs = np.arange(1, 8)
    disagrees = (sums > 0.0) != positive
    margins = margin_solver(np.abs(sums), disagrees, 400, costs)(0.03)
    assert margins.shape == (6,)
    wrong, paid = stopped_by(margins, sums, disagrees, costs)
    assert 0.0 < wrong <= 0.03
    assert paid < 6.0


def stopped_by(margins, sums, disagrees, costs):
    """Return how many paths are wrong and what they cost on average."""
    n_paths = sums.shape[1]
    stopped, wrong = np.zeros((2, n_paths), dtype=bool)
    paid = np.full(n_paths, costs[-1])
    for k, margin in enumerate(margins):
        stops = ~stopped & (np.abs(sums[k]) > margin)
        wrong[stops], paid[stops] = disagrees[k][stops], costs[k]
        stopped |= stops
    return wrong.mean(), paid.mean()


def test_without_checks_everything_is_evaluated():
    found = optimal_thresholds([], [True, False], [3.0], 0.1)
    assert found.lower.shape == found.upper.shape == (0,)
    assert (found.mean_cost, found.disagreement) == (3.0, 0.0)


def test_one_path_stops_at_once():
    found = optimal_thresholds([[1.0], [2.0]], [True], [1, 2, 3], 0.0)
    assert (found.mean_cost, found.disagreement) == (1.0, 0.0)


def test_free_checks_are_allowed():
    found = optimal_thresholds([[-1.0, 1.0]], [False, True], [0, 0], 0.0)
    assert (found.mean_cost, found.disagreement) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positive": []}, "at least one path"),
        ({"sums": [[1.0, 2.0, 3.0]]}, r"exit point 0 must have shape \(2,\)"),
        ({"sums": []}, "exit point 0 must have shape"),
        ({"sums": [[1.0, np.nan]]}, "exit point 0 must be finite"),
        ({"costs": [2, 1]}, "costs must be"),
        ({"costs": [-1, 1]}, "costs must be"),
        ({"costs": []}, "costs must be"),
        ({"costs": [1, np.nan]}, "costs must be"),
        ({"max_disagreement": 1.0}, "max_disagreement must be"),
        ({"max_disagreement": np.nan}, "max_disagreement must be"),
        ({"n_bins": 1}, "n_bins must be"),
        ({"n_bins": 40000}, "n_bins must be"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    arguments = {
        "sums": [[-1.0, 1.0]],
        "positive": [False, True],
        "costs": [1, 2],
        "max_disagreement": 0.1,
    }
    with pytest.raises(ValueError, match=message):
        optimal_thresholds(**(arguments | change))


def test_one_bound_after_another_gives_what_each_gives_alone():
    rng = np.random.default_rng(3)
    sums = np.cumsum(rng.normal(size=(6, 400)), axis=0)
    positive = sums[-1] + rng.normal(size=400) > 0.0
    costs = np.arange(1.0, 8.0)
    together = threshold_solver(sums, positive, costs)
    for bound in (0.1, 0.02, 0.05, 0.2):
        found = together(bound)
        alone = optimal_thresholds(sums, positive, costs, bound)
        assert found.disagreement <= bound
        assert found.mean_cost <= 1.02 * alone.mean_cost
