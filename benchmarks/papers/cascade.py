"""Figures 1, 3, 5 and 6 of "Quit when you can", on rows that nothing was fitted to.

``python -m benchmarks.papers.cascade`` trains the models, measures, and writes
``cascade.md`` and the figures beside it; ``--quick`` takes two minutes and writes
nothing. Wall-clock times are measured by `benchmarks.early`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

import spinney
from benchmarks import data
from benchmarks.papers import page
from benchmarks.papers.drawing import save_figure, start_drawing
from spinney.cascade import CascadeClassifier
from spinney.cascade.exit_points import spread_exit_points
from spinney.cascade.fan import fit_fan
from spinney.cascade.greedy import fit_thresholds
from spinney.cascade.orders import find_order
from spinney.cascade.rungs import RuleFamily, boldest_on_rows
from spinney.cascade.tables import table_of
from spinney.errors import SpinneyWarning
from spinney.ordering import ScoreTable
from spinney.ordering.qwyc import qwyc
from spinney.runtime.exit_rule import ExitRule

TARGET = 0.005
LEVELS = (0.0003, 0.001, 0.002, 0.003, 0.0045, 0.0065, 0.01)
LEVELS_OF_RANDOM = (0.001, 0.003, 0.0065)
ORDERS = ("qwyc", "natural", "individual_mse", "greedy_mse", "random")
# The paper's thresholds for an order that is given, and the rules of the classifier.
PAPER = "Algorithm 2"
RULES = (PAPER, "thresholds", "fan", "optimal")
REJECTING_EARLY = ("QWYC*", "Fan*", "qwyc, optimal", "natural, optimal")
RATES = (0.02, 0.05, 0.1)
SMALLER = (10, 20, 40, 80, 160, 320)


@dataclass(frozen=True)
class Setting:
    """How the paper's model for a data set is made."""

    depth: int
    n_columns: int | None  # the paper keeps the strongest eight columns of Nomao


SETTINGS = {"adult": Setting(5, None), "nomao": Setting(9, 8)}


@dataclass(frozen=True)
class Case:
    """A trained model and what its trees say about rows it has not seen."""

    model: Any
    rate: float
    train: ScoreTable
    labels_train: NDArray[np.int64]
    X_calibration: NDArray[np.float32]
    calibration: ScoreTable
    labels_calibration: NDArray[np.int64]
    X_test: NDArray[np.float32]
    test: ScoreTable
    y_test: NDArray[np.int64]
    smaller: dict[int, float]

    @property
    def accuracy(self) -> float:
        """Accuracy of all trees."""
        return float(np.mean(self.test.decisions == self.y_test))


