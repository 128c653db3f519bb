"""``spinney bench``: one model in several engines, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as TextTable

from spinney.base.wording import number, percent
from spinney.calibration.bounds import check_max_disagreement
from spinney.cli.console import (
    PROMISE_NOT_KEPT,
    Debug,
    Jobs,
    OutputAsJson,
    Quiet,
    Seed,
    complain,
    output,
    plain_errors,
    progress_bar,
)
from spinney.cli.conversions import CannotTakePartError, Predict
from spinney.cli.models import (
    Data,
    Model,
    Trust,
    check_inputs,
    is_own_file,
    load_whole_model,
    table_for,
)
from spinney.cli.peers import PEERS, Subject, library_of, original_of
from spinney.cli.tables import Table
from spinney.errors import InvalidArgumentError
from spinney.forest import Forest
from spinney.readers import read_model

# Rows that are read at most, rows of a batch, and rows that come one by one.
MOST_ROWS = 100_000
BATCH = 10_000
SINGLE_ROWS = 200
# A peer that predicts a larger share of the rows differently runs another model.
MOST_DIFFERENT = 0.01

ALL_TREES = "spinney, all trees"
EARLY = "spinney, early exit"


@dataclass
class Engine:
    """An engine that runs the model, and what came out.

    Parameters
    ----------
    name : str
        What it is called in the table.
    predict : callable
        Predicts a batch.
    trees : float
        Trees evaluated per row.
    dtype : dtype
        Type of rows that it takes without converting them.
    is_label : bool
        Whether the predictions are labels, not probabilities.
    predict_one : callable or None
        Predicts a single row; None passes a batch of one row.
    """

    name: str
    predict: Predict
    trees: float
    dtype: Any
    is_label: bool = False
    predict_one: Callable[[NDArray[np.floating]], Any] | None = None
    n_differ: int = field(default=0, init=False)
    batch: float = field(default=0.0, init=False)
    single: float = field(default=0.0, init=False)

    def rows(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return rows in the type that this engine takes."""
        return np.ascontiguousarray(rows, dtype=self.dtype)


