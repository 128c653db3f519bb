"""Proof that a stop rule keeps its promise, in exact or in rounded arithmetic.

Up to `EXACT_LIMIT` voters a rule is evaluated in integers. Given that `j` of the first
`i` votes are positive, all ``comb(i, j)`` orders are equally likely, so instead of
probabilities one can count orders: those still going on, and those that have stopped
with either decision, each the sum of its two predecessors as in Pascal's triangle. A
stop probability is a fraction with a power of two below, which only shifts the counts
of its step. At the end the counts for `n` positive voters are divided by ``comb(N,
n)``.

Beyond, the kernel `spinney.sequential.kernels.follow` is trusted up to a stated error.
It adds and multiplies non-negative numbers only, at most eight times per step on the
way to any result, and each operation changes a result by a factor between
``1 - 2**-53`` and ``1 + 2**-53``; so the relative error of all results stays below
`rounding_error`. Numbers too small for a float are lost, which is less than
`UNDERFLOW` altogether.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spinney.sequential.compact import CompactStrategy

EXACT_LIMIT = 301
UNDERFLOW = 1e-290


def rounding_error(n_voters: int) -> float:
    """Return a bound on the relative error of what the kernels compute."""
    # Eight roundings per step, averages over the numbers of positive voters included;
    # 64 more cover higher orders, and the difference between 0.1 and its float.
    return (8 * n_voters + 64) * 2.0**-53


@dataclass(frozen=True)
class ExactProfile:
    """Expected votes and disagreement as fractions, by the number of positive voters.

    Parameters
    ----------
    votes, wrong : list of int
        Numerators.
    ways : list of int
        ``comb(n_voters, n)``.
    shift : int
        The denominators are ``ways[n] << shift``.
    """

    votes: list[int]
    wrong: list[int]
    ways: list[int]
    shift: int

    def expected_votes(self) -> list[Fraction]:
        """Return the expected number of votes for every number of positive voters."""
        return self._fractions(self.votes)

    def disagreement(self) -> list[Fraction]:
        """Return the probability of disagreement, likewise."""
        return self._fractions(self.wrong)

    def mean_votes(self, weights: list[int]) -> Fraction:
        """Return the mean of the expected votes under these weights."""
        return self._mean(self.votes, weights)

    def mean_disagreement(self, weights: list[int]) -> Fraction:
        """Return the mean of the disagreement under these weights."""
        return self._mean(self.wrong, weights)

    def _fractions(self, counts: list[int]) -> list[Fraction]:
        return [
            Fraction(count, ways << self.shift)
            for count, ways in zip(counts, self.ways, strict=True)
        ]

    def _mean(self, counts: list[int], weights: list[int]) -> Fraction:
        common, factors = _common_denominator(len(self.ways) - 1)
        total = sum(
            weight * count * factor
            for weight, count, factor in zip(weights, counts, factors, strict=True)
        )
        return Fraction(total, (sum(weights) * common) << self.shift)


@lru_cache(maxsize=16)
def _ways(n_voters: int) -> list[int]:
    return [math.comb(n_voters, n) for n in range(n_voters + 1)]


@lru_cache(maxsize=16)
def _common_denominator(n_voters: int) -> tuple[int, list[int]]:
    ways = _ways(n_voters)
    common = math.lcm(*ways)
    return common, [common // number for number in ways]


def exact_profile(rule: CompactStrategy) -> ExactProfile:
    """Evaluate a stop rule in integers.

    Parameters
    ----------
    rule : CompactStrategy
        The rule. Its stop probabilities count as the exact values of their floats.
    """
    n_voters = rule.n_voters
    half = n_voters // 2
    lower, upper = rule.lower.tolist(), rule.upper.tolist()
    extra_start = rule.extra_start.tolist()
    # Orders still going on, votes of those that have stopped, and those that have
    # stopped with either decision, as rows of one table of Python integers.
    table = np.zeros((4, n_voters + 2), dtype=object)
    table[0, 0] = 1
    shift = 0
    for i in range(n_voters + 1):
        going_on, cast, positive, negative = table
        if extra_start[i] < extra_start[i + 1]:
            listed = [
                (
                    int(rule.extra_count[e]),
                    *float(rule.extra_stop[e]).as_integer_ratio(),
                )
                for e in range(extra_start[i], extra_start[i + 1])
            ]
            below = max(ratio[2] for ratio in listed)
            table[:, : i + 1] *= below
            shift += below.bit_length() - 1
            for j, above, own in listed:
                stopping = going_on[j] * above // own
                going_on[j] -= stopping
                cast[j] += i * stopping
                decided = positive if j > i // 2 else negative
                decided[j] += stopping
        for stopped, decided in (
            (slice(0, lower[i] + 1), negative),
            (slice(upper[i], i + 1), positive),
        ):
            if stopped.start < stopped.stop:
                cast[stopped] += i * going_on[stopped]
                decided[stopped] += going_on[stopped]
                going_on[stopped] = 0
        if i < n_voters:
            table[:, 1 : i + 2] = table[:, 1 : i + 2] + table[:, : i + 1]
    wrong = [*table[2, : half + 1], *table[3, half + 1 : n_voters + 1]]
    return ExactProfile(
        votes=list(table[1, : n_voters + 1]),
        wrong=wrong,
        ways=_ways(n_voters),
        shift=shift,
    )


def exact_bound(max_disagreement: float) -> Fraction:
    """Return the bound that a float stands for, whichever way it is read.

    0.1 may mean one tenth, or the float next to it, which is a little more: the
    smaller of the two keeps both promises.
    """
    written = Fraction(repr(float(max_disagreement)))
    return min(written, Fraction(float(max_disagreement)))


def integer_weights(weights: NDArray[np.float64]) -> list[int]:
    """Return integers in the same proportions as these floats, exactly."""
    ratios = [float(weight).as_integer_ratio() for weight in weights]
    common = max(below for _, below in ratios)  # powers of two all of them
    return [above * (common // below) for above, below in ratios]
