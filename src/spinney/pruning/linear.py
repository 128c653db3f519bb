"""The paper's linear programme, and an integer programme with a budget, on HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_matrix, eye_array, hstack, vstack

from spinney.pruning.problem import Splits


@dataclass(frozen=True)
class IP3:
    """The integer programme IP3 of the paper, as matrices.

    The variables are, in this order: z of every split (1 if it becomes a leaf), z of
    every leaf, the w of every need of a tree (a feature for some rows), and the w of
    every need of the forest.

    Parameters
    ----------
    cost : ndarray of shape (n_variables,)
        What is minimised.
    equal : sparse matrix of shape (n_equations, n_variables)
        Left side of equations whose right side is 1: one for each leaf, and one for
        each need of a tree.
    at_most : sparse matrix of shape (n_inequalities, n_variables)
        Left side of inequalities whose right side is 0: a need of a tree is a need
        of the forest.
    constant : float
        What the objective leaves out: ``constant - cost @ x`` is gain less price.
    """

    cost: NDArray[np.float64]
    equal: csr_matrix
    at_most: csr_matrix
    constant: float


def paths(parent: NDArray[np.int32]) -> csr_matrix:
    """Return a matrix with a 1 for each split and each split on the path to it.

    Parameters
    ----------
    parent : ndarray of shape (n_splits,), dtype=int32
        The split above each split; -1 for none.
    """
    n_splits = len(parent)
    start: NDArray[np.int64] = np.arange(n_splits)
    at: NDArray[np.integer] = start
    rows, columns = [start], [at]
    while len(at):
        above = parent[at]
        start, at = start[above >= 0], above[above >= 0]
        rows.append(start)
        columns.append(at)
    row, column = np.concatenate(rows), np.concatenate(columns)
    return csr_matrix((np.ones(len(row)), (row, column)), (n_splits, n_splits))


def build_ip3(splits: Splits, ratio: Fraction) -> IP3:
    """Write a pruning problem as the paper does.

    Parameters
    ----------
    splits : Splits
        What there is to choose. Needs of a single split have no w of the forest of
        their own: it would be equal to that of the tree.
    ratio : Fraction
        Gain that a unit of price is worth.
    """
    n_splits, n_groups = splits.n_splits, splits.n_groups
    path = paths(splits.parent)
    children = np.bincount(splits.parent[splits.parent >= 0], minlength=n_splits)
    above_leaf = np.repeat(np.arange(n_splits), 2 - np.minimum(children, 2))
    alone = np.flatnonzero(splits.price)
    sizes = np.diff(splits.group_offsets)
    first_use = np.concatenate([alone, splits.group_splits])
    n_leaves, n_needs = len(above_leaf), len(first_use)
    # A leaf, or a need, is there unless the tree is cut above it or at it.
    equal = vstack(
        [
            hstack(
                [path[above_leaf], eye_array(n_leaves), csr_matrix((n_leaves, n_needs))]
            ),
            hstack(
                [path[first_use], csr_matrix((n_needs, n_leaves)), eye_array(n_needs)]
            ),
        ],
        format="csr",
    )
    equal.resize(equal.shape[0], equal.shape[1] + n_groups)
    shared = np.arange(len(alone), n_needs)
    group = np.repeat(np.arange(n_groups), sizes)
    n_variables = equal.shape[1]
    first_need = n_splits + n_leaves
    row = np.arange(len(shared))
    at_most = csr_matrix(
        (
            np.repeat([1.0, -1.0], len(shared)),
            (
                np.concatenate([row, row]),
                np.concatenate([first_need + shared, first_need + n_needs + group]),
            ),
        ),
        (len(shared), n_variables),
    )
    cost = np.zeros(n_variables)
    cost[:n_splits] = path.T @ splits.gain  # of all splits that go with this one
    cost[first_need : first_need + len(alone)] = float(ratio) * splits.price[alone]
    cost[first_need + n_needs :] = float(ratio) * splits.group_price
    return IP3(cost, equal, at_most, float(splits.total_gain))


def solve_lp(splits: Splits, ratio: Fraction) -> NDArray[np.bool_]:
    """Solve the paper's LP, as a `Solver`; any choice if several are equally good."""
    if splits.n_splits == 0:
        return np.zeros(0, dtype=np.bool_)
    programme = build_ip3(splits, ratio)
    scale = max(float(np.abs(programme.cost).max()), 1e-300)
    solution = linprog(
        programme.cost / scale,
        A_ub=programme.at_most if programme.at_most.shape[0] else None,
        b_ub=np.zeros(programme.at_most.shape[0]) if splits.n_groups else None,
        A_eq=programme.equal,
        b_eq=np.ones(programme.equal.shape[0]),
        bounds=(0.0, None),
        method="highs",
    )
    if solution.status != 0:
        msg = f"HiGHS found no solution: {solution.message}"
        raise RuntimeError(msg)
    share = 1.0 - paths(splits.parent) @ solution.x[: splits.n_splits]
    return best_level(splits, share, ratio)


