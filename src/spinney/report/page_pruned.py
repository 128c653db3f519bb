"""The pages of forests that need fewer features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spinney.base.wording import number, of_rows, percent, ratio
from spinney.report.contents import Figure, Page, Section, Table, Tile
from spinney.report.drawing import Chart, Line, Mark, Rule, linear, spread
from spinney.report.figures_stopping import figure_of_histogram

MOST_DRAWN = 300
MOST_LISTED = 25

CONSTANT = (
    "All trees are pruned to their roots: the forest uses no feature, and predicts the "
    "same class for every row. Fit with a larger budget or a smaller trade_off."
)


def page_of_pruner(report: Mapping[str, Any], facts: list[tuple[str, str]]) -> Page:
    """Return the parts of the page of a pruned forest.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    facts : list of (str, str)
        What the report is about.
    """
    cost, nodes, error = report["cost"], report["nodes"], report["error"]
    differing, n_rows = report["disagreement"], report["rows"]["n_rows"]
    share = ratio(cost["mean"], cost["full"])
    summary = (
        f"On {n_rows:,} rows, the features that the pruned forest uses cost "
        f"{number(cost['mean'])} per row, against {number(cost['full'])} before "
        "pruning."
    )
    tiles = [
        Tile(
            number(cost["mean"]),
            "feature cost per row",
            f"{number(cost['full'])} before pruning"
            + (f", {percent(share)} of it is left" if share is not None else "")
            + f"; all features cost {number(cost['all_features'])}",
        )
    ]
    if error:
        tiles.append(
            Tile(
                percent(error["pruned"]),
                "of the predictions wrong",
                f"{percent(error['full'])} before pruning, against the truth",
            )
        )
    tiles += [
        Tile(
            percent(differing["share"]),
            "predicted differently",
            f"{of_rows(differing['n_disagreements'], n_rows)}, against the forest "
            "before pruning",
        ),
        Tile(
            f"{nodes['pruned']:,}",
            "nodes",
            f"{nodes['full']:,} before pruning, "
            f"{percent(nodes['pruned'] / nodes['full'])} are left",
        ),
    ]
    sections = [
        Section(
            "frontier",
            "What a budget buys",
            [
                "Every point is the best way to prune all trees at its cost: no "
                "cheaper forest has a tree error as low. The ring is the forest in "
                "use."
            ],
            [_figure_of_frontier(report), _figure_of_costs(report)],
            warnings=[] if report["features"]["n_bought"] else [CONSTANT],
        ),
        _features(report),
        _promise(
            n_rows,
            "The frontier is measured on the rows given to fit, by which the forest "
            "was chosen: on other rows it does slightly worse.",
        ),
    ]
    return Page("Pruned to lower the feature cost", summary, tiles, sections, facts)


def page_of_budgeted(report: Mapping[str, Any], facts: list[tuple[str, str]]) -> Page:
    """Return the parts of the page of a forest grown on a budget.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    facts : list of (str, str)
        What the report is about.
    """
    cost, error, growth = report["cost"], report["error"], report["growth"]["mean_cost"]
    n_trees, n_rows = report["model"]["n_trees"], report["rows"]["n_rows"]
    budget = report["settings"]["budget"]
    summary = (
        f"On {n_rows:,} rows, the features that {n_trees:,} trees use cost "
        f"{number(cost['mean'])} per row."
    )
    tiles = [
        Tile(
            number(cost["mean"]),
            "feature cost per row",
            (f"{number(budget)} in the budget; " if budget is not None else "")
            + f"all features cost {number(cost['all_features'])}",
        ),
        Tile(f"{n_trees:,}", "trees", _reason(growth, budget)),
    ]
    if error:
        tiles.append(
            Tile(
                percent(error["full"]), "of the predictions wrong", "against the truth"
            )
        )
    figures = [_figure_of_costs(report)]
    if growth:
        figures.insert(0, _figure_of_growth(growth, budget))
    sections = [
        Section("cost", "Feature cost of the rows", [], figures),
        _features(report),
        _promise(
            n_rows,
            "The budget holds on rows that were held out while the forest was grown; "
            "on other rows from the same source the mean cost is close to it.",
        ),
    ]
    return Page("A forest on a budget", summary, tiles, sections, facts)


def _reason(growth: list[float], budget: float | None) -> str:
    """Return why the forest has as many trees as it has."""
    if budget is None:
        return "as many as max_trees allows; there is no budget"
    if growth[-1] > budget:
        return "one more would have exceeded the budget"
    return "as many as max_trees allows, all within the budget"


def _promise(n_rows: int, words: str) -> Section:
    return Section(
        "promise",
        "What holds for new rows",
        [
            f"Cost and error are means over the {n_rows:,} rows of this report, and "
            f"promise nothing about new ones. {words}"
        ],
    )


def _figure_of_frontier(report: Mapping[str, Any]) -> Figure:
    frontier = report["frontier"]
    costs, chosen = frontier["cost"], frontier["chosen"]
    kept = spread(len(costs) - 1, MOST_DRAWN)
    measured = sorted((point["cost"], point["error"]) for point in frontier["measured"])
    lines = [
        Line(
            [(costs[k], frontier["ensemble_error"][k]) for k in kept],
            "first",
            dots=len(kept) < 40,
            label="the forest, rows given to fit",
        ),
        Line(
            [(costs[k], frontier["error"][k]) for k in kept],
            "quiet",
            label="a single tree, rows given to fit",
        ),
    ]
    if measured:
        lines.append(
            Line(measured, "second", dots=True, label="the forest, rows of this report")
        )
    heights = [height for line in lines for _, height in line.points]
    widths = [width for line in lines for width, _ in line.points]
    chart = Chart(
        linear(
            "mean feature cost of a row", 0.0, 1.04 * max([*widths, chosen["cost"]])
        ),
        linear("error", 0.0, 1.1 * max([*heights, 0.001]), percent, most=4),
        [*lines, Mark(chosen["cost"], chosen["ensemble_error"])],
    )
    listed = spread(len(costs) - 1, MOST_LISTED)
    nearest = min(
        range(len(listed)), key=lambda k: abs(costs[listed[k]] - chosen["cost"])
    )
    table = Table(
        ("Cost", "Error of the forest", "Error of a tree", "Nodes", "Trade-off"),
        [
            (
                number(costs[k], 4),
                percent(frontier["ensemble_error"][k]),
                percent(frontier["error"][k]),
                f"{frontier['n_nodes'][k]:,}",
                number(frontier["trade_off"][k]),
            )
            for k in listed
        ],
        marked=nearest if costs[listed[nearest]] == chosen["cost"] else None,
    )
    caption = (
        f"Error against cost for {len(costs):,} ways to prune. The forest in use costs "
        f"{number(chosen['cost'])} per row and is wrong on "
        f"{percent(chosen['ensemble_error'])} of the rows given to fit."
    )
    return Figure("frontier", "Error against cost", caption, chart, table)


def _figure_of_costs(report: Mapping[str, Any]) -> Figure:
    cost = report["cost"]
    return figure_of_histogram(
        "costs",
        "Feature cost of a row",
        "The features that a row needs depend on its paths through the trees. The mean "
        f"cost is {number(cost['mean'])}.",
        cost["histogram"],
        "feature cost of a row",
        whole_numbers=False,
        rules=[Rule(cost["mean"], f"mean {number(cost['mean'])}")],
    )


def _figure_of_growth(growth: list[float], budget: float) -> Figure:
    points = [(float(k + 1), cost) for k, cost in enumerate(growth)]
    top = 1.1 * max([*growth, budget, 1e-9])
    chart = Chart(
        linear("trees", 0.0, float(len(growth))),
        linear("mean feature cost of a row", 0.0, top),
        [
            Rule(budget, f"budget {number(budget)}", upright=False),
            Line(points, "first", dots=len(points) < 40),
        ],
    )
    table = Table(
        ("Trees", "Mean cost"), [(f"{k:.0f}", number(cost, 4)) for k, cost in points]
    )
    caption = (
        "Mean cost over the rows held out while the forest was grown, tree by tree. A "
        "tree that exceeds the budget is not kept."
    )
    return Figure("growth", "Cost of the growing forest", caption, chart, table)


def _features(report: Mapping[str, Any]) -> Section:
    features = report["features"]
    listed = features["listed"]
    before = any(feature["before"] is not None for feature in listed)
    n_bought, n_features = features["n_bought"], report["model"]["n_features"]
    words = f"Features used on these rows: {n_bought:,} of {n_features:,}."
    if listed:
        words += " Those with the highest total cost come first."
    heads = ("Feature", "Cost", "Needed by") + (("Before pruning",) if before else ())
    rows = [
        (feature["name"], number(feature["cost"]), percent(feature["bought"]))
        + ((percent(feature["before"]),) if before else ())
        for feature in listed
    ]
    table = Table(heads, rows, caption="Share of the rows that need a feature")
    return Section("features", "Features used", [words], table=table if rows else None)
