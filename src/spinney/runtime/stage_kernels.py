"""A forest in stages, and the kernel that asks them one after another.

A call from Python takes as long as a stage does for a hundred rows, because every array
has to be taken out of its Python object. So the arrays of all stages lie one behind the
other in the same ones, and one call asks all stages, each with its part of every array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.batch_kernels import add_trees
from spinney.runtime.bitslicing import Program
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.layout import Categories, Forms, Walk
from spinney.runtime.row_kernels import finish_block, settle_block

u = np.uint64


class Stage(NamedTuple):
    """The trees between two checks."""

    forms: Forms
    block: int  # rows per block
    table: NDArray[np.floating]  # what each payload adds
    tree_output: NDArray[np.int64]  # the output that a tree adds to, -1 for all


class Stages(NamedTuple):
    """Stages one behind the other."""

    joined: Stage  # arrays of all stages, numbers of the first one
    # (n_stages + 1, n_fields): where the part of each stage begins in each array, or
    # its number, for all fields of a stage in the order in which they are written down.
    marks: NDArray[np.int64]


def join_stages(stages: list[Stage]) -> Stages:
    """Put stages behind one another.

    Parameters
    ----------
    stages : list of Stage
        At least one.

    Returns
    -------
    stages : Stages
        All of them.
    """
    joined = _joined(stages)
    # These three are views of the same words.
    walk = joined.forms.walk
    walk = walk._replace(
        threshold=walk.link.view(walk.threshold.dtype),
        payload=walk.link.view(walk.payload.dtype),
    )
    joined = joined._replace(forms=joined.forms._replace(walk=walk))
    fields = np.array([_fields(stage) for stage in stages])
    marks = np.zeros((len(stages) + 1, fields.shape[1]), dtype=np.int64)
    is_array = np.array([isinstance(part, np.ndarray) for part in _leaves(joined)])
    marks[1:, is_array] = np.cumsum(fields[:, is_array], axis=0)
    marks[:-1, ~is_array] = fields[:, ~is_array]
    return Stages(joined, marks)


def _joined(parts: Any) -> Any:
    """Return tuples of arrays as one tuple of long arrays."""
    if isinstance(parts[0], tuple):
        return type(parts[0])(*map(_joined, zip(*parts, strict=True)))
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else parts[0]


def _leaves(part: Any) -> list[Any]:
    """Return the arrays and numbers in a tuple of tuples, in order."""
    if not isinstance(part, tuple):
        return [part]
    return [leaf for field in part for leaf in _leaves(field)]


def _fields(stage: Stage) -> list[int]:
    """Return the length of each array of a stage, and its numbers, in order."""
    return [
        len(leaf) if isinstance(leaf, np.ndarray) else int(leaf)
        for leaf in _leaves(stage)
    ]


@kernel
def stage_of(stages, k):
    """Return stage `k`: views of its parts of the arrays.

    Parameters
    ----------
    stages : Stages
        All of them.
    k : int
        Which one.
    """
    a, b = stages.marks[k], stages.marks[k + 1]
    forms = stages.joined.forms
    walk, program, categories = forms.walk, forms.program, forms.categories
    return Stage(
        Forms(
            forms.columns[a[0] : b[0]],
            Walk(
                walk.threshold[a[1] : b[1]],
                walk.link[a[2] : b[2]],
                walk.payload[a[3] : b[3]],
                walk.kind[a[4] : b[4]],
                walk.root[a[5] : b[5]],
                walk.depth[a[6] : b[6]],
                u(a[7]),
                u(a[8]),
                a[9] != 0,
            ),
            Program(
                program.chain_column[a[10] : b[10]],
                program.chain_offsets[a[11] : b[11]],
                program.question_column[a[12] : b[12]],
                program.question_threshold[a[13] : b[13]],
                program.question_set[a[14] : b[14]],
                program.question_kind[a[15] : b[15]],
                program.question_slot[a[16] : b[16]],
                program.run_offsets[a[17] : b[17]],
                program.run_kind[a[18] : b[18]],
                program.run_end[a[19] : b[19]],
                program.operations[a[20] : b[20]],
                a[21],
                program.is_sliced[a[22] : b[22]],
                program.n_planes[a[23] : b[23]],
                program.first_code[a[24] : b[24]],
                program.first_payload[a[25] : b[25]],
                program.is_listed[a[26] : b[26]],
                program.leaf_of_code[a[27] : b[27]],
            ),
            Categories(
                categories.offsets[a[28] : b[28]],
                categories.words[a[29] : b[29]],
                a[30],
            ),
        ),
        a[31],
        stages.joined.table[a[32] : b[32]],
        stages.joined.tree_output[a[33] : b[33]],
    )


@kernel
def ask_stages(
    X,
    stages,
    few_rows,
    start,
    checks,
    kind,
    bounds,
    stops,
    positive_from,
    tolerance,
    totals,
    place,
    classes,
    counts,
):
    """Ask rows stage by stage, and let them leave in between.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features), float32 or float64
        Rows, of the type that the stages are for.
    stages : Stages
        The forest.
    few_rows : int
        Stop when fewer rows than this are left.
    start : ndarray of shape (n_outputs,)
        Sums before the first tree.
    checks, kind, bounds, stops
        Of an `ExitRule`.
    positive_from, tolerance
        As for `finish_block`.
    totals : ndarray of shape (n_rows, n_outputs)
        Overwritten: first of all with the sums of the rows that are left.
    place : ndarray of shape (n_rows,), dtype=int64
        Overwritten: first of all with the numbers of the rows that are left.
    classes : ndarray of shape (n_rows,), dtype=intp
    counts : ndarray of shape (n_rows,), dtype=int32
        Overwritten with the answers of rows that have left, and the number of trees
        that they were asked.

    Returns
    -------
    k : int
        Number of the next stage.
    n_left : int
        How many rows are left; 0 if all are answered.
    """
    n_left = X.shape[0]
    n_stages = stages.marks.shape[0] - 1
    for r in range(n_left):
        place[r] = r
        for v in range(start.shape[0]):
            totals[r, v] = start[v]
    for k in range(n_stages):
        if n_left < few_rows:
            return k, n_left
        stage = stage_of(stages, k)
        add_trees(
            X,
            place[: n_left if n_left < X.shape[0] else 0],  # none at all: all rows
            stage.forms,
            stage.block,
            stage.table,
            stage.tree_output,
            totals[:n_left],
        )
        if k < checks.shape[0]:
            n_left = settle_block(
                totals[:n_left],
                place[:n_left],
                kind,
                k,
                checks[k],
                bounds,
                stops,
                classes,
                counts,
            )
            if n_left == 0:
                return n_stages, 0
    n_trees = stages.joined.forms.walk.depth.shape[0]
    finish_block(
        totals[:n_left],
        place[:n_left],
        n_trees,
        positive_from,
        tolerance,
        classes,
        counts,
    )
    return n_stages, 0
