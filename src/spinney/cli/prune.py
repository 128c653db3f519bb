"""``spinney prune``: cut off what costs more in features than it gains."""

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
from spinney.cli.outputs import (
    check_extra,
    check_installed,
    check_outputs,
    check_suffix,
)
from spinney.errors import FormatError, InvalidArgumentError
from spinney.forest.class_votes import check_votes_by_class
from spinney.readers import read_model
from spinney.readers.wrapped import parted

if TYPE_CHECKING:
    from spinney.pruning import FeatureCostPruner

# Points of the frontier to print.
N_POINTS = 16


def prune(
    model: Model,
    data: Data,
    target: Target = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with the cost of each feature, by its name or as a list. "
            "Features that it leaves out cost 1, and without this option all do."
        ),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Largest mean feature cost of a row.")
    ] = None,
    trade_off: Annotated[
        float | None, typer.Option(help="Error accepted per unit of cost saved.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the pruned model to this file."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw cost against error here (.svg, .png, .pdf)."),
    ] = None,
    trust: Trust = False,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Prune a forest to lower the cost of its features.

    Prints all optimal trade-offs between the mean feature cost of a row and the error,
    on the labelled rows of DATA, which the model should not have been trained on. With
    --budget or --trade-off one of them is chosen, and -o writes it.
    """
    with plain_errors(debug, quiet):
        console = output(quiet=quiet or as_json)
        if budget is None and trade_off is None and out is not None:
            msg = "To write a pruned model, choose one with --budget or --trade-off."
            raise InvalidArgumentError(msg)
        if budget is not None and trade_off is not None:
            msg = "--budget and --trade-off both choose a forest. Pass one of them."
            raise InvalidArgumentError(msg)
        for option, number in (("--budget", budget), ("--trade-off", trade_off)):
            if number is not None and not number >= 0:
                msg = f"{option} must be a number from 0 up, got {number:g}."
                raise InvalidArgumentError(msg)
        check_outputs(out, plot, inputs=(model, data, costs))
        check_suffix(plot, "The figure", FIGURES)
        check_installed(plot, "matplotlib", "plot")
        check_extra("Pruning with feature costs", "ortools", "prune")
        check_inputs(model, data, trust=trust)
        check_target(data, target)
        known = _feature_costs(costs)
        pruner = _pruned(console, model, data, target, known, budget, trade_off, trust)
        chosen = budget is not None or trade_off is not None
        if out is not None:
            import spinney

            spinney.save(pruner, out)
        if plot is not None:
            _draw(pruner, plot, chosen)
        if as_json:
            typer.echo(json.dumps(_document(pruner, chosen)))
        _show(pruner, chosen, console)
        tell_written(console, out, plot)


def _pruned(
    console: Console,
    model: Path,
    data: Path,
    target: str | None,
    costs: Any,
    budget: float | None,
    trade_off: float | None,
    trust: bool,
) -> FeatureCostPruner:
    trained = load_whole_model(model, trust=trust)
    check_votes_by_class(read_model(parted(trained).ensemble), "Pruning")
    rows, labels = labelled_rows(trained, data, target)

    from sklearn.frozen import FrozenEstimator

    from spinney.pruning import FeatureCostPruner

    with progress_bar(console, "pruning") as show:
        pruner = FeatureCostPruner(
            FrozenEstimator(trained),
            feature_costs=costs,
            budget=budget,
            trade_off=0.0 if budget is None and trade_off is None else trade_off,
            verbose=show,
        ).fit(rows, labels)
    # The bar is over, and no file could hold it.
    pruner.set_params(verbose=False)
    return pruner


def _feature_costs(path: Path | None) -> Any:
    """Return the costs in a JSON file."""
    if path is None:
        return None
    if not path.is_file():
        msg = f"There is no file {str(path)!r} with costs. Check the path."
        raise FileNotFoundError(msg)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        msg = f"{str(path)!r} must be a JSON file of costs by feature: {error}"
        raise FormatError(msg) from error


def _draw(pruner: FeatureCostPruner, path: Path, chosen: bool) -> None:
    ax = pruner.frontier_.plot()
    if chosen:
        ax.axvline(pruner.point_.cost, color="grey", linestyle=":", label="chosen")
        ax.legend()
    save_figure(ax, path)


def _document(pruner: FeatureCostPruner, chosen: bool) -> dict[str, Any]:
    frontier = pruner.frontier_
    return {
        "frontier": {
            name: column.tolist() for name, column in frontier.to_dict().items()
        },
        "chosen": pruner.point_._asdict() if chosen else None,
    }


def _show(pruner: FeatureCostPruner, chosen: bool, console: Console) -> None:
    """Print the frontier for people, and the point that was chosen."""
    from spinney.pruning.frontier import spread_over_costs

    frontier = pruner.frontier_
    table = TextTable(title="Optimal trade-offs", title_justify="left")
    for heading in (
        "trade-off",
        "mean feature cost",
        "mean error of a tree",
        "error of the forest",
        "nodes",
    ):
        table.add_column(heading, justify="right")
    shown = spread_over_costs(frontier.cost, N_POINTS)
    for point in (frontier[k] for k in shown):
        table.add_row(
            f"{point.trade_off:.4g}",
            f"{point.cost:.4g}",
            f"{100.0 * point.error:.2f} %",
            f"{100.0 * point.ensemble_error:.2f} %",
            f"{point.n_nodes:,}",
        )
    console.print(table)
    if len(shown) < len(frontier):
        console.print(
            f"{len(shown)} of {len(frontier)} points are shown; --json has them all."
        )
    if chosen:
        point = pruner.point_
        console.print(
            f"Chosen: mean feature cost {point.cost:.4g}, error of the forest "
            f"{100.0 * point.ensemble_error:.2f} %, {point.n_nodes:,} nodes (unpruned: "
            f"{pruner.full_forest_.n_nodes:,})."
        )
    console.print("Costs and errors are those of the rows given.")
