"""Optimal strategies: against known values, a general solver, and their own promise.

The slow twins here follow the definitions: `exact_profile_of` walks through the states
for one number of positive voters at a time, in fractions, and `program` writes down the
linear program over all states and gives it to HiGHS.
"""

from __future__ import annotations

import csv
from fractions import Fraction
from itertools import pairwise
from math import comb
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import spinney
from spinney.sequential import column_generation, master, optimal
from spinney.sequential.compact import certain_strategy, earliest_strategy
from spinney.sequential.evaluation import evaluate
from spinney.sequential.proof import exact_profile

WITHOUT_JIT = bool(numba.config.DISABLE_JIT)
OBJECTIVES = ("minimean", "minimixed", "minimax")
MOST_VOTERS = 11 if WITHOUT_JIT else 10_000


def exact_profile_of(strategy):
    """Return expected votes and disagreement as fractions, straight from theta."""
    n_voters = strategy.n_voters
    theta = [[Fraction(stop) for stop in row] for row in strategy.theta.tolist()]
    all_votes, all_wrong = [], []
    for n in range(n_voters + 1):
        votes, wrong = Fraction(0), Fraction(0)
        reach = {0: Fraction(1)}
        for i in range(n_voters + 1):
            after = {}
            for j, probability in reach.items():
                stop = probability * theta[i][j]
                votes += i * stop
                if (2 * j > i) != (2 * n > n_voters):
                    wrong += stop
                if i == n_voters:
                    continue
                go_on = probability - stop
                positive = Fraction(n - j, n_voters - i)
                for count, chance in ((j + 1, positive), (j, 1 - positive)):
                    if go_on * chance:
                        after[count] = after.get(count, 0) + go_on * chance
            reach = after
        all_votes.append(votes)
        all_wrong.append(wrong)
    return all_votes, all_wrong


def program(
    n_voters, bound, objective, weights, min_votes, most_votes=None, stop_steps=None
):
    """Return the least objective, solved as one linear program over all states.

    With `most_votes`, the least mean among those with at most that many votes in the
    worst case.
    """
    states = [(i, j) for i in range(n_voters + 1) for j in range(i + 1)]
    index = {state: k for k, state in enumerate(states)}
    n_states = len(states)
    # Variables: stop masses, masses that go on, and the worst case.
    equal, right = np.zeros((n_states, 2 * n_states + 1)), np.zeros(n_states)
    for (i, j), k in index.items():
        equal[k, k] = equal[k, n_states + k] = 1.0
        if i == 0:
            right[k] = 1.0
        if j > 0:
            equal[k, n_states + index[i - 1, j - 1]] = -j / i
        if j < i:
            equal[k, n_states + index[i - 1, j]] = -(i - j) / i
    votes, wrong = np.zeros((2, n_voters + 1, 2 * n_states + 1))
    for n in range(n_voters + 1):
        for (i, j), k in index.items():
            ways = comb(n, j) * comb(n_voters - n, i - j) / comb(n_voters, i)
            votes[n, k] = i * ways
            wrong[n, k] = ways * ((2 * j > i) != (2 * n > n_voters))
    mean = weights / weights.sum()
    worst = np.zeros(2 * n_states + 1)
    worst[-1] = 1.0
    table, limits = list(wrong), [bound] * (n_voters + 1)
    if objective == "minimean":
        table, limits = [mean @ wrong], [bound]
    if objective == "minimax":
        table += list(votes - worst)
        limits += [0.0] * (n_voters + 1)
    goal = worst if objective == "minimax" else mean @ votes
    if most_votes is not None:
        goal = mean @ votes
    steps = set(range(n_voters) if stop_steps is None else stop_steps) | {n_voters}
    bounds = [(0.0, 0.0 if i < min_votes or i not in steps else 1.0) for i, _ in states]
    bounds += [(0.0, 0.0 if i == n_voters else 1.0) for i, _ in states]
    bounds += [(0.0, most_votes)]
    answer = linprog(
        goal, np.array(table), limits, equal, right, bounds, method="highs-ds"
    )
    assert answer.status == 0, answer.message
    return answer.fun


def assert_keeps_its_promise(strategy, votes=None):
    """Fail unless the disagreement, as an exact fraction, is within the bound."""
    _, wrong = exact_profile_of(strategy)
    if strategy.objective == "minimean":
        weights = [1] * len(wrong) if votes is None else list(map(Fraction, votes))
        disagreement = sum(map(lambda a, b: a * b, weights, wrong)) / sum(weights)
    else:
        disagreement = max(wrong)
    bound = strategy.max_disagreement
    assert disagreement <= min(Fraction(bound), Fraction(repr(bound)))
    assert strategy.proven_disagreement == float(disagreement)
    assert strategy.proof == "exact"


