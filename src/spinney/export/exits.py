"""The functions that evaluate as many trees as each row needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.export.c_text import (
    BYTES,
    Tables,
    fill,
    float_type,
    number,
    signed_type,
    unsigned_type,
)
from spinney.export.dropping import dropping_source
from spinney.export.early_sums import EarlySums
from spinney.export.exit_templates import (
    AT_ONCE,
    BEST_TWO,
    CHECK,
    COUNTED,
    COUNTED_BY_BIN,
    FINAL_ONE,
    FINAL_ONE_CLOSE,
    FINAL_SEVERAL,
    FINAL_SEVERAL_CLOSE,
    LEAVES,
    LEAVES_BETWEEN,
    LEAVES_BY_ALL_COUNTS,
    LEAVES_BY_BIN,
    LEAVES_BY_COUNT,
    LEAVES_BY_LEAD,
    LEAVES_BY_MARGIN,
    MODEL,
    PREDICT,
)
from spinney.export.layout import Layout
from spinney.export.values import add_values, bit_patterns
from spinney.runtime.count_tables import n_ranks
from spinney.runtime.exit_kinds import (
    BETWEEN,
    BY_ALL_COUNTS,
    BY_BIN,
    BY_COUNT,
    BY_MARGIN,
)


class EarlyExit:
    """The functions that evaluate as many trees as each row needs.

    Parameters
    ----------
    sums : EarlySums
        What is added up, and when rows exit.
    layout : Layout
        Where the trees are.
    tables : Tables
        Added to.
    n_classes : int
        Number of classes.
    model : tuple of str and int
        Type and number of the model's own scores.
    """

    def __init__(
        self,
        sums: EarlySums,
        layout: Layout,
        tables: Tables,
        n_classes: int,
        model: tuple[str, int],
    ) -> None:
        self.sums = sums
        self.layout = layout
        self.tables = tables
        self.n_classes = n_classes
        self.model = model
        self._held: str | None = None  # type of the values that leaves hold themselves

    def leaf_values(
        self, index: NDArray[np.int64], first: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """Return what leaves hold: an index, or a whole number as it is.

        Parameters
        ----------
        index : ndarray of shape (n_nodes,), dtype=int64
            Leaf value index of each node.
        first : ndarray of int
            A node for every leaf value index.
        """
        values = np.asarray(self.sums.values)
        if not self.sums.is_integer or values.shape[1] > 1:
            return index
        used = values[first]
        ctype = signed_type(int(used.min()), int(used.max()))
        patterns = bit_patterns(used, ctype).ravel()[index]
        if not self.layout.holds_values(index, patterns, BYTES[ctype]):
            return index
        self._held = ctype
        return patterns

    def source(self, first: NDArray[np.intp], load: str) -> str:
        """Return the functions.

        Parameters
        ----------
        first : ndarray of int
            A node for every leaf value index.
        load : str
            Statements that make `keys` of `row`.
        """
        sums, row = self.sums, self.layout.slots.row_type
        predict = fill(PREDICT, row=row)
        if sums.at_once:
            return fill(AT_ONCE, row=row) + predict
        n_exits = len(sums.exit_points)
        self.adding = self._add(first)
        if sums.kind == BY_BIN:
            return self._by_bin(self.adding, load) + predict
        if sums.drops:
            self._add_exit_points()
            parts = {
                "start": self.start(),
                "add": self.adding,
                "model": self._model("    "),
            }
            drops = dropping_source(sums, self.layout, self.tables, load, parts)
            return drops + predict
        check = leaves = ""
        if n_exits:
            self._add_exit_points()
            leaves = self._leaves()
            check = fill(CHECK, n_exits=n_exits)
        return (
            leaves
            + fill(
                COUNTED,
                row=row,
                sum=sums.ctype,
                n_sums=sums.n_sums,
                v=", v" if sums.n_sums > 1 else "",
                k=", k = 0" if n_exits else "",
                declarations=self.layout.declarations,
                load=load,
                start=self.start(),
                n_trees=self.layout.forest.n_trees,
                leaf=self.layout.leaf_of("tree", own=False),
                add=self.adding,
                check=check,
                end=self.end(),
            )
            + predict
        )

    def start(self) -> str:
        """Return the statements that set the sums before the first tree."""
        sums = self.sums
        if sums.n_sums > 1 and not np.any(sums.start):
            return (
                f"    for (v = 0; v < {sums.n_sums}; v++) {{\n"
                "        total[v] = 0;\n    }\n"
            )
        return "".join(
            f"    total[{v}] = {self._number(value)};\n"
            for v, value in enumerate(sums.start.tolist())
        )

    def _number(self, value: float) -> str:
        return number(value, self.sums.ctype)

    def _add_exit_points(self) -> None:
        points = self.sums.exit_points
        kind = unsigned_type(max(int(points[-1]), 256))
        self.tables.add("P_exit", points, kind, "trees after which a row may exit")

    def _add(self, first: NDArray[np.intp]) -> str:
        """Add what leaves add; return the statements, or the value for bins."""
        sums, layout = self.sums, self.layout
        values = np.asarray(sums.values)[first]
        n_values = values.shape[1]
        if sums.is_integer:
            ctype = signed_type(int(values.min()), int(values.max()))
        else:
            ctype = float_type(values.astype(np.float64))
        index = layout.value_of("at")
        if self._held is not None:
            reader, index = f"({self._held}){{i}}", f"({index})"
        else:
            reader = add_values(self.tables, "P_score", values, ctype, layout.in_bytes)
        if sums.tree_output is not None:
            kind = unsigned_type(max(sums.n_sums, 256))
            self.tables.add("P_output", sums.tree_output, kind, "output of a tree")
            return self._plus("P_output[tree]", reader.format(i=index), "        ")
        if n_values == 1:
            value = reader.format(i=index)
            if sums.kind == BY_BIN:
                return value
            return self._plus("0", value, "        ")
        one = reader.format(i=f"{n_values} * {index} + v")
        return (
            f"        for (v = 0; v < {n_values}; v++) {{\n"
            + self._plus("v", one, "            ")
            + "        }\n"
        )

    def _plus(self, which: str, value: str, indent: str) -> str:
        """Return the statement that adds a value to a sum."""
        ctype = self.sums.ctype
        if ctype in ("double", "int32_t"):
            return f"{indent}total[{which}] += {value};\n"
        return f"{indent}total[{which}] = ({ctype})(total[{which}] + {value});\n"

    # ---------------------------------------------------------------- exits

    def _leaves(self) -> str:
        sums = self.sums
        argument = f"const {sums.ctype} *total"
        if sums.kind == BETWEEN:
            body = fill(
                LEAVES_BETWEEN,
                lower=self._bound("P_lower", 0),
                upper=self._bound("P_upper", 1),
            )
        elif sums.kind == BY_COUNT:
            body = self._by_count()
        elif sums.kind == BY_ALL_COUNTS:
            body = self._by_all_counts()
        else:
            body = fill(BEST_TWO, n=sums.n_sums)
            if sums.kind == BY_MARGIN:
                body += fill(LEAVES_BY_MARGIN, margin=self._bound("P_margin", 0))
            else:
                body += LEAVES_BY_LEAD
                limits = [
                    row[: end + 1]
                    for row, end in zip(sums.table, sums.exit_points, strict=True)
                ]
                joined = np.concatenate(limits)
                kind = signed_type(int(joined.min()), int(joined.max()))
                self.tables.add("P_limit", joined, kind, "most votes of the next")
                self._add_first("P_limit_first", limits)
        return fill(LEAVES, argument=argument, body=body)

    def _bound(self, name: str, which: int) -> str:
        bounds = np.asarray(self.sums.bounds)[which]
        if self.sums.is_integer:
            kind = signed_type(int(bounds.min()), int(bounds.max()))
        else:
            kind = float_type(np.clip(bounds, *_finite("double")))
        self.tables.add(name, bounds, kind)
        return f"{name}[k]"

    def _add_first(self, name: str, parts: list[NDArray[Any]]) -> None:
        ends = np.cumsum([0, *map(len, parts)])[:-1]
        self.tables.add(name, ends, unsigned_type(max(int(ends[-1]), 256)))

    def _by_count(self) -> str:
        """Return the lines for a table of predictions, or for two bounds."""
        sums = self.sums
        lower, upper = [], []
        for row, end in zip(sums.table, sums.exit_points, strict=True):
            answers = row[: end + 1]
            low = int(np.argmax(answers != 0)) if (answers != 0).any() else end + 1
            high = int(end - np.argmax(answers[::-1] != 1))
            if (answers == 1).all():
                high = -1
            lower.append(low)  # fewer votes leave with the first class
            upper.append(high)  # more votes leave with the second
            if not (
                (answers[:low] == 0).all()
                and (answers[low : high + 1] == -1).all()
                and (answers[max(high + 1, 0) :] == 1).all()
            ):
                break
        else:
            for name, bounds in (("P_lower", lower), ("P_upper", upper)):
                kind = signed_type(min(bounds), max(bounds))
                self.tables.add(name, bounds, kind)
            return fill(LEAVES_BETWEEN, lower="P_lower[k]", upper="P_upper[k]")
        parts = [
            row[: end + 1] + 1
            for row, end in zip(sums.table, sums.exit_points, strict=True)
        ]
        kind = "int8_t"  # bytes that are not kept apart in flash
        self.tables.add("P_answer", np.concatenate(parts), kind, "class plus one")
        self._add_first("P_answer_first", parts)
        return LEAVES_BY_COUNT

    def _by_all_counts(self) -> str:
        """Return the lines for tables by the votes of all classes: two in a byte."""
        sums = self.sums
        parts = [
            row.astype("<i4").view(np.int8)[: -(-n_ranks(end, sums.n_sums) // 2)]
            for row, end in zip(sums.table, sums.exit_points.tolist(), strict=True)
        ]
        kind = "int8_t"  # bytes that are not kept apart in flash
        joined = np.concatenate(parts).astype(np.int64)
        self.tables.add("P_answer", joined, kind, "two classes of four bits, 15: stay")
        self._add_first("P_answer_first", parts)
        return fill(LEAVES_BY_ALL_COUNTS, n=sums.n_sums)

    def _by_bin(self, value: str, load: str) -> str:
        sums, bins = self.sums, self.sums.bins
        assert bins is not None
        self._add_exit_points()
        low = bins.first.astype(np.float64)
        self.tables.add("P_bin_low", low, "double")
        self.tables.add("P_bin_high", low + np.diff(bins.offsets), "double")
        ends = bins.offsets[:-1]
        kind = unsigned_type(max(int(ends.max()), 256))
        self.tables.add("P_bin_first", ends, kind)
        known = ~np.isnan(bins.mean) & ~np.isnan(bins.deviation)
        self.tables.add("P_bin_known", known.astype(np.int64), "int8_t")
        self.tables.add("P_bin_mean", np.where(known, bins.mean, 0.0), "double")
        spread = np.where(known, bins.deviation, 0.0)
        self.tables.add("P_bin_deviation", spread, "double")
        gamma, answers = number(bins.gamma, "double"), ""
        if bins.early_exit != "negative":
            answers += f"    if (sure > {gamma}) {{\n        return 1;\n    }}\n"
        if bins.early_exit != "positive":
            answers += f"    if (sure < -{gamma}) {{\n        return 0;\n    }}\n"
        body = fill(
            LEAVES_BY_BIN,
            width=number(bins.width, "double"),
            beta=number(bins.beta, "double"),
            most="1.7976931348623157e+308",
            answers=answers,
        )
        counted = fill(
            COUNTED_BY_BIN,
            row=self.layout.slots.row_type,
            start=self._number(float(sums.start[0])),
            declarations=self.layout.declarations,
            load=load,
            n_trees=self.layout.forest.n_trees,
            leaf=self.layout.leaf_of("tree", own=False),
            value=value,
            n_exits=len(sums.exit_points),
            end=self._model("    "),
        )
        return fill(LEAVES, argument="double total", body=body) + counted

    # ---------------------------------------------------------------- the end

    def _model(self, indent: str) -> str:
        kind, n = self.model
        return fill(MODEL, sum=kind, n=n, indent=indent)

    def end(self) -> str:
        """Return the decision of a row that all trees were evaluated for."""
        sums = self.sums
        tolerance = self._number(sums.tolerance) if sums.tolerance > 0 else ""
        if not np.isfinite(sums.tolerance):
            return self._model("    ")
        if sums.n_sums == 1:
            if self.n_classes == 1:
                return "    (void)total;\n    return 0;\n"
            threshold = self._number(sums.threshold)
            close = ""
            if tolerance:
                close = fill(
                    FINAL_ONE_CLOSE,
                    threshold=threshold,
                    tolerance=tolerance,
                    model=self._model("        "),
                )
            return close + fill(FINAL_ONE, threshold=threshold)
        close = ""
        if tolerance:
            close = fill(
                FINAL_SEVERAL_CLOSE,
                n=sums.n_sums,
                tolerance=tolerance,
                model=self._model("                "),
            )
        return fill(FINAL_SEVERAL, n=sums.n_sums, close=close)


def _finite(ctype: str) -> tuple[float, float]:
    most = float(np.finfo(np.float32 if ctype == "float" else np.float64).max)
    return -most, most
