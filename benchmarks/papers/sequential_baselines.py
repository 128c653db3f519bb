"""Strategies to compare with: the full vote, certainty only, and Schwing et al."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from spinney.base.parameters import check_n_voters
from spinney.errors import InvalidArgumentError
from spinney.sequential.compact import (
    CompactStrategy,
    certain_strategy,
    full_vote_strategy,
    threshold_strategy,
)
from spinney.sequential.strategy import StoppingStrategy
from spinney.sequential.vote_weights import check_votes


def full_vote(n_voters: int, *, votes: ArrayLike | None = None) -> StoppingStrategy:
    """Return the strategy that always takes all votes.

    Parameters
    ----------
    n_voters : int
        Number of voters, at least 1.
    votes : array-like of shape (n_voters + 1,), optional
        Counts or frequencies of 0 to `n_voters` positive votes, over which
        `expected_votes` is averaged.
    """
    n_voters = check_n_voters(n_voters)
    return _measured(full_vote_strategy(n_voters), votes)


def certain_only(n_voters: int, *, votes: ArrayLike | None = None) -> StoppingStrategy:
    """Return the strategy that stops once the rest cannot change the result.

    Parameters
    ----------
    n_voters, votes
        As in `full_vote`.
    """
    n_voters = check_n_voters(n_voters)
    return _measured(
        certain_strategy(n_voters, np.ones(n_voters + 1, dtype=bool)), votes
    )


def schwing(
    n_voters: int, tail: float, *, votes: ArrayLike | None = None
) -> StoppingStrategy:
    """Return the strategy of Schwing et al. (2011), section 3.1.

    It takes the votes as independent, with a uniform prior on the probability of a
    positive one, and stops once the posterior probability of a positive majority is
    below `tail` or above ``1 - tail``.

    Parameters
    ----------
    n_voters : int
        Number of voters, at least 1.
    tail : float
        Posterior probability of being wrong at which to stop, from 0 to 0.5. This is
        no bound on the disagreement: it may stop wrongly at every step, and close
        votes are likely to. `max_disagreement` of the result is what it really is, in
        the worst case.
    votes : array-like of shape (n_voters + 1,), optional
        As in `full_vote`.
    """
    n_voters = check_n_voters(n_voters)
    if isinstance(tail, bool) or not isinstance(tail, Real) or not 0.0 <= tail <= 0.5:
        msg = (
            f"tail must be a number from 0 to 0.5, got {tail!r}. It is a probability: "
            "write 0.01 for one in a hundred."
        )
        raise InvalidArgumentError(msg)
    return _measured(_schwing_rule(n_voters, float(tail)), votes)


def _schwing_rule(n_voters: int, tail: float) -> CompactStrategy:
    from scipy.special import betainc

    lower = np.full(n_voters + 1, -1)
    upper = np.arange(1, n_voters + 2)
    for i in range(n_voters):
        # Posterior probability of a negative majority with j positive votes, which is
        # that of a positive one with i - j. As a function of its own rather than as
        # the difference to 1, it stays accurate when it is small.
        counts = np.arange(i // 2 + 1, i + 1)
        negative = betainc(counts + 1.0, i + 1.0 - counts, 0.5)
        # It falls as j grows, so those below `tail` are the last ones.
        n_stop = int((negative < tail).sum())
        upper[i] = i + 1 - n_stop
        lower[i] = n_stop - 1
    lower[-1], upper[-1] = n_voters // 2, n_voters // 2 + 1
    return threshold_strategy(lower.astype(np.int64), upper.astype(np.int64))


def _measured(rule: CompactStrategy, votes: ArrayLike | None) -> StoppingStrategy:
    """Return a strategy that promises what the rule turns out to keep."""
    from spinney.sequential.evaluation import evaluate
    from spinney.sequential.proof import UNDERFLOW, rounding_error

    weights = check_votes(votes, rule.n_voters)
    evaluated = evaluate(rule)
    worst = float(evaluated.wrong.max())
    if worst > 0.0:
        worst = worst * (1.0 + rounding_error(rule.n_voters)) + UNDERFLOW
    return StoppingStrategy(
        rule,
        max_disagreement=worst,
        objective="none",
        expected_votes=float(weights @ evaluated.votes / weights.sum()),
        lower_bound=0.0,
        proven_disagreement=worst,
        proof="rounded",
    )
