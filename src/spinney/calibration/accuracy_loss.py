"""Bounds on the accuracy that early exit loses, from rows whose labels are known.

Of rows that early exit answers otherwise than the full ensemble, some become wrong and
others right. What counts is the difference of the two: a mean of numbers -1, 0 and 1,
one for each row, which may rise and fall along a ladder of rules.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from spinney.calibration.bounds import clopper_pearson_upper
from spinney.calibration.risk_control import n_allowed

Codes = NDArray[np.intp]
Numbers = NDArray[np.float64]

# With fewer rows than this times the inverse of the bound, rows that become right are
# not counted: what they could offset is less than what it costs to know it.
FEW = 20.0
# The chance of passing that a rule may have, by its true loss in multiples of the
# bound: 1 up to FIRST, then as of a normal distribution with deviation 1, down to LAST.
FIRST, LAST, N_LEVELS = 0.5, 5.0, 40
# What part of a chance is for a bound on the rows that become wrong alone, which is the
# better one if few rows change, and for the number of rows that change at all.
PART_FOR_HARM, PART_FOR_CHANGES = 0.4, 0.06
# Stakes are fixed for rows that change of which this share becomes wrong.
SHARE_HARMED = 0.53


def changes_of_accuracy(full: Codes, true: Codes, answers: Codes) -> tuple[int, int]:
    """Return how many rows become wrong, and how many become right.

    Parameters
    ----------
    full, true, answers : ndarray of shape (n_rows,)
        Class indices: by the full ensemble, the true ones, and with early exit.
    """
    right, early = full == true, answers == true
    return int(np.count_nonzero(right & ~early)), int(np.count_nonzero(early & ~right))


def accuracy_test(
    full: Codes, true: Codes, bound: float, confidence: float | None
) -> ExpectedLoss | ExpectedHarm | ProvenLoss:
    """Return the test of a bound on the loss of accuracy.

    Parameters
    ----------
    full, true : ndarray of shape (n_rows,)
        Class indices of rows that nothing was fitted to: by the full ensemble, and the
        true ones.
    bound : float
        The bound, above 0.
    confidence : float or None
        The probability with which it is to hold; None for on average.
    """
    if confidence is not None:
        return ProvenLoss(full, true, bound, confidence)
    if len(full) * bound < FEW:
        return ExpectedHarm(full, true, bound)
    return ExpectedLoss(full, true, bound)


class ExpectedHarm:
    """Risk control of right answers that become wrong; the others are not counted.

    Parameters
    ----------
    full, true, bound
        As in `accuracy_test`.
    """

    def __init__(self, full: Codes, true: Codes, bound: float) -> None:
        self._right, self._true = full == true, true
        self._allowed = n_allowed(len(full), bound)
        self._harmed = np.zeros(len(full), dtype=np.bool_)

    def passes(self, answers: Codes) -> bool:
        """Return whether few enough rows become wrong, with this rule or before."""
        self._harmed |= self._right & (answers != self._true)
        return int(np.count_nonzero(self._harmed)) <= self._allowed


class ExpectedLoss:
    """The expected loss of the rule taken keeps a bound.

    Parameters
    ----------
    full, true, bound
        As in `accuracy_test`.

    Notes
    -----
    Losses can rise and fall along the ladder, so risk control for losses that only
    rise does not apply. Let :math:`R_j` be the true loss of rule j, and J the rule
    taken, the last before the first that fails. For any r, J can have a loss above r
    only if the *first* rule of the ladder with a loss above r has passed its test. So

    .. math:: E[R_J] \\le \\int_0^1 P(R_J > r) dr \\le \\int_0^1 \\pi(r) dr,

    where :math:`\\pi(r)` bounds the chance of a rule with a loss above r to pass. The
    test is made so that this integral is the bound: for each of some levels, a
    rule passes only if an upper confidence bound on its loss, which fails with a
    probability of at most u, is at most r. Then :math:`\\pi(r) \\le u` from there on.

    The confidence bound is exact. The loss is ``p (2 q - 1)``, where p is the share of
    the rows whose answer changes between right and wrong, and q the share among these
    that become wrong. Both numbers are binomial, the second given the first, so the
    product of two Clopper-Pearson bounds fails with the sum of their chances. A third
    one, on the share of the rows that become wrong, bounds the loss as well; the
    smaller of the two fails with the sum of all three chances.

    Rows must be drawn independently.
    """

    def __init__(self, full: Codes, true: Codes, bound: float) -> None:
        self._full, self._true = full, true
        levels, self._chances = expected_levels(bound)
        self._levels = levels

    def passes(self, answers: Codes) -> bool:
        """Return whether all confidence bounds are below their levels."""
        n_harmed, n_helped = changes_of_accuracy(self._full, self._true, answers)
        n_changed = n_harmed + n_helped
        return all(
            net_loss_upper(n_harmed, n_changed, len(self._full), chance) <= level
            for level, chance in zip(self._levels, self._chances, strict=True)
        )


@cache
def expected_levels(bound: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return levels of the loss, and the chances to pass above them.

    Parameters
    ----------
    bound : float
        What the integral of the chances over the loss, from 0 to 1, comes to at most;
        below the first level the chance is 1.

    Returns
    -------
    levels, chances : tuple of float
        From each level to the next, the chance is at most the one beside it.
    """

    def chances(shift: float, at: Numbers) -> Numbers:
        return np.asarray(ndtr(shift - at))

    multiples = np.linspace(FIRST, LAST, N_LEVELS)
    ends = np.append(multiples, 1.0 / bound)

    def integral(shift: float) -> float:
        return FIRST + float(chances(shift, multiples) @ np.diff(ends))

    # Near 1/2 and above, bounds leave no room beyond the last level.
    if ends[-1] <= LAST:
        keep = multiples < ends[-1]
        multiples, ends = multiples[keep], np.append(multiples[keep], ends[-1])
    shift = float(brentq(lambda s: integral(s) - (1.0 - 1e-9), -40.0, 40.0))
    return tuple((bound * multiples).tolist()), tuple(chances(shift, multiples))


