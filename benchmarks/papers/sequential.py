"""Table 4 and Figures 2, 3, 4 and 6 of the paper on optimal sequential testing.

``python -m benchmarks.papers.sequential`` trains the forests, measures, and writes
``sequential.md`` and the figures beside it. `--cache` keeps the votes of the forests,
so that a second run takes a minute.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spinney
from benchmarks import data
from benchmarks.papers import page
from benchmarks.papers.drawing import draw_votes, save_figure, start_drawing
from benchmarks.papers.sequential_baselines import schwing
from spinney import StoppingStrategy

N_TREES = 101
SHARES = (0.7, 0.1, 0.2)  # train, test, calibration
LEVELS = (0.0, *(10.0**exponent for exponent in np.arange(-6.0, -0.75, 0.5)))
TABLE_LEVEL = 1e-3
N_ORDERS = 100

# File of the data set -> its name in the paper, and the paper's Table 4 in percent:
# share of trees, error of the full vote, error with early stopping.
PAPER = {
    "covertype": ("Ground Cover", 13.02, 4.05, 4.07),
    "census_income_kdd": ("Income", 7.17, 4.52, 4.54),
    "cdc_diabetes": ("Diabetes", 16.50, 14.17, 14.16),
    "skin_segmentation": ("Skin", 1.15, 0.04, 0.12),
    "sepsis_survival": ("Sepsis", 0.99, 7.39, 7.46),
    "dota2": ("Dota2", 71.32, 42.43, 42.43),
    "diabetes130": ("Hospitalization", 57.58, 35.90, 35.90),
    "shuttle": ("Shuttle", 1.03, 0.15, 0.21),
}

CALIBRATED = "minimean, calibrated"
# Table 2: how each method makes a strategy of a level and of the calibration votes. As
# in the paper, a decision without any vote is allowed.
METHODS: dict[str, Callable[[float, NDArray[np.int64]], StoppingStrategy]] = {
    "minimax": lambda level, votes: _optimal("minimax", level, None),
    CALIBRATED: lambda level, votes: _optimal("minimean", level, votes),
    "minimean, uniform": lambda level, votes: _optimal("minimean", level, None),
    "minimixed, calibrated": lambda level, votes: _optimal("minimixed", level, votes),
    "minimixed, uniform": lambda level, votes: _optimal("minimixed", level, None),
    "Schwing et al.": lambda level, votes: schwing(N_TREES, level),
}
METRICS = ("trees evaluated", "disagreement", "error")


def _optimal(
    objective: str, level: float, votes: NDArray[np.int64] | None
) -> StoppingStrategy:
    key = (objective, level)
    if votes is None and key in _UNIFORM:
        return _UNIFORM[key]
    made = spinney.optimal_strategy(
        N_TREES, level, objective=objective, votes=votes, min_votes=0
    )
    if votes is None:
        _UNIFORM[key] = made
    return made


# Strategies that do not depend on data, made once.
_UNIFORM: dict[tuple[str, float], StoppingStrategy] = {}


@dataclass(frozen=True)
class Votes:
    """What the trees of one forest say on rows that they were not trained on."""

    calibration: NDArray[np.uint8]
    test: NDArray[np.uint8]
    y_test: NDArray[np.uint8]


def trained_votes(name: str, seed: int, cache: Path, n_jobs: int) -> Votes:
    """Train the forest of one split and let it vote, or take its votes from the cache.

    Parameters
    ----------
    name : str
        A key of `PAPER`.
    seed : int
        Number of the split; it draws the rows and the trees.
    cache : path
        Folder for the votes, of which a few megabytes are kept for each forest. The
        forests themselves, up to a gigabyte each, are not kept.
    n_jobs : int
        Threads for training.
    """
    import sklearn
    from sklearn.ensemble import RandomForestClassifier

    # The version is part of the name: another one may grow other trees.
    path = cache / f"votes-{name}-{seed}-{N_TREES}-{sklearn.__version__}.npz"
    if not path.exists():
        table = data.load(name)
        y = table.positive
        train, test, calibration = data.split(len(y), SHARES, seed)
        started = time.perf_counter()
        model = RandomForestClassifier(N_TREES, random_state=seed, n_jobs=n_jobs)
        model.fit(table.X[train], y[train])
        seconds = time.perf_counter() - started
        forest = spinney.read_model(model)
        asked = {
            "calibration": forest.votes(table.X[calibration]),
            "test": forest.votes(table.X[test]),
        }
        cache.mkdir(parents=True, exist_ok=True)
        packed = {key: np.packbits(votes, axis=1) for key, votes in asked.items()}
        np.savez(path, **packed, y_test=y[test].astype(np.uint8))
        print(f"{name}, split {seed}: trained in {seconds:.0f} s", flush=True)
    with np.load(path, allow_pickle=False) as stored:
        unpacked = (
            np.unpackbits(stored[key], axis=1, count=N_TREES)
            for key in ("calibration", "test")
        )
        return Votes(*unpacked, y_test=stored["y_test"])


# ------------------------------------------------------------------ measuring


def expected(strategy: StoppingStrategy, votes: Votes) -> tuple[float, float, float]:
    """Return trees evaluated, disagreement and error on test rows, over all orders."""
    asked, wrong = strategy.profile()
    n_positive = votes.test.sum(axis=1)
    full = n_positive > N_TREES / 2
    differs = wrong[n_positive]
    error = np.where(full == (votes.y_test == 1), differs, 1.0 - differs)
    return asked[n_positive].mean(), differs.mean(), error.mean()


def in_one_order(
    strategy: StoppingStrategy,
    votes: NDArray[np.uint8],
    chance: np.random.Generator,
) -> tuple[float, float]:
    """Return trees evaluated and disagreement with one order for all rows."""
    order = chance.permutation(N_TREES)
    counts = np.cumsum(votes[:, order], axis=1, dtype=np.int16)
    counts = np.pad(counts, ((0, 0), (1, 0)))
    stops = (counts <= strategy.lower) | (counts >= strategy.upper)
    for step, count, stop in strategy.fractional:
        lots = chance.random(len(votes)) < stop
        stops[:, step] |= (counts[:, step] == count) & lots
    asked = stops.argmax(axis=1)
    positive = 2 * counts[np.arange(len(votes)), asked] > asked
    full = 2 * counts[:, -1] > N_TREES
    return asked.mean(), (positive != full).mean()


def measure(name: str, n_splits: int, cache: Path, n_jobs: int) -> dict[str, Any]:
    """Return everything that table and figures show about one data set.

    Parameters
    ----------
    name : str
        A key of `PAPER`.
    n_splits : int
        Number of splits, each with a forest of its own.
    cache, n_jobs
        As in `trained_votes`.
    """
    curves = np.empty((n_splits, len(METHODS), len(LEVELS), len(METRICS)))
    base, orders, counts, truth = [], [], [], []
    for seed in range(n_splits):
        votes = trained_votes(name, seed, cache, n_jobs)
        weights = np.bincount(votes.calibration.sum(axis=1), minlength=N_TREES + 1)
        for m, make in enumerate(METHODS.values()):
            for k, level in enumerate(LEVELS):
                curves[seed, m, k] = expected(make(level, weights), votes)
        n_positive = votes.test.sum(axis=1)
        base.append(np.mean((n_positive > N_TREES / 2) != (votes.y_test == 1)))
        strategy = METHODS[CALIBRATED](TABLE_LEVEL, weights)
        chance = np.random.default_rng(seed)
        orders.append(
            [in_one_order(strategy, votes.test, chance) for _ in range(N_ORDERS)]
        )
        counts.append(n_positive)
        truth.append(votes.y_test)
    print(f"{name}: measured", flush=True)
    return {
        "curves": curves,
        "base": np.array(base),
        "orders": np.array(orders),
        "n_positive": np.concatenate(counts),
        "y": np.concatenate(truth),
    }


# ------------------------------------------------------------------ tables


def render(results: dict[str, dict[str, Any]], n_splits: int) -> str:
    """Return the tables as Markdown."""
    at = LEVELS.index(TABLE_LEVEL)
    methods = list(METHODS)
    lines = [
        f"{n_splits} splits; {page.machine_line()}",
        "",
        "### Table 4: minimean on calibration rows, at most 0.1 % disagreement",
        "",
        "| data set | trees evaluated: paper | ours | disagreement | in one order | "
        "error of all trees: paper | ours | error: paper | ours |",
        "|---|" + "---:|" * 8,
    ]
    for name, found in results.items():
        title, share, base, error = PAPER[name]
        curve = found["curves"][:, methods.index(CALIBRATED), at]
        one = 100 * found["orders"][:, :, 1]
        lines.append(
            f"| {title} | {share:.2f} % | "
            f"**{_spread(100 * curve[:, 0] / N_TREES)}** | "
            f"{_spread(100 * curve[:, 1], 3)} | "
            f"{one.mean():.3f} ± {one.std(axis=1).mean():.3f} % | "
            f"{base:.2f} % | {_spread(100 * found['base'])} | "
            f"{error:.2f} % | {_spread(100 * curve[:, 2])} |"
        )
    title = "### All methods at a level of 0.1 %: trees evaluated, disagreement"
    lines += ["", title, ""]
    lines += ["| data set | " + " | ".join(methods) + " |"]
    lines += ["|---|" + "---:|" * len(methods)]
    for name, found in results.items():
        mean = 100 * found["curves"][:, :, at].mean(axis=0)
        cells = [f"{row[0] / N_TREES:.2f} %, {row[1]:.3f} %" for row in mean]
        lines.append(f"| {PAPER[name][0]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _spread(values: NDArray[np.float64], digits: int = 2) -> str:
    """Return the mean and the standard deviation over the splits, in percent."""
    deviation = values.std(ddof=1) if len(values) > 1 else float("nan")
    return f"{values.mean():.{digits}f} ± {deviation:.{digits}f} %"


# ------------------------------------------------------------------ figures


def draw(results: dict[str, dict[str, Any]]) -> None:
    """Draw all figures into the folder ``figures``."""
    start_drawing()
    names = list(results)
    save_figure(_envelopes(), "sequential-2-envelopes")
    save_figure(
        _curves({name: results[name] for name in names[:4]}), "sequential-3-curves"
    )
    if names[4:]:
        rest = {name: results[name] for name in names[4:]}
        save_figure(_curves(rest), "sequential-4-curves")
    save_figure(_histograms(results), "sequential-6-votes")


def _envelopes() -> Any:
    """Draw Figure 2: how many positive votes stop, for strategies without data."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, 3, figsize=(11, 4), sharey=True, layout="constrained"
    )
    levels = [0.0, *(10.0**exponent for exponent in range(-6, 0))]
    colours = pyplot.get_cmap("viridis")(np.linspace(0.0, 0.9, len(levels)))
    for ax, objective in zip(axes, ("minimax", "minimean", "minimixed"), strict=True):
        for level, colour in zip(levels, colours, strict=True):
            upper = _optimal(objective, level, None).upper
            ax.plot(upper, color=colour, linewidth=1.1, label=f"{level:g}")
        steps = np.arange(N_TREES + 1)
        ax.plot(steps, steps / 2, color="0.6", linewidth=0.8, linestyle=":")
        ax.set_title("minimax" if objective == "minimax" else f"{objective}, uniform")
        ax.set_xlabel("trees evaluated")
        ax.grid(alpha=0.2)
    axes[0].set_ylabel("positive votes from which on to stop")
    axes[0].legend(title="disagreement\nallowed", loc="lower right")
    return figure


