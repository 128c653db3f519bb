"""Figures 3 to 6 of the paper on step orders for anytime forests, and what they cost.

``python -m benchmarks.papers.anytime`` trains the forests, measures, and writes
``anytime.md`` and the figures beside it, in about twenty minutes on one core. `--cache`
keeps what was measured, so that a run can be interrupted and continued. ``--quick``
takes half a minute and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from benchmarks import data
from benchmarks.papers import page
from benchmarks.papers.drawing import save_figure, start_drawing
from spinney import Forest, read_model
from spinney.anytime import AnytimeForestClassifier, classifier, deadline
from spinney.anytime.ordering_rows import OrderingRows
from spinney.anytime.orders import make_order
from spinney.ordering.step_orders import ORDERS
from spinney.runtime.steps.engine import StepEngine

# Data sets as the paper calls them.
DATASETS = {
    "adult": "adult",
    "covertype": "covertype",
    "letter": "letter",
    "magic": "magic",
    "mnist_10k": "mnist",
    "satellite": "satlog",
    "sensorless": "sensorless-drive",
    "spambase": "spambase",
    "pucrio_postures": "wearable-body-postures",
}
SHARES = (0.5, 0.25, 0.25)  # train, order, test
MOST_ROWS = (20_000, 2_000, 5_000)

SMALL = [(trees, depth) for trees in (4, 5, 6, 7) for depth in (4, 5, 6, 7)]
LARGE = [(trees, depth) for trees in (5, 10, 20) for depth in (2, 5, 10, 20)]
EXACT = ("optimal", "unoptimal")
# "depth" and "breadth" are those over the natural sequence.
NAMES = [name for name in ORDERS if name not in ("depth", "breadth")]
DRAWN = (
    "optimal",
    "backward_squirrel",
    "forward_squirrel",
    "depth_drep",
    "breadth_drep",
    "random",
    "unoptimal",
)

# By data set, size of the forest and order: the NMA of every seed.
Results = dict[str, dict[str, dict[str, list[float]]]]


# ------------------------------------------------------------------ Figures 5 and 6


def parts(name: str, seed: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return rows and labels to train on, to order by and to test on."""
    table = data.load(name)
    chosen = data.split(len(table.y), SHARES, seed)
    return [
        (table.X[rows[:most]], table.y[rows[:most]])
        for rows, most in zip(chosen, MOST_ROWS, strict=True)
    ]


def trained(X: NDArray[Any], y: NDArray[Any], n_trees: int, depth: int, seed: int):
    """Return a random forest of scikit-learn."""
    model = RandomForestClassifier(n_trees, max_depth=depth, random_state=seed)
    return model.fit(X, y)


def ordering_rows(forest: Forest, X: NDArray[Any], y: NDArray[Any]) -> OrderingRows:
    """Return labelled rows prepared for finding and rating orders."""
    labels = np.searchsorted(forest.classes, y)
    return OrderingRows.of_rows(forest, forest.engine.rows(X), labels)


def curves_of(
    forest: Forest,
    order_rows: tuple[NDArray[Any], NDArray[Any]],
    test_rows: tuple[NDArray[Any], NDArray[Any]],
    exact: bool,
) -> dict[str, NDArray[np.float64]]:
    """Return the test accuracy along every order that there is for a forest."""
    to_order, to_test = (
        ordering_rows(forest, X, y) for X, y in (order_rows, test_rows)
    )
    orders = {}
    for name in NAMES:
        if name in EXACT and not exact:
            continue
        if "qwyc" in name and len(forest.classes) != 2:
            continue
        orders[name] = make_order(to_order, name, random_state=0)
    n_rows = len(test_rows[1])
    return {
        name: to_test.correct_along(order) / n_rows for name, order in orders.items()
    }


def size_key(trees: int, depth: int, exact: bool) -> str:
    """Return the size of a forest, and whether it has an optimal order, as a text."""
    return f"{trees} trees, depth {depth}{', exact' if exact else ''}"