def published():
    with open(Path(__file__).parent / "stopping_reference.csv", newline="") as file:
        for row in csv.DictReader(file):
            if int(row["n_voters"]) <= MOST_VOTERS:
                yield (
                    row["objective"],
                    int(row["n_voters"]),
                    float(row["max_disagreement"]),
                    float(row["expected_votes"]),
                )


@pytest.mark.parametrize(
    ("objective", "n_voters", "bound", "expected"), list(published())
)
def test_reaches_the_published_values(objective, n_voters, bound, expected):
    strategy = spinney.optimal_strategy(
        n_voters, bound, objective=objective, min_votes=0
    )
    assert strategy.expected_votes == pytest.approx(expected, rel=1e-9)
    assert strategy.gap <= 1e-9
    assert strategy.lower_bound <= strategy.expected_votes
    assert strategy.proof == "exact"
    assert strategy.proven_disagreement <= bound


@pytest.mark.parametrize(
    ("n_voters", "bound", "objective", "options", "expected"),
    [
        (3, 0.0, "minimax", {}, Fraction(8, 3)),
        (3, 0.1, "minimax", {}, Fraction(13, 6)),
        (3, 0.1, "minimean", {}, Fraction(23, 15)),
        (3, 0.1, "minimixed", {}, Fraction(19, 10)),
        (5, 0.05, "minimax", {}, Fraction(81, 20)),
        (5, 0.05, "minimean", {"votes": [1, 0, 0, 0, 0, 1]}, Fraction(9, 10)),
        (
            5,
            0.05,
            "minimean",
            {"votes": [1, 0, 0, 0, 0, 1], "min_votes": 1},
            Fraction(1),
        ),
        (4, 0.05, "minimax", {}, Fraction(267, 80)),
        (2, 0.1, "minimax", {}, Fraction(8, 5)),
        (1, 0.1, "minimax", {}, Fraction(9, 10)),
    ],
)
def test_small_cases_that_can_be_solved_by_hand(
    n_voters, bound, objective, options, expected
):
    strategy = spinney.optimal_strategy(
        n_voters, bound, objective=objective, **({"min_votes": 0} | options)
    )
    assert strategy.expected_votes == pytest.approx(float(expected), rel=1e-12)
    assert strategy.lower_bound == pytest.approx(float(expected), rel=1e-12)
    assert_keeps_its_promise(strategy, options.get("votes"))


def test_three_voters_in_every_detail():
    strategy = spinney.optimal_strategy(3, 0.1, objective="minimax", min_votes=0)
    votes, wrong = strategy.profile()
    assert votes == pytest.approx([17 / 10, 13 / 6, 13 / 6, 17 / 10], rel=1e-12)
    assert wrong == pytest.approx([0.0, 0.1, 0.1, 0.0], rel=1e-12)
    assert strategy.theta == pytest.approx(
        np.array([[0, 0, 0, 0], [0.3, 0.3, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]])
    )


@pytest.mark.parametrize("n_voters", [1, 3, 5, 21, 101, 301, 1001, 2001])
def test_closed_form_of_the_worst_case_without_disagreement(n_voters):
    if n_voters > MOST_VOTERS:
        pytest.skip("takes too long in plain Python")
    half = (n_voters + 1) // 2
    strategy = spinney.optimal_strategy(n_voters, 0.0, objective="minimax")
    assert strategy.expected_votes == pytest.approx(2 * half**2 / (half + 1))
    assert strategy.proven_disagreement == 0.0
    assert strategy.gap == 0.0


@st.composite
def problems(draw):
    """Draw a small problem: arguments of `optimal_strategy`."""
    n_voters = draw(st.integers(1, 9))
    bound = draw(
        st.one_of(
            st.sampled_from([0.0, 1e-6, 1e-3, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9]),
            st.floats(1e-6, 0.999),
        )
    )
    votes = draw(
        st.none()
        | st.lists(
            st.integers(0, 20), min_size=n_voters + 1, max_size=n_voters + 1
        ).filter(any)
    )
    min_votes = draw(st.integers(0, min(2, n_voters)))
    objective = draw(st.sampled_from(OBJECTIVES))
    return n_voters, bound, objective, votes, min_votes


