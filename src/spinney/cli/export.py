"""``spinney export``: a model in, one C file out, with its bytes and its bound."""

from __future__ import annotations

import json
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from spinney.base.identifiers import checked_identifier
from spinney.calibration.bounds import check_confidence, check_max_disagreement
from spinney.cli.console import (
    PROMISE_NOT_KEPT,
    Debug,
    OutputAsJson,
    Quiet,
    complain,
    output,
    plain_errors,
    tell_written,
)
from spinney.cli.models import (
    Model,
    Trust,
    check_inputs,
    is_own_file,
    load_whole_model,
    table_for,
)
from spinney.cli.outputs import check_outputs, check_suffix
from spinney.errors import InvalidArgumentError, SpinneyWarning
from spinney.forest import Forest
from spinney.persistence.store import load
from spinney.readers import read_model


class Arithmetic(StrEnum):
    """What sums are made of."""

    exact = "exact"
    integer = "integer"


class InputType(StrEnum):
    """What rows are made of."""

    float32 = "float32"
    float64 = "float64"
    int8 = "int8"
    int16 = "int16"
    int32 = "int32"


class LayoutName(StrEnum):
    """How trees are written."""

    fast = "fast"
    packed = "packed"


def export(
    model: Model,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Write the C file here; the header is written next to it.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(help="Prefix of all names in the file."),
    ] = None,
    arithmetic: Annotated[
        Arithmetic,
        typer.Option(
            help="exact: the same sums as in Python; integer: whole numbers only.",
            metavar="KIND",
        ),
    ] = Arithmetic.exact,
    rows: Annotated[
        Path | None,
        typer.Option(
            help="Held-out rows to prove integer arithmetic on: CSV, Parquet, Arrow "
            "or NPZ."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Column of the rows with the labels. It is never a feature."),
    ] = None,
    input_type: Annotated[
        InputType | None,
        typer.Option(help="Type of the input features.", metavar="TYPE"),
    ] = None,
    input_scale: Annotated[
        float, typer.Option(help="Value of one unit of an integer input.")
    ] = 1.0,
    layout: Annotated[
        LayoutName | None,
        typer.Option(help="fast for servers, packed for devices.", metavar="LAYOUT"),
    ] = None,
    max_disagreement: Annotated[
        float | None,
        typer.Option(
            help="Share of new rows whose prediction integer arithmetic may change."
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="Confidence of the proof of this bound, such as 0.95."),
    ] = None,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Report the size and accuracy of each width of leaf values.",
            metavar="",
        ),
    ] = False,
    trust: Trust = False,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a model as one C file, for servers, microcontrollers and browsers.

    MODEL is a trained model, or a classifier written by accelerate, anytime or prune:
    the code then exits early, takes single steps or fetches features on demand.

    Exit code 1: the rows do not prove the bound in integer arithmetic. The file is
    written anyway, and says so.
    """
    with plain_errors(debug, quiet):
        console = output(quiet=quiet or as_json)
        check_outputs(out, inputs=(model, rows))
        check_suffix(out, "The C file", (".c",))
        check_outputs(out.with_suffix(".h"), inputs=(model, rows))
        checked_identifier(name, out)
        check_inputs(model, rows, trust=trust)
        if max_disagreement is not None:
            check_max_disagreement(max_disagreement, "--max-disagreement")
        if confidence is not None:
            check_confidence(confidence, "--confidence")
        _check_needed(
            arithmetic,
            {
                "--rows": rows,
                "--max-disagreement": max_disagreement,
                "--confidence": confidence,
            },
        )
        trained = _loaded(model, trust)
        X = None
        if rows is not None:
            X = table_for(trained, rows, target, needs_target=False).whole().rows

        import spinney

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", SpinneyWarning)
            written = spinney.export_c(
                trained,
                out,
                name=name,
                arithmetic=arithmetic.value,
                X=X,
                input_type=None if input_type is None else input_type.value,
                input_scale=input_scale,
                layout=None if layout is None else layout.value,
                max_disagreement=max_disagreement,
                confidence=confidence,
            )
        if as_json:
            typer.echo(json.dumps(written.to_dict()))
        text = str(written) if report else "\n".join(str(written).split("\n")[:4])
        console.print(text, markup=False, soft_wrap=not console.is_terminal)
        if not report and written.is_proven:  # a warning says so otherwise
            outcome = written.outcome
            console.print(outcome, markup=False, soft_wrap=not console.is_terminal)
        tell_written(console, out, out.with_suffix(".h"))
        for one in warned:
            complain(str(one.message), of="warning")
        if written.is_proven is False:
            raise typer.Exit(PROMISE_NOT_KEPT)


def _check_needed(arithmetic: Arithmetic, options: dict[str, Any]) -> None:
    """Raise if integer arithmetic has no rows, or exact arithmetic what it ignores."""
    if arithmetic is Arithmetic.integer:
        if options["--rows"] is None:
            msg = (
                "--arithmetic integer needs --rows: held-out rows, used for nothing "
                "else. The bound is proven on them after rounding."
            )
            raise InvalidArgumentError(msg)
        return
    for option, value in options.items():
        if value is not None:
            msg = (
                f"{option} is for --arithmetic integer; exact arithmetic predicts "
                f"exactly as Python does. Leave {option} out."
            )
            raise InvalidArgumentError(msg)


def _loaded(path: Path, trust: bool) -> Any:
    """Return a classifier of spinney, or the forest of any other model."""
    if is_own_file(path):
        return load(path)
    trained = load_whole_model(path, trust=trust)
    if isinstance(trained, Forest):
        return trained
    from spinney.base.estimator import unwrapped

    return read_model(unwrapped(trained))
