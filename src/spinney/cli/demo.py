"""``spinney demo``: read a forest, compare every answer, compare the time."""

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


def demo(
    as_json: OutputAsJson = False, quiet: Quiet = False, debug: Debug = False
) -> None:
    """Compare spinney with scikit-learn on a small forest, in a few seconds.

    Trains a random forest on the handwritten digits that come with scikit-learn,
    reads it, checks that every answer is the same, and measures both. Nothing is
    downloaded.
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

    import spinney

    digits, labels = load_digits(return_X_y=True)
    console.print(f"Training a random forest of {N_TREES} trees on the digits ...")
    model = RandomForestClassifier(N_TREES, random_state=0).fit(digits, labels)

    # There are only 1,797 digits: more rows to time are drawn from them, with noise,
    # so that rows take different ways through the trees.
    random = np.random.default_rng(0)
    drawn = digits[random.integers(len(digits), size=N_ROWS)]
    rows = (drawn + random.normal(0.0, 2.0, drawn.shape)).astype(np.float32)

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

    console.print(f"Comparing answers and time on {N_ROWS:,} rows ...")
    differ = answers != model.predict(rows)
    differ |= answers != np.array([ask_one(row) for row in rows])

    batch = _comparison(
        _seconds_per_call(model.predict, [rows]) / N_ROWS,
        _seconds_per_call(forest.predict, [rows]) / N_ROWS,
    )
    few = rows[:N_SINGLE_ROWS]
    one_row = _comparison(
        _seconds_per_call(model.predict, few.reshape(N_SINGLE_ROWS, 1, -1)),
        _seconds_per_call(ask_one, few),
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


def _comparison(scikit_learn: float, spinney: float) -> dict[str, float]:
    return {
        "scikit_learn_microseconds_per_row": scikit_learn * 1e6,
        "spinney_microseconds_per_row": spinney * 1e6,
        "ratio": scikit_learn / spinney,
    }


def _show(result: dict[str, Any], console: Console) -> None:
    """Print the result for people."""
    same = result["rows"] - result["rows_that_differ"]
    console.print(
        f"\nSame answer on {same:,} of {result['rows']:,} rows "
        f"({result['trees']} trees, {result['nodes']:,} nodes, "
        f"{result['classes']} classes)."
    )
    title = f"Microseconds per row, one thread, quickest of {N_REPEATS}"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in ("scikit-learn", "spinney", "times as fast"):
        table.add_column(heading, justify="right")
    kinds = {
        "batch": f"all {result['rows']:,} rows in one call",
        "single_row": "one row per call",
    }
    for kind, words in kinds.items():
        times = result[kind]
        table.add_row(
            words,
            f"{times['scikit_learn_microseconds_per_row']:,.1f}",
            f"{times['spinney_microseconds_per_row']:,.1f}",
            f"{times['ratio']:,.1f}",
        )
    console.print(table)
    console.print(
        "Every tree was asked for every row. The rows are the 1,797 digits, drawn with "
        "repetition and with noise added. One row per call is model.predict on the one "
        "side and forest.predictor(), which is made for that, on the other."
    )
    console.print(
        f"The first call took {result['first_call_seconds']:.1f} s and is not counted: "
        "it compiles the kernels, or loads them if an earlier run has compiled them. "
        "To compile them ahead: spinney warm-up."
    )
