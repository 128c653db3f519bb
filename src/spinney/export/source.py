"""The two files, put together from their parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.export.anytime import AnytimeSource, StepSums
from spinney.export.c_text import (
    BYTES,
    Tables,
    fill,
    in_comment,
    with_prefix,
)
from spinney.export.early_sums import EarlySums
from spinney.export.exits import EarlyExit
from spinney.export.fast_layout import FastLayout
from spinney.export.inputs import Slots
from spinney.export.integer_scores import IntegerScores
from spinney.export.labels import add_labels
from spinney.export.layout import Layout
from spinney.export.lazily import begin_source, fetch_type, purchases_source
from spinney.export.own_scores import OwnScores, value_rows
from spinney.export.packed_layout import PackedLayout, getters_source
from spinney.export.program import Program
from spinney.export.quantisation import Quantised, counted_sums
from spinney.export.row_source import key_source, load_source
from spinney.export.values import distinct

LAYOUTS = {"fast": FastLayout, "packed": PackedLayout}

HEADER = """/* $title
$facts
 */
#ifndef $guard
#define $guard

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

$defines
$types
$functions

#ifdef __cplusplus
}
#endif

#endif
"""
SOURCE = """/* $title
$facts
 */
#include "$header"
$math
$checks$flash
$tables
$functions"""
# What would change sums of floats without a word.
CHECKS = """
#ifdef __FAST_MATH__
#error "This file needs the order of its additions: compile it without fast math."
#endif
#ifdef __FLT_EVAL_METHOD__
#if __FLT_EVAL_METHOD__ == 2 || __FLT_EVAL_METHOD__ < 0
#error "This file needs sums in their own type: compile for SSE2 (-mfpmath=sse)."
#endif
#endif
"""
CHECK_DOUBLE = """
/* Fails to compile where double is not a 64-bit type. */
typedef char P_needs_64_bit_doubles[sizeof(double) == 8 ? 1 : -1];
"""
# Processors that keep constants in an address space of their own.
FLASH = """
#if defined(__AVR__)
#include <avr/pgmspace.h>
#define P_FLASH PROGMEM
#define P_READ(address) pgm_read_byte(address)
#else
#define P_FLASH
#define P_READ(address) (*(address))
#endif
"""
PREDICT_ALL = """
int P_predict(const $row *row) {
    $sum total[$n_outputs];
    P_scores(row, total);
    return P_winner(total);
}

int P_predict_counted(const $row *row, int *n_evaluated) {
    *n_evaluated = $n_trees;
    return P_predict(row);
}
"""
PREDICT_LAZILY = """
int P_predict_lazily(P_fetch fetch, void *context) {
    $sum total[$n_outputs];
$begin    P_scores_lazily(&p, total);
    return P_winner(total);
}
"""
PREDICT_BY_STEPS = """
int P_predict(const $row *row) {
    P_state state;
    P_start(&state, row);
    while (P_step(&state)) {
    }
    return P_answer(&state);
}