def prepare(name: str, seed: int, n_trees: int, folder: Path) -> Case:
    """Train the model of one split, or take it from the cache.

    Parameters
    ----------
    name : str
        A key of `SETTINGS`.
    seed : int
        Number of the split; it draws which rows are trained on.
    n_trees : int
        Number of trees.
    folder : path
        Folder that keeps trained models.
    """
    import lightgbm

    setting = SETTINGS[name]
    table = data.load(name)
    if table.n_train is not None:
        known, test = np.arange(table.n_train), np.arange(table.n_train, len(table.y))
    else:
        known, test = data.split(len(table.y), (0.8, 0.2), 1000 + seed)
    known = np.random.default_rng(seed).permutation(known)
    train, calibration = known[: 6 * len(known) // 10], known[6 * len(known) // 10 :]

    def booster(n_estimators: int, rate: float) -> Any:
        return lightgbm.LGBMClassifier(
            n_estimators=n_estimators,
            max_depth=setting.depth,
            num_leaves=2**setting.depth - 1,
            learning_rate=rate,
            random_state=seed,
            n_jobs=1,
            verbose=-1,
        )

    path = folder / f"cascade-{name}-{seed}-{n_trees}-{lightgbm.__version__}.joblib"
    if not path.exists():
        X, y = table.X[train], table.y[train]
        columns = np.arange(X.shape[1])
        if setting.n_columns is not None:
            gain = booster(100, 0.1).set_params(importance_type="gain").fit(X, y)
            columns = np.sort(
                np.argsort(-gain.feature_importances_)[: setting.n_columns]
            )
        # The learning rate is chosen on a fifth of the rows to train on.
        cut = 4 * len(train) // 5
        X = np.ascontiguousarray(X[:, columns])
        scores = {
            rate: booster(n_trees, rate).fit(X[:cut], y[:cut]).score(X[cut:], y[cut:])
            for rate in RATES
        }
        rate = max(scores, key=lambda one: scores[one])
        model = booster(n_trees, rate).fit(X, y)
        X_test = np.ascontiguousarray(table.X[test][:, columns])
        smaller = {
            size: booster(size, max(rate, min(0.1, rate * n_trees / size)))
            .fit(X, y)
            .score(X_test, table.y[test])
            for size in SMALLER
            if size < n_trees
        }
        folder.mkdir(parents=True, exist_ok=True)
        joblib.dump((model, rate, columns, smaller), path)
        print(f"{name}, split {seed}: trained with rate {rate}", flush=True)
    model, rate, columns, smaller = joblib.load(path)
    forest = spinney.read_model(model)
    rows = {
        key: np.ascontiguousarray(table.X[part][:, columns])
        for key, part in (("train", train), ("cal", calibration), ("test", test))
    }
    return Case(
        model,
        rate,
        table_of(forest, forest.engine.rows(rows["train"])),
        table.y[train],
        rows["cal"],
        table_of(forest, forest.engine.rows(rows["cal"])),
        table.y[calibration],
        rows["test"],
        table_of(forest, forest.engine.rows(rows["test"])),
        table.y[test],
        smaller,
    )


# ------------------------------------------------------------------ measuring


def curve(
    case: Case, fit: Callable[[float], Any], levels: tuple[float, ...] = LEVELS
) -> list[dict[str, float]]:
    """Return trees, disagreement and accuracy on the test rows, level by level."""
    points = []
    for level in levels:
        decisions, n_asked = case.test.follow(fit(level))
        points.append(
            {
                "level": level,
                "trees": float(n_asked.mean()),
                "disagreement": float(np.mean(decisions != case.test.decisions)),
                "accuracy": float(np.mean(decisions == case.y_test)),
            }
        )
    return points


def methods_of(case: Case, seed: int, early_exit: str) -> dict[str, Any]:
    """Return for each method how it makes a rule that keeps a level on its rows.

    Orders that need rows get one half of the calibration rows, rules the other half;
    orders that need none leave all of them to the rule. Exit points are after 1, 2,
    ..., and then after every tenth tree more. The methods with a star are those of the
    papers: order and rule on the same rows, an exit point after every tree.
    """
    table, labels = case.calibration, case.labels_calibration
    first, second = data.split(table.n_rows, (0.5, 0.5), seed)
    half, other = table.take_rows(first), table.take_rows(second)
    points = spread_exit_points(table.n_trees)

    @cache
    def order_of(name: str) -> NDArray[np.int64]:
        return find_order(
            name,
            table.n_trees,
            table=half,
            labels=labels[first],
            max_disagreement=TARGET,
            early_exit=early_exit,
            rng=np.random.RandomState(seed),
        )

    @cache
    def ladder_of(order: str, rule: str) -> list[Callable[[], ExitRule]]:
        """Return what makes rules from cautious to bold, the same for all levels."""
        family = RuleFamily(rule, early_exit, None, is_random=order == "random")
        makers = family.ladder(
            rows_of(order),
            order_of(order),
            TARGET,
            points,
            np.random.RandomState(seed),
        )
        return [cache(make) for make in makers]

    def rows_of(order: str) -> ScoreTable:
        return table if order in ("natural", "random") else other

    def fitted(order: str, rule: str, level: float) -> ExitRule:
        rows, sequence = rows_of(order), order_of(order)
        if rule == PAPER:
            return fit_thresholds(
                rows, sequence, level, early_exit=early_exit, exit_points=points
            )
        if rule == "fan":
            return fit_fan(
                rows, sequence, level, early_exit=early_exit, exit_points=points
            )
        kept = boldest_on_rows(ladder_of(order, rule), rows, level)
        # Even the most cautious rule is too bold: no exit at all.
        nowhere = np.zeros(0)
        return kept or table.rule_of(sequence, points[:0], nowhere, nowhere)

    methods: dict[str, Any] = {
        "QWYC*": lambda level: qwyc(table, level, early_exit=early_exit),
        "Fan*": lambda level: fit_fan(
            table,
            find_order("individual_mse", table.n_trees, table=table, labels=labels),
            level,
            early_exit=early_exit,
        ),
    }
    for order in ORDERS:
        for rule in RULES:
            methods[f"{order}, {rule}"] = partial(fitted, order, rule)
    return methods


def trees_at(points: list[dict[str, float]], target: float = TARGET) -> float:
    """Return the trees evaluated where the held-out disagreement meets the target.

    Between two levels a straight line is drawn; NaN if the target is outside.
    """
    ordered = sorted(points, key=lambda point: point["disagreement"])
    found = [point["disagreement"] for point in ordered]
    if not found[0] <= target <= found[-1]:
        return float("nan")
    return float(np.interp(target, found, [point["trees"] for point in ordered]))


def promised(case: Case, seed: int) -> dict[str, dict[str, float]]:
    """Return what the classifier does with and without a confidence, at 0.5 %."""
    found = {}
    for rule in ("thresholds", "optimal"):
        for confidence in (None, 0.95):
            classifier = CascadeClassifier(
                FrozenEstimator(case.model),
                rule=rule,
                confidence=confidence,
                random_state=seed,
            )
            started = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SpinneyWarning)
                classifier.fit(case.X_calibration)
            seconds = time.process_time() - started
            labels, n_asked = classifier.predict_counted(case.X_test)
            found[f"{rule}, {confidence or 'no'} confidence"] = {
                "trees": float(n_asked.mean()),
                "disagreement": float(np.mean(labels != case.test.decisions)),
                "seconds": seconds,
            }
    return found


