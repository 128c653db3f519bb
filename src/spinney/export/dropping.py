"""The function that leaves out the trees of classes that are too far behind."""

from __future__ import annotations

import numpy as np

from spinney.export.c_text import (
    Tables,
    fill,
    float_type,
    number,
    signed_type,
)
from spinney.export.early_sums import EarlySums
from spinney.export.layout import Layout
from spinney.export.values import add_values

DROP = """
/* Drops classes that are too far behind; returns the last one left, or -1. */
static int P_drop(const $sum *total, uint8_t *alive, size_t k) {
    size_t v, best = 0, n_alive = 0;
    while (!alive[best]) {
        best++;
    }
    for (v = best + 1; v < $n; v++) {
        if (alive[v] && total[v] > total[best]) {
            best = v;
        }
    }
    for (v = 0; v < $n; v++) {
        if (v != best && alive[v]
            && total[best] - total[v] > $lead) {
            alive[v] = 0;
        }
        n_alive += alive[v];
    }
    return n_alive == 1 ? (int)best : -1;
}
"""
DECIDED = """    answer = P_drop(total, alive, k);
    if (answer >= 0) {
        *n_evaluated = n_seen;
        return answer;
    }
"""
# One tree after another.
COUNTED = """
int P_predict_counted(const $row *row, int *n_evaluated) {
    $sum total[$n];
    uint8_t alive[$n];
    size_t tree, at, v, k = 0;
    int answer, n_seen = 0;
$declarations$load$start    for (v = 0; v < $n; v++) {
        alive[v] = 1;
    }
    for (tree = 0; tree < $n_trees; tree++) {
        if (k < $n_exits && P_exit[k] == tree) {
$decided            k++;
        }
        if (!alive[P_output[tree]]) {
            continue;
        }
$leaf$add        n_seen++;
    }
    *n_evaluated = n_seen;
$end}
"""
# The next trees of classes that are left are walked at once. A class may be dropped at
# an exit point among them; what its trees say is then not added.
COUNTED_TOGETHER = """
int P_predict_counted(const $row *row, int *n_evaluated) {
    $sum total[$n];
    uint8_t alive[$n];
    size_t which[$group] = {0}, leaf[$group] = {0}, next = 0, i, v, k = 0;
    $root root[$group];
    int answer, n_seen = 0;
$load$start    for (v = 0; v < $n; v++) {
        alive[v] = 1;
    }
    while (next < $n_trees) {
        size_t n = 0;
        unsigned levels = 0;
        for (; next < $n_trees && n < $group; next++) {
            if (alive[P_output[next]]) {
                which[n] = next;
                root[n] = P_root[next];
                if (P_levels[next / $group] > levels) {
                    levels = P_levels[next / $group];
                }
                n++;
            }
        }
        for (i = n; i < $group; i++) {
            root[i] = P_root[0];
        }
        P_walk(keys, root, levels, leaf);
        for (i = 0; i < n; i++) {
            const size_t tree = which[i], at = leaf[i];
            for (; k < $n_exits && P_exit[k] <= tree; k++) {
$decided            }
            if (alive[P_output[tree]]) {
$add                n_seen++;
            }
        }
        for (; k < $n_exits && P_exit[k] <= next; k++) {
$decided        }
    }
    *n_evaluated = n_seen;
$end}
"""
FINAL = """    {
        size_t best = 0;
        while (!alive[best]) {
            best++;
        }
        for (v = best + 1; v < $n; v++) {
            if (alive[v] && total[v] > total[best]) {
                best = v;
            }
        }
$close        return (int)best;
    }
"""
CLOSE = """        for (v = 0; v < $n; v++) {
            if (v != best && alive[v] && !(total[best] - total[v] > $tolerance)) {
$model            }
        }
"""


def add_leads(sums: EarlySums, tables: Tables, in_bytes: bool) -> str:
    """Add the leads at which classes are dropped; return how to read one.

    Parameters
    ----------
    sums : EarlySums
        Sums of a rule that drops classes.
    tables : Tables
        Added to.
    in_bytes : bool
        Whether integers are written as bytes.
    """
    n = sums.n_sums
    leads = np.array(sums.bounds).reshape(-1, n, n)
    leads[:, np.arange(n), np.arange(n)] = 0  # no class is compared with itself
    if sums.is_integer:
        kind = signed_type(int(leads.min()), int(leads.max()))
    else:
        most = float(np.finfo(np.float64).max)
        kind = float_type(np.clip(leads, -most, most))
    reader = add_values(tables, "P_lead", leads, kind, in_bytes)
    return reader.format(i=f"({n} * k + best) * {n} + v")


def dropping_source(
    sums: EarlySums, layout: Layout, tables: Tables, load: str, parts: dict[str, str]
) -> str:
    """Return the functions that evaluate a row until a single class is left.

    Parameters
    ----------
    sums : EarlySums
        Sums of a rule that drops classes, with at least one exit point.
    layout : Layout
        Where the trees are.
    tables : Tables
        Added to.
    load : str
        Statements that make `keys` of `row`.
    parts : dict of str
        What is shared with other rules: statements to `start`, to `add` what a leaf
        says, and to let the `model` itself decide.
    """
    n = sums.n_sums
    drop = fill(
        DROP, sum=sums.ctype, n=n, lead=add_leads(sums, tables, layout.in_bytes)
    )
    common = {
        "row": layout.slots.row_type,
        "sum": sums.ctype,
        "n": n,
        "n_trees": layout.forest.n_trees,
        "n_exits": len(sums.exit_points),
        "load": load,
        "start": parts["start"],
        "end": _final(sums, parts["model"]),
    }
    if layout.group == 1:
        return drop + fill(
            COUNTED,
            decided=_indented(DECIDED, 8),
            declarations=layout.declarations,
            leaf=layout.leaf_of("tree", own=False),
            add=parts["add"],
            **common,
        )
    return drop + fill(
        COUNTED_TOGETHER,
        group=layout.group,
        root=layout.root_type,
        decided=_indented(DECIDED, 12),
        add=_indented(parts["add"], 8),
        **common,
    )


def _final(sums: EarlySums, model: str) -> str:
    """Return the decision of a row that stayed to the end."""
    if not np.isfinite(sums.tolerance):
        return model
    close = ""
    if sums.tolerance > 0:
        tolerance = number(sums.tolerance, sums.ctype)
        inner = _indented(model, 12)
        close = fill(CLOSE, n=sums.n_sums, tolerance=tolerance, model=inner)
    return fill(FINAL, n=sums.n_sums, close=close)


def _indented(text: str, by: int) -> str:
    return "".join(" " * by + line for line in text.splitlines(keepends=True))