int P_predict_counted(const $row *row, int *n_evaluated) {
    *n_evaluated = $n_trees;
    return P_predict(row);
}
"""


@dataclass(frozen=True)
class Source:
    """The text of the two files, and what they cost.

    Parameters
    ----------
    code, header : str
        The files.
    flash_bytes : int
        Bytes of all tables.
    ram_bytes : int
        Bytes on the stack for one prediction.
    state_bytes : int
        Bytes of a state; 0 without steps.
    max_steps : int
        Comparisons in the worst case.
    needs_math : bool
        Whether the C library's exponential is needed.
    """

    code: str
    header: str
    flash_bytes: int
    ram_bytes: int
    state_bytes: int
    max_steps: int
    needs_math: bool


def exact_sums(program: Program) -> EarlySums | None:
    """Return the sums of an exit rule, as Python adds them up; None without a rule.

    Parameters
    ----------
    program : Program
        What the code has to do.
    """
    rule, scoring = program.rule, program.scoring
    if rule is None or scoring is None:
        return None
    if rule.voting == "hard":
        return counted_sums(program)  # votes are whole numbers in Python, too
    return EarlySums(
        "double",
        scoring.value,
        scoring.tree_output,
        scoring.base_score,
        rule.kind,
        rule.exit_points,
        rule.bounds,
        rule.table,
        rule.bins,
        program.decision_threshold,
        program.tolerance,
        rule.at_once,
    )


def exact_steps(program: Program) -> StepSums | None:
    """Return the steps of an anytime classifier, as Python takes them.

    Parameters
    ----------
    program : Program
        What the code has to do.
    """
    if program.steps is None:
        return None
    sums = program.steps.sums
    only_one = (sums.output >= 0).any()
    return StepSums(
        program.steps.order,
        sums.table,
        sums.output if only_one else None,
        program.steps.start,
        "int64_t",
        sums.slack,
    )


class Writer:
    """Puts the files together.

    Parameters
    ----------
    program : Program
        What the code has to do.
    slots : Slots
        What the nodes of `program.ordered` compare.
    layout : {"fast", "packed"}
        How the trees are written.
    quantised : Quantised or None
        The program in whole numbers; None for exact arithmetic.
    """

    def __init__(
        self,
        program: Program,
        slots: Slots,
        layout: str,
        quantised: Quantised | None,
    ) -> None:
        self.program = program
        self.quantised = quantised
        self.layout: Layout = LAYOUTS[layout](program.ordered, slots)
        self.tables = Tables(flash=" P_FLASH")
        self.own = OwnScores(program, self.layout, self.tables)
        self.row = slots.row_type
        forest = program.forest
        self._model = (self.own.sum_type, forest.n_outputs)
        self._types: list[str] = []
        self._prototypes: list[str] = []
        self._state_bytes = 0

    # ---------------------------------------------------------------- parts

    def write(self, name: str, header: str, title: str, notes: list[str]) -> Source:
        """Return the files.

        Parameters
        ----------
        name : str
            What all names begin with.
        header : str
            Name of the header file.
        title : str
            First line of both files.
        notes : list of str
            Further lines of the comment at the head.
        """
        body = self._functions()
        if self.program.forest.classes is not None:
            self._types.append(add_labels(self.tables, self.program.forest.classes))
        ram, steps = self._ram_bytes(), self._max_steps()
        facts = [
            *notes,
            f"Flash: {self.tables.n_bytes} bytes of tables, and the code.",
            f"RAM: {ram} bytes on the stack for one prediction"
            + (f", {self._state_bytes} for a state" if self._state_bytes else "")
            + "; no memory of its own.",
            f"Worst case: {steps} comparisons.",
        ]
        comment = "\n".join(f" * {in_comment(line)}" for line in facts)
        needs_math = self.own.needs_math
        checks = ""
        uses_floats = self.quantised is None
        if uses_floats:
            checks = CHECKS
        if self.row == "double" or (uses_floats and "double" in body):
            checks += CHECK_DOUBLE
        is_packed = isinstance(self.layout, PackedLayout)
        code = fill(
            SOURCE,
            title=in_comment(title),
            facts=comment,
            header=header,
            math="#include <math.h>\n" if needs_math else "",
            checks=checks,
            flash=FLASH + (getters_source() if is_packed else ""),
            tables=self.tables.source(),
            functions=body,
        )
        text = fill(
            HEADER,
            title=in_comment(title),
            facts=comment,
            guard=f"{name.upper()}_H",
            defines=self._defines(steps),
            types="\n\n".join(self._types) + "\n" if self._types else "",
            functions="\n\n".join(self._prototypes),
        )
        return Source(
            with_prefix(code, name),
            with_prefix(text, name),
            self.tables.n_bytes,
            ram,
            self._state_bytes,
            steps,
            needs_math,
        )

    @property
    def _load(self) -> str:
        """Statements that make keys of a row."""
        slots = self.layout.slots
        if self.layout.is_direct:
            return f"    const {self.row} *keys = row;\n"
        n = max(1, slots.n_slots + int(self.layout.needs_end))
        return f"    {slots.key_type} keys[{n}];\n    P_load(row, keys);\n"

    def _common(self) -> str:
        """Return the functions that load and walk, after the tables of the nodes."""
        slots = self.layout.slots
        source = ""
        if not self.layout.is_direct:
            # A forest of leaves makes no keys.
            source = key_source(slots) if slots.n_slots > 0 else ""
            source += load_source(slots, self.tables, end=self.layout.needs_end)
        single = self.program.is_lazy or self.program.steps is not None
        return source + self.layout.common_source(single)

    def _functions(self) -> str:
        if self.quantised is not None:
            return self._integer_functions(self.quantised)
        return self._exact_functions()

    def _exact_functions(self) -> str:
        program, layout = self.program, self.layout
        sums, steps = exact_sums(program), exact_steps(program)
        columns: list[NDArray[Any]] = [value_rows(program.ordered)]
        if sums is not None and not sums.at_once:
            columns.append(np.asarray(sums.values))
        nodes = np.flatnonzero(program.ordered.feature < 0)
        if steps is not None:
            columns.append(steps.values)
            nodes = np.arange(program.ordered.n_nodes)
        index, first = distinct(nodes, program.ordered.n_nodes, *columns)
        layout.add_tables(self.tables, index)
        self.own.add_tables(first)
        drops = sums is not None and sums.drops
        source = self._common() + layout.walk_source(drops) + self.own.scores_source()
        public = self.own.public_source(self._load)
        if program.n_classes == 0:
            self._prototypes += self.own.prototypes
            return source + public
        winner = ""
        if self.own.decides_by_logistic:
            winner += self.own.logistic_source()
        needs_winner = sums is None or sums.needs_model
        winner += self.own.winner_source() if needs_winner else ""
        self._declare_predict()
        self._prototypes += self.own.prototypes
        parts = {
            "row": self.row,
            "sum": self.own.sum_type,
            "n_outputs": program.forest.n_outputs,
            "n_trees": program.forest.n_trees,
        }
        if sums is not None:
            early = EarlyExit(sums, layout, self.tables, program.n_classes, self._model)
            return source + winner + public + early.source(first, self._load)
        source += winner + public + fill(PREDICT_ALL, **parts)
        if program.is_lazy:
            source += purchases_source(layout, self.tables) + layout.buying_source()
            source += self.own.scores_lazily_source()
            source += fill(PREDICT_LAZILY, begin=begin_source(layout), **parts)
            self._declare_lazily()
        if steps is not None:
            anytime = AnytimeSource(steps, layout, self.tables, self._model)
            code = anytime.source(first, index)
            leaves = self.own.scores_of_state_source() if program.n_classes > 1 else ""
            # The macros of the steps come before the code that reads a state.
            source += _before(code, "void P_start", leaves)
            self._declare_steps(anytime)
        return source

    def _integer_functions(self, quantised: Quantised) -> str:
        program, layout = self.program, self.layout
        self._declare_predict()
        steps = quantised.steps
        if steps is not None:
            nodes = np.arange(program.forest.n_nodes)
            index, first = distinct(nodes, len(nodes), steps.values)
            layout.add_tables(self.tables, index)
            anytime = AnytimeSource(steps, layout, self.tables, self._model)
            source = self._common() + anytime.source(first, index)
            self._declare_steps(anytime)
            return source + fill(
                PREDICT_BY_STEPS, row=self.row, n_trees=program.forest.n_trees
            )
        sums = quantised.sums
        nodes = np.flatnonzero(program.ordered.feature < 0)
        index, first = distinct(nodes, program.ordered.n_nodes, np.asarray(sums.values))
        early = EarlyExit(sums, layout, self.tables, program.n_classes, self._model)
        if sums.at_once:
            return early.source(first, self._load)
        layout.add_tables(self.tables, early.leaf_values(index, first))
        source = self._common() + layout.walk_source(sums.drops)
        source += early.source(first, self._load)
        scores = IntegerScores(early, self.row)
        source += scores.source(self._load)
        self._prototypes += scores.prototypes
        if program.is_lazy:
            source += purchases_source(layout, self.tables) + layout.buying_source()
            source += scores.lazily_source(begin_source(layout))
            self._declare_lazily()
        return source

    # ---------------------------------------------------------------- the header

    def _declare_predict(self) -> None:
        self._prototypes += [
            "/* The class of a row, as an index into the labels. */\n"
            f"int P_predict(const {self.row} *row);",
            "/* The same; tells how many trees were evaluated. */\n"
            f"int P_predict_counted(const {self.row} *row, int *n_evaluated);",
        ]

    def _declare_lazily(self) -> None:
        self._types.append(fetch_type(self.layout.slots))
        self._prototypes.append(
            "/* The class of a row whose features are bought, each at most once, when\n"
            "   a tree needs it. */\n"
            "int P_predict_lazily(P_fetch fetch, void *context);"
        )

    def _declare_steps(self, anytime: AnytimeSource) -> None:
        self._types.append(anytime.state)
        self._prototypes += anytime.prototypes
        self._state_bytes = anytime.state_bytes

    def _defines(self, steps: int) -> str:
        forest = self.program.forest
        facts = {
            "N_FEATURES": forest.n_features,
            "N_TREES": forest.n_trees,
            "N_OUTPUTS": forest.n_outputs,
            "MAX_STEPS": steps,
        }
        if self.program.n_classes:
            facts["N_CLASSES"] = self.program.n_classes
        return "".join(f"#define P_{key} {value}\n" for key, value in facts.items())

    def _max_steps(self) -> int:
        """Return the comparisons of one prediction in the worst case."""
        steps = int(self.program.forest.depths.sum())
        sums = None if self.quantised is not None else exact_sums(self.program)
        if sums is not None and sums.at_once:
            return 0
        # Rows that are too close to call go down all trees again.
        return 2 * steps if sums is not None and sums.needs_model else steps

    def _ram_bytes(self) -> int:
        """Return the bytes of the arrays that one prediction keeps on the stack."""
        slots, forest = self.layout.slots, self.program.forest
        ram = 0
        if not self.layout.is_direct:
            n_keys = slots.n_slots + int(self.layout.needs_end)
            ram += n_keys * BYTES[slots.key_type]
        if self.layout.group > 1:
            ram += 8 * self.layout.group
        if self.quantised is not None:
            steps = self.quantised.steps
            if steps is not None:
                return self._state_bytes
            sums = self.quantised.sums
            dropped = self._dropping_bytes(sums)
            return ram + sums.n_sums * BYTES[sums.ctype] + dropped
        ram += forest.n_outputs * BYTES[self.own.sum_type]
        if self.program.scoring is not None:
            ram += self.program.scoring.n_outputs * 8
        return ram + self._dropping_bytes(exact_sums(self.program))

    def _dropping_bytes(self, sums: EarlySums | None) -> int:
        """Return the bytes that tell which classes are left, and the next trees."""
        if sums is None or not sums.drops:
            return 0
        group = self.layout.group
        roots = group * (8 + BYTES.get(self.layout.root_type, 8))
        return sums.n_sums + (roots if group > 1 else 0)


def _before(source: str, marker: str, insert: str) -> str:
    """Return source with something inserted before the first line with a marker."""
    at = source.index(marker)
    return source[:at] + insert.lstrip("\n") + "\n" + source[at:]
