"""Steps on a state that the caller owns: start, step, predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.export.c_text import (
    BYTES,
    Tables,
    fill,
    number,
    signed_type,
    unsigned_type,
)
from spinney.export.layout import Layout
from spinney.export.values import add_values


@dataclass(frozen=True, eq=False)
class StepSums:
    """What nodes add to the classes, as whole numbers.

    Parameters
    ----------
    order : ndarray of shape (n_steps,), dtype=int64
        Tree of each step.
    values : ndarray of shape (n_nodes, n_values), dtype=int64
        What each node adds.
    output : ndarray of shape (n_trees,) or None
        The class that a tree adds to, if it is only one.
    start : ndarray of shape (n_classes,), dtype=int64
        Sums of the initial state.
    ctype : str
        Type of a sum.
    slack : int or None
        Sums this close are left to the model itself once all trees are at leaves; None
        if they never are.
    """

    order: NDArray[np.int64]
    values: NDArray[np.int64]
    output: NDArray[np.int64] | None
    start: NDArray[np.int64]
    ctype: str
    slack: int | None


# The sums are there twice, and `current` says which are whole: an interrupt that comes
# in the middle of a step finds the sums before it. `open` counts the trees that have
# not reached a leaf.
STATE = """$cursor

/* One row on its way. Copy it to go on from the same state twice. */
typedef struct {
    $key keys[$n_keys];
    P_cursor tree[$n_trees];
    uint32_t n_done;
    volatile $sum sums[2][$n_classes];
    volatile $count open[2];
    volatile uint8_t current;
} P_state;"""

START = """
void P_start(P_state *state, const $row *row) {
    size_t i;
    $count open = 0;
$load    for (i = 0; i < $n_trees; i++) {
        state->tree[i] = P_BEGIN(i);
        open = ($count)(open + !P_IS_LEAF(state->tree[i]));
    }
    for (i = 0; i < $n_classes; i++) {
        state->sums[0][i] = P_sums[i];
        state->sums[1][i] = P_sums[i];
    }
    state->open[0] = open;
    state->open[1] = open;
    state->n_done = 0;
    state->current = 0;
}
"""
STEP = """
int P_step(P_state *state) {
    size_t i, tree;
    uint8_t now = state->current, next = (uint8_t)(1 - now);
    if (state->n_done == $n_steps) {
        return 0;
    }
    tree = P_order[state->n_done];
    state->n_done++;
    if (!P_IS_LEAF(state->tree[tree])) {
        const size_t before = P_NODE_VALUE(state->tree[tree]);
        size_t after;
        state->tree[tree] = P_STEP(state->keys, state->tree[tree]);
        after = P_NODE_VALUE(state->tree[tree]);
        for (i = 0; i < $n_classes; i++) {
            state->sums[next][i] = state->sums[now][i];
        }
$add        state->open[next] =
            ($count)(state->open[now] - P_IS_LEAF(state->tree[tree]));
        state->current = next;
    }
    return state->n_done != $n_steps;
}
"""
ADD_ONE = """        i = $output;
        state->sums[next][i] = ($sum)(state->sums[next][i] + $after - $before);
"""
ADD_SEVERAL = """        for (i = 0; i < $n_classes; i++) {
            state->sums[next][i] = ($sum)(state->sums[next][i] + $after - $before);
        }
"""
ANSWER = """
int P_answer(const P_state *state) {
    const uint8_t now = state->current;
    size_t v, best = 0;
    for (v = 1; v < $n_classes; v++) {
        if (state->sums[now][v] > state->sums[now][best]) {
            best = v;
        }
    }
$close    return (int)best;
}
"""
# The model adds up rounded numbers; where that may decide, it does.
CLOSE = """    if (state->open[now] == 0) {
        int close = 0;
        for (v = 0; v < $n_classes; v++) {
            close |= v != best
                && state->sums[now][best] - state->sums[now][v] <= $slack;
        }
        if (close) {
            $model total[$n_outputs];
            P_scores_of_leaves(state, total);
            return P_winner(total);
        }
    }
