"""What a stop rule costs, which rule costs least, and mixtures of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.sequential import kernels
from spinney.sequential.compact import CompactStrategy, listed_strategy


@dataclass(frozen=True)
class Evaluated:
    """A stop rule and what it does, by the number of positive voters.

    Parameters
    ----------
    rule : CompactStrategy
        The rule.
    votes : ndarray of shape (n_voters + 1,)
        Expected number of votes.
    wrong : ndarray of shape (n_voters + 1,)
        Probability that the decision differs from that of the full vote.
    """

    rule: CompactStrategy
    votes: NDArray[np.float64]
    wrong: NDArray[np.float64]


def evaluate(rule: CompactStrategy) -> Evaluated:
    """Return `rule` with its expected votes and its disagreement."""
    votes = np.empty(rule.n_voters + 1)
    wrong = np.empty(rule.n_voters + 1)
    arrays: tuple[Any, ...] = (*rule.arrays, votes, wrong)
    kernels.follow(*arrays)
    return Evaluated(rule, votes, wrong)


def cheapest_rule(
    time_weights: NDArray[np.float64],
    wrong_weights: NDArray[np.float64],
    may_stop: NDArray[np.bool_],
) -> tuple[float, CompactStrategy]:
    """Return the least weighted sum of votes and disagreement, and a rule for it.

    Parameters
    ----------
    time_weights, wrong_weights : ndarray of shape (n_voters + 1,)
        Price of a vote and of a disagreement, by the number of positive voters, not
        negative.
    may_stop : ndarray of shape (n_voters + 1,), dtype=bool
        After which numbers of votes a stop is allowed.
    """

    def fill(*arrays: Any) -> tuple[float, int]:
        return kernels.find_cheapest(time_weights, wrong_weights, may_stop, *arrays)

    return _filled_rule(len(time_weights) - 1, fill)


def mixture(
    rules: Sequence[CompactStrategy], weights: Sequence[float]
) -> CompactStrategy:
    """Return the rule that stops in every state as often as a mixture of `rules`.

    Parameters
    ----------
    rules : sequence of CompactStrategy
        Rules without chance.
    weights : sequence of float
        Their probabilities. Rules of weight 0 are left out.
    """
    chosen = [
        (rule, weight)
        for rule, weight in zip(rules, weights, strict=True)
        if weight > 0.0
    ]
    if len(chosen) == 1:
        return chosen[0][0]
    starts, n_listed = [], 0
    for rule, _ in chosen:
        starts.append(rule.extra_start + n_listed)
        n_listed += len(rule.extra_count)
    arguments = (
        np.array([weight for _, weight in chosen]),
        np.array([rule.lower for rule, _ in chosen]),
        np.array([rule.upper for rule, _ in chosen]),
        np.array(starts),
        np.concatenate([rule.extra_count for rule, _ in chosen]),
    )

    def fill(*arrays: Any) -> tuple[float, int]:
        return 0.0, kernels.blend(*arguments, *arrays)

    return _filled_rule(chosen[0][0].n_voters, fill)[1]


def _filled_rule(
    n_voters: int, fill: Callable[..., tuple[float, int]]
) -> tuple[float, CompactStrategy]:
    """Let `fill` write a rule into arrays; once more if there are too many states."""
    room = 4 * n_voters + 16
    while True:
        lower = np.empty(n_voters + 1, dtype=np.int64)
        upper = np.empty(n_voters + 1, dtype=np.int64)
        steps = np.empty(room, dtype=np.int64)
        counts = np.empty(room, dtype=np.int64)
        stops = np.empty(room)
        cost, n_extra = fill(lower, upper, steps, counts, stops)
        if n_extra <= room:
            break
        room = n_extra
    listed = (steps[:n_extra], counts[:n_extra], stops[:n_extra])
    return cost, listed_strategy(lower, upper, *listed)
