"""Features bought by a callback, each at most once."""

from __future__ import annotations

from spinney.export.c_text import Tables, fill
from spinney.export.inputs import Slots
from spinney.export.layout import Layout
from spinney.export.row_source import slot_tables

PURCHASES = """
/* What has been bought for one row. */
typedef struct {
    $key keys[$n_keys];
    uint8_t bought[$n_bought];
    P_fetch fetch;
    void *context;
} P_purchases;

/* Buys a feature, for all slots that it is loaded into. */
static void P_buy(P_purchases *p, size_t slot) {
$body}
"""
BUY_SLOT = """    const size_t s = slot;
    p->keys[s] = P_key(p->fetch(p->context, $column), $flags);
    p->bought[s] = 1;
"""
BUY_SLOTS = """    size_t s = slot;
    const size_t column = $column;
    const $row x = p->fetch(p->context, column);
    for (s = 0; s < $n; s++) {
        if ($column == column) {
            p->keys[s] = P_key(x, $flags);
            p->bought[s] = 1;
        }
    }
"""
BUY_DIRECT = """    p->keys[slot] = p->fetch(p->context, slot);
    p->bought[slot] = 1;
"""


def purchases_source(layout: Layout, tables: Tables) -> str:
    """Return what has been bought for a row, and the function that buys.

    Parameters
    ----------
    layout : Layout
        Where the trees are.
    tables : Tables
        Added to.
    """
    slots = layout.slots
    n = slots.n_features if layout.is_direct else slots.n_slots
    if layout.is_direct:
        body = BUY_DIRECT
    else:
        column, flags = slot_tables(slots, tables)
        several = len(set(slots.column.tolist())) < slots.n_slots
        body = fill(
            BUY_SLOTS if several else BUY_SLOT,
            row=slots.row_type,
            column=column,
            flags=flags,
            n=slots.n_slots,
        )
    return fill(
        PURCHASES,
        key=layout.keys_type,
        n_keys=n + 1,
        n_bought=max(1, n),
        body=body if n else "    (void)p;\n    (void)slot;\n",
    )


BEGIN = """    P_purchases p;
    size_t i;
    for (i = 0; i < $n_bought; i++) {
        p.bought[i] = 0;
    }
    p.keys[$end] = 0;
    p.fetch = fetch;
    p.context = context;
"""


def begin_source(layout: Layout) -> str:
    """Return the statements that begin with nothing bought.

    Parameters
    ----------
    layout : Layout
        Where the trees are.
    """
    slots = layout.slots
    n = slots.n_features if layout.is_direct else slots.n_slots
    return fill(BEGIN, n_bought=max(1, n), end=n)


def fetch_type(slots: Slots) -> str:
    """Return the type of the callback, for the header.

    Parameters
    ----------
    slots : Slots
        What rows are made of.
    """
    return (
        "/* Returns the value of a feature of the row that `context` stands for. */\n"
        f"typedef {slots.row_type} (*P_fetch)(void *context, size_t feature);"
    )
