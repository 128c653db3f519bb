"""Table 1 of the paper on pruning with feature costs, and more forests and costs.

``python -m benchmarks.papers.pruning`` grows the forests, prunes them together and one
by one, measures both on test rows, times the minimum cut beside HiGHS, and writes
``pruning.md`` and the figure beside it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold

import spinney
from benchmarks import data
from benchmarks.papers import page
from benchmarks.papers.pruning_baselines import cost_complexity_chain, individual_chain
from spinney.forest import Forest
from spinney.pruning.budgeted import BudgetedForestClassifier
from spinney.pruning.chain import find_chain
from spinney.pruning.costs import Purchases, purchases_for
from spinney.pruning.linear import solve_lp
from spinney.pruning.mincut import solve_mincut
from spinney.pruning.problem import NO_FLAGS, PruningProblem
from spinney.pruning.pruned import kept_until, measure


@dataclass(frozen=True)
class Setting:
    """A data set as the paper uses it.

    The paper's Table 1: unpruned cost and error, then cost in percent of the unpruned
    one at a low and at a high error, together and one by one. `levels` are the paper's
    two errors, relative to the unpruned one (1.02 instead of 1 for MiniBooNE, of which
    we have so few rows that nothing can be pruned for free). `n_runs` counts runs, or
    repetitions of ten folds.
    """

    title: str
    n_trees: int
    n_runs: int
    sizes: tuple[int, int, int] | None  # rows to train on, unseen, test; or 10 folds
    paper: str
    levels: tuple[float, float]


SETTINGS = {
    "miniboone_5k_partial": Setting(
        "MiniBooNE (part)",
        40,
        5,
        (2_522, 1_261, 1_261),
        "37.07, 0.0725; 68.2 / 95.0 %; 43.2 / 55.2 %",
        (1.02, 1.057),
    ),
    "covertype": Setting(
        "Forest",
        40,
        3,
        (10_000, 5_000, 10_000),
        "13.90, 0.1122; 88.1 / 93.2 %; 65.2 / 78.8 %",
        (1.012, 1.087),
    ),
    "sonar": Setting(
        "Sonar",
        90,
        5,
        None,
        "49.97, 0.1539; 45.2 / 74.3 %; 16.5 / 28.1 %",
        (1.19, 1.38),
    ),
    "heart_statlog": Setting(
        "Heart",
        90,
        5,
        None,
        "12.17, 0.1721; 73.3 / 96.2 %; 47.8 / 75.9 %",
        (1.0, 1.15),
    ),
}
FORESTS = ("BudgetRF", "random forest", "random forest, unequal costs")
METHODS = ("together", "one by one", "by leaves")
FIGURE = page.FOLDER / "figures" / "pruning-frontiers.png"


def unequal_costs(n_columns: int) -> NDArray[np.float64]:
    """Return made-up costs from 1 to 10, always the same."""
    return np.random.default_rng(0).integers(1, 11, size=n_columns).astype(np.float64)


def parts(name: str, n_runs: int) -> list[tuple[tuple[NDArray, NDArray], ...]]:
    """Return for each run rows to train on, other rows to prune with, and test rows.

    With ten folds there are no other rows, and the second part is the first again.
    """
    table = data.load(name)
    X, y, sizes = table.X, table.y, SETTINGS[name].sizes
    runs = []
    for run in range(n_runs):
        if sizes is not None:
            order = np.random.default_rng(run).permutation(len(y))
            ends = np.cumsum(sizes)
            chosen = np.split(order[: ends[-1]], ends[:-1])
            runs.append(tuple((X[rows], y[rows]) for rows in chosen))
            continue
        folds = StratifiedKFold(10, shuffle=True, random_state=run)
        for rows, test in folds.split(X, y):
            runs.append(((X[rows], y[rows]), (X[rows], y[rows]), (X[test], y[test])))
    return runs


def grow(kind: str, n_trees: int, X: Any, y: Any, seed: int) -> Forest:
    """Return a trained forest."""
    if kind == "BudgetRF":
        model = BudgetedForestClassifier(max_trees=n_trees, random_state=seed)
        return model.fit(X, y).forest_
    model = RandomForestClassifier(n_trees, random_state=seed, n_jobs=1)
    return spinney.read_model(model.fit(X, y))


def problem_for(
    forest: Forest, part: tuple[NDArray, NDArray], purchases: Purchases
) -> PruningProblem:
    """Return the pruning problem of a forest on some rows."""
    X, y = part
    codes = np.searchsorted(forest.classes_, y).astype(np.int64)
    weights = np.ones(len(y), dtype=np.int64)
    return PruningProblem(forest, forest.leaves(X), codes, weights, NO_FLAGS, purchases)


@dataclass(frozen=True)
class Curve:
    """What a method makes of a forest, measured on test rows.

    Parameters
    ----------
    ratios : ndarray of shape (n_points,)
        The smallest ratio of gain to price at which each point is the best, rising.
    points : ndarray of shape (3, n_points)
        Cost, error, and mean error of a tree.
    unpruned : ndarray of shape (3,)
        The same for the forest as it was grown.
    """

    ratios: NDArray[np.float64]
    points: NDArray[np.float64]
    unpruned: NDArray[np.float64]

    def at(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return cost and error at some ratios, as an array of shape (2, n_ratios)."""
        places = np.searchsorted(self.ratios, ratios, side="right") - 1
        return self.points[:2, places]


