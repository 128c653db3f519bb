"""Section 5 of the paper: trees priced one by one, a master programme for the rest.

The master mixes pruned versions of each tree (columns) that have been met so far, and
its dual prices say what each tree would have to pay for a need that it shares. At such
prices a tree is pruned alone, by dynamic programming, which gives the next column. The
sum of what the trees gain at any prices bounds the optimum from above, so it is known
how far the best solution met so far can be from it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack

from spinney.errors import SpinneyWarning
from spinney.pruning.kernels import best_closure
from spinney.pruning.linear import best_level
from spinney.pruning.problem import Splits

# Weight of the best prices so far in the next ones: prices that oscillate give many
# useless columns.
STEADINESS = 0.5
MAX_ROUNDS = 2_000


@dataclass
class Outcome:
    """What the decomposition found.

    Parameters
    ----------
    kept : ndarray of shape (n_splits,), dtype=bool
        The best splits met.
    value : float
        Their gain less `ratio` times their price.
    bound : float
        No choice of splits has a larger value.
    n_rounds : int
        Number of times the master programme was solved.
    """

    kept: NDArray[np.bool_]
    value: float
    bound: float
    n_rounds: int


@dataclass
class _Columns:
    """Pruned versions of trees: whose they are, what they keep, what they are worth."""

    tree: list[int] = field(default_factory=list)
    kept: list[NDArray[np.int64]] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    known: set[tuple[int, bytes]] = field(default_factory=set)

    def add(self, tree: int, kept: NDArray[np.int64], value: float) -> bool:
        """Add a column unless it exists already; return whether it is new."""
        key = (tree, kept.tobytes())
        if key in self.known:
            return False
        self.known.add(key)
        self.tree.append(tree)
        self.kept.append(kept)
        self.value.append(value)
        return True


def solve_dantzig_wolfe(
    splits: Splits, ratio: Fraction, *, n_jobs: int | None = None, gap: float = 1e-9
) -> NDArray[np.bool_]:
    """Solve by decomposition, as a `Solver`; any choice if several are equally good.

    Parameters
    ----------
    splits, ratio
        As every `Solver` takes them.
    n_jobs : int or None, default=None
        Number of jobs of joblib, for the trees; they run with the backend that is
        set by ``joblib.parallel_config``.
    gap : float, default=1e-9
        Stop when the value is proven to be this close to the optimum, relative to the
        gain of all splits. Warns if that is not reached.
    """
    found = decompose(splits, ratio, n_jobs=n_jobs, gap=gap)
    if found.bound - found.value > gap * _scale(splits):
        msg = (
            f"The decomposition stopped after {found.n_rounds} rounds with a value of "
            f"{found.value:.10g}, and the optimum may be up to {found.bound:.10g}. Use "
            "solver='mincut' for the exact optimum."
        )
        warnings.warn(msg, SpinneyWarning, stacklevel=2)
    return found.kept


def decompose(
    splits: Splits, ratio: Fraction, *, n_jobs: int | None, gap: float
) -> Outcome:
    """Run the decomposition, and return its solution with the bound it reached."""
    if splits.n_splits == 0:
        return Outcome(np.zeros(0, dtype=np.bool_), 0.0, 0.0, 0)
    blocks = _blocks(splits.parent)
    own = splits.gain - np.float64(ratio) * splits.price
    group = np.repeat(np.arange(splits.n_groups), np.diff(splits.group_offsets))
    group_value = np.float64(ratio) * splits.group_price
    # Initially, all splits that need a group pay the same share of it.
    prices = steady = (group_value / np.diff(splits.group_offsets))[group]
    scale = _scale(splits)
    best = np.zeros(splits.n_splits, dtype=np.bool_)
    best_value, bound = Fraction(0), np.inf
    columns = _Columns()
    for number in range(len(blocks)):
        columns.add(number, np.empty(0, dtype=np.int64), 0.0)  # a single leaf
    workers = Parallel(n_jobs=n_jobs)
    duals_before: NDArray[np.float64] | None = None
    n_rounds = 0
    while True:
        net = own - np.bincount(splits.group_splits, prices, splits.n_splits)
        pruned = workers(
            delayed(_prune_tree)(parent, net[indices]) for indices, parent in blocks
        )
        total = sum(value for _, value in pruned)
        if total < bound:
            bound, steady = total, prices
        is_new = False
        priced = np.zeros(splits.n_splits, dtype=np.bool_)
        for number, (kept, _) in enumerate(pruned):
            indices = blocks[number][0][kept]
            priced[indices] = True
            is_new |= columns.add(number, indices, float(own[indices].sum()))
        mixture, duals = _solve_master(splits, columns, group, group_value)
        n_rounds += 1
        for candidate in (priced, best_level(splits, mixture, ratio)):
            value = splits.gain_of(candidate) - ratio * splits.price_of(candidate)
            if value > best_value:
                best, best_value = candidate, value
        # Without a new column at the master's own prices, no column improves it.
        is_done = not is_new and prices is duals_before
        if bound - best_value <= gap * scale or is_done or n_rounds == MAX_ROUNDS:
            return Outcome(best, float(best_value), bound, n_rounds)
        prices = STEADINESS * steady + (1.0 - STEADINESS) * duals if is_new else duals
        duals_before = duals


def _scale(splits: Splits) -> float:
    """Return what gaps are relative to: the size of all gains together."""
    return max(float(np.abs(splits.gain).sum()), 1.0)


def _blocks(
    parent: NDArray[np.int32],
) -> list[tuple[NDArray[np.int64], NDArray[np.int32]]]:
    """Return for each tree the indices of its splits, and parents among these."""
    root = np.arange(len(parent))
    for split in np.flatnonzero(parent >= 0):
        root[split] = root[parent[split]]
    blocks = []
    order = np.argsort(root, kind="stable")
    for indices in np.split(order, np.flatnonzero(np.diff(root[order])) + 1):
        above = np.searchsorted(indices, parent[indices])
        local = np.where(parent[indices] >= 0, above, -1).astype(np.int32)
        blocks.append((indices, local))
    return blocks


def _prune_tree(
    parent: NDArray[np.int32], net: NDArray[np.float64]
) -> tuple[NDArray[np.int64], float]:
    """Return the splits that one tree keeps at given prices, and their value."""
    everything = np.ones(len(net), dtype=np.bool_)
    kept, value = best_closure(parent, net, everything)
    return np.flatnonzero(kept), value


def _solve_master(
    splits: Splits,
    columns: _Columns,
    group: NDArray[np.int64],
    group_value: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mix the columns so that they gain the most.

    Returns
    -------
    mixture : ndarray of shape (n_splits,)
        How far each split is kept.
    duals : ndarray of shape (n_entries,)
        What each split would have to pay for each group it needs.
    """
    n_columns, n_groups = len(columns.tree), splits.n_groups
    sizes = [len(kept) for kept in columns.kept]
    member = csr_matrix(
        (
            np.ones(sum(sizes)),
            (np.concatenate(columns.kept), np.repeat(np.arange(n_columns), sizes)),
        ),
        (splits.n_splits, n_columns),
    )
    # Needs of splits that no column keeps constrain nothing.
    binding = np.flatnonzero(np.diff(member.indptr)[splits.group_splits])
    needs = hstack(
        [
            member[splits.group_splits[binding]],
            csr_matrix(
                (-np.ones(len(binding)), (np.arange(len(binding)), group[binding])),
                (len(binding), n_groups),
            ),
        ],
        format="csr",
    )
    one_each = csr_matrix(
        (np.ones(n_columns), (columns.tree, np.arange(n_columns))),
        (max(columns.tree) + 1, n_columns + n_groups),
    )
    objective = np.concatenate([-np.array(columns.value), group_value])
    scale = max(float(np.abs(objective).max()), 1e-300)
    solution = linprog(
        objective / scale,
        A_ub=needs if len(binding) else None,
        b_ub=np.zeros(len(binding)) if len(binding) else None,
        A_eq=one_each,
        b_eq=np.ones(one_each.shape[0]),
        bounds=(0.0, None),
        method="highs",
    )
    if solution.status != 0:
        msg = f"HiGHS found no solution of the master programme: {solution.message}"
        raise RuntimeError(msg)
    duals = np.zeros(len(group))
    if len(binding):
        duals[binding] = np.maximum(-solution.ineqlin.marginals, 0.0) * scale
    return member @ solution.x[:n_columns], duals
