"""A forest in stages, and the kernel that evaluates them one after another.

A call from Python takes as long as a stage does for a hundred rows, because every array
has to be taken out of its Python object. So the arrays of all stages are joined into
long arrays, and one call evaluates all stages, each with its part of every array.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.batch_kernels import add_trees
from spinney.runtime.compiler import compiles, overload, types
from spinney.runtime.dropping_kernels import drop_block, finish_rows, take_class
from spinney.runtime.exit_kinds import DROPPING
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.layout import Forms, bitslices_any
from spinney.runtime.row_kernels import finish_block, settle_block

# How a kernel makes a number of each type from a mark.
NUMBERS = {int: "int", bool: "bool", np.uint64: "np.uint64"}


class Stage(NamedTuple):
    """The trees between two exit points, all or those of one class."""

    forms: Forms  # with all parts
    block: int  # rows per block
    table: NDArray[np.floating]  # what each leaf value index adds
    tree_output: NDArray[np.int64]  # the output that a tree adds to, -1 for all


class Stages(NamedTuple):
    """Stages one behind the other."""

    # Arrays of all stages, numbers of the first one; of its forms, what any needs.
    joined: Stage
    # (n_stages + 1, n_fields): where the part of each stage begins in each array, or
    # its number, for all fields of a stage in the order in which they are written down.
    marks: NDArray[np.int64]
    exit_number: NDArray[np.int64]  # the exit point that comes after each stage
    of_class: NDArray[np.int64]  # the one class that it adds to, -1 for all


def join_stages(
    stages: list[Stage],
    exit_number: NDArray[np.int64] | None = None,
    of_class: NDArray[np.int64] | None = None,
    keeps_schedule: bool = False,
) -> Stages:
    """Put stages behind one another.

    Parameters
    ----------
    stages : list of Stage
        At least one.
    exit_number : ndarray of shape (n_stages,), dtype=int64, optional
        Number of the exit point that comes after each stage, rising from 0 to the
        number of exit points; by default there is one stage for each.
    of_class : ndarray of shape (n_stages,), dtype=int64, optional
        The class that all trees of a stage add to. It is evaluated only for rows for
        which this class was not dropped. -1, the default, for all.
    keeps_schedule : bool, default=False
        Whether kernels get a schedule even if no stage bitslices any tree. Where other
        rules for the same forest need it, no other kernels are compiled then.

    Returns
    -------
    stages : Stages
        All of them.
    """
    joined = _joined(stages)
    # These three are views of the same words.
    walk = joined.forms.walk
    assert walk is not None
    walk = walk._replace(
        threshold=walk.link.view(walk.threshold.dtype),
        value_index=walk.link.view(walk.value_index.dtype),
    )
    joined = joined._replace(forms=joined.forms._replace(walk=walk))
    is_array = np.array([isinstance(part, np.ndarray) for part in _leaves(joined)])
    fields = np.array([_fields(stage) for stage in stages])
    marks = np.zeros((len(stages) + 1, fields.shape[1]), dtype=np.int64)
    marks[1:, is_array] = np.cumsum(fields[:, is_array], axis=0)
    marks[:-1, ~is_array] = fields[:, ~is_array]
    # The other parts are kept: a stage may be walked, or be left for a few rows.
    if not (keeps_schedule or any(bitslices_any(stage.forms) for stage in stages)):
        joined = joined._replace(forms=joined.forms._replace(schedule=None))
    if exit_number is None:
        exit_number = np.arange(len(stages))
    if of_class is None:
        of_class = np.full(len(stages), -1)
    return Stages(joined, marks, exit_number, of_class)


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


def _if_given(function: Any) -> Any:
    """Return a function for kernels that gives None for a part that is None.

    With an ``if`` in a kernel it would be a part that may be None, of any type: what
    takes it would be compiled once more, with tests and copies.
    """

    def absent(part: Any, a: Any, b: Any) -> Any:
        return None

    def present(part: Any, a: Any, b: Any) -> Any:
        return function(part, a, b)

    def given(part: Any, a: Any, b: Any) -> Any:
        return (absent if part is None else present)(part, a, b)

    if compiles:

        @overload(given)
        def _(part: Any, a: Any, b: Any) -> Any:
            return absent if isinstance(part, types.NoneType) else present

    return given


def _write_stage_of() -> Any:
    """Return a function ``(stages, k)`` that gives stage `k`, as views of its arrays.

    A kernel cannot loop over the fields of a tuple. So one is written from the fields
    themselves, in the order in which `join_stages` marks them: whatever is added to a
    tuple is found by both, and a type that is in neither list is an error here. A part
    that may be None has a function of its own, one for each type that it can have.
    """
    names: dict[str, Any] = {"__name__": __name__, "np": np}
    number = count()

    def define(header: str, lines: list[str]) -> None:
        source = "\n".join([f"def {header}:", *lines])
        exec(compile(source, __file__, "exec"), names)
        name = header.partition("(")[0]
        names[name] = kernel(names[name])

    def parts_of(kind: type, path: str, lines: list[str]) -> str:
        names[kind.__name__] = kind
        parts = []
        for field, hint in get_type_hints(kind).items():
            tuples = [one for one in (hint, *get_args(hint)) if hasattr(one, "_fields")]
            if tuples:
                # A variable of its own: taking a tuple out of another is dear.
                lines.append(f"    {path}_{field} = {path}.{field}")
            if tuples and hint is tuples[0]:
                parts.append(parts_of(hint, f"{path}_{field}", lines))
            elif tuples:
                of_part: list[str] = []
                value = parts_of(tuples[0], "part", of_part)
                define(f"{field}_there(part, a, b)", [*of_part, f"    return {value}"])
                names[f"{field}_of"] = _if_given(names[f"{field}_there"])
                parts.append(f"{field}_of({path}_{field}, a, b)")
            elif get_origin(hint) in (np.ndarray, NDArray):  # NumPy before 2.5, since
                i = next(number)
                parts.append(f"{path}.{field}[a[{i}] : b[{i}]]")
            else:
                parts.append(f"{NUMBERS[hint]}(a[{next(number)}])")
        return f"{kind.__name__}({', '.join(parts)})"

    lines = [
        '    """Return stage `k`: views of its parts of the arrays of `stages`.',
        "",
        "    Parameters",
        "    ----------",
        "    stages : Stages",
        "        All of them.",
        "    k : int",
        "        Which one.",
        '    """',
        "    a, b = stages.marks[k], stages.marks[k + 1]",
        "    stage = stages.joined",
    ]
    value = parts_of(Stage, "stage", lines)
    define("stage_of(stages, k)", [*lines, f"    return {value}"])
    return names["stage_of"]