def curves(
    forest: Forest,
    pruning: tuple[NDArray, NDArray],
    test: tuple[NDArray, NDArray],
    costs: NDArray | None,
) -> dict[str, Curve]:
    """Return what each method makes of a forest."""
    purchases = purchases_for(forest.n_features, None, costs, None)
    given = problem_for(forest, pruning, purchases)
    tested = problem_for(forest, test, purchases)
    splits = given.splits()
    chains = {
        "together": find_chain(splits, solve_mincut),
        "one by one": individual_chain(given, splits),
        "by leaves": cost_complexity_chain(splits),
    }
    everything = np.where(forest.feature >= 0, 0, -1).astype(np.int32)

    def measured(until: NDArray[np.int32], n_points: int) -> NDArray[np.float64]:
        found = measure(tested, until, n_points)
        return np.array([found.cost, found.ensemble_error, found.error])

    unpruned = measured(everything, 1)[:, 0]
    found = {}
    for method, chain in chains.items():
        ratios = np.array([0.0, *(float(step.ratio) for step in chain.steps[::-1])])
        points = measured(kept_until(chain, forest.n_nodes), len(ratios))
        found[method] = Curve(ratios, points, unpruned)
    return found


def at_level(found: list[Curve], level: float) -> tuple[NDArray, NDArray]:
    """Return costs and errors of all runs at one common trade-off.

    It is the one with the least mean cost among those with a mean error of at most
    `level`; if there is none, the forests stay as they were grown.
    """
    every = np.concatenate([curve.ratios[1:] for curve in found])
    grid = np.quantile(every, np.linspace(0.0, 1.0, 500)) if len(every) else every
    tried = np.array([curve.at(grid) for curve in found])
    cost, error = tried.mean(axis=0)
    good = np.flatnonzero(error <= level)
    if len(good) == 0:
        unpruned = np.array([curve.unpruned[:2] for curve in found])
        return unpruned[:, 0], unpruned[:, 1]
    best = good[np.argmin(cost[good])]
    return tried[:, 0, best], tried[:, 1, best]