def measure(
    name: str, seeds: range, n_trees: int, folder: Path, quick: bool
) -> dict[str, Any]:
    """Return everything that tables and figures show about one data set.

    Parameters
    ----------
    name : str
        A key of `SETTINGS`.
    seeds : range
        The splits.
    n_trees, folder
        As in `prepare`.
    quick : bool
        Leave out what takes long.
    """
    found: dict[str, Any] = {"curves": [], "filter": [], "promised": [], "facts": []}
    for seed in seeds:
        started = time.perf_counter()
        case = prepare(name, seed, n_trees, folder)
        curves = {}
        for method, fit in methods_of(case, seed, "both").items():
            is_slow = method == "random, optimal"
            if not (quick and is_slow):
                levels = LEVELS_OF_RANDOM if is_slow else LEVELS
                curves[method] = curve(case, fit, levels)
        curves["smaller ensembles"] = [
            {"trees": float(size), "accuracy": score}
            for size, score in case.smaller.items()
        ]
        found["curves"].append(curves)
        filtering = methods_of(case, seed, "negative")
        found["filter"].append(
            {one: curve(case, filtering[one]) for one in REJECTING_EARLY}
        )
        found["promised"].append(promised(case, seed))
        clock = time.process_time()
        qwyc(case.train, TARGET)
        found["facts"].append(
            {
                "rate": case.rate,
                "accuracy": case.accuracy,
                "calibration_rows": case.calibration.n_rows,
                "test_rows": case.test.n_rows,
                "qwyc_rows": case.train.n_rows,
                "qwyc_seconds": time.process_time() - clock,
            }
        )
        if seed == seeds[0]:
            found["counts"] = _counts(case, seed, curves)
        seconds = time.perf_counter() - started
        print(f"{name}, split {seed}: {seconds:.0f} s", flush=True)
    return found