def measure_orders(
    name: str, n_seeds: int, small: list, large: list
) -> dict[str, dict[str, list[float]]]:
    """Return the NMA of all orders on one data set, by the size of the forest."""
    found: dict[str, dict[str, list[float]]] = {}
    started = time.process_time()
    for seed in range(n_seeds):
        train, to_order, to_test = parts(name, seed)
        for sizes in (small, large):
            for depth in sorted({depth for _, depth in sizes}):
                # Fewer trees are the first ones of more trees.
                most = max(trees for trees, _ in sizes)
                whole = read_model(trained(*train, most, depth, seed))
                for trees in sorted({trees for trees, _ in sizes}):
                    forest = whole.take(np.arange(trees))
                    curves = curves_of(forest, to_order, to_test, sizes is small)
                    by_order = found.setdefault(
                        size_key(trees, depth, sizes is small), {}
                    )
                    for order, curve in curves.items():
                        nma = float(curve.mean() / curve[-1])
                        by_order.setdefault(order, []).append(nma)
    print(f"{name}: {time.process_time() - started:.0f} s", flush=True)
    return found


def measure_curves() -> dict[str, list[float]]:
    """Return the accuracies of Figure 5."""
    train, to_order, to_test = parts("letter", 0)
    forest = read_model(trained(*train, *SMALL[-1], 0))
    curves = curves_of(forest, to_order, to_test, exact=True)
    return {name: curves[name].tolist() for name in DRAWN}


def relative_to_best(results: Results, sizes: list, exact: bool) -> dict[str, float]:
    """Return the mean share of the best NMA of each experiment, by order."""
    shares: dict[str, list[float]] = {}
    for by_size in results.values():
        for size in sizes:
            found = by_size[size_key(*size, exact)]
            for seed in range(len(found["random"])):
                best = max(values[seed] for values in found.values())
                for order, values in found.items():
                    shares.setdefault(order, []).append(values[seed] / best)
    return {order: float(np.mean(values)) for order, values in shares.items()}


def mean_nma(results: Results, name: str, sizes: list, exact: bool) -> dict[str, float]:
    """Return the mean NMA on one data set, by order."""
    found: dict[str, list[float]] = {}
    for size in sizes:
        for order, values in results[name][size_key(*size, exact)].items():
            found.setdefault(order, []).extend(values)
    return {order: float(np.mean(values)) for order, values in found.items()}


# ------------------------------------------------------------------ Figure 4


def measure_generation(most_exact: int) -> list[dict[str, float]]:
    """Return how long orders take to find on adult, depth 8, and their accuracy."""
    train, to_order, to_test = parts("adult", 0)
    whole = read_model(trained(*train, 20, 8, 0))
    found = []
    for trees in sorted({*range(2, 21, 2), most_exact}):
        forest = whole.take(np.arange(trees))
        rows = ordering_rows(forest, *to_order)
        test = ordering_rows(forest, *to_test)
        line: dict[str, float] = {"trees": trees}
        line["states"] = float(np.prod(forest.depths.astype(np.float64) + 1))
        begin = time.perf_counter()
        order = make_order(rows, "backward_squirrel")
        line["squirrel seconds"] = time.perf_counter() - begin
        n_rows = len(to_test[1])
        line["squirrel accuracy"] = float(test.correct_along(order).mean() / n_rows)
        if trees <= most_exact:
            begin = time.perf_counter()
            order = make_order(rows, "optimal")
            line["optimal seconds"] = time.perf_counter() - begin
            line["optimal accuracy"] = float(test.correct_along(order).mean() / n_rows)
        found.append(line)
        print(line, flush=True)
    return found


# ------------------------------------------------------------------ Figure 3


