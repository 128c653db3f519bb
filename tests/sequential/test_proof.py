"""Exact evaluation, the error of the floats, and mixtures of rules."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.sequential.compact import (
    certain_strategy,
    earliest_strategy,
    full_vote_strategy,
    listed_strategy,
)
from spinney.sequential.evaluation import evaluate, mixture
from spinney.sequential.proof import (
    exact_bound,
    exact_profile,
    integer_weights,
    rounding_error,
)


def after(n_voters, min_votes):
    """Return flags that allow a stop after `min_votes` votes and any more."""
    return np.arange(n_voters + 1) >= min_votes


def random_rule(seed, n_voters, *, chance):
    """Return a rule with random thresholds and random states between them."""
    random = np.random.default_rng(seed)
    steps = np.arange(n_voters + 1)
    lower = random.integers(-1, steps // 2 + 1)
    upper = random.integers(steps // 2 + 1, steps + 2)
    lower[-1], upper[-1] = n_voters // 2, n_voters // 2 + 1
    between = [
        (i, j, random.random() ** 8 if chance else 1.0)
        for i in range(n_voters)
        for j in range(lower[i] + 1, upper[i])
        if random.random() < 0.3
    ]
    listed = np.array(between, dtype=float).reshape(-1, 3).T
    return listed_strategy(
        lower, upper, listed[0].astype(int), listed[1].astype(int), listed[2]
    )


def profile_by_definition(rule):
    """Return expected votes and disagreement as fractions, from the definition."""
    n_voters = rule.n_voters
    all_votes, all_wrong = [], []
    for n in range(n_voters + 1):
        votes, wrong = Fraction(0), Fraction(0)
        reach = {0: Fraction(1)}
        for i in range(n_voters + 1):
            after = {}
            for j, probability in reach.items():
                stop = probability * Fraction(rule.stop_probability(i, j))
                votes += i * stop
                wrong += stop * ((2 * j > i) != (2 * n > n_voters))
                if i < n_voters:
                    positive = Fraction(n - j, n_voters - i)
                    for count, chance in ((j + 1, positive), (j, 1 - positive)):
                        if chance:
                            after[count] = (
                                after.get(count, 0) + (probability - stop) * chance
                            )
            reach = after
        all_votes.append(votes)
        all_wrong.append(wrong)
    return all_votes, all_wrong


@given(
    seed=st.integers(0, 2**32 - 1), n_voters=st.integers(1, 12), chance=st.booleans()
)
def test_integers_give_what_the_definition_gives(seed, n_voters, chance):
    rule = random_rule(seed, n_voters, chance=chance)
    exact = exact_profile(rule)
    votes, wrong = profile_by_definition(rule)
    assert exact.expected_votes() == votes
    assert exact.disagreement() == wrong
    weights = [3 * n + 1 for n in range(n_voters + 1)]
    for mean, values in (
        (exact.mean_votes(weights), votes),
        (exact.mean_disagreement(weights), wrong),
    ):
        total = sum(
            weight * value for weight, value in zip(weights, values, strict=True)
        )
        assert mean == total / sum(weights)


@given(
    seed=st.integers(0, 2**32 - 1), n_voters=st.integers(1, 40), chance=st.booleans()
)
def test_floats_stay_within_the_stated_error(seed, n_voters, chance):
    rule = random_rule(seed, n_voters, chance=chance)
    exact, rounded = exact_profile(rule), evaluate(rule)
    error = Fraction(rounding_error(n_voters))
    pairs = [
        *zip(exact.expected_votes(), rounded.votes, strict=True),
        *zip(exact.disagreement(), rounded.wrong, strict=True),
    ]
    for true, computed in pairs:
        assert abs(Fraction(computed) - true) <= error * true


@given(
    seed=st.integers(0, 2**32 - 1),
    n_voters=st.integers(1, 12),
    shares=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_a_mixture_does_what_the_lottery_does(seed, n_voters, shares):
    rules = [random_rule(seed + k, n_voters, chance=False) for k in range(len(shares))]
    weights = np.array(shares) / sum(shares)
    mixed = evaluate(mixture(rules, weights.tolist()))
    each = [evaluate(rule) for rule in rules]
    assert mixed.votes == pytest.approx(weights @ [one.votes for one in each])
    assert mixed.wrong == pytest.approx(weights @ [one.wrong for one in each])


@given(
    seed=st.integers(0, 2**32 - 1), n_voters=st.integers(1, 12), chance=st.booleans()
)
def test_a_mirror_image_stops_in_the_mirrored_states(seed, n_voters, chance):
    rule = random_rule(seed, n_voters, chance=chance)
    mirrored = rule.mirrored()
    for i in range(n_voters + 1):
        for j in range(i + 1):
            stop = rule.stop_probability(i, j)
            assert mirrored.stop_probability(i, i - j) == stop
    assert (mirrored.lower <= np.arange(n_voters + 1) // 2).all()
    assert (mirrored.upper > np.arange(n_voters + 1) // 2).all()


def test_rules_of_weight_zero_take_no_part_in_a_mixture():
    certain = certain_strategy(5, after(5, 0))
    assert mixture([full_vote_strategy(5), certain], [0.0, 1.0]) is certain


@pytest.mark.parametrize("n_voters", [1, 2, 3, 6, 9])
def test_certainty_never_disagrees_and_stops_first(n_voters):
    certain = exact_profile(certain_strategy(n_voters, after(n_voters, 0)))
    assert set(certain.disagreement()) == {0}
    # Stopping in any one more state disagrees for some number of positive voters.
    rule = certain_strategy(n_voters, after(n_voters, 0))
    for i in range(n_voters):
        for j in range(rule.lower[i] + 1, rule.upper[i]):
            more = listed_strategy(
                rule.lower, rule.upper, np.array([i]), np.array([j]), np.ones(1)
            )
            assert max(exact_profile(more).disagreement()) > 0


@pytest.mark.parametrize("bound", [0.1, 0.3, 1e-3, 1e-6, 0.5])
def test_the_bound_is_the_smaller_of_what_is_written_and_what_is_stored(bound):
    assert exact_bound(bound) <= Fraction(bound)
    assert exact_bound(bound) <= Fraction(repr(bound))
    assert float(exact_bound(bound)) == bound


def test_weights_become_integers_in_the_same_proportions():
    assert integer_weights(np.array([0.5, 0.0, 0.125, 3.0])) == [4, 0, 1, 24]


@pytest.mark.parametrize(("n_voters", "min_votes"), [(1, 0), (5, 0), (5, 2), (4, 4)])
def test_the_earliest_rule_always_takes_the_least_votes(n_voters, min_votes):
    exact = exact_profile(earliest_strategy(n_voters, after(n_voters, min_votes)))
    assert set(exact.expected_votes()) == {min_votes}


def test_arrays_of_a_rule_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        full_vote_strategy(3).lower[0] = 1
