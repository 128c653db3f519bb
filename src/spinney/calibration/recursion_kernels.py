"""The backward recursion in compiled code: best cuts for a price, and what is left.

See `spinney.calibration.recursion` for what they are about.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


@kernel
def _stop_here(
    k: int,
    codes: NDArray[np.uint16],
    starts: NDArray[np.int64],
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    choice: NDArray[np.int8],
    stop_at: NDArray[np.int32],
    wrong: Flags,
) -> None:
    """Stop the paths that the cuts of check `k` stop; `choice` is room to work in."""
    for group in range(starts.shape[0] - 1):
        for state in range(starts[group], starts[group + 1]):
            choice[state] = 0
            if state < lower[k, group]:
                choice[state] = -1
            elif state >= upper[k, group]:
                choice[state] = 1
    row = codes[k]
    for p in range(row.shape[0]):
        code = row[p]
        chosen = choice[code >> 1]
        if chosen != 0:
            stop_at[p] = k
            wrong[p] = (code & 1 == 1) == (chosen == 1)


@kernel
def find_cuts(
    codes: NDArray[np.uint16],
    starts: NDArray[np.int64],
    costs: Numbers,
    price: float,
    may_fall: bool,
    may_rise: bool,
    reach: NDArray[np.int32],
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    stop_at: NDArray[np.int32],
    wrong: Flags,
) -> None:
    """Find the cuts with the least sum of cost and priced disagreement, backwards.

    Parameters
    ----------
    codes, starts : ndarray
        The paths, see `Paths`.
    costs : ndarray of shape (n_checks + 1,)
        Cost of stopping at each check, and of continuing to the end.
    price : float
        Price of a disagreement.
    may_fall, may_rise : bool
        Whether stopping downwards and upwards is allowed.
    reach : ndarray of shape (n_paths,)
        Last check that each path gets to: it counts up to there.
    lower, upper : ndarray of shape (n_checks, n_groups)
        Overwritten with the cuts, except for checks that no path gets to.
    stop_at : ndarray of shape (n_paths,)
        Overwritten with the check at which each path stops, n_checks for the end.
    wrong : ndarray of shape (n_paths,)
        Overwritten with whether it then disagrees.
    """
    n_checks, n_paths = codes.shape
    n_groups = starts.shape[0] - 1
    n_states = starts[n_groups]
    stop_at[:] = n_checks
    wrong[:] = False
    # Summed over the paths in a state: what stopping downwards and upwards costs more
    # than continuing.
    fall = np.empty(n_states)
    rise = np.empty(n_states)
    reach_value = np.empty(n_states + 1)
    reach_cut = np.empty(n_states + 1, dtype=np.int64)
    choice = np.zeros(n_states, dtype=np.int8)
    for k in range(n_checks - 1, -1, -1):
        row = codes[k]
        fall[:] = 0.0
        rise[:] = 0.0
        here = costs[k]
        n_here = 0
        for p in range(n_paths):
            if reach[p] < k:
                continue
            n_here += 1
            code = row[p]
            state = code >> 1
            saved = here - costs[stop_at[p]]
            if wrong[p]:
                saved -= price
            if code & 1:
                fall[state] += saved
                rise[state] += saved + price
            else:
                fall[state] += saved + price
                rise[state] += saved
        for group in range(n_groups if n_here > 0 else 0):
            first = starts[group]
            last = starts[group + 1]
            # Of all pairs of cuts the best one: first the best lower cut up to every
            # state, then the upper cut comes down. Where stopping gains
            # nothing, it continues.
            summed = 0.0
            least = 0.0
            cut = first
            reach_value[first] = 0.0
            reach_cut[first] = first
            for state in range(first, last):
                if may_fall:
                    summed += fall[state]
                    if summed < least:
                        least = summed
                        cut = state + 1
                reach_value[state + 1] = least
                reach_cut[state + 1] = cut
            best = least
            lower[k, group] = cut
            upper[k, group] = last
            if may_rise:
                summed = 0.0
                for state in range(last - 1, first - 1, -1):
                    summed += rise[state]
                    if summed + reach_value[state] < best:
                        best = summed + reach_value[state]
                        lower[k, group] = reach_cut[state]
                        upper[k, group] = state
        _stop_here(k, codes, starts, lower, upper, choice, stop_at, wrong)


@kernel
def use_room(
    codes: NDArray[np.uint16],
    starts: NDArray[np.int64],
    costs: Numbers,
    room: float,
    may_fall: bool,
    may_rise: bool,
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    stop_at: NDArray[np.int32],
    wrong: Flags,
) -> None:
    """Stop in more states, check by check, as long as there is room for it.

    Parameters
    ----------
    codes, starts, costs
        As in `find_cuts`.
    room : float
        By how much the number of paths that disagree may grow.
    may_fall, may_rise
        As in `find_cuts`.
    lower, upper : ndarray of shape (n_checks, n_groups)
        The cuts; changed.
    stop_at, wrong : ndarray of shape (n_paths,)
        Overwritten as by `find_cuts`.
    """
    n_checks, n_paths = codes.shape
    n_groups = starts.shape[0] - 1
    # Summed over the paths that get to a check and are in a state: what stopping there
    # costs more than what is done now, and how many disagree more.
    cost = np.empty((2, starts[-1]))
    miss = np.empty((2, starts[-1]))
    choice = np.zeros(starts[-1], dtype=np.int8)
    stop_at[:] = n_checks
    wrong[:] = False
    for k in range(n_checks - 1, -1, -1):
        _stop_here(k, codes, starts, lower, upper, choice, stop_at, wrong)
    for k in range(n_checks - 1, -1, -1):
        row = codes[k]
        cost[:] = 0.0
        miss[:] = 0.0
        for p in range(n_paths):
            if stop_at[p] >= k:
                state = row[p] >> 1
                more = costs[k] - costs[stop_at[p]]
                cost[0, state] += more
                cost[1, state] += more
                miss[row[p] & 1, state] += 1.0
                if wrong[p]:
                    miss[0, state] -= 1.0
                    miss[1, state] -= 1.0
        # Stopping downwards disagrees where the flag is not set: row 0 of `miss`.
        for group in range(n_groups):
            low = lower[k, group]
            high = upper[k, group]
            for side in range(2):
                if not (may_rise if side == 1 else may_fall):
                    continue
                saved = 0.0
                missed = 0.0
                least = 0.0
                best = 0
                best_missed = 0.0
                for n in range(1, high - low + 1):
                    state = high - n if side == 1 else low + n - 1
                    saved += cost[side, state]
                    missed += miss[side, state]
                    if saved < least and missed <= room:
                        least = saved
                        best = n
                        best_missed = missed
                room -= best_missed
                if side == 1:
                    high -= best
                else:
                    low += best
            for state in range(starts[group], starts[group + 1]):
                choice[state] = 0
            for state in range(lower[k, group], low):
                choice[state] = -1
            for state in range(high, upper[k, group]):
                choice[state] = 1
            lower[k, group] = low
            upper[k, group] = high
        for p in range(n_paths):
            chosen = choice[row[p] >> 1]
            if chosen != 0 and stop_at[p] > k:
                stop_at[p] = k
                wrong[p] = (row[p] & 1 == 1) == (chosen == 1)