stage_of = _write_stage_of()


@kernel
def evaluate_stages(
    X,
    stages,
    few_rows,
    exit_points,
    kind,
    bounds,
    stops,
    decision_threshold,
    tolerance,
    start,
    totals,
    row_index,
    classes,
    counts,
    sums,
):
    """Evaluate rows stage by stage, and let them exit in between.

    Where classes are dropped, there is a stage for each class between two exit points,
    which evaluates only the rows for which the class is left. Before the first exit
    point all classes are left, so one stage suffices.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features), float32 or float64
        Rows, of the type that the stages are for.
    stages : Stages
        The forest.
    few_rows : int
        Stop when fewer rows than this are left.
    exit_points, kind, bounds, stops, decision_threshold, tolerance
        `ExitArguments`.
    start : ndarray of shape (n_outputs,)
        Sums before the first tree.
    totals : ndarray of shape (n_rows, n_outputs)
        Overwritten: first of all with the sums of the rows that are left.
    row_index : ndarray of shape (n_rows,), dtype=int64
        Overwritten: first of all with the numbers of the rows that are left.
    classes : ndarray of shape (n_rows,), dtype=intp
    counts : ndarray of shape (n_rows,), dtype=int32
        Overwritten with the predictions of rows that have exited, and the number of
        trees that were evaluated for them.
    sums : ndarray of shape (n_rows, n_outputs) or (0, n_outputs), dtype=float64
        Overwritten with the sums at which rows exit, if there is room for them.

    Returns
    -------
    k : int
        Number of the next exit point of the rows that are left.
    n_left : int
        How many rows are left; 0 if all are predicted.
    """
    n_left = X.shape[0]
    n_stages = stages.marks.shape[0] - 1
    drops = kind == DROPPING
    for r in range(n_left):
        row_index[r] = r
        counts[r] = 0
        for v in range(start.shape[0]):
            totals[r, v] = start[v]
    # The rows of one class, and their sums.
    part_slots = np.empty(n_left if drops else 0, dtype=np.int64)
    part_rows = np.empty(n_left if drops else 0, dtype=np.int64)
    part_sums = np.empty((n_left if drops else 0, 1))
    for s in range(n_stages):
        k = stages.exit_number[s]
        if n_left < few_rows and (s == 0 or stages.exit_number[s - 1] < k):
            return k, n_left
        stage = stage_of(stages, s)
        n_here, rows, added_to = n_left, row_index, totals
        if drops:
            n_trees = stage.tree_output.shape[0]
            n_here = take_class(
                totals[:n_left],
                row_index[:n_left],
                stages.of_class[s],
                n_trees,
                counts,
                part_slots,
                part_rows,
                part_sums,
            )
            if stages.of_class[s] >= 0:
                rows, added_to = part_rows, part_sums
        if n_here > 0:
            add_trees(
                X,
                rows[: n_here if n_here < X.shape[0] else 0],  # none at all: all rows
                stage.forms,
                stage.block,
                stage.table,
                stage.tree_output,
                added_to[:n_here],
            )
        if stages.of_class[s] >= 0:
            for i in range(n_here):
                totals[part_slots[i], stages.of_class[s]] = part_sums[i, 0]
        if s + 1 < n_stages and stages.exit_number[s + 1] == k:
            continue
        if k < exit_points.shape[0]:
            if drops:
                n_left = drop_block(
                    totals[:n_left], row_index[:n_left], k, bounds, classes
                )
            else:
                n_left = settle_block(
                    totals[:n_left],
                    row_index[:n_left],
                    kind,
                    k,
                    exit_points[k],
                    bounds,
                    stops,
                    classes,
                    counts,
                    sums,
                )
            if n_left == 0:
                return n_stages, 0
    if drops:
        finish_rows(
            totals[:n_left], row_index[:n_left], decision_threshold, tolerance, classes
        )
        return n_stages, 0
    n_trees = stages.joined.tree_output.shape[0]
    finish_block(
        totals[:n_left],
        row_index[:n_left],
        n_trees,
        decision_threshold,
        tolerance,
        classes,
        counts,
        sums,
    )
    return n_stages, 0