def net_loss_upper(n_harmed: int, n_changed: int, n_rows: int, chance: float) -> float:
    """Return an upper confidence bound on the share harmed less the share helped.

    Parameters
    ----------
    n_harmed, n_changed, n_rows : int
        Rows that become wrong; rows that become wrong or right; all rows.
    chance : float
        The probability with which the bound may fail, above 0 and below 1.
    """
    for_harm, for_changes = PART_FOR_HARM * chance, PART_FOR_CHANGES * chance
    harmed = clopper_pearson_upper(n_harmed, n_rows, 1.0 - for_harm)
    if n_changed == 0:
        return harmed
    changed = clopper_pearson_upper(n_changed, n_rows, 1.0 - for_changes)
    among = clopper_pearson_upper(
        n_harmed, n_changed, 1.0 - (chance - for_harm - for_changes)
    )
    return min(harmed, changed * max(0.0, 2.0 * among - 1.0))


class ProvenLoss:
    """The loss of the rule taken keeps a bound, with a confidence: a betting bound.

    Parameters
    ----------
    full, true, bound, confidence
        As in `accuracy_test`.

    Notes
    -----
    Whoever bets a part of a fortune of 1 on every row, against a loss above the bound,
    multiplies it by ``1 + stake (bound - difference)``, where the difference is 1 for a
    row that becomes wrong and -1 for one that becomes right. If the loss is above the
    bound, the fortune has a mean of at most 1, and comes to ``1 / (1 - confidence)``
    with a probability of at most ``1 - confidence`` [1]_. So a rule with such a fortune
    passes. The stake is fixed before the rows are looked at.

    References
    ----------
    .. [1] I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables
       by betting", Journal of the Royal Statistical Society B 86(1), 2024.
    """

    def __init__(
        self, full: Codes, true: Codes, bound: float, confidence: float
    ) -> None:
        self._full, self._true, self._bound = full, true, bound
        self._goal = -float(np.log1p(-confidence))
        self._stake = best_stake(len(full), bound, self._goal)

    def passes(self, answers: Codes) -> bool:
        """Return whether the fortune is large enough."""
        counts = changes_of_accuracy(self._full, self._true, answers)
        fortune = log_fortune(*counts, len(self._full), self._bound, self._stake)
        return fortune >= self._goal


def log_fortune(
    n_harmed: int, n_helped: int, n_rows: int, bound: float, stake: float
) -> float:
    """Return the logarithm of what a fortune of 1 has become.

    Parameters
    ----------
    n_harmed, n_helped, n_rows : int
        Rows that become wrong; rows that become right; all rows.
    bound : float
        The loss that is bet against.
    stake : float
        What is bet, from 0 to ``1 / (1 - bound)``.
    """
    n_same = n_rows - n_harmed - n_helped
    harmed = max(1.0 + stake * (bound - 1.0), 0.0)
    lost = 0.0
    if n_harmed:
        lost = n_harmed * float(np.log(harmed)) if harmed > 0.0 else -np.inf
    won = n_helped * np.log1p(stake * (bound + 1.0)) + n_same * np.log1p(stake * bound)
    return float(lost + won)


@cache
def best_stake(n_rows: int, bound: float, goal: float) -> float:
    """Return the stake with which the most rows may change.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    bound : float
        The loss that is bet against.
    goal : float
        What the logarithm of the fortune has to come to.
    """
    most = 1.0 / (1.0 - bound)
    stakes = most * np.append(np.geomspace(1e-4, 0.999, 400), 1.0)
    room = n_rows * np.log1p(stakes * bound) - goal
    with np.errstate(divide="ignore"):
        harmed = np.log(np.maximum(1.0 + stakes * (bound - 1.0), 0.0))
    helped = np.log1p(stakes * (bound + 1.0))
    each = np.log1p(stakes * bound) - (
        SHARE_HARMED * harmed + (1.0 - SHARE_HARMED) * helped
    )
    allowed = np.where(room >= 0.0, room / np.maximum(each, 1e-300), -1.0)
    # The last one bets everything, and is for the fewest rows that can do.
    return float(stakes[-1 if allowed.max() <= 0.0 else int(np.argmax(allowed))])
