"""``spinney predict``: answer the rows of a table, however long it is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from spinney.base.wording import percent
from spinney.cli.answers import ENDINGS, Columns, write_answers
from spinney.cli.console import (
    Debug,
    Jobs,
    OutputAsJson,
    Quiet,
    output,
    plain_errors,
    progress_bar,
    tell_written,
)
from spinney.cli.models import Data, Trust, load_anything, table_for, without_label
from spinney.cli.outputs import check_outputs, check_suffix
from spinney.cli.tables import Part
from spinney.forest import Forest
from spinney.readers import read_model
from spinney.readers.wrapped import parted, through_steps

Predict = Callable[[Any], Columns]


@dataclass
class Tally:
    """What there is to tell about the rows answered so far."""

    begin: float = field(default_factory=time.perf_counter)
    n_rows: int = 0
    n_evaluated: int = 0
    n_labelled: int = 0
    n_wrong: int = 0
    cost: float = 0.0

    def add(self, columns: Columns, labels: NDArray[Any] | None) -> None:
        """Count one more part."""
        answers = next(iter(columns.values()))
        self.n_rows += len(answers)
        self.n_evaluated += int(columns["trees_asked"].sum())
        if "feature_cost" in columns:
            self.cost += float(columns["feature_cost"].sum())
        if labels is not None and "label" in columns:
            known = ~without_label(labels)
            self.n_labelled += int(known.sum())
            self.n_wrong += int((answers[known] != labels[known]).sum())

    @property
    def seconds(self) -> float:
        """Seconds since the beginning, never quite none."""
        return max(time.perf_counter() - self.begin, 1e-9)


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            help="File of spinney accelerate, or any other model file; a pickle with "
            "--trust.",
            metavar="MODEL",
            show_default=False,
        ),
    ],
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Write the answers here: .parquet, .csv, .arrow, .feather or .npz.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            help="Column that holds labels and is no feature, if it is there; then "
            "errors are counted too."
        ),
    ] = None,
    n_jobs: Jobs = None,
    trust: Trust = False,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Answer the rows of a table: their labels, and the trees evaluated for each.

    Rows are read, answered and written some at a time, so DATA may be larger than
    memory. The file with the answers appears when it is whole; until then, one of the
    same name stays as it is.
    """
    with plain_errors(debug):
        console = output(quiet=quiet or as_json)
        check_suffix(out, "The output", ENDINGS)
        check_outputs(out, inputs=(model, data))
        if find_spec("pyarrow") is None and out.suffix != ".npz":
            msg = (
                f"Writing {out.name!r} needs pyarrow, which is not installed. Install "
                'the extra "tables": python -m pip install "spinney[tables]"; NPZ '
                "files are written without."
            )
            raise ImportError(msg)
        loaded = load_anything(model, trust=trust)
        table = table_for(loaded, data, target, needs_target=False)
        predict_part, n_trees = _predicting(loaded, n_jobs, table.as_frame)
        tally = Tally()
        with progress_bar(console, "predicting") as show:
            write_answers(out, _answered(predict_part, table.parts(), tally, show))
        result = _result(tally, n_trees, out)
        if as_json:
            typer.echo(json.dumps(result))
        _show(result, console)
        tell_written(console, out)


def _predicting(loaded: Any, n_jobs: int | None, as_frame: bool) -> tuple[Predict, int]:
    """Return what answers rows, and the number of trees behind it."""
    combined = getattr(loaded, "combined_", None) is not None
    ours = combined or isinstance(getattr(loaded, "forest_", None), Forest)
    steps, ensemble = parted(loaded)
    forest: Forest = loaded.forest_ if ours else read_model(ensemble)
    n_trees = loaded.n_trees_ if combined else forest.n_trees
    classes = getattr(loaded if combined else forest, "classes_", None)
    if ours:
        if hasattr(loaded, "n_jobs"):
            loaded.n_jobs = n_jobs
        # Columns have been chosen by name already, and arrays come without names.
        if hasattr(loaded, "feature_names_in_") and not as_frame:
            del loaded.feature_names_in_

    def predict_part(rows: Any) -> Columns:
        if hasattr(loaded, "predict_counted"):
            labels, n_evaluated = loaded.predict_counted(rows)
            columns = _named(labels, classes)
            return columns | {"trees_asked": n_evaluated.astype(np.int32)}
        if ours:
            answers = loaded.predict(rows)
        else:
            answers = forest.predict(through_steps(rows, steps), n_jobs)
        columns = _named(answers, classes)
        columns["trees_asked"] = np.full(len(rows), n_trees, dtype=np.int32)
        if hasattr(loaded, "feature_cost"):
            columns["feature_cost"] = loaded.feature_cost(rows)
        return columns

    return predict_part, n_trees


def _named(answers: NDArray[Any], classes: Any) -> Columns:
    """Return answers as columns: labels, or what a regressor predicts."""
    name = "prediction" if classes is None else "label"
    if answers.ndim == 1:
        return {name: answers}
    return {f"{name}_{k}": column for k, column in enumerate(answers.T)}


def _answered(
    predict_part: Predict,
    parts: Iterator[Part],
    tally: Tally,
    show: Callable[..., None],
) -> Iterator[Columns]:
    """Yield the answers of each part, and keep count."""
    for part in parts:
        if tally.n_rows == 0:
            # The first call loads compiled code; the clock starts after that.
            predict_part(part.rows[:1])
            tally.begin = time.perf_counter()
        columns = predict_part(part.rows)
        tally.add(columns, part.labels)
        yield columns
        rate = tally.n_rows / tally.seconds
        show(part.share, f"{tally.n_rows:,} rows, {rate:,.0f} per second")


def _result(tally: Tally, n_trees: int, out: Path) -> dict[str, Any]:
    """Return all that is to be told, once the last row is written."""
    labelled, seconds = tally.n_labelled, tally.seconds
    return {
        "rows": tally.n_rows,
        "seconds": seconds,
        "rows_per_second": tally.n_rows / seconds,
        "trees": n_trees,
        "trees_asked": tally.n_evaluated / tally.n_rows,
        "feature_cost": tally.cost / tally.n_rows if tally.cost else None,
        "rows_with_label": labelled,
        "error": tally.n_wrong / labelled if labelled else None,
        "out": str(out),
    }


def _show(result: dict[str, Any], console: Console) -> None:
    """Print the result for people."""
    n_rows, n_trees = result["rows"], result["trees"]
    console.print(
        f"{n_rows:,} rows in {result['seconds']:.2f} s, "
        f"{result['rows_per_second']:,.0f} per second."
    )
    evaluated = result["trees_asked"]
    if evaluated == n_trees:
        console.print(f"All {n_trees:,} trees were evaluated for every row.")
    else:
        console.print(
            f"{evaluated:,.1f} of {n_trees:,} trees evaluated per row on average."
        )
    if result["feature_cost"] is not None:
        console.print(f"Mean feature cost of a row: {result['feature_cost']:.4g}.")
    if result["error"] is not None:
        labelled = result["rows_with_label"]
        which = "" if labelled == n_rows else f" of the {labelled:,} rows with a label"
        console.print(f"Error against the labels: {percent(result['error'])}{which}.")
