"""The best splits at a given trade-off, by one minimum cut."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.pruning.kernels import best_closure
from spinney.pruning.problem import Splits

# Sums of capacities stay below this, so that no flow overflows.
LARGEST_SUM = 2**62


def import_max_flow() -> Any:
    """Return OR-tools' maximum flow class, or say how to get it."""
    try:
        from ortools.graph.python.max_flow import SimpleMaxFlow
    except ImportError as error:
        msg = (
            "Pruning with feature costs needs OR-tools, which is not installed. "
            'Install the extra "prune": python -m pip install "spinney[prune]"'
        )
        raise ImportError(msg) from error
    return SimpleMaxFlow


def capacities(splits: Splits, ratio: Fraction) -> tuple[NDArray, NDArray]:
    """Return ``gain - ratio * price`` in integers, for splits and groups.

    Exact as long as the sums stay below 2**62. Beyond, `ratio` is replaced by the
    nearest fraction with a denominator small enough.
    """
    gains = int(np.abs(splits.gain).sum())
    prices = int(splits.price.sum()) + int(splits.group_price.sum())
    largest = LARGEST_SUM // math.ceil(gains + ratio * prices + 1)
    if ratio.denominator > largest:
        ratio = ratio.limit_denominator(max(largest, 1))
    price, gain = ratio.numerator, ratio.denominator
    net = gain * splits.gain - price * splits.price
    return net, price * splits.group_price


def solve_mincut(splits: Splits, ratio: Fraction) -> NDArray[np.bool_]:
    """Solve by a minimum cut, as a `Solver`; the fewest splits if there is a tie.

    The splits are one side of a minimum cut: the source pays out the gains, groups
    and losses drain into the sink, and arcs that cannot be cut lead from a split to
    the split above it and to the groups it needs. Of all minimum cuts the one with
    the smallest source side is taken.
    """
    net, group_net = capacities(splits, ratio)
    everything = np.ones(splits.n_splits, dtype=np.bool_)
    if not splits.n_groups or not group_net.any():
        return best_closure(splits.parent, net, everything)[0]
    return _cut(splits, net, group_net)


def _cut(splits: Splits, net: NDArray, group_net: NDArray) -> NDArray[np.bool_]:
    """Return the source side of the smallest minimum cut."""
    n_splits, n_groups = splits.n_splits, splits.n_groups
    source, sink = n_splits + n_groups, n_splits + n_groups + 1
    gains, losses = np.flatnonzero(net > 0), np.flatnonzero(net < 0)
    below = np.flatnonzero(splits.parent >= 0)
    uncut = int(net[gains].sum()) + 1
    sizes = np.diff(splits.group_offsets)
    group = np.repeat(np.arange(n_splits, source, dtype=np.int32), sizes)
    flow = import_max_flow()()

    def add(tail: Any, head: Any, capacity: Any) -> None:
        tails, heads, bounds = np.broadcast_arrays(tail, head, capacity)
        flow.add_arcs_with_capacity(
            tails.astype(np.int32), heads.astype(np.int32), bounds.astype(np.int64)
        )

    add(source, gains, net[gains])
    add(losses, sink, -net[losses])
    add(below, splits.parent[below], uncut)
    add(splits.group_splits, group, uncut)
    add(np.arange(n_splits, source), sink, group_net)
    status = flow.solve(source, sink)
    if status != flow.OPTIMAL:
        msg = f"OR-tools found no minimum cut; its status is {status}."
        raise RuntimeError(msg)
    side = np.array(flow.get_source_side_min_cut(), dtype=np.int64)
    kept = np.zeros(sink + 1, dtype=np.bool_)
    kept[side] = True
    return kept[:n_splits]
