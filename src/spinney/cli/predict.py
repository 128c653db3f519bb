"""``spinney predict``: predict the rows of a table, however long it is."""

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
from spinney.cli.column_names import check_columns
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
from spinney.cli.labels import one_set_of, warn_of_unknown_labels
from spinney.cli.models import (
    Data,
    Trust,
    check_inputs,
    check_table_of_own,
    load_anything,
    table_for,
    without_label,
)
from spinney.cli.outputs import check_outputs, check_suffix
from spinney.cli.tables import Part
from spinney.errors import InvalidArgumentError
from spinney.forest import Forest
from spinney.readers import read_model
from spinney.readers.wrapped import parted, through_steps

Predict = Callable[[Any], Columns]

# Columns of the output: trees evaluated, and what else is there for some models.
COUNTS, COST = "n_evaluated", "feature_cost"


@dataclass
class Tally:
    """Counts over the rows predicted so far.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,) or None
        The labels that the model knows, if it is a classifier of one label.
    """

    classes: NDArray[Any] | None = None
    begin: float = field(init=False, default_factory=time.perf_counter)
    n_rows: int = field(init=False, default=0)
    n_evaluated: int = field(init=False, default=0)
    n_labelled: int = field(init=False, default=0)
    n_wrong: int = field(init=False, default=0)
    n_unknown: int = field(init=False, default=0)
    cost: float = field(init=False, default=0.0)

    def add(self, columns: Columns, labels: NDArray[Any] | None) -> None:
        """Count one more part."""
        answers = next(iter(columns.values()))
        self.n_rows += len(answers)
        self.n_evaluated += int(columns[COUNTS].sum())
        if COST in columns:
            self.cost += float(columns[COST].sum())
        if labels is not None and "label" in columns:
            known = ~without_label(labels)
            self.n_labelled += int(known.sum())
            wrong = labels[known][answers[known] != labels[known]]
            self.n_wrong += len(wrong)
            if self.classes is not None:
                self.n_unknown += int(np.isin(wrong, self.classes, invert=True).sum())

    @property
    def seconds(self) -> float:
        """Seconds since the beginning, never quite none."""
        return max(time.perf_counter() - self.begin, 1e-9)


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            help="File written by spinney accelerate, or any other model file; a "
            "pickle with --trust.",
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
            help="Write predictions here: .parquet, .csv, .arrow, .feather or .npz.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            help="Column with the labels, to count errors. It is never a feature."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of DATA to write before the predictions, such as an id; "
            "repeat for several.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    proba: Annotated[
        bool,
        typer.Option(
            "--proba",
            help="Also write the probability of each class, in columns probability_...",
            metavar="",
        ),
    ] = False,
    n_jobs: Jobs = None,
    trust: Trust = False,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the rows of a table: their labels, and the trees evaluated for each.

    The output has the columns to --keep, then label (for a regressor prediction),
    n_evaluated, and with --proba one probability per class.

    Rows are read, predicted and written in chunks, so DATA may be larger than
    memory. The output appears when it is complete; until then, a file of the same name
    stays as it is.
    """
    with plain_errors(debug, quiet):
        console = output(quiet=quiet or as_json)
        check_suffix(out, "The output", ENDINGS)
        check_outputs(out, inputs=(model, data))
        check_inputs(model, data, trust=trust)
        kept = _checked_names(keep or [])
        check_columns(data, keep=kept)
        if find_spec("pyarrow") is None and out.suffix != ".npz":
            msg = (
                f"Writing {out.name!r} needs pyarrow, which is not installed. Install "
                'the extra "tables": python -m pip install "spinney[tables]"; NPZ '
                "files are written without."
            )
            raise ImportError(msg)
        check_table_of_own(model, data, target, kept)
        loaded = load_anything(model, trust=trust)
        table = table_for(
            loaded,
            data,
            target,
            needs_target=False,
            keep=kept,
            keep_texts=out.name.lower().endswith(".csv"),
        )
        predict_part, n_trees = _predicting(loaded, n_jobs, table.as_frame, proba)
        tally = Tally(one_set_of(getattr(loaded, "classes_", None)))
        with progress_bar(console, "predicting") as show:
            write_answers(out, _answered(predict_part, table.parts(), tally, show))
        result = _result(tally, n_trees, out)
        if as_json:
            typer.echo(json.dumps(result))
        _show(result, console)
        warn_of_unknown_labels(tally.n_unknown, tally.n_labelled, tally.classes)
        tell_written(console, out)


def _checked_names(keep: list[str]) -> tuple[str, ...]:
    """Return the columns to keep, or raise if one is named twice."""
    twice = sorted({name for name in keep if keep.count(name) > 1})
    if twice:
        msg = f"--keep names the column {twice[0]!r} twice. Name it once."
        raise InvalidArgumentError(msg)
    return tuple(keep)


def _predicting(
    loaded: Any, n_jobs: int | None, as_frame: bool, proba: bool
) -> tuple[Predict, int]:
    """Return what predicts rows, and the number of trees behind it."""
    combined = getattr(loaded, "combined_", None) is not None
    ours = combined or isinstance(getattr(loaded, "forest_", None), Forest)
    steps, ensemble = parted(loaded)
    forest: Forest = loaded.forest_ if ours else read_model(ensemble)
    n_trees = loaded.n_trees_ if combined else forest.n_trees
    classes = getattr(loaded if combined else forest, "classes_", None)
    if proba:
        _refuse_without_probabilities(loaded, classes)
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
            columns[COUNTS] = n_evaluated.astype(np.int32)
        else:
            if not ours:
                rows = through_steps(rows, steps)
            answers = loaded.predict(rows) if ours else forest.predict(rows, n_jobs)
            columns = _named(answers, classes)
            columns[COUNTS] = np.full(len(rows), n_trees, dtype=np.int32)
        if hasattr(loaded, COST):
            columns[COST] = loaded.feature_cost(rows)
        if proba:
            found = (
                loaded.predict_proba(rows)
                if ours
                else forest.predict_proba(rows, n_jobs)
            )
            columns |= _probabilities(found, classes)
        return columns

    return predict_part, n_trees


def _refuse_without_probabilities(loaded: Any, classes: Any) -> None:
    """Raise if a model has no probabilities, and say why."""
    if classes is None:
        msg = (
            "--proba writes probabilities of classes, and this model has none: it is a "
            "regressor or a ranker. Leave --proba out."
        )
        raise InvalidArgumentError(msg)
    if not hasattr(loaded, "predict_proba"):
        msg = (
            f"--proba writes probabilities, and this {type(loaded).__name__} has only "
            "labels, like the model inside it. Leave --proba out."
        )
        raise InvalidArgumentError(msg)


def _probabilities(found: Any, classes: Any) -> Columns:
    """Return probabilities as columns, named by the classes."""
    if isinstance(found, list):  # one array for each of several labels
        return {
            f"probability_{k}_{label}": column
            for k, (array, labels) in enumerate(zip(found, classes, strict=True))
            for label, column in zip(labels, array.T, strict=True)
        }
    names = classes if len(classes) == found.shape[1] else range(found.shape[1])
    return {
        f"probability_{label}": column
        for label, column in zip(names, found.T, strict=True)
    }


def _named(answers: NDArray[Any], classes: Any) -> Columns:
    """Return predictions as columns: labels, or what a regressor predicts."""
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
    """Yield the predictions of each part, and keep count."""
    for part in parts:
        if tally.n_rows == 0:
            # The first call loads compiled code; the clock starts after that.
            predict_part(part.rows[:1])
            tally.begin = time.perf_counter()
        columns = predict_part(part.rows)
        tally.add(columns, part.labels)
        both = [name for name in part.kept if name in columns]
        if both:
            msg = (
                f"The output has a column {both[0]!r} of its own, so that of the table "
                "cannot be kept. Rename it in the table."
            )
            raise InvalidArgumentError(msg)
        yield part.kept | columns
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
        "n_evaluated": tally.n_evaluated / tally.n_rows,
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
    evaluated = result["n_evaluated"]
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
