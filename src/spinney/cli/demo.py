"""``spinney demo``: read a forest, compare answers and time, then ask fewer trees."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from spinney.cli.console import (
    PROMISE_NOT_KEPT,
    Debug,
    OutputAsJson,
    Quiet,
    complain,
    output,
    plain_errors,
)

N_TREES = 101
N_ROWS = 20_000
N_SINGLE_ROWS = 40
N_REPEATS = 3
MAX_DISAGREEMENT = 0.005


def demo(
    as_json: OutputAsJson = False, quiet: Quiet = False, debug: Debug = False
) -> None:
    """Compare spinney with scikit-learn on a small forest, in a few seconds.

    Trains a random forest on the handwritten digits that come with scikit-learn,
    reads it, checks that every answer is the same, and measures both. Then trees are
    asked only until the answer is as good as sure. Nothing is downloaded.
    """
    with plain_errors(debug):
        console = output(quiet=quiet or as_json)
        result = _measure(console)
        if as_json:
            typer.echo(json.dumps(result, indent=2))
        _show(result, console)
        if result["rows_that_differ"]:
            complain(
                f"{result['rows_that_differ']:,} of {result['rows']:,} answers differ "
                "from scikit-learn's. Please report this as a bug."
            )
            raise typer.Exit(PROMISE_NOT_KEPT)


def _measure(console: Console) -> dict[str, Any]:
    """Train, read, compare and time; return all that is to be told."""
    import numpy as np
    import sklearn
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.frozen import FrozenEstimator

    import spinney

    digits, labels = load_digits(return_X_y=True)
    console.print(f"Training a random forest of {N_TREES} trees on the digits ...")
    # There are only 1,797 digits. A third is to train on; from the others, more rows
    # are drawn, with noise, so that rows take different ways through the trees.
    random = np.random.default_rng(0)
    shuffled = random.permutation(len(digits))
    trained_on, calibrated_on, asked_about = np.array_split(shuffled, 3)
    model = RandomForestClassifier(N_TREES, random_state=0)
    model.fit(digits[trained_on], labels[trained_on])

    def drawn(some: Any, n_rows: int) -> Any:
        chosen = digits[some[random.integers(len(some), size=n_rows)]]
        noisy = chosen + random.normal(0.0, 2.0, chosen.shape)
        return noisy.astype(np.float32)

    rows = drawn(asked_about, N_ROWS)

    console.print(
        "Reading it and asking for the first time (on a new machine this compiles, for "
        "up to a minute) ..."
    )
    forest = spinney.read_model(model)
    start = time.perf_counter()
    answers = forest.predict(rows)
    ask_one = forest.predictor()
    ask_one(rows[0])
    first_call = time.perf_counter() - start

    console.print("Finding out when it is safe to stop asking ...")
    quick = spinney.SequentialVotingClassifier(
        FrozenEstimator(model), max_disagreement=MAX_DISAGREEMENT, random_state=0
    ).fit(drawn(calibrated_on, N_ROWS // 4))
    early, n_asked = quick.predict_counted(rows)
    ask_one_early = quick.predictor()
    ask_one_early(rows[0])

    console.print(f"Comparing answers and time on {N_ROWS:,} rows ...")
    differ = answers != model.predict(rows)
    differ |= answers != np.array([ask_one(row) for row in rows])

    batch = _comparison(
        _seconds_per_call(model.predict, [rows]) / N_ROWS,
        _seconds_per_call(forest.predict, [rows]) / N_ROWS,
        _seconds_per_call(quick.predict, [rows]) / N_ROWS,
    )
    few = rows[:N_SINGLE_ROWS]
    one_row = _comparison(
        _seconds_per_call(model.predict, few.reshape(N_SINGLE_ROWS, 1, -1)),
        _seconds_per_call(ask_one, few),
        _seconds_per_call(ask_one_early, few),
    )
    return {
        "spinney": spinney.__version__,
        "scikit_learn": sklearn.__version__,
        "trees": forest.n_trees,
        "nodes": forest.n_nodes,
        "features": forest.n_features,
        "classes": len(model.classes_),
        "rows": N_ROWS,
        "rows_that_differ": int(differ.sum()),
        "first_call_seconds": first_call,
        "early_stopping": {
            "max_disagreement": MAX_DISAGREEMENT,
            "disagreement": float((early != answers).mean()),
            "trees_asked": float(n_asked.mean()),
        },
        "batch": batch,
        "single_row": one_row,
    }


def _seconds_per_call(ask: Callable[[Any], object], inputs: Iterable[Any]) -> float:
    """Return the seconds a call takes: the quickest of a few, averaged over `inputs`.

    The quickest and not the median: on a busy machine a call of milliseconds is often
    interrupted and a call of microseconds hardly ever, which would flatter spinney.
    """
    passes = [[_seconds(ask, x) for x in inputs] for _ in range(N_REPEATS)]
    return statistics.fmean(map(min, zip(*passes, strict=True)))


def _seconds(ask: Callable[[Any], object], x: Any) -> float:
    start = time.perf_counter()
    ask(x)
    return time.perf_counter() - start


def _comparison(scikit_learn: float, full: float, early: float) -> dict[str, float]:
    return {
        "scikit_learn_microseconds_per_row": scikit_learn * 1e6,
        "all_trees_microseconds_per_row": full * 1e6,
        "early_stopping_microseconds_per_row": early * 1e6,
        "all_trees_ratio": scikit_learn / full,
        "early_stopping_ratio": scikit_learn / early,
    }


def _show(result: dict[str, Any], console: Console) -> None:
    """Print the result for people."""
    same = result["rows"] - result["rows_that_differ"]
    console.print(
        f"\nSame answer on {same:,} of {result['rows']:,} rows "
        f"({result['trees']} trees, {result['nodes']:,} nodes, "
        f"{result['classes']} classes)."
    )
    early = result["early_stopping"]
    console.print(
        f"Stopping early, {early['trees_asked']:.1f} of {result['trees']} trees were "
        f"asked on average. {early['disagreement']:.2%} of the answers then differ "
        f"from those of all trees; {early['max_disagreement']:.2%} were allowed."
    )
    title = f"Microseconds per row, one thread, quickest of {N_REPEATS}"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in ("all rows at once", "speed-up", "one row per call", "speed-up"):
        table.add_column(heading, justify="right")
    engines = {
        "scikit_learn": "scikit-learn",
        "all_trees": "spinney, all trees",
        "early_stopping": "spinney, stopping early",
    }
    for engine, words in engines.items():
        cells = []
        for kind in ("batch", "single_row"):
            ratio = result[kind].get(f"{engine}_ratio")
            cells.append(f"{result[kind][f'{engine}_microseconds_per_row']:,.1f}")
            cells.append("" if ratio is None else f"{ratio:,.1f}")
        table.add_row(words, *cells)
    console.print(table)
    console.print(
        "A third of the 1,797 digits were trained on. The rows are drawn from another "
        "third, with repetition and noise; when to stop was found out on the rest. One "
        "row per call is model.predict for scikit-learn and predictor(), which is made "
        "for that, for spinney."
    )
    console.print(
        f"The first call took {result['first_call_seconds']:.1f} s and is not counted: "
        "it compiles the kernels, or loads them if an earlier run has compiled them. "
        "To compile them ahead: spinney warm-up."
    )
