"""``spinney accelerate``: a trained model in, a faster one out, with a promise."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table as TextTable

from spinney.base.comparison import HEADINGS, HEADINGS_OF_CLASSES, Comparison
from spinney.calibration.bounds import check_confidence, check_max_disagreement
from spinney.calibration.limits import plain
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
    tell_written,
)
from spinney.cli.labels import (
    classes_of,
    known_labels,
    needed_labels,
    refuse_unknown_labels,
)
from spinney.cli.models import (
    Model,
    Trust,
    check_inputs,
    load_whole_model,
    table_for,
)
from spinney.cli.outputs import check_installed, check_outputs, check_suffix
from spinney.errors import (
    InvalidArgumentError,
    SpinneyWarning,
    UnsupportedModelError,
)
from spinney.forest import Forest

REPORTS = (".html", ".md", ".txt", ".json")


class Method(StrEnum):
    """What to try."""

    auto = "auto"
    sequential = "sequential"
    cascade = "cascade"


def accelerate(
    model: Model,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Write the faster model here.", show_default=False
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Rows for early exit: CSV, Parquet, Arrow or NPZ. Without them all "
            "trees are evaluated, and no prediction changes.",
            metavar="DATA",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Column with the labels, for the error in the report and for "
            "--max-accuracy-loss. It is never a feature."
        ),
    ] = None,
    max_disagreement: Annotated[
        list[str] | None,
        typer.Option(
            help="Share of new rows whose prediction may change, on average; 0.001 by "
            "default. CLASS=SHARE, once for each class, for the rows that the model "
            "assigns to it.",
            metavar="SHARE",
            show_default=False,
        ),
    ] = None,
    per_class: Annotated[
        bool,
        typer.Option(
            "--per-class", help="Make the bound hold for each class.", metavar=""
        ),
    ] = False,
    max_accuracy_loss: Annotated[
        float | None,
        typer.Option(
            help="Bound the loss of accuracy instead of the share of changed "
            "predictions; needs labels, see --target."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="For two classes: probability from which the second one is predicted."
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Make the bound hold with this confidence, such as 0.95, and not only "
            "on average."
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            help="Methods to try: auto, sequential or cascade.", metavar="METHOD"
        ),
    ] = Method.auto,
    report: Annotated[
        Path | None,
        typer.Option(help="Write a report here: .html, .md, .txt or .json."),
    ] = None,
    seed: Seed = 0,
    n_jobs: Jobs = None,
    trust: Trust = False,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make a trained model faster: exactly, or with a bound on changed predictions.

    Without DATA, all trees are evaluated, and predictions and probabilities are exactly
    the model's own. Works for regressors and rankers too.

    With DATA, compares several early-exit methods on its rows, and chooses the fastest
    that keeps the bound. The rows need no labels, and should not have been used to
    train the model. spinney predict takes the file that is written.

    Exit code 1: --confidence was given and the bound could not be proven. The file is
    written anyway; it evaluates all trees or exits only where the prediction is
    certain.
    """
    with plain_errors(debug, quiet):
        console = output(quiet=quiet or as_json)
        check_suffix(report, "The report", REPORTS)
        is_page = report is not None and report.name.lower().endswith(".html")
        check_installed(report if is_page else None, "jinja2", "report")
        check_outputs(out, report, inputs=(model,) if data is None else (model, data))
        check_inputs(model, data, trust=trust)
        _check_settings(max_disagreement, max_accuracy_loss, threshold, confidence)
        if data is None and report is not None:
            msg = "--report needs rows: pass DATA, a table of rows."
            raise InvalidArgumentError(msg)
        trained = load_whole_model(model, trust=trust)
        if data is None:
            _write_all_trees(trained, threshold, method, n_jobs, out, as_json, console)
            return
        _refuse_regressor(trained, model)
        settings: dict[str, Any] = {"per_class": per_class}
        if max_disagreement:
            settings["max_disagreement"] = bounds_of(max_disagreement, trained)
        part = table_for(trained, data, target, needs_target=False).whole()
        if max_accuracy_loss is not None:
            settings["max_accuracy_loss"] = max_accuracy_loss
            settings["y"] = needed_labels(part.labels, target)
        labels = None
        if report is not None:
            labels = known_labels(part.labels, target)
            refuse_unknown_labels(labels, target, trained)

        import spinney

        with (
            warnings.catch_warnings(record=True) as warned,
            progress_bar(console, "accelerating") as show,
        ):
            warnings.simplefilter("always", SpinneyWarning)
            fast = spinney.accelerate(
                trained,
                part.rows,
                **settings,
                decision_threshold=threshold,
                confidence=confidence,
                method=method.value,
                random_state=seed,
                n_jobs=n_jobs,
                verbose=show,
            )
        advice = [
            str(one.message)
            for one in warned
            if issubclass(one.category, SpinneyWarning)
        ]
        spinney.save(fast, out)
        if report is not None:
            with progress_bar(console, "reporting") as show:
                fast.report(part.rows, labels, verbose=show).save(report)
        # If all trees are evaluated because nothing was faster, there is no warning.
        promise = fast.promise_
        nothing = promise is not None and promise.kind == "never"
        broken = confidence is not None and nothing and bool(advice)
        if as_json:
            typer.echo(json.dumps(_document(fast, not broken, out, report)))
        _show(fast, console)
        tell_written(console, out, report)
        if broken:
            complain(f"{advice[0]} The file was written anyway.")
            raise typer.Exit(PROMISE_NOT_KEPT)
        for message in advice:
            complain(message, of="warning")


