"""The best forest within a budget that falls between two trade-offs.

The supported solutions are the corners of a hull, and a budget usually falls between
two of them. A small problem is then solved exactly, as an integer programme. A large
one is filled greedily, and the hull says how much better the optimum could be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.pruning.chain import Chain
from spinney.pruning.kernels import best_closure
from spinney.pruning.linear import solve_budget
from spinney.pruning.problem import Splits

# An integer programme of this many splits, groups and needs is a small one.
SMALL = 20_000
SECONDS = 60.0
# How the price of a group is spread over the splits that need it: its whole price for
# each, equal shares, or something between.
SPREADS = (0.0, 0.5, 0.8, 1.0)
HALVINGS = 40


@dataclass(frozen=True)
class Filled:
    """A solution within a budget.

    Parameters
    ----------
    node : ndarray, dtype=int64
        Nodes of the splits kept.
    gain : int
        Their gain.
    bound : int
        No solution within the budget gains more.
    """

    node: NDArray[np.int64]
    gain: int
    bound: int


def fill_budget(splits: Splits, chain: Chain, limit: int) -> Filled:
    """Return a solution within a budget that is at least as good as any supported one.

    Parameters
    ----------
    splits : Splits
        What there is to choose.
    chain : Chain
        Its supported solutions.
    limit : int
        Largest price allowed, not negative.
    """
    n_affordable = sum(price <= limit for price in chain.prices)
    node = np.concatenate(
        [chain.base, *(step.node for step in chain.steps[: n_affordable - 1])]
    )
    gain, price = chain.gains[n_affordable - 1], chain.prices[n_affordable - 1]
    if n_affordable == len(chain.prices) or price == limit:
        return Filled(node, gain, gain)
    # On the hull between two corners; gains are integers.
    bound = gain + int(chain.steps[n_affordable - 1].ratio * (limit - price))
    best = Filled(node, gain, bound)
    if splits.n_splits + splits.n_groups + len(splits.group_splits) <= SMALL:
        exact = solve_budget(splits, limit, SECONDS)
        if exact is not None:
            kept, proven = exact
            bound = min(bound, proven)
            found = Filled(splits.node[kept], splits.gain_of(kept), bound)
            best = max(found, Filled(node, gain, bound), key=lambda one: one.gain)
    if best.gain < bound:
        supported = np.isin(splits.node, node)
        for start in (np.zeros_like(supported), supported):
            kept = _fill(splits, start, limit)
            if splits.gain_of(kept) > best.gain:
                best = Filled(splits.node[kept], splits.gain_of(kept), bound)
    return best


def _fill(splits: Splits, start: NDArray[np.bool_], limit: int) -> NDArray[np.bool_]:
    """Add to the splits kept, greedily, until nothing more fits."""
    kept = start.copy()
    while True:
        left = limit - splits.price_of(kept)
        rest = splits.outside(kept)
        best: NDArray[np.bool_] | None = None
        for spread in SPREADS:
            added = _largest_affordable(rest, spread, left)
            if added.any() and (
                best is None or rest.gain_of(added) > rest.gain_of(best)
            ):
                best = added
        if best is None:
            return kept
        kept[np.flatnonzero(~kept)[best]] = True


def _largest_affordable(splits: Splits, spread: float, limit: int) -> NDArray[np.bool_]:
    """Return a solution within `limit`, with prices as if nothing were shared.

    The price of a group counts, divided by its size to the power of `spread`, for
    each split that needs it. That leaves trees that can be pruned one by one, and a
    trade-off to be found by halving.
    """
    sizes = np.diff(splits.group_offsets)
    each = np.repeat(splits.group_price / np.maximum(sizes, 1) ** spread, sizes)
    price = splits.price + np.bincount(splits.group_splits, each, splits.n_splits)
    everything = np.ones(splits.n_splits, dtype=np.bool_)

    def pruned(ratio: float) -> NDArray[np.bool_]:
        return best_closure(splits.parent, splits.gain - ratio * price, everything)[0]

    low, high = 0.0, 1.0
    kept = pruned(low)
    if splits.price_of(kept) <= limit:
        return kept
    while splits.price_of(kept := pruned(high)) > limit:
        low, high = high, 2.0 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        found = pruned(middle)
        if splits.price_of(found) <= limit:
            kept, high = found, middle
        else:
            low = middle
    return kept
