"""``spinney accelerate``: a trained model in, a faster one out, with a promise."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as TextTable

from spinney.base.comparison import HEADINGS, Comparison
from spinney.base.wording import percent
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
from spinney.cli.models import (
    Data,
    Model,
    Trust,
    load_whole_model,
    table_for,
    without_label,
)
from spinney.cli.outputs import check_outputs, check_suffix
from spinney.errors import SpinneyWarning

REPORTS = (".html", ".md", ".txt", ".json")


class Method(StrEnum):
    """What to try."""

    auto = "auto"
    sequential = "sequential"
    cascade = "cascade"


def accelerate(
    model: Model,
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Write the faster model here.", show_default=False
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            help="Column that holds labels and is no feature, if it is there; for the "
            "error in the report."
        ),
    ] = None,
    max_disagreement: Annotated[
        float,
        typer.Option(help="Share of rows whose answer may change."),
    ] = 1e-3,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Prove the bound for new rows, with this confidence: 0.95, say."
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            help="What to try: auto, sequential or cascade.", metavar="METHOD"
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
    """Make a trained model faster, and say how often its answer may change.

    Compares several ways to evaluate fewer trees on the rows of DATA, which need no
    labels and which the model should not have been trained on, and chooses the
    fastest that keeps the bound. spinney predict answers rows with the file.

    Exit code 1: --confidence was given and the bound could not be proven. The file is
    written all the same; it evaluates all trees.
    """
    with plain_errors(debug):
        console = output(quiet=quiet or as_json)
        check_suffix(report, "The report", REPORTS)
        check_outputs(out, report, inputs=(model, data))
        trained = load_whole_model(model, trust=trust)
        part = table_for(trained, data, target, needs_target=False).whole()

        import spinney

        with (
            warnings.catch_warnings(record=True) as warned,
            progress_bar(console, "accelerating") as show,
        ):
            warnings.simplefilter("always", SpinneyWarning)
            fast = spinney.accelerate(
                trained,
                part.rows,
                max_disagreement=max_disagreement,
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
            fast.report(part.rows, _known_labels(part.labels)).save(report)
        # If all trees are evaluated because nothing else was faster, nobody warns.
        takes_all = fast.acceleration_.chosen.method == "all trees"
        broken = confidence is not None and takes_all and bool(advice)
        if as_json:
            typer.echo(json.dumps(_document(fast, not broken, out, report)))
        _show(fast, console)
        tell_written(console, out, report)
        if broken:
            complain(f"{advice[0]} The file was written all the same.")
            raise typer.Exit(PROMISE_NOT_KEPT)
        for message in advice:
            complain(message, of="warning")


def _known_labels(labels: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return labels if every row has one."""
    if labels is None:
        return None
    missing = int(np.count_nonzero(without_label(labels)))
    if missing:
        complain(
            f"{missing:,} of {len(labels):,} rows have no label, so the report tells "
            "no error.",
            of="warning",
        )
        return None
    return labels


def _document(fast: Any, kept: bool, out: Path, report: Path | None) -> dict[str, Any]:
    certificate = fast.certificate_
    return {
        "chosen": fast.acceleration_.chosen.name,
        "promise_kept": kept,
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
    console.print(_promise(fast))


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


def _promise(fast: Any) -> str:
    """Return what a classifier promises about its answers, in words."""
    if fast.acceleration_.chosen.method == "all trees":
        return "Every answer is that of the model."
    share = percent(fast.max_disagreement)
    if fast.certificate_ is None:
        return (
            f"Promise: at most {share} of the rows given are answered differently "
            "than by the model. New rows will be close to that; --confidence 0.95 "
            "proves a bound for them."
        )
    return (
        f"Promise: at most {share} of new rows of the same kind are answered "
        f"differently than by the model, with {percent(fast.confidence)} confidence."
    )