def run_setting(name: str, kind: str, n_runs: int) -> list[dict[str, Curve]]:
    """Return the curves of all runs of a data set and a kind of forest."""
    setting = SETTINGS[name]
    found = []
    for run, (train, _, test) in enumerate(parts(name, n_runs)):
        forest = grow(kind, setting.n_trees, *train, run)
        costs = None
        if kind.endswith("costs"):
            costs = unequal_costs(forest.n_features)
        # Pruned with the training rows: the paper's definition of the error.
        found.append(curves(forest, train, test, costs))
    return found


def cells(runs: list[dict[str, Curve]], levels: tuple[float, float]) -> list[str]:
    """Return the cells of a line of the table: costs, errors and their spread."""
    whole = np.array([run["together"].unpruned for run in runs])
    line = [_number(whole[:, 0]), _number(whole[:, 1], 4)]
    for factor in levels:
        for method in METHODS:
            level = factor * whole[:, 1].mean()
            cost, error = at_level([run[method] for run in runs], level)
            share = 100.0 * cost.mean() / whole[:, 0].mean()
            line.append(f"{share:.1f} %: {_number(cost)}, {_number(error, 4)}")
    return line


def _number(values: NDArray[np.float64], digits: int = 2) -> str:
    return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"


def render(
    results: dict[tuple[str, str], list[dict[str, Curve]]], seconds: float
) -> str:
    """Return all results as Markdown."""
    lines = [page.machine_line(), ""]
    heads = " | ".join(
        f"{level}: {method}" for level in ("low", "high") for method in METHODS
    )
    for kind in FORESTS:
        chosen = {name: runs for (name, k), runs in results.items() if k == kind}
        if not chosen:
            continue
        lines += [
            f"### {kind[0].upper() + kind[1:]}",
            "",
            f"| data set | runs | cost | error | {heads} |",
            "|---|" + "---:|" * (3 + 2 * len(METHODS)),
        ]
        for name, runs in chosen.items():
            setting = SETTINGS[name]
            line = " | ".join(cells(runs, setting.levels))
            lines.append(f"| {setting.title} | {len(runs)} | {line} |")
        lines.append("")
    lines.append("The paper, BudgetRF: unpruned cost and error; cost in percent of it")
    lines.append("together / one by one at the low, then at the high error.")
    lines.append("")
    lines += [f"- {s.title}: {s.paper}" for s in SETTINGS.values()]
    lines += ["", f"All of this took {seconds / 60:.0f} minutes of one core.", ""]
    return "\n".join(lines)


def compare_rows() -> str:
    """Prune with training rows and with rows that the forest has not seen."""
    lines = [
        "",
        "### Which rows to prune with: BudgetRF, pruned together, test rows",
        "",
        "Cost, error of the forest, mean error of a tree.",
        "",
        "| data set | pruned with | largest forest | half the cost | a quarter |",
        "|---|---|---:|---:|---:|",
    ]
    for name, setting in SETTINGS.items():
        if setting.sizes is None:
            continue
        train, unseen, test = parts(name, 1)[0]
        forest = grow("BudgetRF", setting.n_trees, *train, 0)
        for what, rows in (("training rows", train), ("unseen rows", unseen)):
            curve = curves(forest, rows, test, None)["together"]
            found = []
            for share in (1.0, 0.5, 0.25):
                place = np.argmax(curve.points[0] <= share * curve.unpruned[0])
                cost, error, tree_error = curve.points[:, place]
                found.append(f"{cost:.2f}, {error:.4f}, {tree_error:.4f}")
            lines.append(f"| {setting.title} | {what} | {' | '.join(found)} |")
    return "\n".join([*lines, ""])