"""


class AnytimeSource:
    """The functions of an anytime classifier.

    Parameters
    ----------
    sums : StepSums
        Steps, and what nodes add.
    layout : Layout
        Where the trees are.
    tables : Tables
        Added to.
    model : tuple of str and int
        Type and number of the model's own scores.
    """

    def __init__(
        self, sums: StepSums, layout: Layout, tables: Tables, model: tuple[str, int]
    ) -> None:
        self.sums = sums
        self.layout = layout
        self.tables = tables
        self.model = model

    @property
    def n_keys(self) -> int:
        """Keys that a state holds."""
        slots = self.layout.slots
        if self.layout.is_direct:
            return slots.n_features
        return max(1, slots.n_slots + int(self.layout.needs_end))

    @property
    def _count_type(self) -> str:
        return unsigned_type(max(self.layout.forest.n_trees, 256))

    @property
    def state(self) -> str:
        """Definition of the state, for the header."""
        return fill(
            STATE,
            cursor=self.layout.cursor,
            key=self.layout.keys_type,
            n_keys=self.n_keys,
            n_trees=self.layout.forest.n_trees,
            sum=self.sums.ctype,
            n_classes=len(self.sums.start),
            count=self._count_type,
        )

    @property
    def state_bytes(self) -> int:
        """Bytes of a state, but for what alignment adds."""
        return (
            self.n_keys * BYTES[self.layout.keys_type]
            + self.layout.forest.n_trees * self.layout.cursor_bytes
            + 2 * len(self.sums.start) * BYTES[self.sums.ctype]
            + 2 * BYTES[self._count_type]
            + 5
        )

    @property
    def prototypes(self) -> list[str]:
        """Declarations for the header."""
        row = self.layout.slots.row_type
        return [
            "/* Puts a row into the initial state; the row itself is no longer needed."
            " */\n"
            f"void P_start(P_state *state, const {row} *row);",
            "/* Takes one step: one level of one tree. Returns whether there are more."
            " */\nint P_step(P_state *state);",
            "/* The class that wins so far. May be called at any moment, also by an\n"
            "   interrupt that has cut off a step. */\n"
            "int P_answer(const P_state *state);",
        ]

    def source(self, first: NDArray[np.intp], index: NDArray[np.int64]) -> str:
        """Return the functions.

        Parameters
        ----------
        first : ndarray of int
            A node for every value index.
        index : ndarray of shape (n_nodes,), dtype=int64
            Value index of each node.
        """
        sums, tables, layout = self.sums, self.tables, self.layout
        n_classes, n_trees = len(sums.start), layout.forest.n_trees
        layout.add_node_values(tables, index)
        values = sums.values[first]
        kind = signed_type(int(values.min()), int(values.max()))
        reader = add_values(tables, "P_adds", values, kind, layout.in_bytes)
        tables.add("P_sums", sums.start, sums.ctype, "sums of the initial state")
        order_type = unsigned_type(max(n_trees - 1, 1))
        tables.add("P_order", sums.order, order_type, "tree of each step")
        parts = {
            "row": layout.slots.row_type,
            "n_trees": n_trees,
            "n_classes": n_classes,
            "n_steps": f"{len(sums.order)}u",
            "sum": sums.ctype,
            "count": self._count_type,
        }
        if values.shape[1] == 1 and n_classes > 1:
            output = "1"
            if sums.output is not None and not (sums.output == 1).all():
                kind = unsigned_type(max(n_classes, 256))
                tables.add("P_output", sums.output, kind, "class of each tree")
                output = "P_output[tree]"
            add = fill(
                ADD_ONE,
                output=output,
                after=reader.format(i="after"),
                before=reader.format(i="before"),
                **parts,
            )
        else:
            n = n_classes
            add = fill(
                ADD_SEVERAL,
                after=reader.format(i=f"{n} * after + i"),
                before=reader.format(i=f"{n} * before + i"),
                **parts,
            )
        close = ""
        if sums.slack is not None and n_classes > 1:
            model, n_outputs = self.model
            close = fill(
                CLOSE,
                slack=number(sums.slack, sums.ctype),
                model=model,
                n_outputs=n_outputs,
                **parts,
            )
        step = fill(STEP, add=add, **parts)
        if order_type == "uint8_t":
            step = step.replace(
                "P_order[state->n_done]", "P_READ(&P_order[state->n_done])"
            )
        return (
            layout.step_source()
            + fill(START, load=self._load(), **parts)
            + step
            + fill(ANSWER, close=close, **parts)
        )

    def _load(self) -> str:
        if self.layout.is_direct:
            n = self.layout.slots.n_features
            return (
                f"    for (i = 0; i < {n}; i++) {{\n"
                "        state->keys[i] = row[i];\n    }\n"
            )
        return "    P_load(row, state->keys);\n"