def _counts(case: Case, seed: int, curves: dict[str, Any]) -> dict[str, list[int]]:
    """Return trees per test row, at the level nearest to the target held out."""
    methods = methods_of(case, seed, "both")
    counts = {}
    for method in ("QWYC*", "Fan*", "qwyc, optimal", "natural, optimal"):
        near = min(curves[method], key=lambda p: abs(p["disagreement"] - TARGET))
        _, n_asked = case.test.follow(methods[method](near["level"]))
        counts[method] = n_asked.tolist()
    return counts


# ------------------------------------------------------------------ tables


def render(results: dict[str, Any], n_trees: int) -> str:
    """Return the tables as Markdown."""
    lines = [page.machine_line(), ""]
    for name, found in results.items():
        facts = found["facts"]
        n_seeds = len(facts)
        accuracy = 100 * np.mean([one["accuracy"] for one in facts])
        rates = sorted({one["rate"] for one in facts})
        lines += [
            f"### {name.capitalize()}: {n_trees} trees of depth "
            f"{SETTINGS[name].depth}, {n_seeds} splits",
            "",
            f"{facts[0]['calibration_rows']:,} rows to calibrate on, "
            f"{facts[0]['test_rows']:,} to test on; learning rate "
            f"{', '.join(map(str, rates))}; accuracy of all trees {accuracy:.2f} %. "
            f"Algorithm 1 on {facts[0]['qwyc_rows']:,} rows takes "
            f"{np.median([one['qwyc_seconds'] for one in facts]):.1f} s.",
            "",
            "| order, rule | trees at 0.5 % held out | at a level of 0.45 %: trees | "
            "held out | accuracy |",
            "|---|---:|---:|---:|---:|",
        ]
        for method in found["curves"][0]:
            if method != "smaller ensembles":
                lines.append(_row(method, [one[method] for one in found["curves"]]))
        lines += ["", "Smaller ensembles, evaluated in full: " + _smaller(found) + "."]
        lines += ["", "| `CascadeClassifier` at 0.5 % | trees | held out | fit |"]
        lines += ["|---|---:|---:|---:|"]
        for method in found["promised"][0]:
            runs = [one[method] for one in found["promised"]]
            lines.append(
                f"| {method} | {_mean(runs, 'trees', 1, 1)} | "
                f"{_mean(runs, 'disagreement', 100, 2)} % | "
                f"{np.median([run['seconds'] for run in runs]):.1f} s |"
            )
        lines += ["", "| reject early, score the rest | trees at 0.5 % held out |"]
        lines += ["|---|---:|"]
        for method in found["filter"][0]:
            at = [trees_at(one[method]) for one in found["filter"]]
            lines.append(f"| {method} | {_spread(at)} |")
        lines.append("")
    return "\n".join(lines)


def _row(method: str, runs: list[list[dict[str, float]]]) -> str:
    middle = [min(run, key=lambda point: abs(point["level"] - 0.0045)) for run in runs]
    if abs(middle[0]["level"] - 0.0045) > 1e-9:
        rest = " |  |  |"
    else:
        rest = (
            f" {_mean(middle, 'trees', 1, 1)} | "
            f"{_mean(middle, 'disagreement', 100, 2)} % | "
            f"{_mean(middle, 'accuracy', 100, 2)} % |"
        )
    at = [trees_at(run) for run in runs]
    return f"| {method} | {_spread(at)} |{rest}"


def _spread(values: list[float]) -> str:
    """Return mean and standard deviation, or that the target was not reached."""
    known = [value for value in values if np.isfinite(value)]
    if not known:
        return "not reached"
    text = f"{np.mean(known):.1f}"
    if len(known) > 1:
        text += f" ± {np.std(known, ddof=1):.1f}"
    missing = len(values) - len(known)
    return f"{text} (not reached in {missing})" if missing else text


def _mean(runs: list[dict[str, float]], key: str, scale: float, digits: int) -> str:
    return f"{scale * np.mean([run[key] for run in runs]):.{digits}f}"


def _smaller(found: dict[str, Any]) -> str:
    runs = [one["smaller ensembles"] for one in found["curves"]]
    return ", ".join(
        f"{points[0]['trees']:.0f} trees "
        f"{100 * np.mean([point['accuracy'] for point in points]):.2f} %"
        for points in zip(*runs, strict=True)
    )


