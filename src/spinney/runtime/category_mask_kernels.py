"""The kernel for a few rows of small trees that test categories, see `leaf_masks`.

Tests of categories are looked up instead of evaluated: a table says whether a row goes
right, see `widening`. A line of it is copied for each row, one bit per test. The same
rules as in `walk_kernels` apply.
"""

from __future__ import annotations

import numpy as np

from spinney.runtime.kernel_cache import kernel
from spinney.runtime.leaf_masks import FEW_LANES, LANES
from spinney.runtime.mask_kernels import (
    add_masked_trees,
    begin_sums,
    compare_all,
    end_sums,
)
from spinney.runtime.widening import line_of

u = np.uint64


@kernel
def _look_up_all(X, tests, goes_right, rule, first, n_conditions, outcomes):
    """Set a bit per row in the outcomes of tests, which begin at `first` and are 0."""
    lanes = 8 * outcomes.itemsize
    for r in range(X.shape[0]):
        to = u(r // lanes * n_conditions + first)
        bit = np.int64(1) << np.int64(r % lanes)
        for k in range(u(tests.shape[0])):
            line = line_of(X[r, u(tests[k, u(0)])], tests[k, u(1)], rule)
            width = u(tests[k, u(2)])
            begin = u(tests[k, u(3)]) + u(line) * width
            for v in range(width):
                outcomes[to + v] |= goes_right[begin + v] & bit
            to += width


@kernel
def score_masked_categories(
    X,
    tests,
    goes_right,
    rule,
    columns,
    condition_column,
    condition_threshold,
    condition_kind,
    node_offsets,
    node_condition,
    node_mask,
    first_leaf,
    table,
    tree_output,
    ends,
    total,
):
    """Write the raw scores of a few rows, for small trees that test categories, too.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        At most 64 rows, of the type that the masks are for.
    tests, goes_right, rule, columns, condition_column, condition_threshold
        `CategoryMaskArguments`, and so the next.
    condition_kind, node_offsets, node_condition, node_mask, first_leaf, table
        Likewise.
    tree_output
        Likewise.
    ends, total
        As for `row_kernels.score_rows`.
    """
    first = condition_column.shape[0]
    n_conditions = first
    for k in range(tests.shape[0]):
        n_conditions += tests[k, 2]
    begin_sums(ends, total)
    n_parts = (X.shape[0] + LANES - 1) // LANES
    if X.shape[0] <= FEW_LANES:
        of_few = np.zeros(n_conditions, dtype=np.uint8)
        compare_all(
            X,
            columns,
            condition_column,
            condition_threshold,
            condition_kind,
            n_conditions,
            of_few,
        )
        _look_up_all(X, tests, goes_right, rule, first, n_conditions, of_few)
        add_masked_trees(
            n_conditions,
            node_offsets,
            node_condition,
            node_mask,
            first_leaf,
            table,
            tree_output,
            of_few,
            total,
        )
    else:
        outcomes = np.zeros(n_parts * n_conditions, dtype=np.uint16)
        compare_all(
            X,
            columns,
            condition_column,
            condition_threshold,
            condition_kind,
            n_conditions,
            outcomes,
        )
        _look_up_all(X, tests, goes_right, rule, first, n_conditions, outcomes)
        add_masked_trees(
            n_conditions,
            node_offsets,
            node_condition,
            node_mask,
            first_leaf,
            table,
            tree_output,
            outcomes,
            total,
        )
    end_sums(ends, total)