def measure_time(n_repeats: int) -> dict[str, list[dict[str, float]]]:
    """Return steps and lateness by time allowed, adult with 10 trees of depth 10.

    The clock is that of the process, so that others on the machine do not matter.
    """
    train, to_order, to_test = parts("adult", 0)
    model = trained(*train, 10, 10, 0)
    anytime = AnytimeForestClassifier(FrozenEstimator(model)).fit(*to_order)
    X = np.ascontiguousarray(np.tile(to_test[0], (20, 1)), dtype=np.float32)
    plain = quickest(lambda: anytime.forest_.predict(X))
    found: dict[str, list[dict[str, float]]] = {"batch": [], "session": []}
    for share in (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0):
        seconds = share * plain
        steps, late = [], []
        with (
            patch.object(classifier, "perf_counter", time.process_time),
            patch.object(deadline, "perf_counter", time.process_time),
        ):
            for _ in range(n_repeats):
                begin = time.process_time()
                _, n_steps = anytime.predict_within(X, seconds)
                late.append(time.process_time() - begin - seconds)
                steps.append(n_steps.mean() / len(anytime.order_))
        line = {
            "seconds": seconds,
            "share": share,
            "steps": float(np.median(steps)),
            "late": float(np.median(late)),
            "latest": float(np.percentile(late, 90)),
        }
        found["batch"].append(line)
    # One row, with a return to Python after every step.
    times = np.empty((max(20, n_repeats), len(anytime.order_)))
    for repeat in times:
        session = anytime.session(X[0])
        begin = time.process_time()
        for k in range(len(repeat)):
            session.step()
            repeat[k] = time.process_time() - begin
    for k, seconds in enumerate(np.median(times, axis=0)):
        found["session"].append({"steps": k + 1, "seconds": float(seconds)})
    return found


# ------------------------------------------------------------------ the price


def quickest(call: Callable[[], object], n_times: int = 7) -> float:
    """Return the least time of several calls, in seconds of this process."""
    call()
    times = []
    for _ in range(n_times):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def measure_price(quick: bool) -> list[dict[str, Any]]:
    """Return what being interruptible costs, for several models."""
    models: list[tuple[str, str, Any]] = [
        ("adult", "20 trees, depth 5", RandomForestClassifier(20, max_depth=5)),
        ("adult", "100 trees, depth 5", RandomForestClassifier(100, max_depth=5)),
        ("adult", "100 trees, depth 10", RandomForestClassifier(100, max_depth=10)),
        ("adult", "100 trees, full depth", RandomForestClassifier(100)),
        ("letter", "100 trees, depth 10", RandomForestClassifier(100, max_depth=10)),
        ("covertype", "100 trees, full depth", RandomForestClassifier(100)),
    ]
    try:
        from lightgbm import LGBMClassifier

        boosted = LGBMClassifier(n_estimators=100, verbose=-1, n_jobs=1)
        models.append(("adult", "LightGBM, 100 trees", boosted))
    except ImportError:
        pass
    found = []
    for name, title, model in models[:2] if quick else models:
        train, to_order, to_test = parts(name, 0)
        model.set_params(random_state=0).fit(*train)
        anytime = AnytimeForestClassifier(FrozenEstimator(model), order="random")
        anytime.set_params(random_state=0).fit(*to_order)
        forest, total = anytime.forest_, len(anytime.order_)
        X = np.tile(to_test[0], (4, 1))
        rows = forest.engine.rows(X)
        engine = StepEngine.warmed_up(forest, anytime.order_)
        winner = engine.winners_after(rows, total, None)
        assert (forest.classes[winner] == forest.predict(X)).all()
        assert (forest.predict(X) == model.predict(X)).all()
        n_rows = len(rows)
        found.append(
            {
                "data": DATASETS[name],
                "model": title,
                "steps": total,
                "plain": quickest(lambda f=forest, r=rows: f.predict(r)) / n_rows,
                "stepped": quickest(
                    lambda s=engine, r=rows, k=total: s.winners_after(r, k, None)
                )
                / n_rows,
                "each": quickest(lambda s=engine, r=rows: every_step(s, r), n_times=3)
                / n_rows,
                "within": quickest(lambda a=anytime, r=rows: a.predict_within(r, 60.0))
                / n_rows,
                "library": quickest(lambda m=model, x=X: m.predict(x), n_times=3)
                / n_rows,
            }
        )
        print(found[-1], flush=True)
    return found


def every_step(engine: StepEngine, rows: NDArray[np.floating]) -> None:
    """Take all rows through all steps, each one on its own."""
    for first in range(0, len(rows), engine.block_rows):
        end = min(len(rows), first + engine.block_rows)
        block = engine.block(rows, first, end)
        for k in range(engine.n_steps):
            engine.advance(block, k + 1)


# ------------------------------------------------------------------ the page