def _check_settings(
    max_disagreement: list[str] | None,
    max_accuracy_loss: float | None,
    threshold: float | None,
    confidence: float | None,
) -> None:
    """Raise if a number is out of range, before anything is loaded."""
    for word in max_disagreement or []:
        check_max_disagreement(_share(word.rpartition("=")[2]), "--max-disagreement")
    if max_accuracy_loss is not None:
        check_max_disagreement(max_accuracy_loss, "--max-accuracy-loss")
    if threshold is not None and not 0.0 < threshold < 1.0:
        msg = (
            f"--threshold must be above 0 and below 1, got {threshold:g}. It is a "
            "probability: the second class is predicted from it on."
        )
        raise InvalidArgumentError(msg)
    if confidence is not None:
        check_confidence(confidence, "--confidence")


def _write_all_trees(
    trained: Any,
    threshold: float | None,
    method: Method,
    n_jobs: int | None,
    out: Path,
    as_json: bool,
    console: Console,
) -> None:
    """Write a model that evaluates all trees, and say so."""
    import spinney

    fast = spinney.accelerate(
        trained, decision_threshold=threshold, method=method.value, n_jobs=n_jobs
    )
    spinney.save(fast, out)
    promise = getattr(fast, "promise_", None)
    words = "no prediction ever differs from the model's"
    if as_json:
        document = {
            "chosen": "all trees",
            "promise_kept": True,
            "promise": {**(asdict(promise) if promise else {}), "words": words},
            "certificate": None,
            "acceleration": None,
            "out": str(out),
            "report": None,
        }
        typer.echo(json.dumps(document))
    console.print(f"All {fast.n_trees_:,} trees are evaluated: {words}.")
    tell_written(console, out)


def bounds_of(given: list[str], model: Any) -> float | dict[Any, float]:
    """Return a bound, or one for each class, from the words of the command line.

    Parameters
    ----------
    given : list of str
        One number, or ``CLASS=NUMBER`` several times.
    model : model
        Whose classes are meant.
    """
    if len(given) == 1 and "=" not in given[0]:
        return _share(given[0])
    labels = {str(plain(label)): plain(label) for label in classes_of(model)}
    bounds: dict[Any, float] = {}
    for word in given:
        # A class may have the sign in its name; a number has not.
        name, sign, share = word.rpartition("=")
        if not sign:
            msg = (
                f"--max-disagreement {word} is for all rows, and there are others for "
                "classes. Pass one number, or CLASS=SHARE for each class."
            )
            raise InvalidArgumentError(msg)
        if labels and name not in labels:
            msg = (
                f"--max-disagreement has a bound for {name!r}, which the model does "
                f"not know; its classes are {', '.join(labels)}."
            )
            raise InvalidArgumentError(msg)
        label = labels.get(name, name)
        if label in bounds:
            msg = f"--max-disagreement has two bounds for class {name!r}. Pass one."
            raise InvalidArgumentError(msg)
        bounds[label] = _share(share)
    return bounds


def _share(word: str) -> float:
    try:
        return float(word)
    except ValueError as error:
        msg = (
            f"--max-disagreement takes a number such as 0.001, or CLASS=0.001, got "
            f"{word!r}."
        )
        raise InvalidArgumentError(msg) from error


def _refuse_regressor(trained: Any, path: Path) -> None:
    """Raise if what was read from a file is no classifier, before rows are read."""
    if isinstance(trained, Forest) and trained.classes_ is None:
        msg = (
            f"Early exit is for classifiers, and {str(path)!r} is a regressor or a "
            "ranker. Leave DATA out: then all trees are evaluated, exactly."
        )
        raise UnsupportedModelError(msg)


def _document(fast: Any, kept: bool, out: Path, report: Path | None) -> dict[str, Any]:
    certificate = fast.certificate_
    return {
        "chosen": fast.acceleration_.chosen.name,
        "promise_kept": kept,
        "promise": {**fast.promise_.to_dict(), "words": str(fast.promise_)},
        "certificate": None if certificate is None else asdict(certificate),
        "acceleration": fast.acceleration_.to_dict(),
        "out": str(out),
        "report": None if report is None else str(report),
    }


def _show(fast: Any, console: Console) -> None:
    """Print what was compared, what was chosen and why, and what it promises."""
    compared = fast.acceleration_
    console.print(comparison_table(compared))
    console.print(compared.outcome, markup=False)
    show_classes(compared, console)


def show_classes(compared: Comparison, console: Console) -> None:
    """Print how often each class is predicted before and after, if that changed.

    Parameters
    ----------
    compared : Comparison
        The comparison.
    console : Console
        Where to print it.
    """
    if not compared.class_changes:
        return
    console.print(
        "\nPredicted classes on the calibration rows. Lost: rows of a class, by the "
        "model, for which early exit predicts another."
    )
    table = TextTable(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in HEADINGS_OF_CLASSES:
        is_name = heading == HEADINGS_OF_CLASSES[0]
        table.add_column(heading, justify="left" if is_name else "right")
    for cells in compared.cells_of_classes():
        table.add_row(*map(escape, cells))
    console.print(table)


def comparison_table(compared: Comparison) -> TextTable:
    """Return a comparison as a table for the terminal.

    Parameters
    ----------
    compared : Comparison
        The comparison.
    """
    # Few lines, so that nothing is broken in eighty columns.
    table = TextTable(
        title=compared.description,
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for heading in HEADINGS:
        is_name = heading == HEADINGS[0]
        is_text = is_name or heading == HEADINGS[-1]
        table.add_column(
            heading, no_wrap=is_name, justify="left" if is_text else "right"
        )
    for candidate, cells in zip(compared.candidates, compared.cells(), strict=True):
        table.add_row(*cells, style="bold" if candidate.chosen else None)
    return table