def bench(
    model: Model,
    data: Data,
    target: Annotated[
        str | None,
        typer.Option(help="Column with the labels. It is never a feature."),
    ] = None,
    max_disagreement: Annotated[
        float,
        typer.Option(help="Share of rows that early exit may predict differently."),
    ] = 1e-3,
    seconds: Annotated[
        float, typer.Option(help="Time to measure for, all engines together.")
    ] = 10.0,
    seed: Seed = 0,
    n_jobs: Jobs = None,
    trust: Trust = False,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Time a model in spinney, in its own library and in all other installed engines.

    Early exit is fitted to one half of the rows of DATA, and everything is timed
    on the other. The labels of every engine are compared first. Engines take turns,
    and medians are reported: for batches, and for one row at a time.
    """
    with plain_errors(debug, quiet):
        console = output(quiet=quiet or as_json)
        if not 0 < seconds < float("inf"):
            msg = f"--seconds must be above 0, got {seconds:g}."
            raise InvalidArgumentError(msg)
        check_max_disagreement(max_disagreement, "--max-disagreement")
        check_inputs(model, data, trust=trust)
        trained = load_whole_model(model, trust=trust)
        rows = _some_rows(table_for(trained, data, target, needs_target=False))
        result = _measured(
            console,
            trained,
            model,
            rows,
            max_disagreement=max_disagreement,
            seconds=seconds,
            seed=seed,
            n_jobs=n_jobs,
        )
        if as_json:
            typer.echo(json.dumps(result))
        _show(result, console)
        wrong = result["engines"][0]["labels_differ"]
        if wrong:
            complain(
                f"With all trees, spinney predicts {wrong:,} of {result['rows']:,} "
                f"rows differently than {result['original']}. Please report this as a "
                "bug."
            )
            raise typer.Exit(PROMISE_NOT_KEPT)


def _some_rows(table: Table) -> NDArray[np.floating]:
    """Return the first rows of a table, as many as are needed."""
    parts: list[NDArray[np.floating]] = []
    for part in table.parts():
        parts.append(part.rows)
        if sum(map(len, parts)) >= MOST_ROWS:
            break
    return np.concatenate(parts)[:MOST_ROWS]


def _measured(
    console: Console,
    trained: Any,
    path: Path,
    rows: NDArray[np.floating],
    *,
    max_disagreement: float,
    seconds: float,
    seed: int,
    n_jobs: int | None,
) -> dict[str, Any]:
    """Prepare all engines, compare their predictions, time them; return the results."""
    from joblib import effective_n_jobs
    from threadpoolctl import threadpool_limits

    import spinney
    from spinney.calibration.row_splits import split_rows

    forest = read_model(trained)
    model = None if isinstance(trained, Forest) else trained
    library = "" if is_own_file(path) else library_of(forest, model)
    n_threads = effective_n_jobs(n_jobs)
    subject = Subject(model, path, library, forest, n_threads)
    # The type in which the model's own library compares.
    own = np.dtype(forest.input_dtype)
    fitted_on, timed_on = split_rows(len(rows), (1.0, 1.0), seed)
    timed = rows[timed_on[:BATCH]]
    with (
        subject.folder,
        threadpool_limits(n_threads),
        progress_bar(console, "benchmarking") as show,
    ):
        fast = spinney.accelerate(
            trained,
            rows[fitted_on],
            max_disagreement=max_disagreement,
            random_state=seed,
            n_jobs=n_jobs,
            verbose=lambda share: show(0.3 * share, "fitting"),
        )
        n_trees = forest.n_trees
        n_evaluated = float(fast.predict_counted(timed)[1].mean())
        engines = [
            Engine(
                ALL_TREES,
                lambda given: forest.predict(given, n_jobs),
                n_trees,
                own,
                is_label=True,
                predict_one=forest.predictor(),
            ),
            Engine(
                EARLY,
                fast.predict,
                n_evaluated,
                own,
                is_label=True,
                predict_one=fast.predictor(),
            ),
        ]
        failed: dict[str, str] = {}
        reference = forest.predict(timed, n_jobs)
        original = _prepared_original(subject, failed)
        if original is not None:
            reference = _labels(original, subject, timed)
            engines.append(original)
        for engine in engines:
            engine.n_differ = int((_labels(engine, subject, timed) != reference).sum())
        engines += _prepared_peers(
            subject, timed, reference, failed, lambda name: show(0.3, name)
        )
        _time(engines, timed, seconds, lambda share: show(0.3 + 0.7 * share, "timing"))
    absent = sorted(
        {
            peer.name
            for peer in PEERS
            if library in peer.libraries and not peer.is_installed
        }
    )
    return {
        "rows": len(timed),
        "rows_fitted": len(fitted_on),
        "threads": n_threads,
        "max_disagreement": max_disagreement,
        "trees": n_trees,
        "early_exit": fast.acceleration_.chosen.name,
        "original": None if original is None else original.name,
        "engines": [_engine_facts(engine) for engine in engines],
        "failed": failed,
        "not_installed": absent,
    }


def _engine_facts(engine: Engine) -> dict[str, Any]:
    return {
        "name": engine.name,
        "microseconds_batch": 1e6 * engine.batch,
        "microseconds_single": 1e6 * engine.single,
        "labels_differ": engine.n_differ,
        "n_evaluated": engine.trees,
    }


def _prepared_original(subject: Subject, failed: dict[str, str]) -> Engine | None:
    """Return the library that the model comes from, or note why there is none."""
    try:
        predict, is_label = original_of(subject)
    # A library may fail in any way; the comparison goes on and says how.
    except Exception as error:
        failed[subject.library_name] = _reason(error)
        return None
    forest = subject.forest
    dtype = np.dtype(forest.input_dtype)
    return Engine(subject.library_name, predict, forest.n_trees, dtype, is_label)


def _prepared_peers(
    subject: Subject,
    timed: NDArray[np.floating],
    reference: NDArray[Any],
    failed: dict[str, str],
    show: Callable[[str], None],
) -> list[Engine]:
    """Return the peers that predict as the model does, or note why they do not."""
    engines = []
    for peer in PEERS:
        if subject.library not in peer.libraries or not peer.is_installed:
            continue
        show(peer.name)
        try:
            predict = peer.adapt(subject)
            engine = Engine(peer.name, predict, subject.forest.n_trees, peer.dtype)
            n_differ = int((_labels(engine, subject, timed) != reference).sum())
            if n_differ > MOST_DIFFERENT * len(timed):
                msg = f"predicts {n_differ:,} of {len(timed):,} rows differently"
                raise CannotTakePartError(msg)
        except Exception as error:
            failed[peer.name] = _reason(error)
            continue
        engine.n_differ = n_differ
        engines.append(engine)
    return engines


def _labels(
    engine: Engine, subject: Subject, rows: NDArray[np.floating]
) -> NDArray[Any]:
    """Return the labels that an engine gives to rows."""
    answers = engine.predict(engine.rows(rows))
    return np.ravel(answers) if engine.is_label else subject.labels(answers)


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    if isinstance(error, CannotTakePartError):
        return lines[0]
    return f"{type(error).__name__}: {lines[0][:200]}"


def _time(
    engines: list[Engine],
    timed: NDArray[np.floating],
    seconds: float,
    show: Callable[[float], None],
) -> None:
    """Time all engines, half of the time in batches, half row by row."""
    from spinney.acceleration.timing import Timer, run_in_turn

    batch, single = [], []
    for engine in engines:
        rows = engine.rows(timed)
        batch.append(Timer(engine.predict, [rows]))
        few = rows[:SINGLE_ROWS]
        if engine.predict_one is not None:
            single.append(Timer(engine.predict_one, list(few)))
        else:
            single.append(Timer(engine.predict, list(few[:, None, :])))
    run_in_turn(batch, seconds / 2, on_round=lambda share: show(share / 2))
    run_in_turn(single, seconds / 2, on_round=lambda share: show(0.5 + share / 2))
    for engine, many, one in zip(engines, batch, single, strict=True):
        engine.batch = many.median / len(timed)
        engine.single = one.median


def _show(result: dict[str, Any], console: Console) -> None:
    """Print the result for people."""
    threads = "1 thread" if result["threads"] == 1 else f"{result['threads']} threads"
    title = f"Microseconds per row, {threads}, medians, {result['rows']:,} rows"
    table = TextTable(title=title, title_justify="left")
    table.add_column("engine", no_wrap=True)
    for heading in ("batch", "×", "single", "×", "differ", "trees"):
        table.add_column(heading, justify="right")
    by_name = {engine["name"]: engine for engine in result["engines"]}
    base = by_name.get(result["original"], result["engines"][0])
    for engine in result["engines"]:
        cells = [engine["name"]]
        for kind in ("batch", "single"):
            spent = engine[f"microseconds_{kind}"]
            ratio = base[f"microseconds_{kind}"] / spent
            cells += [number(spent), number(ratio)]
        cells += [f"{engine['labels_differ']:,}", f"{engine['n_evaluated']:,.1f}"]
        table.add_row(*cells)
    console.print(table)
    console.print(
        f"×: times as fast as {base['name']}. differ: labels other than those of "
        f"{result['original'] or 'all trees'}. single: rows that come one at a time. "
        f"Early exit ({result['early_exit']}) was fitted to "
        f"{result['rows_fitted']:,} other rows and allowed "
        f"{percent(result['max_disagreement'])} of labels to differ."
    )
    for name, reason in result["failed"].items():
        console.print(f"Not timed: {name}: {reason}", markup=False)
    if result["not_installed"]:
        console.print(f"Not installed: {', '.join(result['not_installed'])}")
