"""Polls: one vote at a time, until enough have been cast."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import spinney
from spinney import StoppingStrategy
from spinney.errors import SpinneyError


def cast_all(poll, votes):
    """Cast votes until the poll is decided, and return the poll."""
    for vote in votes:
        if poll.decided:
            break
        poll.cast(vote)
    return poll


def test_an_open_poll_has_no_decision():
    poll = spinney.optimal_strategy(5, 0.0).poll()
    assert (poll.decided, poll.decision, poll.n_cast) == (False, None, 0)
    assert poll.cast(True) is False
    assert (poll.decided, poll.decision, poll.n_cast) == (False, None, 1)
    assert repr(poll) == "Poll(open, 1 of 1 votes positive, 5 voters)"


@pytest.mark.parametrize("n_voters", [1, 2, 5, 6])
def test_without_disagreement_the_majority_of_all_decides(n_voters):
    strategy = spinney.optimal_strategy(n_voters, 0.0)
    for n in range(n_voters + 1):
        ballots = [True] * n + [False] * (n_voters - n)
        for order in set(permutations(ballots)):
            poll = cast_all(strategy.poll(), order)
            assert poll.decided
            assert poll.decision == (2 * n > n_voters)
            assert poll.n_cast <= n_voters


def test_cast_returns_whether_the_poll_is_decided():
    poll = spinney.optimal_strategy(3, 0.0).poll()
    assert [poll.cast(np.False_), poll.cast(0)] == [False, True]
    assert poll.decision is False
    assert repr(poll) == "Poll(negative, 0 of 2 votes positive, 3 voters)"


def test_a_vote_after_the_decision_is_refused():
    poll = cast_all(spinney.optimal_strategy(3, 0.0).poll(), [True, True])
    with pytest.raises(SpinneyError, match=r"decided \(positive\) after 2 of 3 votes"):
        poll.cast(True)
    assert poll.n_cast == 2


def test_more_votes_than_voters_are_refused():
    poll = cast_all(spinney.optimal_strategy(3, 0.0).poll(), [True, False, False])
    with pytest.raises(RuntimeError, match=r"strategy.poll\(\)"):
        poll.cast(True)


@pytest.mark.parametrize("vote", ["yes", None, 2, 0.5, [True]])
def test_a_vote_is_true_or_false(vote):
    poll = spinney.optimal_strategy(3, 0.0).poll()
    with pytest.raises(TypeError, match="A vote must be True or False"):
        poll.cast(vote)
    assert poll.n_cast == 0


def test_a_poll_may_be_decided_before_the_first_vote():
    poll = spinney.optimal_strategy(5, 0.9, min_votes=0).poll()
    assert (poll.decided, poll.decision, poll.n_cast) == (True, False, 0)


def lottery():
    """A strategy that stops after the first vote with probability 0.3."""
    return spinney.optimal_strategy(3, 0.1, objective="minimax", min_votes=0)


def test_lots_are_drawn_with_their_probability():
    strategy = lottery()
    random = np.random.default_rng(0)
    stopped = sum(strategy.poll(random).cast(True) for _ in range(20_000))
    # Six standard deviations.
    assert abs(stopped - 6_000) < 6 * np.sqrt(20_000 * 0.3 * 0.7)


def test_the_same_seed_draws_the_same_lots():
    strategy = lottery()

    def outcome(seed):
        return [cast_all(strategy.poll(s), [True, False, True]).n_cast for s in seed]

    seeds = range(100)
    assert outcome(seeds) == outcome(seeds)
    assert len(set(outcome(seeds))) > 1
    legacy = [np.random.RandomState(seed) for seed in seeds]
    assert outcome(legacy) == outcome([np.random.RandomState(seed) for seed in seeds])


def test_a_strategy_read_from_json_can_be_polled():
    strategy = StoppingStrategy.from_dict(lottery().to_dict())
    assert cast_all(strategy.poll(0), [True, True]).decision is True


def test_disagreement_and_votes_of_polls_are_those_of_the_profile():
    strategy = spinney.optimal_strategy(9, 0.2, objective="minimixed", min_votes=0)
    votes, wrong = strategy.profile()
    random = np.random.default_rng(1)
    n_polls = 4_000
    for n in (4, 5):
        ballots = np.arange(9) < n
        polls = [
            cast_all(strategy.poll(random), random.permutation(ballots))
            for _ in range(n_polls)
        ]
        cast = np.array([poll.n_cast for poll in polls])
        differ = sum(poll.decision != (n > 4.5) for poll in polls)
        deviation = np.sqrt(n_polls * wrong[n] * (1 - wrong[n]))
        assert abs(differ - n_polls * wrong[n]) < 6 * deviation
        assert abs(cast.mean() - votes[n]) < 6 * cast.std() / np.sqrt(n_polls)
