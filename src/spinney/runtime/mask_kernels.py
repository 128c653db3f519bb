"""The kernel that evaluates small trees by masks over their leaves, see `leaf_masks`.

The same rules as in `walk_kernels` apply.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spinney.runtime.compiler import (
    alloca_once_value,
    compiles,
    for_range_slice,
    get_or_insert_function,
    intrinsic,
    ir,
    types,
)
from spinney.runtime.conditions import MISSING_LEFT
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.leaf_masks import FEW_LANES, LANES, MAX_ROWS
from spinney.runtime.simd import exceeding, exceeding_or_missing

u = np.uint64

# Numba does not expose their types.
_local: Any = alloca_once_value
_function: Any = get_or_insert_function


@intrinsic
def _narrow_down(
    _context: Any,
    outcomes: Any,
    first: Any,
    conditions: Any,
    masks: Any,
    begin: Any,
    end: Any,
    leaves: Any,
) -> Any:
    index = types.uint64
    signature = types.void(outcomes, index, conditions, masks, index, index, leaves)
    lanes = outcomes.dtype.bitwidth

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, bit = ir.IntType(64), ir.IntType(1)
        vector, bits = ir.VectorType(word, lanes), ir.VectorType(bit, lanes)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)

        def data(k: int) -> Any:
            array = context.make_array(signature.args[k])
            return array(context, builder, args[k]).data

        outcome, condition, mask = builder.gep(data(0), [args[1]]), data(2), data(3)
        # Promoted to a register: the loop below keeps it there.
        left = _local(builder, ir.Constant(vector, [-1] * lanes))
        step = ir.Constant(word, 1)
        with for_range_slice(builder, args[4], args[5], step, word) as (i, _):
            which = builder.zext(builder.load(builder.gep(condition, [i])), word)
            goes = builder.load(builder.gep(outcome, [which]))
            goes_right = builder.bitcast(goes, bits)
            one = builder.insert_element(
                ir.Constant(vector, ir.Undefined),
                builder.load(builder.gep(mask, [i])),
                ir.Constant(ir.IntType(32), 0),
            )
            remaining = builder.shuffle_vector(one, one, zeros)
            now = builder.load(left)
            fewer = builder.and_(now, remaining)
            builder.store(builder.select(goes_right, fewer, now), left)
        kind = ir.FunctionType(vector, [vector, bit])
        name = f"llvm.cttz.v{lanes}i64"
        count = _function(builder.module, kind, name)
        found = builder.call(count, [builder.load(left), ir.Constant(bit, 1)])
        where = builder.bitcast(data(6), vector.as_pointer())
        builder.store(found, where, align=8)
        return context.get_dummy_value()

    return signature, generate


def _plain_narrow_down(
    outcomes: Any,
    first: Any,
    conditions: Any,
    masks: Any,
    begin: Any,
    end: Any,
    leaves: Any,
) -> None:
    lanes = 8 * outcomes.itemsize
    left = [~u(0)] * lanes
    for i in range(int(begin), int(end)):
        goes = int(outcomes[int(first) + int(conditions[i])])
        for r in range(lanes):
            if goes >> r & 1:
                left[r] &= masks[i]
    for r in range(lanes):
        leaves[r] = (int(left[r]) & -int(left[r])).bit_length() - 1


# (outcomes, first, conditions, masks, begin, end, leaves): for as many rows as a number
# of `outcomes` has bits, outcomes[first + c] saying where condition c sends them,
# write the leaf in which they end to `leaves`: the first that is left by the nodes from
# `begin` to `end`.
narrow_down: Any = _narrow_down if compiles else _plain_narrow_down


@kernel
def compare_all(X, columns, column, threshold, kind, n_conditions, outcomes):
    """Evaluate all comparisons; a bit per row says "goes right".

    Of the `n_conditions` words for the first eight or sixteen rows, and of those for
    the next, the first ones are written.
    """
    n_conditions = u(n_conditions)
    lanes = u(8 * outcomes.itemsize)
    lowest = (u(1) << lanes) - u(1)
    values = np.zeros(MAX_ROWS * columns.shape[0], dtype=X.dtype)
    for c in range(u(columns.shape[0])):
        for r in range(u(X.shape[0])):
            values[u(MAX_ROWS) * c + r] = X[r, u(columns[c])]
    for q in range(u(column.shape[0])):
        first = u(MAX_ROWS) * u(column[q])
        if kind[q] == MISSING_LEFT:
            word = exceeding(values, first, threshold[q])
        else:
            word = exceeding_or_missing(values, first, threshold[q])
        at = q
        for _ in range(u(0), u(X.shape[0]), lanes):
            outcomes[at] = word & lowest
            word >>= lanes
            at += n_conditions


@kernel
def add_masked_trees(
    n_conditions,
    node_offsets,
    node_condition,
    node_mask,
    first_leaf,
    table,
    tree_output,
    outcomes,
    total,
):
    """Add what each tree contributes to a few rows, by the outcomes of conditions."""
    n_rows, n_outputs = total.shape
    lanes = 8 * outcomes.itemsize
    leaves = np.empty(lanes, dtype=np.uint64)
    for part in range((n_rows + lanes - 1) // lanes):
        sums = total[lanes * part : min(lanes * part + lanes, n_rows)]
        n = u(sums.shape[0])
        for tree in range(u(tree_output.shape[0])):
            narrow_down(
                outcomes,
                u(part * n_conditions),
                node_condition,
                node_mask,
                u(node_offsets[tree]),
                u(node_offsets[tree + u(1)]),
                leaves,
            )
            first = u(first_leaf[tree])
            output = tree_output[tree]
            if output >= 0 or n_outputs == 1:
                to = u(max(output, 0))
                for r in range(n):
                    sums[r, to] += table[first + leaves[r], u(0)]
            else:
                for r in range(n):
                    for v in range(u(n_outputs)):
                        sums[r, v] += table[first + leaves[r], v]


@kernel
def begin_sums(ends, total):
    """Write what comes before the trees."""
    for r in range(total.shape[0]):
        for v in range(total.shape[1]):
            total[r, v] = ends[0, v]


@kernel
def end_sums(ends, total):
    """Divide sums, and add what comes after the trees."""
    for r in range(total.shape[0]):
        for v in range(total.shape[1]):
            total[r, v] = total[r, v] / ends[1, v] + ends[2, v]


@kernel
def score_masked_rows(
    X,
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
    """Write the raw scores of a few rows, for small trees of plain comparisons.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        At most 64 rows, of the type that the masks are for.
    columns, condition_column, condition_threshold, condition_kind, node_offsets
        `MaskArguments`, and so the next.
    node_condition, node_mask, first_leaf, table, tree_output
        Likewise.
    ends, total
        As for `row_kernels.score_rows`.
    """
    n_conditions = condition_column.shape[0]
    begin_sums(ends, total)
    n_parts = (X.shape[0] + LANES - 1) // LANES
    # Two arrays of different types: each call below is a kernel of its own.
    if X.shape[0] <= FEW_LANES:
        of_few = np.empty(n_conditions, dtype=np.uint8)
        compare_all(
            X,
            columns,
            condition_column,
            condition_threshold,
            condition_kind,
            n_conditions,
            of_few,
        )
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
        outcomes = np.empty(n_parts * n_conditions, dtype=np.uint16)
        compare_all(
            X,
            columns,
            condition_column,
            condition_threshold,
            condition_kind,
            n_conditions,
            outcomes,
        )
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