def best_level(
    splits: Splits, share: NDArray[np.float64], ratio: Fraction
) -> NDArray[np.bool_]:
    """Return the best of the solutions that a fractional one is a mixture of.

    The splits with a share above a given level form a valid solution, and the
    fractional solution is the mean of these over all levels. So the best of them is at
    least as good.

    Parameters
    ----------
    splits : Splits
        The problem.
    share : ndarray of shape (n_splits,)
        How far each split is kept, from 0 to 1, never more than the split above it.
    ratio : Fraction
        Gain that a unit of price is worth.
    """
    levels = np.unique(np.round(np.append(share[share > 1e-6], 1.0), 6))
    best: tuple[Fraction, NDArray[np.bool_]] | None = None
    for level in levels[::-1]:
        kept = share > level - 1e-6
        value = splits.gain_of(kept) - ratio * splits.price_of(kept)
        if best is None or value > best[0]:
            best = value, kept
    assert best is not None  # there is always the level 1
    return best[1]


def solve_budget(
    splits: Splits, limit: int, seconds: float
) -> tuple[NDArray[np.bool_], int] | None:
    """Return the splits with most gain whose price keeps a limit, and a bound.

    Parameters
    ----------
    splits : Splits
        What there is to choose.
    limit : int
        Largest price allowed, not negative.
    seconds : float
        Time limit for HiGHS.

    Returns
    -------
    kept : ndarray of shape (n_splits,), dtype=bool
        Splits to keep.
    bound : int
        No choice within the limit gains more. None is returned instead of both if no
        choice was found in time.
    """
    n_splits, n_groups = splits.n_splits, splits.n_groups
    below = np.flatnonzero(splits.parent >= 0)
    group = np.repeat(np.arange(n_groups), np.diff(splits.group_offsets))
    tail = np.concatenate([below, splits.group_splits])
    head = np.concatenate([splits.parent[below], n_splits + group])
    arc = np.arange(len(tail))
    implied = csr_matrix(
        (
            np.repeat([1.0, -1.0], len(tail)),
            (np.concatenate([arc, arc]), np.concatenate([tail, head])),
        ),
        (len(tail), n_splits + n_groups),
    )
    price = np.concatenate([splits.price, splits.group_price]).astype(np.float64)
    gain = np.concatenate([splits.gain, np.zeros(n_groups, dtype=np.int64)])
    constraints = [LinearConstraint(price[None, :], ub=limit)]
    if len(tail):
        constraints.append(LinearConstraint(implied, ub=0.0))
    solution = milp(
        -gain.astype(np.float64),
        constraints=constraints,
        # If the splits are integers, so are the needs.
        integrality=np.repeat([1, 0], [n_splits, n_groups]),
        bounds=Bounds(0.0, 1.0),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if solution.x is None:
        return None
    kept = solution.x[:n_splits] > 0.5
    if splits.price_of(kept) > limit:
        return None
    # Gains are integers; HiGHS may be off by a millionth.
    return kept, int(np.floor(-solution.mip_dual_bound + 1e-6))