@given(problem=problems())
def test_no_linear_program_finds_anything_better(problem):
    n_voters, bound, objective, votes, min_votes = problem
    strategy = spinney.optimal_strategy(
        n_voters, bound, objective=objective, votes=votes, min_votes=min_votes
    )
    weights = np.ones(n_voters + 1) if votes is None else np.array(votes, dtype=float)
    best = program(n_voters, bound, objective, weights, min_votes)
    assert strategy.expected_votes == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert strategy.gap <= 2e-9
    assert_keeps_its_promise(strategy, votes)


@given(problem=problems())
def test_without_lots_the_promise_still_holds(problem):
    n_voters, bound, objective, votes, min_votes = problem
    arguments = {"objective": objective, "votes": votes, "min_votes": min_votes}
    strategy = spinney.optimal_strategy(
        n_voters, bound, round="deterministic", **arguments
    )
    assert set(np.unique(strategy.theta)) <= {0.0, 1.0}
    assert_keeps_its_promise(strategy, votes)
    best = spinney.optimal_strategy(n_voters, bound, **arguments)
    assert strategy.expected_votes >= best.expected_votes * (1.0 - 1e-9)
    assert strategy.lower_bound == pytest.approx(best.lower_bound, rel=1e-9)


@pytest.mark.parametrize("n_voters", [4, 9, 12])
@pytest.mark.parametrize("bound", [0.01, 0.1])
def test_minimax_takes_the_least_mean_among_its_optima(n_voters, bound):
    random = np.random.default_rng(n_voters)
    weights = random.integers(1, 50, n_voters + 1)
    strategy = spinney.optimal_strategy(
        n_voters, bound, objective="minimax", votes=weights
    )
    most = strategy.expected_votes * (1.0 + 1e-9)
    best = program(n_voters, bound, "minimax", weights, 1, most_votes=most)
    assert strategy.profile()[0] @ weights / weights.sum() == pytest.approx(
        best, rel=1e-6
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("n_voters", [10, 31])
@pytest.mark.parametrize("bound", [1e-6, 1e-3, 0.05, 0.4])
def test_promise_holds_exactly(objective, n_voters, bound):
    if n_voters > MOST_VOTERS:
        pytest.skip("takes too long in plain Python")
    random = np.random.default_rng(n_voters)
    votes = random.random(n_voters + 1) ** 8
    strategy = spinney.optimal_strategy(
        n_voters, bound, objective=objective, votes=votes
    )
    assert strategy.gap <= 1e-9
    assert_keeps_its_promise(strategy, votes)


@pytest.mark.skipif(WITHOUT_JIT, reason="takes too long in plain Python")
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_large_votes_are_proven_in_floats_and_exact_arithmetic_agrees(objective):
    bound = 1e-3
    strategy = spinney.optimal_strategy(401, bound, objective=objective)
    assert strategy.proof == "rounded"
    assert strategy.gap <= 1e-9
    assert strategy.proven_disagreement <= bound
    exact = exact_profile(strategy.rule)
    if objective == "minimean":
        disagreement = exact.mean_disagreement([1] * 402)
    else:
        disagreement = max(exact.disagreement())
    assert disagreement <= Fraction(strategy.proven_disagreement)
    assert disagreement <= Fraction("0.001")


def test_a_solver_that_misses_the_bound_is_made_up_for(monkeypatch):
    calls = []
    honest = column_generation.solve_minimixed

    def careless(mean, bound, target, *rest):
        calls.append(target)
        # What a tolerance of 1e-10 does if nobody mends it.
        return honest(mean, bound, target * (1.0 + 1e-10), *rest)

    monkeypatch.setattr(column_generation, "solve_minimixed", careless)
    strategy = spinney.optimal_strategy(7, 0.05, objective="minimixed")
    assert len(calls) > 1
    assert strategy.gap <= 2e-9
    assert_keeps_its_promise(strategy)


@pytest.mark.parametrize("objective", ["minimixed", "minimax"])
def test_without_an_answer_of_the_solver_nothing_unproven_is_returned(
    objective, monkeypatch
):
    monkeypatch.setattr(master, "_solve_program", lambda *arguments: None)
    strategy = spinney.optimal_strategy(7, 0.05, objective=objective)
    certain = spinney.optimal_strategy(7, 0.0, objective=objective)
    assert strategy.theta.tolist() == certain.theta.tolist()
    assert strategy.lower_bound == 1.0
    assert_keeps_its_promise(strategy)


def test_a_lottery_over_its_bound_is_shrunk_towards_going_on():
    safe, hasty = (
        evaluate(rule(7, np.arange(8) >= 1))
        for rule in (certain_strategy, earliest_strategy)
    )
    program = master.Master([safe, hasty], 0.1, [3, 4], mean=np.full(8, 1 / 8))
    weights = np.array([0.0, 1.0])
    shrunk = program.adjusted(weights)
    assert shrunk.sum() == pytest.approx(1.0)
    assert (program.wrong @ shrunk).max() == pytest.approx(0.1)


def test_bounds_too_small_for_floats_are_taken_as_zero():
    strategy = spinney.optimal_strategy(9, 1e-300)
    certain = spinney.optimal_strategy(9, 0.0)
    assert strategy.theta.tolist() == certain.theta.tolist()
    assert strategy.max_disagreement == 1e-300
    assert strategy.lower_bound <= certain.expected_votes


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_counts_and_frequencies_give_the_same_strategy(objective):
    counts = np.array([40, 8, 4, 2, 1, 1, 8, 64])
    by_counts = spinney.optimal_strategy(7, 0.01, objective=objective, votes=counts)
    by_shares = spinney.optimal_strategy(
        7, 0.01, objective=objective, votes=counts / 128
    )
    assert by_counts.to_dict() == by_shares.to_dict()


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_frequencies_may_be_of_any_size(scale):
    votes = np.arange(1.0, 9.0)
    plain = spinney.optimal_strategy(7, 0.01, votes=votes)
    scaled = spinney.optimal_strategy(7, 0.01, votes=votes * scale)
    assert scaled.expected_votes == pytest.approx(plain.expected_votes, rel=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_more_disagreement_never_costs_votes(objective):
    bounds = (0.0, 1e-9, 1e-6, 1e-3, 0.05, 0.2, 0.5, 0.7, 0.999)
    values = [
        spinney.optimal_strategy(9, bound, objective=objective).expected_votes
        for bound in bounds
    ]
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(values))
    assert values[-1] == 1.0


def test_objectives_stand_in_their_order():
    votes = [30, 5, 2, 1, 1, 2, 1, 1, 1, 9, 20, 50]
    mean, mixed, worst = (
        spinney.optimal_strategy(11, 0.02, objective=objective, votes=votes)
        for objective in OBJECTIVES
    )
    average = np.array(votes) / sum(votes)
    a_little_more = 1.0 + 1e-9
    assert mean.expected_votes < mixed.expected_votes
    assert mixed.expected_votes <= average @ worst.profile()[0] * a_little_more
    assert worst.expected_votes <= mixed.profile()[0].max() * a_little_more


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("min_votes", [0, 1, 4, 7])
def test_the_least_number_of_votes_is_respected(objective, min_votes):
    strategy = spinney.optimal_strategy(
        7, 0.3, objective=objective, min_votes=min_votes
    )
    assert (strategy.theta[:min_votes] == 0.0).all()
    assert strategy.profile()[0].min() >= min_votes * (1.0 - 1e-12)
    assert strategy.lower_bound >= min_votes


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_bound_that_is_met_exactly_is_used_to_the_full(objective):
    # Without a vote the decision is negative: wrong for one of the two numbers.
    strategy = spinney.optimal_strategy(
        1, 0.5, objective=objective, min_votes=0, votes=[1, 1]
    )
    expected = 0.0 if objective == "minimean" else 0.5
    assert strategy.expected_votes == pytest.approx(expected, rel=1e-12)


def test_deciding_without_a_vote_has_to_be_allowed():
    assert spinney.optimal_strategy(5, 0.9).expected_votes == 1.0
    assert spinney.optimal_strategy(5, 0.9, min_votes=0).expected_votes == 0.0


def test_votes_that_do_not_occur_need_no_care():
    strategy = spinney.optimal_strategy(9, 0.0, votes=[1] + 8 * [0] + [1])
    assert strategy.expected_votes == 1.0
    # For every number of positive votes, occurring or not, it is another matter.
    strategy = spinney.optimal_strategy(
        9, 0.0, votes=[1] + 8 * [0] + [1], objective="minimixed"
    )
    assert strategy.expected_votes == 5.0


def test_progress_is_told_until_the_gap_is_closed():
    gaps = []
    optimal.find_strategy(
        11,
        0.01,
        objective="minimax",
        votes=None,
        min_votes=1,
        round="randomise",
        on_round=gaps.append,
    )
    assert gaps
    assert min(gaps) <= 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.1), "n_voters must be an integer of at least 1, got 0"),
        ((-3, 0.1), "n_voters must be an integer of at least 1, got -3"),
        ((3.5, 0.1), "n_voters must be an integer of at least 1, got 3.5"),
        (("3", 0.1), "n_voters must be an integer of at least 1, got '3'"),
        ((True, 0.1), "n_voters must be an integer"),
        ((3, -0.1), r"max_disagreement must be in \[0, 1\), got -0.1"),
        ((3, 1.0), r"max_disagreement must be in \[0, 1\), got 1.0. It is a share"),
        ((3, float("nan")), r"max_disagreement must be in \[0, 1\), got nan"),
        ((3, "0.1"), r"max_disagreement must be in \[0, 1\), got '0.1'"),
    ],
)
def test_bad_sizes_and_bounds_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        spinney.optimal_strategy(*arguments)
    with pytest.raises(TypeError):
        spinney.optimal_strategy(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"votes": [1, 2, 3]}, r"votes must have shape \(4,\), got \(3,\). Pass 4"),
        ({"votes": [[1, 2, 3, 4]]}, "must add up to 3, the number of voters, got 10"),
        ({"votes": [1, 2, -3, 4]}, "got -3.0 for 2 positive votes"),
        ({"votes": [1, 2, 3, np.nan]}, "got nan for 3 positive votes"),
        ({"votes": [np.inf, 2, 3, 4]}, "got inf for 0 positive votes"),
        ({"votes": [0, 0, 0, 0]}, "votes must not all be zero"),
        ({"votes": ["a", "b", "c", "d"]}, "votes must be numbers, got list"),
        ({"min_votes": 4}, "min_votes must be an integer from 0 to 3, got 4"),
        ({"min_votes": -1}, "min_votes must be an integer from 0 to 3, got -1"),
        ({"min_votes": 1.0}, "min_votes must be an integer from 0 to 3, got 1.0"),
        (
            {"objective": "best"},
            "one of 'minimean', 'minimixed', 'minimax', got 'best'",
        ),
        (
            {"round": "up"},
            "round must be one of 'randomise', 'deterministic', got 'up'",
        ),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        spinney.optimal_strategy(3, 0.1, **options)