# ------------------------------------------------------------------ figures


def draw(results: dict[str, Any], n_trees: int) -> None:
    """Draw all figures into the folder ``figures``."""
    start_drawing()
    shown = ("QWYC*", "Fan*", "qwyc, optimal", "qwyc, thresholds", f"qwyc, {PAPER}")
    shown += ("natural, optimal", f"natural, {PAPER}", "natural, fan")
    shown += (f"random, {PAPER}",)
    save_figure(_curves(results, shown, "accuracy"), "cascade-1-accuracy")
    save_figure(_curves(results, shown, "disagreement"), "cascade-3-disagreement")
    save_figure(_histograms(results, n_trees), "cascade-5-6-histograms")


def _curves(results: dict[str, Any], shown: tuple[str, ...], what: str) -> Any:
    """Draw Figure 1 or 3: accuracy or disagreement over the trees evaluated."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(results), figsize=(11, 4.2), layout="constrained"
    )
    for ax, (name, found) in zip(np.atleast_1d(axes), results.items(), strict=True):
        for k, method in enumerate(shown):
            runs = [one[method] for one in found["curves"]]
            trees = np.mean([[p["trees"] for p in run] for run in runs], axis=0)
            values = 100 * np.mean([[p[what] for p in run] for run in runs], axis=0)
            style = "-" if method.endswith("*") else "--"
            ax.plot(trees, values, style, marker=".", color=f"C{k}", label=method)
        if what == "accuracy":
            small = [one["smaller ensembles"] for one in found["curves"]]
            sizes = [point["trees"] for point in small[0]]
            scores = [[p["accuracy"] for p in run] for run in small]
            ax.plot(
                sizes, 100 * np.mean(scores, axis=0), ":k", label="smaller ensembles"
            )
            ax.axhline(100 * found["facts"][0]["accuracy"], color="0.7", linewidth=0.8)
            ax.set_ylabel("accuracy in %, held out")
        else:
            ax.axhline(100 * TARGET, color="0.7", linewidth=0.8)
            ax.set_ylim(0.0, 2.5)
            ax.set_ylabel("disagreement in %, held out")
        ax.set_xlabel("mean trees evaluated")
        ax.set_title(name.capitalize())
        ax.grid(alpha=0.2)
    np.atleast_1d(axes)[0].legend(fontsize=8)
    return figure


def _histograms(results: dict[str, Any], n_trees: int) -> Any:
    """Draw Figures 5 and 6: how many rows need how many trees."""
    from matplotlib import pyplot

    from spinney.cascade.plotting import plot_counts

    methods = list(next(iter(results.values()))["counts"])
    figure, axes = pyplot.subplots(
        len(results), len(methods), figsize=(12, 5), layout="constrained", sharey="row"
    )
    for row, (name, found) in zip(np.atleast_2d(axes), results.items(), strict=True):
        for ax, method in zip(row, methods, strict=True):
            plot_counts(np.array(found["counts"][method]), n_trees, ax)
            ax.set_yscale("log")
            ax.set_title(f"{name.capitalize()}: {method}")
    return figure


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.cascade", description=__doc__
    )
    add = parser.add_argument
    add("--seeds", type=int, default=3, help="number of splits, default 3")
    add("--datasets", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    add("--trees", type=int, default=500)
    add("--quick", action="store_true", help="60 trees, one split, nothing written")
    add(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "spinney-papers",
        help="folder that keeps the trained models and the results",
    )
    options = parser.parse_args()
    n_trees, n_seeds = (60, 1) if options.quick else (options.trees, options.seeds)
    results = {
        name: measure(name, range(n_seeds), n_trees, options.cache, options.quick)
        for name in options.datasets
    }
    text = render(results, n_trees)
    print(text)
    if options.quick or set(results) != set(SETTINGS):
        return
    options.cache.mkdir(parents=True, exist_ok=True)
    (options.cache / "cascade.json").write_text(json.dumps(results))
    draw(results, n_trees)
    page.put_results(page.FOLDER / "cascade.md", text)


if __name__ == "__main__":
    main()
