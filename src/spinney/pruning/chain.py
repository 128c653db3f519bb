"""All supported trade-offs between cost and error, by recursion.

The best splits at a larger trade-off are among those at a smaller one. So two
solutions, one inside the other, leave open only the splits between them. At the
trade-off where both are equally good either nothing is better, and it is a breakpoint
between neighbours, or the best solution there lies between the two and splits the
problem in two. All numbers are integers, and breakpoints are exact fractions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from spinney.pruning.kernels import best_closure
from spinney.pruning.problem import Splits

# ``solve(splits, ratio)`` returns which splits to keep so that ``gain - ratio * price``
# is the largest. `ratio` is the gain that a unit of price is worth, not negative.
Solver = Callable[[Splits, Fraction], NDArray[np.bool_]]
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Step:
    """What a solution on the frontier has beyond the next smaller one.

    Parameters
    ----------
    ratio : Fraction
        Gain per unit of price at which both are equally good.
    node : ndarray, dtype=int64
        Nodes of the splits that are given up at once.
    gain, price : int
        Their gain, and their price beyond what the smaller solution pays.
    """

    ratio: Fraction
    node: NDArray[np.int64]
    gain: int
    price: int


@dataclass(frozen=True)
class Chain:
    """Solutions that lie inside one another, from the smallest to the largest.

    Parameters
    ----------
    base : ndarray, dtype=int64
        Nodes of the splits that are kept at any trade-off, because they cost nothing.
    base_gain : int
        Their gain.
    steps : list of Step
        What the next larger solution has in addition, ratios falling.
    """

    base: NDArray[np.int64]
    base_gain: int
    steps: list[Step]

    @property
    def gains(self) -> list[int]:
        """Gain of each solution, from the smallest to the largest."""
        return _running([self.base_gain, *(step.gain for step in self.steps)])

    @property
    def prices(self) -> list[int]:
        """Price of each solution, from the smallest to the largest."""
        return _running([0, *(step.price for step in self.steps)])


def _running(numbers: list[int]) -> list[int]:
    """Return running sums."""
    sums = []
    total = 0
    for number in numbers:
        total += number
        sums.append(total)
    return sums


def find_chain(
    splits: Splits,
    solve: Solver,
    *,
    progress: Progress | None = None,
) -> Chain:
    """Return all supported solutions, from the cheapest to the one with most gain.

    Parameters
    ----------
    splits : Splits
        What there is to choose.
    solve : Solver
        Finds the best splits at a trade-off.
    progress : callable, optional
        Called with the share of the splits that are settled.

    Returns
    -------
    chain : Chain
        The solutions.
    """
    everything = np.ones(splits.n_splits, dtype=np.bool_)
    kept = best_closure(splits.parent, splits.gain, everything)[0]
    if not kept.all():
        splits = splits.inside(kept)
    base = _free_of_charge(splits)
    steps: list[Step] = []
    stack = [splits.outside(base)]
    n_settled = 0
    while stack:
        piece = stack.pop()
        if piece.n_splits == 0:
            continue
        ratio = Fraction(piece.total_gain, piece.total_price)
        between = solve(piece, ratio)
        better = piece.gain_of(between) - ratio * piece.price_of(between) > 0
        if better:
            stack += [piece.inside(between), piece.outside(between)]
        else:
            gain, price = piece.total_gain, piece.total_price
            steps.append(Step(ratio, piece.node, gain, price))
            n_settled += piece.n_splits
        if progress is not None:
            progress(n_settled / splits.n_splits)
    return Chain(splits.node[base], splits.gain_of(base), _joined(steps))


def _joined(steps: list[Step]) -> list[Step]:
    """Sort steps by falling ratio, and take those with the same ratio as one.

    A solver that does not return the smallest of several best solutions may part
    what belongs together.
    """
    joined: list[Step] = []
    for step in sorted(steps, key=lambda step: step.ratio, reverse=True):
        if joined and joined[-1].ratio == step.ratio:
            last = joined.pop()
            node = np.concatenate([last.node, step.node])
            step = Step(
                step.ratio, node, last.gain + step.gain, last.price + step.price
            )
        joined.append(step)
    return joined


def _free_of_charge(splits: Splits) -> NDArray[np.bool_]:
    """Return the splits that are worth keeping at any price, as they need nothing."""
    free = splits.price == 0
    free[splits.group_splits] = False
    return best_closure(splits.parent, splits.gain, free)[0]