def test_numbers_of_numpy_are_taken_as_numbers():
    strategy = spinney.optimal_strategy(np.int32(3), np.float32(0.125))
    assert (strategy.n_voters, strategy.max_disagreement) == (3, 0.125)


@pytest.mark.skipif(WITHOUT_JIT, reason="takes too long in plain Python")
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), n_voters=st.integers(10, 40))
def test_calibrated_votes_of_all_shapes_are_solved_to_the_last_digits(seed, n_voters):
    random = np.random.default_rng(seed)
    votes = random.multinomial(200, random.dirichlet(np.full(n_voters + 1, 0.2)))
    for objective in OBJECTIVES:
        strategy = spinney.optimal_strategy(
            n_voters, 1e-3, objective=objective, votes=votes
        )
        assert strategy.gap <= 1e-9
        assert strategy.proven_disagreement <= 1e-3


# ------------------------------------------------------------------ stops at some steps


@pytest.mark.parametrize("objective", OBJECTIVES)
@given(
    n_voters=st.integers(1, 8),
    bound=st.sampled_from([0.0, 0.01, 0.05, 0.2, 0.45]),
    min_votes=st.integers(0, 2),
    seed=st.integers(0, 99),
)
@settings(max_examples=5 if WITHOUT_JIT else 25)
def test_the_best_of_all_strategies_that_stop_at_given_steps(
    objective, n_voters, bound, min_votes, seed
):
    random = np.random.default_rng(seed)
    steps = np.flatnonzero(random.random(n_voters + 1) < 0.5)
    votes = random.random(n_voters + 1)
    min_votes = min(min_votes, n_voters)
    strategy = spinney.optimal_strategy(
        n_voters,
        bound,
        objective=objective,
        votes=votes,
        min_votes=min_votes,
        stop_steps=steps,
    )
    assert_keeps_its_promise(strategy, votes)
    theta = np.delete(strategy.theta, [*steps, n_voters], axis=0)
    assert not theta.any()
    expected = program(
        n_voters, bound, objective, votes, min_votes, stop_steps=steps.tolist()
    )
    assert strategy.expected_votes == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert strategy.lower_bound <= strategy.expected_votes
    assert strategy.lower_bound == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_no_steps_at_all_leave_the_full_vote():
    strategy = spinney.optimal_strategy(9, 0.1, stop_steps=[])
    assert strategy.expected_votes == 9
    assert strategy.proven_disagreement == 0


@pytest.mark.parametrize(
    "steps", [[-1], [10], [1.5], [[1, 2]], "all", ["1"], [True], 3]
)
def test_steps_that_are_no_numbers_of_votes_are_refused(steps):
    with pytest.raises(ValueError, match="stop_steps must be"):
        spinney.optimal_strategy(9, 0.1, stop_steps=steps)
