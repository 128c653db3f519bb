"""``spinney anytime``: step orders, and how soon they make a forest right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as TextTable

from spinney.cli.console import (
    FIGURES,
    Debug,
    OutputAsJson,
    Quiet,
    output,
    plain_errors,
    progress_bar,
    save_figure,
    tell_written,
)
from spinney.cli.models import (
    Data,
    Model,
    Target,
    Trust,
    check_inputs,
    check_target,
    labelled_rows,
    load_whole_model,
)
from spinney.cli.outputs import check_installed, check_outputs, check_suffix
from spinney.errors import InvalidArgumentError
from spinney.ordering.step_orders import check_order_name

if TYPE_CHECKING:
    from spinney.anytime import AnytimeForestClassifier

DEFAULT_ORDERS = ["backward_squirrel", "depth", "breadth", "random"]


def anytime(
    model: Model,
    data: Data,
    target: Target = None,
    order: Annotated[
        list[str],
        typer.Option(
            "--order",
            help="Name of a step order; repeat for several.",
            metavar="ORDER",
        ),
    ] = DEFAULT_ORDERS,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the model with the best order here."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw accuracy over steps here (.svg, .png, .pdf)."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the split and of random orders.")
    ] = 0,
    trust: Trust = False,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find an order of steps through a forest that may be stopped at any time.

    Half of the labelled rows of DATA are used to find each order and the other half to
    evaluate it: by the mean accuracy over all states, relative to the final accuracy
    (NMA).
    """
    with plain_errors(debug, quiet):
        console = output(quiet=quiet or as_json)
        check_outputs(out, plot, inputs=(model, data))
        check_suffix(plot, "The figure", FIGURES)
        check_installed(plot, "matplotlib", "plot")
        check_inputs(model, data, trust=trust)
        check_target(data, target)
        for name in order:
            check_order_name(name)
        found = _compared(console, model, data, target, order, seed, trust)
        best = max(found, key=lambda name: found[name]["nma"])
        if out is not None:
            import spinney

            spinney.save(found[best]["classifier"], out)
        if plot is not None:
            from spinney.anytime.plotting import plot_curves

            curves = {name: facts["curve"] for name, facts in found.items()}
            save_figure(plot_curves(curves), plot)
        if as_json:
            typer.echo(json.dumps(_document(found)))
        _show(found, console)
        tell_written(console, out, plot)


def _compared(
    console: Console,
    model: Path,
    data: Path,
    target: str | None,
    orders: list[str],
    seed: int,
    trust: bool,
) -> dict[str, dict[str, Any]]:
    """Fit each order on one half of the rows and evaluate it on the other."""
    trained = load_whole_model(model, trust=trust)
    rows, labels = labelled_rows(trained, data, target)
    if len(rows) < 2:
        msg = f"{str(data)!r} has {len(rows)} rows, and at least two are needed."
        raise InvalidArgumentError(msg)

    from sklearn.frozen import FrozenEstimator

    from spinney.anytime import AnytimeForestClassifier, normalised_mean_accuracy
    from spinney.calibration.row_splits import split_rows

    ordered_on, judged_on = split_rows(len(rows), (1.0, 1.0), seed)
    found: dict[str, dict[str, Any]] = {}
    with progress_bar(console, "ordering") as show:
        for number, name in enumerate(orders):

            def show_part(share: float, number: int = number) -> None:
                show((number + share) / len(orders))

            classifier: AnytimeForestClassifier = AnytimeForestClassifier(
                FrozenEstimator(trained),
                order=name,
                random_state=seed,
                verbose=show_part,
            ).fit(rows[ordered_on], labels[ordered_on])
            # The bar is of this command, and no file could hold it.
            classifier.set_params(verbose=None)
            curve = classifier.accuracy_curve(rows[judged_on], labels[judged_on])
            found[name] = {
                "classifier": classifier,
                "curve": curve,
                "nma": normalised_mean_accuracy(curve),
            }
    return found


def _document(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        name: {
            "normalised_mean_accuracy": facts["nma"],
            "accuracy": facts["curve"].tolist(),
            "order": facts["classifier"].order_.tolist(),
        }
        for name, facts in found.items()
    }


def _show(found: dict[str, dict[str, Any]], console: Console) -> None:
    """Print how good each order is, the best first."""
    table = TextTable(title="Step orders, on held-out rows", title_justify="left")
    table.add_column("order")
    for heading in ("NMA", "10 % of steps", "50 %", "all steps"):
        table.add_column(heading, justify="right")
    for name in sorted(found, key=lambda name: -found[name]["nma"]):
        curve = found[name]["curve"]
        n_steps = len(curve) - 1
        table.add_row(
            name,
            f"{found[name]['nma']:.4f}",
            f"{100.0 * curve[n_steps // 10]:.2f} %",
            f"{100.0 * curve[n_steps // 2]:.2f} %",
            f"{100.0 * curve[-1]:.2f} %",
        )
    console.print(table)
    console.print(
        "Accuracy after 10 %, 50 % and all of the steps. NMA: mean accuracy over all "
        "states, divided by the final accuracy."
    )