def _curves(results: dict[str, dict[str, Any]]) -> Any:
    """Draw Figure 3 or 4: a row per data set, a column per metric."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(results), 3, figsize=(11, 2.6 * len(results)), layout="constrained"
    )
    axes = np.atleast_2d(axes)
    # Zero has no logarithm: it stands one decade left of the smallest level.
    places = np.array([-7.0, *np.log10(LEVELS[1:])])
    titles = ("trees evaluated", "disagreement in %", "error in %")
    for row, (name, found) in zip(axes, results.items(), strict=True):
        for column, (ax, title) in enumerate(zip(row, titles, strict=True)):
            scale = 1.0 if column == 0 else 100.0
            values = scale * found["curves"][:, :, :, column]
            for m, method in enumerate(METHODS):
                mean, spread = values[:, m].mean(axis=0), values[:, m].std(axis=0)
                style = "--" if "uniform" in method else "-"
                (line,) = ax.plot(
                    places, mean, style, label=method, color=f"C{m}", linewidth=1.2
                )
                low, high = mean - spread, mean + spread
                ax.fill_between(
                    places, low, high, color=line.get_color(), alpha=0.15, linewidth=0
                )
            if column == 1:
                allowed = 100.0 * np.array(LEVELS)
                ax.plot(places, allowed, ":", color="0.3", label="allowed")
                ax.set_yscale("symlog", linthresh=1e-4)
                ax.set_ylim(0.0, 30.0)
            if column == 2:
                ax.axhline(100 * found["base"].mean(), linestyle=":", color="0.3")
            ax.set_ylabel(title)
            ax.set_xticks(range(-7, 0), ["0", *(f"$10^{{{k}}}$" for k in range(-6, 0))])
            ax.grid(alpha=0.2)
        row[0].set_title(PAPER[name][0], loc="left", fontweight="bold")
    for ax in axes[-1]:
        ax.set_xlabel("disagreement allowed (share of rows)")
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    return figure


def _histograms(results: dict[str, dict[str, Any]]) -> Any:
    """Draw Figure 6: how many rows get how many positive votes."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        -(-len(results) // 2), 2, figsize=(9, 10), layout="constrained", sharex=True
    )
    for ax, (name, found) in zip(np.ravel(axes), results.items(), strict=False):
        draw_votes(found["n_positive"], N_TREES, found["y"], ax)
        ax.set_title(PAPER[name][0])
        ax.set_yscale("log")
        ax.set_ylim(1e-3, 100.0)
        if ax is not np.ravel(axes)[0]:
            ax.get_legend().remove()
        ax.label_outer()
    return figure


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.sequential", description=__doc__
    )
    add = parser.add_argument
    add("--splits", type=int, default=5, help="the paper has 30; default 5")
    add("--datasets", nargs="+", default=list(PAPER), choices=list(PAPER))
    add("--jobs", type=int, default=2, help="threads for training, default 2")
    add(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "spinney-papers",
        help="folder that keeps the votes of the trained forests",
    )
    options = parser.parse_args()
    results = {
        name: measure(name, options.splits, options.cache, options.jobs)
        for name in options.datasets
    }
    text = render(results, options.splits)
    print(text)
    if len(results) == len(PAPER):
        draw(results)
        page.put_results(page.FOLDER / "sequential.md", text)


if __name__ == "__main__":
    main()
