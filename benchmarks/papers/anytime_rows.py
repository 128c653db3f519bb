"""What the paper on step orders for anytime forests prints, beside ours."""

from __future__ import annotations

from pathlib import Path

from benchmarks.papers import published
from benchmarks.papers.reading import Table, numbers_in, table_under
from benchmarks.papers.side_by_side import NO_NUMBER, Row

NOTES = """\
The paper prints three shares, the worked example and the largest size for which its
optimal order was found. Figures 3 to 6 are curves and marks without numbers; they are
drawn again, with tables, in [anytime.md](anytime.md). The microcontroller of Figure 3
was not available. Standard deviations over the five seeds were not recorded.
"""
BINARY = ("adult", "magic", "spambase")


def all_rows(folder: Path) -> list[Row]:
    """Return the shares, the size reached, and what is said in words."""
    page = folder / "anytime.md"
    shares = table_under(page, "Share of the best")
    rows = []
    for kind, column, printed in (
        ("4 to 7 trees, depth 4 to 7", "with optimal", published.SHARE_WITH_OPTIMAL),
        ("5 to 20 trees, depth 2 to 20", "without", published.SHARE_WITHOUT_OPTIMAL),
    ):
        for order, percent in printed.items():
            ours = float(shares.cell(order, column))
            alike = abs(ours - percent) <= 0.5
            rows.append(
                Row(
                    "Section VI-C",
                    f"nine sets, {kind}",
                    f"NMA in percent of the best order, {order.replace('_', ' ')}",
                    f"about {percent} %",
                    f"{ours:g} %",
                    "Alike."
                    if alike
                    else f"{abs(ours - percent):.1f} points "
                    + ("higher" if ours > percent else "lower")
                    + "; the paper does not say how it averages.",
                )
            )
    return rows + _anytime_claims(page)


def _anytime_claims(page: Path) -> list[Row]:
    """Return what the paper says in words, counted over the data sets."""
    small = table_under(page, "NMA in percent, 4 to 7")
    large = table_under(page, "NMA in percent, 5, 10")
    sets = small.columns[1:]

    def value(table: Table, order: str, name: str) -> float:
        return float(table.cell(order, name))

    def others(order: str, name: str) -> list[float]:
        return [
            numbers_in(table_row[small.columns.index(name) - 1])[0]
            for other, table_row in small.rows.items()
            if other != order and table_row[small.columns.index(name) - 1] != "–"
        ]

    best = sum(value(small, "optimal", s) >= max(others("optimal", s)) for s in sets)
    worst = sum(
        value(small, "unoptimal", s) <= min(others("unoptimal", s)) for s in sets
    )
    ahead = {
        title: sum(
            value(table, "backward_squirrel", s) > value(table, "forward_squirrel", s)
            for s in sets
        )
        for title, table in (("small", small), ("large", large))
    }
    many = [s for s in sets if s not in BINARY]
    depth_ahead = sum(
        value(large, "depth_natural", s) > value(large, "breadth_natural", s)
        for s in many
    )
    breadth_ahead = sum(
        value(large, "breadth_natural", s) > value(large, "depth_natural", s)
        for s in BINARY
    )
    times = table_under(page, "Time to find an order")
    found = [int(trees) for trees, cells in times.rows.items() if cells[1] != "–"]
    most = max(found)
    n_sets = len(sets)
    return [
        Row(
            "Section IV-B",
            "example, 3 trees of depth 2",
            "mean accuracy of the optimal order",
            "6/7",
            "6/7",
            "Alike, if the initial state counts; `tests/anytime/test_search.py`.",
        ),
        Row(
            "Section VI-B",
            "adult, depth 8",
            "most trees with an optimal order",
            "8, with 251 GiB",
            f"{most}, in {float(times.rows[str(most)][1]):.0f} s",
            f"8 trees take {float(times.rows['8'][1]):.0f} s of one core.",
        ),
        Row(
            "Figure 4",
            "adult, depth 8, 20 trees",
            "time to find the backward squirrel's order",
            NO_NUMBER,
            f"{times.rows['20'][3]} s",
            "",
        ),
        Row(
            "Figure 6",
            "nine sets, small forests",
            "sets on which the optimal order is the best",
            "“most”",
            f"{best} of {n_sets}",
            "Alike.",
        ),
        Row(
            "Figure 6",
            "nine sets, small forests",
            "sets on which the unoptimal order is the worst",
            "“most”",
            f"{worst} of {n_sets}",
            "Alike.",
        ),
        Row(
            "Figure 6",
            "nine sets",
            "sets on which the backward squirrel beats the forward one",
            "“usually”",
            f"{ahead['small']} of {n_sets} small, {ahead['large']} of {n_sets} large",
            "Alike.",
        ),
        Row(
            "Figure 6",
            "six sets of several classes",
            "sets on which depth orders beat breadth orders",
            "all, in words",
            f"{depth_ahead} of {len(many)}",
            "Alike." if depth_ahead == len(many) else "Mostly. Natural sequence.",
        ),
        Row(
            "Figure 6",
            "three sets of two classes",
            "sets on which breadth orders beat depth orders",
            "all, in words",
            f"{breadth_ahead} of {len(BINARY)}",
            "Alike." if breadth_ahead == len(BINARY) else "Mostly. Natural sequence.",
        ),
    ]
