"""``spinney warm-up``: compile ahead of the first prediction."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import typer
from rich.table import Table

from spinney.cli.console import Debug, OutputAsJson, Quiet, output, plain_errors
from spinney.errors import SpinneyWarning


def warm_up(
    as_json: OutputAsJson = False, quiet: Quiet = False, debug: Debug = False
) -> None:
    """Compile all kernels now, so that no later call has to wait for it.

    Meant for the build of a container image: the compiled kernels are kept on disk
    and loaded by every process that runs later on the same kind of processor.
    """
    with plain_errors(debug):
        console = output(quiet=quiet or as_json)
        start = time.perf_counter()
        console.print("Compiling; on a new machine this takes a minute or two ...")
        from spinney import runtime

        kernels = runtime.warm_up()
        for name, use in _uses().items():
            begin = time.perf_counter()
            use()
            kernels.append((name, time.perf_counter() - begin))
        seconds = time.perf_counter() - start
        folders = _cache_folders()
        if as_json:
            document = {
                "kernels": [{"name": name, "seconds": took} for name, took in kernels],
                "seconds": seconds,
                "cache": folders,
            }
            typer.echo(json.dumps(document, indent=2))
        table = Table("kernel")
        table.add_column("seconds", justify="right")
        for name, took in kernels:
            table.add_row(name, f"{took:.2f}")
        console.print(table)
        console.print(f"{len(kernels)} kernels ready after {seconds:.1f} s.")
        for folder in folders:
            console.print(f"Kept in {folder}", soft_wrap=True)
        if not folders:
            console.print("Nothing was compiled: NUMBA_DISABLE_JIT is set.")


def _uses() -> dict[str, Callable[[], object]]:
    """Return small uses of everything that is compiled, by name."""
    import numpy as np
    from sklearn.datasets import load_iris
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    import spinney
    from spinney.sequential.optimal import OBJECTIVES

    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    two = y < 2
    models = {
        "two classes": (RandomForestClassifier(5).fit(X[two], y[two]), X[two], y[two]),
        "several classes": (RandomForestClassifier(5).fit(X, y), X, y),
    }
    uses: dict[str, Callable[[], object]] = {}
    for objective in OBJECTIVES:
        uses[f"strategies, {objective}"] = partial(
            spinney.optimal_strategy, 11, 0.01, objective=objective
        )

    def use(make: Callable[[Any], Any], model: Any, rows: Any, labels: Any) -> None:
        with warnings.catch_warnings():
            # So few rows promise little, and nobody will use this.
            warnings.simplefilter("ignore", SpinneyWarning)
            classifier = make(spinney.read_model(model)).fit(rows, labels)
        classifier.predict(rows)
        if hasattr(classifier, "session"):
            classifier.session(rows[0]).step(1)
            classifier.predict_within(rows, 1.0)

    # A bound that so few rows can establish: candidates are tried, and all is compiled.
    settings: dict[str, Any] = {"max_disagreement": 0.2, "random_state": 0}
    kinds: dict[str, Callable[[Any], Any]] = {
        "hard votes": partial(
            spinney.SequentialVotingClassifier, voting="hard", **settings
        ),
        "soft votes": partial(
            spinney.SequentialVotingClassifier, voting="soft", **settings
        ),
        "cascade": partial(spinney.CascadeClassifier, **settings),
        "anytime": spinney.AnytimeForestClassifier,
    }
    if find_spec("ortools") is not None:
        kinds["pruning"] = partial(spinney.FeatureCostPruner, trade_off=0.001)
    for words, example in models.items():
        for kind, make in kinds.items():
            uses[f"{kind}, {words}"] = partial(use, make, *example)
    # Histogram boosting compares float64, for which steps are compiled once more.
    boosted = HistGradientBoostingClassifier(max_iter=2).fit(X, y)
    uses["anytime, float64 rows"] = partial(
        use, spinney.AnytimeForestClassifier, boosted, X.astype(np.float64), y
    )
    uses["budgeted forests"] = partial(
        spinney.BudgetedForestClassifier(budget=4.0, max_trees=2).fit, X, y
    )
    return uses


def _cache_folders() -> list[str]:
    """Return where Numba keeps the compiled kernels.

    Only Numba knows: it depends on NUMBA_CACHE_DIR and on whether the folder of the
    source can be written to.
    """
    from numba.core.dispatcher import Dispatcher

    return sorted(
        {
            thing.stats.cache_path
            for name, module in list(sys.modules.items())
            if name.startswith("spinney.")
            for thing in vars(module).values()
            if isinstance(thing, Dispatcher) and thing.stats.cache_path
        }
    )