def compare_speed(name: str = "magic", n_rows: int = 2_000, n_trees: int = 40) -> str:
    """Time the minimum cut beside HiGHS on the same problem, and the whole frontier."""
    table = data.load(name)
    order = np.random.default_rng(0).permutation(len(table.y))
    X, y = table.X[order], table.y[order]
    n_train = len(y) // 2
    forest = grow("random forest", n_trees, X[:n_train], y[:n_train], 0)
    rows = slice(n_train, n_train + n_rows)
    purchases = purchases_for(forest.n_features, None, None, None)
    problem = problem_for(forest, (X[rows], y[rows]), purchases)
    start = time.process_time()
    splits = problem.splits()
    built = time.process_time() - start
    lines = [
        "",
        f"### Minimum cut and HiGHS: {name}, {n_rows:,} rows, {n_trees} trees",
        "",
        f"{splits.n_splits:,} splits, {splits.n_groups:,} groups, "
        f"{len(splits.group_splits):,} needs, found in {built:.2f} s. CPU seconds:",
        "",
        "| trade-off | minimum cut | HiGHS | times | objective differs by |",
        "|---:|---:|---:|---:|---:|",
    ]
    for trade_off in (Fraction(1, 500), Fraction(3, 500)):
        ratio = problem.ratio(trade_off)
        seconds, values = [], []
        for solve in (solve_mincut, solve_lp):
            start = time.process_time()
            kept = solve(splits, ratio)
            seconds.append(time.process_time() - start)
            gain, price = splits.gain_of(kept), splits.price_of(kept)
            cost = problem.cost(price)
            values.append(problem.error(gain) + trade_off * cost)
        lines.append(
            f"| {float(trade_off):g} | {seconds[0]:.2f} | {seconds[1]:.1f} | "
            f"{seconds[1] / seconds[0]:.0f} | {float(abs(values[0] - values[1])):.1g} |"
        )
    start = time.process_time()
    chain = find_chain(splits, solve_mincut)
    whole = time.process_time() - start
    lines += [
        "",
        f"The whole frontier, {len(chain.steps) + 1} points: {whole:.1f} s.",
    ]
    return "\n".join(lines)


def draw(results: dict[tuple[str, str], list[dict[str, Curve]]]) -> None:
    """Draw both errors over the cost, on test rows, for the first run of each."""
    from matplotlib import pyplot

    names = list(SETTINGS)
    figure, axes = pyplot.subplots(
        len(names), 2, figsize=(9, 2.8 * len(names)), layout="constrained"
    )
    for row, name in zip(axes, names, strict=True):
        for ax, kind in zip(row, FORESTS, strict=False):
            run = results[name, kind][0]
            for method, colour in zip(METHODS[:2], ("C0", "C1"), strict=True):
                cost, error, tree_error = np.column_stack(
                    [run[method].unpruned, run[method].points]
                )
                ax.plot(cost, error, ".-", color=colour, markersize=3, label=method)
                ax.plot(cost, tree_error, ":", color=colour, label=f"{method}, a tree")
            ax.set_title(f"{SETTINGS[name].title}, {kind}", loc="left")
            ax.set_ylabel("test error")
            ax.grid(alpha=0.2)
    for ax in axes[-1]:
        ax.set_xlabel("mean feature cost of a row")
    axes[0, 0].legend(fontsize="small")
    figure.savefig(FIGURE, dpi=90)  # as SVG it would be a megabyte
    pyplot.close(figure)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.pruning", description=__doc__
    )
    add = parser.add_argument
    add("--runs", type=int, help="runs, or repetitions of 10 folds; default 3 or 5")
    add("--datasets", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    options = parser.parse_args()
    start = time.process_time()
    results = {}
    for name in options.datasets:
        for kind in FORESTS:
            n_runs = options.runs or SETTINGS[name].n_runs
            results[name, kind] = run_setting(name, kind, n_runs)
            print(name, kind, f"{time.process_time() - start:.0f} s", flush=True)
            print("  ", cells(results[name, kind], SETTINGS[name].levels), flush=True)
    seconds = time.process_time() - start
    text = render(results, seconds)
    if len(options.datasets) == len(SETTINGS):
        draw(results)
        text += compare_rows() + compare_speed()
        page.put_results(page.FOLDER / "pruning.md", text)
    print(text)


if __name__ == "__main__":
    main()
