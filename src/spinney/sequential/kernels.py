"""Kernels that find, follow and mix stop rules, in time O(N²) and memory O(N).

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task.

All of them walk through the steps one by one and keep a few rows of numbers per state.
Let W be the event that `j` of the first `i` votes are positive. Given W, the last of
these `i` votes was positive with probability ``j / i``, whatever the number of positive
voters is, so a row follows from its neighbour by ``(i - j) / i`` and ``j / i``. Every
sum has non-negative terms only: nothing cancels, and the relative error of a result
grows no faster than the number of steps (`spinney.sequential.proof`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]

# Where all prices of a state, times its probability, are below this, floats have no
# digits left to compare them.
NEGLIGIBLE = 1e-280


@kernel
def _note_row(
    step: int,
    stops: Numbers,
    lower: Counts,
    upper: Counts,
    extra_step: Counts,
    extra_count: Counts,
    extra_stop: Numbers,
    n_extra: int,
) -> int:
    """Note the stop probabilities of one step as thresholds and listed states.

    Returns the number of states listed so far; those beyond the room are only counted.
    """
    half = step // 2
    low = -1
    while low < half and stops[low + 1] == 1.0:
        low += 1
    high = step + 1
    while high > half + 1 and stops[high - 1] == 1.0:
        high -= 1
    lower[step] = low
    upper[step] = high
    total = 0.0
    for j in range(low + 1, high):
        total += stops[j]
    if total > 0.0:
        for j in range(low + 1, high):
            if stops[j] > 0.0:
                if n_extra < extra_count.shape[0]:
                    extra_step[n_extra] = step
                    extra_count[n_extra] = j
                    extra_stop[n_extra] = stops[j]
                n_extra += 1
    return n_extra


@kernel
def find_cheapest(
    time_weights: Numbers,
    wrong_weights: Numbers,
    may_stop: Flags,
    lower: Counts,
    upper: Counts,
    extra_step: Counts,
    extra_count: Counts,
    extra_stop: Numbers,
) -> tuple[float, int]:
    """Find the stop rule with the least weighted sum of votes and disagreement.

    Works backwards from the last step: a state stops if that costs no more than
    continuing optimally.

    Parameters
    ----------
    time_weights : ndarray of shape (n_voters + 1,)
        Price of a vote, by the number of positive voters.
    wrong_weights : ndarray of shape (n_voters + 1,)
        Price of a disagreement, likewise.
    may_stop : ndarray of shape (n_voters + 1,), dtype=bool
        After which numbers of votes a stop is allowed.
    lower, upper : ndarray of shape (n_voters + 1,)
        Overwritten with the thresholds.
    extra_step, extra_count, extra_stop : ndarray of shape (room,)
        Overwritten with the states that stop between the thresholds.

    Returns
    -------
    cost : float
        The least sum.
    n_extra : int
        Number of states between the thresholds that stop. If there was not room for
        all of them, the rule is incomplete.
    """
    n_voters = time_weights.shape[0] - 1
    middle = n_voters // 2
    # For every state: the price of a vote, of deciding "positive" and of deciding
    # "negative", each summed over the numbers of positive voters with the probability
    # of the state; and the cost of what is best from there.
    vote = time_weights.copy()
    if_positive = np.zeros(n_voters + 1)
    if_negative = np.zeros(n_voters + 1)
    cost = np.empty(n_voters + 1)
    for j in range(n_voters + 1):
        if j > middle:
            if_negative[j] = wrong_weights[j]
        else:
            if_positive[j] = wrong_weights[j]
        cost[j] = n_voters * time_weights[j]
    stops = np.ones(n_voters + 1)
    lower[n_voters] = middle
    upper[n_voters] = middle + 1
    n_extra = 0
    for i in range(n_voters - 1, -1, -1):
        share = 1.0 / (i + 1)
        half = i // 2
        for j in range(i + 1):
            positive = (j + 1) * share
            negative = (i + 1 - j) * share
            vote[j] = positive * vote[j + 1] + negative * vote[j]
            if_positive[j] = positive * if_positive[j + 1] + negative * if_positive[j]
            if_negative[j] = positive * if_negative[j + 1] + negative * if_negative[j]
            cost[j] = positive * cost[j + 1] + negative * cost[j]
        if not may_stop[i]:
            lower[i] = -1
            upper[i] = i + 1
            continue
        for j in range(half + 1):
            stop = i * vote[j] + if_negative[j]
            stops[j] = 1.0 if stop <= cost[j] else 0.0
            cost[j] = min(cost[j], stop)
        for j in range(half + 1, i + 1):
            stop = i * vote[j] + if_positive[j]
            stops[j] = 1.0 if stop <= cost[j] else 0.0
            cost[j] = min(cost[j], stop)
        # States that cost nothing either way do not occur under these prices, or are
        # too unlikely for floats to compare. Should they occur nevertheless, decide as
        # in the next state closer to a tie, or continue until the rest cannot change
        # the result.
        stop = 0.0
        for j in range(half, -1, -1):
            if vote[j] + if_positive[j] + if_negative[j] < NEGLIGIBLE:
                stops[j] = 1.0 if i - j >= n_voters - middle else stop
            stop = stops[j]
        stop = 0.0
        for j in range(half + 1, i + 1):
            if vote[j] + if_positive[j] + if_negative[j] < NEGLIGIBLE:
                stops[j] = 1.0 if j > middle else stop
            stop = stops[j]
        n_extra = _note_row(
            i, stops, lower, upper, extra_step, extra_count, extra_stop, n_extra
        )
    return cost[0], n_extra


@kernel
def follow(
    lower: Counts,
    upper: Counts,
    extra_start: Counts,
    extra_count: Counts,
    extra_stop: Numbers,
    votes: Numbers,
    wrong: Numbers,
) -> None:
    """Follow a stop rule to the end, for all numbers of positive voters at once.

    Parameters
    ----------
    lower, upper, extra_start, extra_count, extra_stop : ndarray
        The rule, see `spinney.sequential.compact.CompactStrategy`.
    votes : ndarray of shape (n_voters + 1,)
        Overwritten with the expected number of votes.
    wrong : ndarray of shape (n_voters + 1,)
        Overwritten with the probability of disagreement.
    """
    n_voters = lower.shape[0] - 1
    middle = n_voters // 2
    # Given that j of the first i votes are positive: the probability of not having
    # stopped, the votes of those that have, and the probability of either decision.
    # Two copies of each, for this step and for the next; column 0 stands for j = -1.
    here = np.zeros((4, n_voters + 2))
    there = np.zeros((4, n_voters + 2))
    here[0, 1] = 1.0
    for i in range(n_voters + 1):
        open_share, cast, positive, negative = here[0], here[1], here[2], here[3]
        for j in range(1, lower[i] + 2):
            cast[j] += i * open_share[j]
            negative[j] += open_share[j]
            open_share[j] = 0.0
        for j in range(upper[i] + 1, i + 2):
            cast[j] += i * open_share[j]
            positive[j] += open_share[j]
            open_share[j] = 0.0
        for e in range(extra_start[i], extra_start[i + 1]):
            j = extra_count[e] + 1
            stopping = extra_stop[e] * open_share[j]
            cast[j] += i * stopping
            if extra_count[e] > i // 2:
                positive[j] += stopping
            else:
                negative[j] += stopping
            open_share[j] *= 1.0 - extra_stop[e]
        if i == n_voters:
            break
        share = 1.0 / (i + 1)
        for row in range(4):
            old = here[row]
            new = there[row]
            for j in range(1, i + 3):
                new[j] = ((j - 1) * share) * old[j - 1] + ((i + 2 - j) * share) * old[j]
        here, there = there, here
    for j in range(n_voters + 1):
        votes[j] = here[1, j + 1]
        wrong[j] = here[3, j + 1] if j > middle else here[2, j + 1]


@kernel
def blend(
    weights: Numbers,
    lowers: Counts,
    uppers: Counts,
    starts: Counts,
    counts: Counts,
    lower: Counts,
    upper: Counts,
    extra_step: Counts,
    extra_count: Counts,
    extra_stop: Numbers,
) -> int:
    """Turn a random choice among deterministic rules into one randomised rule.

    Choosing one of the rules beforehand and following it stops in every state as often
    as drawing independently in every state with the right probability: the share of
    those that stop there among those that reach it.

    Parameters
    ----------
    weights : ndarray of shape (n_rules,)
        Probability of each rule, above 0.
    lowers, uppers : ndarray of shape (n_rules, n_voters + 1)
        Thresholds of the rules.
    starts : ndarray of shape (n_rules, n_voters + 2)
        Where in `counts` the listed states of each rule and step start.
    counts : ndarray of shape (n_listed,)
        Listed states of all rules, one rule after another.
    lower, upper : ndarray of shape (n_voters + 1,)
        Overwritten with the thresholds of the mixture.
    extra_step, extra_count, extra_stop : ndarray of shape (room,)
        Overwritten with the states listed between them.

    Returns
    -------
    n_extra : int
        Number of states listed. If there was not room for all, the rule is incomplete.
    """
    n_rules = lowers.shape[0]
    n_voters = lowers.shape[1] - 1
    # Probability of not having stopped, given that j of the first i votes are positive.
    here = np.zeros((n_rules, n_voters + 2))
    there = np.zeros((n_rules, n_voters + 2))
    for k in range(n_rules):
        here[k, 1] = weights[k]
    flags = np.zeros((n_rules, n_voters + 1))
    stops = np.zeros(n_voters + 1)
    n_extra = 0
    for i in range(n_voters + 1):
        for rule in range(n_rules):
            flag = flags[rule]
            low = lowers[rule, i]
            high = uppers[rule, i]
            for j in range(i + 1):
                flag[j] = 1.0 if j <= low or j >= high else 0.0
            for e in range(starts[rule, i], starts[rule, i + 1]):
                flag[counts[e]] = 1.0
        for j in range(i + 1):
            stopping = 0.0
            going_on = 0.0
            n_stop = 0.0
            for rule in range(n_rules):
                open_share = here[rule, j + 1]
                stopping += flags[rule, j] * open_share
                going_on += (1.0 - flags[rule, j]) * open_share
                n_stop += flags[rule, j]
            if n_stop == n_rules:
                stops[j] = 1.0
            elif stopping > 0.0:
                # Rounded down to a multiple of 2**-60: towards continuing, and
                # integers in exact arithmetic remain short.
                stop = stopping / (stopping + going_on)
                stops[j] = np.floor(stop * 2.0**60) * 2.0**-60
            else:
                # No rule stops here, or the state is not reached.
                stops[j] = 0.0
        n_extra = _note_row(
            i, stops, lower, upper, extra_step, extra_count, extra_stop, n_extra
        )
        if i == n_voters:
            break
        share = 1.0 / (i + 1)
        for rule in range(n_rules):
            old = here[rule]
            new = there[rule]
            flag = flags[rule]
            for j in range(i + 1):
                old[j + 1] *= 1.0 - flag[j]
            for j in range(1, i + 3):
                new[j] = ((j - 1) * share) * old[j - 1] + ((i + 2 - j) * share) * old[j]
        here, there = there, here
    return n_extra