def render(
    results: Results,
    generation: list[dict[str, float]],
    timing: dict[str, list[dict[str, float]]],
    price: list[dict[str, Any]],
    n_seeds: int,
) -> str:
    """Return the results as Markdown."""
    lines = [page.machine_line(), "", f"{n_seeds} seeds.", ""]
    lines += ["### Share of the best NMA of each experiment, in percent", ""]
    small, large = (
        relative_to_best(results, SMALL, True),
        relative_to_best(results, LARGE, False),
    )
    lines += ["| order | with optimal | without | paper |", "|---|---:|---:|---:|"]
    paper = {"optimal": "97 / –", "backward_squirrel": "94 / 99"}
    for order in sorted(small, key=lambda order: -small[order]):
        without = f"{100 * large[order]:.1f}" if order in large else "–"
        lines.append(
            f"| {order} | {100 * small[order]:.1f} | {without} "
            f"| {paper.get(order, '')} |"
        )
    for title, sizes in (
        ("4 to 7 trees of depth 4 to 7", SMALL),
        ("5, 10 and 20 trees of depth 2, 5, 10 and 20", LARGE),
    ):
        lines += ["", f"### NMA in percent, {title}", ""]
        by_name = {
            name: mean_nma(results, name, sizes, sizes is SMALL) for name in results
        }
        orders = [name for name in NAMES if any(name in by_name[n] for n in by_name)]
        lines.append("| order | " + " | ".join(DATASETS[n] for n in by_name) + " |")
        lines.append("|---" + "|---:" * len(by_name) + "|")
        best = {name: max(found.values()) for name, found in by_name.items()}
        for order in orders:
            cells = []
            for name, found in by_name.items():
                cell = f"{100 * found[order]:.1f}" if order in found else "–"
                if found.get(order) == best[name]:
                    cell = f"**{cell}**"
                cells.append(cell)
            lines.append(f"| {order} | " + " | ".join(cells) + " |")
    lines += ["", "### Time to find an order: adult, depth 8, 2,000 rows, one core", ""]
    lines += [
        "| trees | states | optimal, s | its mean accuracy | backward squirrel, s "
        "| its mean accuracy |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for line in generation:
        exact = line.get("optimal seconds")
        lines.append(
            f"| {line['trees']:.0f} | {line['states']:.2e} "
            f"| {'–' if exact is None else f'{exact:.2f}'} "
            f"| {'–' if exact is None else f'''{line['optimal accuracy']:.4f}'''} "
            f"| {line['squirrel seconds']:.3f} | {line['squirrel accuracy']:.4f} |"
        )
    lines += ["", "### Steps against time: adult, 10 trees of depth 10", ""]
    lines += [
        "| time allowed | of plain evaluation | steps got | late (median) "
        "| late (9 of 10 below) |",
        "|---:|---:|---:|---:|---:|",
    ]
    for line in timing["batch"]:
        lines.append(
            f"| {1e3 * line['seconds']:.2f} ms | {line['share']:.2f} "
            f"| {100 * line['steps']:.0f} % | {1e6 * line['late']:.0f} µs "
            f"| {1e6 * line['latest']:.0f} µs |"
        )
    lines += ["", "### The price of being interruptible, in ns per row", ""]
    lines += [
        "| data | model | steps | plain | stepped | ratio | every step alone | ratio "
        "| within 60 s | ratio | library |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for line in price:
        cells = [line["data"], line["model"], str(line["steps"])]
        cells.append(f"{1e9 * line['plain']:,.0f}")
        for key in ("stepped", "each", "within"):
            cells.append(f"{1e9 * line[key]:,.0f}")
            cells.append(f"{line[key] / line['plain']:.2f}")
        cells.append(f"{1e9 * line['library']:,.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(
    results: Results,
    curves: dict[str, list[float]],
    generation: list[dict[str, float]],
    timing: dict[str, list[dict[str, float]]],
) -> None:
    """Draw Figures 3 to 6."""
    start_drawing()
    from matplotlib import pyplot

    from spinney.anytime.plotting import plot_curves

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    batch = timing["batch"]
    axes[0].plot([b["seconds"] * 1e3 for b in batch], [b["steps"] for b in batch], "o-")
    axes[0].set_xlabel("milliseconds allowed, 100,000 rows")
    axes[0].set_ylabel("share of the steps")
    alone = timing["session"]
    axes[1].plot([s["seconds"] * 1e6 for s in alone], [s["steps"] for s in alone], "-")
    axes[1].set_xlabel("microseconds, one row, a call for each step")
    axes[1].set_ylabel("steps")
    save_figure(figure, "anytime-3-time")

    figure, left = pyplot.subplots(figsize=(6, 4), layout="constrained")
    right = left.twinx()
    for i, name in enumerate(("optimal", "squirrel")):
        there = [line for line in generation if f"{name} seconds" in line]
        trees = [line["trees"] for line in there]
        label = {"squirrel": "backward squirrel"}.get(name, name)
        left.plot(trees, [x[f"{name} accuracy"] for x in there], f"C{i}o-", label=label)
        right.plot(trees, [x[f"{name} seconds"] for x in there], f"C{i}--")
    left.set_xlabel("trees of depth 8, adult")
    left.set_ylabel("mean accuracy over all states (solid)")
    right.set_ylabel("seconds to find the order (dashed)")
    right.set_yscale("log")
    left.legend(loc="center right")
    save_figure(figure, "anytime-4-generation")

    figure, ax = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    plot_curves(curves, ax)
    ax.set_title("letter, 7 trees of depth 7")
    save_figure(figure, "anytime-5-curves")

    figure, axes = pyplot.subplots(
        1, 2, figsize=(10, 7), layout="constrained", sharey=True
    )
    for ax, sizes, title in zip(
        axes, (SMALL, LARGE), ("small forests", "large forests"), strict=True
    ):
        for i, name in enumerate(results):
            found = mean_nma(results, name, sizes, sizes is SMALL)
            orders = [order for order in NAMES if order in found]
            for j, order in enumerate(orders):
                marker = {"depth": "^", "breadth": "s"}.get(order.split("_")[0], "o")
                place = i + 0.8 * (j / len(orders) - 0.5)
                ax.plot(
                    found[order],
                    place,
                    marker,
                    color=f"C{NAMES.index(order) % 10}",
                    label=order if i == 0 else None,
                    markersize=5,
                )
        ax.set_yticks(range(len(results)), [DATASETS[name] for name in results])
        ax.set_xlabel("normalised mean accuracy")
        ax.set_title(title)
        ax.grid(axis="x", alpha=0.3)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    save_figure(figure, "anytime-6-nma")


def kept(cache: Path | None, name: str, measure: Callable[[], Any]) -> Any:
    """Return what was measured before, or measure it now and keep it.

    Parameters
    ----------
    cache : path or None
        Folder; None keeps nothing.
    name : str
        What is measured.
    measure : callable
        How.
    """
    if cache is None:
        return measure()
    path = cache / f"{name}.json"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(measure()), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.anytime", description=__doc__
    )
    add = parser.add_argument
    add("--seeds", type=int, default=5, help="as in the paper: 5")
    add("--exact-trees", type=int, default=9, help="largest optimal order of depth 8")
    add("--cache", type=Path, help="folder that keeps what was measured")
    add("--quick", action="store_true", help="two data sets, one seed, few sizes")
    options = parser.parse_args()
    if options.quick:
        small, large = [(4, 4), (5, 4)], [(5, 5), (10, 5)]
        results = {
            name: measure_orders(name, 1, small, large)
            for name in ("magic", "satellite")
        }
        print(relative_to_best(results, small, True))
        print(relative_to_best(results, large, False))
        measure_time(3)
        measure_price(quick=True)
        return
    cache, n_seeds = options.cache, options.seeds
    results = {
        name: kept(
            cache,
            f"orders-{name}-{n_seeds}",
            lambda name=name: measure_orders(name, n_seeds, SMALL, LARGE),
        )
        for name in DATASETS
    }
    curves = kept(cache, "curves", measure_curves)
    timing = kept(cache, "time", lambda: measure_time(10))
    price = kept(cache, "price", lambda: measure_price(quick=False))
    generation = kept(
        cache, "generation", lambda: measure_generation(options.exact_trees)
    )
    text = render(results, generation, timing, price, n_seeds)
    print(text)
    draw(results, curves, generation, timing)
    page.put_results(page.FOLDER / "anytime.md", text)


if __name__ == "__main__":
    main()
