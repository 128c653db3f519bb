"""The optimum: every solver against all prunings, one by one."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import strategies
from spinney.errors import SpinneyWarning
from spinney.pruning.chain import find_chain
from spinney.pruning.completion import fill_budget
from spinney.pruning.costs import purchases_for
from spinney.pruning.dantzig_wolfe import decompose, solve_dantzig_wolfe
from spinney.pruning.linear import build_ip3, solve_lp
from spinney.pruning.mincut import capacities, solve_mincut
from spinney.pruning.problem import NO_FLAGS, PruningProblem, Splits
from spinney.pruning.pruned import measure

pytest.importorskip("ortools")

SOLVERS = {
    "mincut": solve_mincut,
    "lp": solve_lp,
    "dantzig_wolfe": solve_dantzig_wolfe,
}


def splits_of(parent, gain, price=None, groups=()):
    """Make a problem by hand; `groups` are (price, splits that need it)."""
    n_splits = len(parent)
    members = [list(needed) for _, needed in groups]
    return Splits(
        np.arange(n_splits),
        np.array(parent, dtype=np.int32),
        np.array(gain, dtype=np.int64),
        np.array([0] * n_splits if price is None else price, dtype=np.int64),
        np.array([paid for paid, _ in groups], dtype=np.int64),
        np.cumsum([0, *map(len, members)]).astype(np.int64),
        np.array([split for some in members for split in some], dtype=np.int32),
    )


@st.composite
def small_splits(draw, max_splits=9, max_groups=6):
    """Draw a few trees of splits with gains of either sign, and shared needs."""
    n_splits = draw(st.integers(0, max_splits))
    parent = [draw(st.integers(-1, split - 1)) for split in range(n_splits)]
    numbers = st.integers(-4, 8)
    gain = [draw(numbers) for _ in range(n_splits)]
    price = [draw(st.integers(0, 3)) for _ in range(n_splits)]
    groups = []
    for _ in range(draw(st.integers(0, max_groups)) if n_splits >= 2 else 0):
        needed = draw(
            st.lists(st.integers(0, n_splits - 1), min_size=2, max_size=5, unique=True)
        )
        groups.append((draw(st.integers(1, 6)), sorted(needed)))
    return splits_of(parent, gain, price, groups)


ratios = st.builds(Fraction, st.integers(0, 12), st.integers(1, 6))


def all_solutions(splits):
    """Yield every valid set of splits."""
    for kept in product([False, True], repeat=splits.n_splits):
        if all(
            above < 0 or not kept[split] or kept[above]
            for split, above in enumerate(splits.parent)
        ):
            yield np.array(kept, dtype=bool)


def value_of(splits, kept, ratio):
    return splits.gain_of(kept) - ratio * splits.price_of(kept)


def is_valid(splits, kept):
    inner = splits.parent >= 0
    return not (kept[inner] & ~kept[splits.parent[inner]]).any()


@pytest.mark.parametrize("solver", SOLVERS)
@given(splits=small_splits(), ratio=ratios)
@settings(max_examples=40)
def test_every_solver_finds_the_best_of_all_prunings(solver, splits, ratio):
    best = max(value_of(splits, kept, ratio) for kept in all_solutions(splits))
    kept = SOLVERS[solver](splits, ratio)
    assert is_valid(splits, kept)
    assert value_of(splits, kept, ratio) == best


@given(splits=small_splits(), ratio=ratios)
def test_ties_go_to_the_smaller_forest(splits, ratio):
    kept = solve_mincut(splits, ratio)
    best = value_of(splits, kept, ratio)
    for other in all_solutions(splits):
        if value_of(splits, other, ratio) == best:
            assert not (kept & ~other).any()  # it lies inside all that are as good


@given(splits=small_splits(), first=ratios, second=ratios)
def test_solutions_are_nested_and_cost_falls_with_the_trade_off(splits, first, second):
    low, high = sorted([first, second])
    larger, smaller = solve_mincut(splits, low), solve_mincut(splits, high)
    assert not (smaller & ~larger).any()
    assert splits.price_of(smaller) <= splits.price_of(larger)
    assert splits.gain_of(smaller) <= splits.gain_of(larger)


def hull(splits):
    """Corners of the best gains over the price, by brute force, cheapest first."""
    best = {}
    for kept in all_solutions(splits):
        price, gain = splits.price_of(kept), splits.gain_of(kept)
        best[price] = max(best.get(price, gain), gain)
    corners = [(0, best[0])]
    while True:
        price, gain = corners[-1]
        slopes = [
            (Fraction(g - gain, p - price), p, g)
            for p, g in best.items()
            if p > price and g > gain
        ]
        if not slopes:
            return corners
        corners.append(max(slopes)[1:])  # of equal slopes the farthest


@pytest.mark.parametrize("solver", SOLVERS)
@given(splits=small_splits(max_splits=8))
@settings(max_examples=30)
def test_the_frontier_has_all_corners_and_no_other_points(solver, splits):
    chain = find_chain(splits, SOLVERS[solver])
    corners = list(zip(chain.prices, chain.gains, strict=True))
    assert corners == hull(splits)
    steps = zip(chain.steps, corners, corners[1:], strict=False)
    for step, (price, gain), (next_price, next_gain) in steps:
        assert step.ratio == Fraction(next_gain - gain, next_price - price)


def test_a_budget_between_two_corners_is_reached_by_no_trade_off():
    # Stump A gains 3 for 2, stump B gains 1 for 1.
    splits = splits_of([-1, -1], [3, 1], [2, 1])
    chain = find_chain(splits, solve_mincut)
    assert chain.prices == [0, 2, 3]
    assert [step.ratio for step in chain.steps] == [Fraction(3, 2), 1]
    filled = fill_budget(splits, chain, 1)
    assert (filled.gain, filled.node.tolist()) == (1, [1])


@given(splits=small_splits(), limit=st.integers(0, 25), small=st.booleans())
@settings(max_examples=60)
def test_filling_keeps_the_budget_and_its_bound_holds(splits, limit, small):
    chain = find_chain(splits, solve_mincut)
    with pytest.MonkeyPatch.context() as patch:
        if not small:
            patch.setattr("spinney.pruning.completion.SMALL", -1)
        filled = fill_budget(splits, chain, limit)
    kept = np.isin(splits.node, filled.node)
    assert is_valid(splits, kept)
    assert splits.price_of(kept) <= limit
    assert splits.gain_of(kept) == filled.gain
    best = max(
        splits.gain_of(other)
        for other in all_solutions(splits)
        if splits.price_of(other) <= limit
    )
    assert filled.gain <= best <= filled.bound
    supported = [
        gain
        for gain, price in zip(chain.gains, chain.prices, strict=True)
        if price <= limit
    ]
    assert filled.gain >= max(supported)
    if small:
        assert filled.gain == best == filled.bound


def problem_of_forest(seed, n_rows=60, n_trees=6, depth=10, n_features=5, costs=None):
    forest = strategies.random_forest(
        seed, n_trees=n_trees, depth=depth, n_features=n_features, task="mean classes"
    )
    X = strategies.random_rows(forest, n_rows, seed=seed)
    rng = np.random.default_rng(seed)
    # Labels that the trees are mostly right about, so that there is something to keep.
    codes = forest.winners(forest.engine.raw(forest.engine.rows(X)))
    noisy = rng.random(n_rows) < 0.2
    codes = np.where(noisy, rng.integers(0, 3, size=n_rows), codes)
    return PruningProblem(
        forest,
        forest.leaves(X),
        codes.astype(np.int64),
        rng.integers(1, 3, size=n_rows),
        NO_FLAGS,
        purchases_for(n_features, None, costs, None),
    )


@pytest.mark.parametrize("seed", range(4))
def test_solvers_agree_on_forests(seed):
    problem = problem_of_forest(seed, costs=[1, 0.5, 2, 0.25, 3])
    contracted, literal = problem.splits(), problem.splits(contract=False)
    for trade_off in ("1/100", "1/20", "1/8"):
        ratio = problem.ratio(Fraction(trade_off))
        kept = solve_mincut(contracted, ratio)
        best = value_of(contracted, kept, ratio)
        assert value_of(contracted, solve_lp(contracted, ratio), ratio) == best
        # The same without contraction: exactly the programme of the paper.
        assert value_of(literal, solve_lp(literal, ratio), ratio) == best
        assert value_of(literal, solve_mincut(literal, ratio), ratio) == best
        found = decompose(contracted, ratio, n_jobs=None, gap=1e-9)
        assert found.value == pytest.approx(float(best), abs=1e-9)
        assert found.bound == pytest.approx(float(best), rel=1e-7, abs=1e-6)


def test_trees_are_priced_by_any_backend_of_joblib():
    from joblib import parallel_config

    splits = problem_of_forest(1).splits()
    with parallel_config("threading"):
        found = decompose(splits, Fraction(1), n_jobs=2, gap=1e-9)
    kept = solve_mincut(splits, Fraction(1))
    assert found.value == pytest.approx(float(value_of(splits, kept, 1)))


def test_a_decomposition_that_stops_early_says_so(monkeypatch):
    monkeypatch.setattr("spinney.pruning.dantzig_wolfe.MAX_ROUNDS", 1)
    splits = problem_of_forest(1, n_trees=6, n_rows=100).splits()
    ratio = next(
        step.ratio for step in find_chain(splits, solve_mincut).steps[::-1]
    ) * Fraction(3, 2)
    found = decompose(splits, ratio, n_jobs=None, gap=1e-9)
    best = value_of(splits, solve_mincut(splits, ratio), ratio)
    assert found.value <= best <= found.bound
    assert found.value < found.bound
    with pytest.warns(SpinneyWarning, match="stopped after 1 rounds"):
        solve_dantzig_wolfe(splits, ratio)


def test_capacities_beyond_64_bits_are_scaled_down():
    gain, price = 2**40, 3 * 2**40
    splits = splits_of([-1, -1], [gain, gain], [0, 0], [(price, [0, 1])])
    # Both are worth it up to a ratio of 2 / 3.
    for off, is_kept in ((-1, True), (1, False)):
        ratio = Fraction(2, 3) + Fraction(off, 10**6 + 3)
        net, group_net = capacities(splits, ratio)
        assert 0 < int(net.sum()) <= 2**62
        assert 0 < int(group_net.sum()) <= 2**62
        assert (solve_mincut(splits, ratio) == is_kept).all()


# ------------------------------------------------------------------ the paper's example

# Tree 1 of Figure 1: node 1 compares feature 1 and has children 2 and 3, node 3
# compares feature 2 and has children 4 and 5. The only row comes to node 4.
ERRORS = np.array([4.0, 0.0, 1.0, 0.0, 0.0])
PRICES = np.array([2.0, 1.0])
LEAF_ROWS = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [1, 0, 1, 0, 1]], dtype=float)


def test_ip1_has_a_fractional_corner():
    # Variables z1 ... z5, w1, w2; w1 >= z4, w1 >= z3, w2 >= z4.
    corner = np.array([0, 1, 0.5, 0.5, 0.5, 0.5, 0.5])
    leaves = np.hstack([LEAF_ROWS, np.zeros((3, 2))])
    needs = np.array(
        [[0, 0, 0, 1, 0, -1, 0], [0, 0, 1, 0, 0, -1, 0], [0, 0, 0, 1, 0, 0, -1]],
        dtype=float,
    )
    assert np.array_equal(leaves @ corner, np.ones(3))
    assert np.array_equal(needs @ corner, np.zeros(3))
    # All of these hold with equality, and with z1 = 0 they leave no freedom.
    active = np.vstack([leaves, needs, np.eye(7)[0]])
    assert np.linalg.matrix_rank(active) == 7
    answer = linprog(
        np.concatenate([ERRORS, PRICES]), needs, np.zeros(3), leaves, np.ones(3)
    )
    assert answer.fun == pytest.approx(2.0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_ip2_gives_the_integer_optimum_of_the_example(solver):
    gain = [ERRORS[0] - ERRORS[1] - ERRORS[2], ERRORS[2] - ERRORS[3] - ERRORS[4]]
    splits = splits_of([-1, 0], gain, PRICES)
    ratio = Fraction(1)
    programme = build_ip3(splits, ratio)
    answer = linprog(programme.cost, None, None, programme.equal.toarray(), np.ones(5))
    value = programme.constant - answer.fun
    assert ERRORS[0] - value == pytest.approx(3.0)
    kept = SOLVERS[solver](splits, ratio)
    assert ERRORS[0] - value_of(splits, kept, ratio) == 3
    # The same over all prunings, as IP0 writes them down.
    best = min(
        ERRORS @ z + PRICES @ used
        for z, used in [
            (np.array([1, 0, 0, 0, 0]), np.array([0, 0])),
            (np.array([0, 1, 1, 0, 0]), np.array([1, 0])),
            (np.array([0, 1, 0, 1, 1]), np.array([1, 1])),
        ]
    )
    assert best == 3


def preorder(splits):
    """Places of the splits as a walk from the roots, left before right, meets them."""
    below = {split: [] for split in range(-1, splits.n_splits)}
    for split, above in enumerate(splits.parent):
        below[above].append(split)
    order, stack = [], below[-1][::-1]
    while stack:
        split = stack.pop()
        order.append(split)
        stack += below[split][::-1]
    return order


@given(splits=small_splits(max_splits=6, max_groups=3))
@settings(max_examples=40)
def test_the_equations_are_a_network_matrix_after_row_operations(splits):
    equal = build_ip3(splits, Fraction(1)).equal.toarray()
    n_splits = splits.n_splits
    if n_splits == 0:
        return
    # A row belongs to the last split on its path; leaves and needs hang below it.
    paths = equal[:, :n_splits]
    order = preorder(splits)
    rank = np.empty(n_splits, dtype=int)
    rank[order] = np.arange(n_splits)
    # The rows of a subtree lie next to each other in a walk from the left: those that
    # hang at a split itself come before those of its children.
    rows = np.array([max(rank[np.flatnonzero(row)]) for row in paths])
    sorted_rows = equal[np.argsort(rows, kind="stable")]
    for column in sorted_rows.T:
        ones = np.flatnonzero(column)
        assert len(ones) == 0 or np.array_equal(ones, np.arange(ones[0], ones[-1] + 1))
    # Differences of neighbours, the first and the last row taken as they are.
    network = np.vstack([-sorted_rows[0], -np.diff(sorted_rows, axis=0)])
    network = np.vstack([network, sorted_rows[-1]])
    for column in network.T:
        assert sorted(column[column != 0]) in ([], [-1, 1])


@pytest.mark.parametrize(
    "splits",
    [
        splits_of([-1, 0], [1, 1], [1, 1]),
        splits_of([-1, -1], [1, 1], [0, 0], [(1, [0, 1])]),
        splits_of([-1, 0, -1], [1, 1, 1], [0, 0, 0], [(1, [1, 2])]),
        splits_of([-1, -1, -1], [1, 1, 1], [0, 0, 0], [(1, [0, 1, 2])]),
        splits_of([-1, 0, -1], [1, 1, 1], [0, 0, 0], [(1, [0, 2]), (1, [1, 2])]),
    ],
    ids=["one tree", "two stumps", "two trees", "three stumps", "two features"],
)
def test_the_constraints_are_totally_unimodular(splits):
    programme = build_ip3(splits, Fraction(1))
    whole = np.vstack([programme.equal.toarray(), programme.at_most.toarray()])
    # A unit column changes no determinant beyond its sign: leave those out.
    table = whole[:, np.abs(whole).sum(axis=0) > 1]
    for size in range(1, min(table.shape) + 1):
        for columns in combinations(range(table.shape[1]), size):
            some = table[:, columns]
            stacked = np.array(
                [some[list(r)] for r in combinations(range(len(table)), size)]
            )
            determinants = np.linalg.det(stacked)
            assert np.isin(np.rint(determinants), (-1, 0, 1)).all()


# ------------------------------------------------------------------ baselines


@pytest.fixture
def baselines():
    return pytest.importorskip(
        "benchmarks.papers.pruning_baselines", reason="benchmarks are not shipped here"
    )


@pytest.mark.parametrize("seed", range(3))
def test_pruning_together_is_never_worse_than_pruning_alone(baselines, seed):
    problem = problem_of_forest(seed, n_rows=120)
    contracted = problem.splits()
    together = find_chain(contracted, solve_mincut)
    splits = problem.splits(contract=False)
    for chain in (
        baselines.individual_chain(problem, contracted),
        baselines.cost_complexity_chain(contracted),
    ):
        node = chain.base
        for step in [None, *chain.steps]:
            if step is not None:
                node = np.concatenate([node, step.node])
            kept = np.isin(splits.node, node)
            gain, price = splits.gain_of(kept), splits.price_of(kept)
            for ratio in [step.ratio for step in together.steps]:
                best = max(
                    g - ratio * p
                    for g, p in zip(together.gains, together.prices, strict=True)
                )
                assert gain - ratio * price <= best


def test_a_single_tree_is_pruned_alone_as_it_is_pruned_together(baselines):
    problem = problem_of_forest(5, n_trees=1, depth=20, n_rows=100)
    splits = problem.splits()
    together = find_chain(splits, solve_mincut)
    alone = baselines.individual_chain(problem, splits)
    assert alone.gains == together.gains
    assert alone.prices == together.prices


def test_cost_complexity_counts_splits(baselines):
    problem = problem_of_forest(2)
    chain = baselines.cost_complexity_chain(problem.splits())
    sizes = np.cumsum([len(chain.base), *(len(step.node) for step in chain.steps)])
    assert chain.prices == sizes.tolist()
    until = np.full(problem.forest.n_nodes, -1, dtype=np.int32)
    assert measure(problem, until, 1).error[0] == float(problem.error(0))
