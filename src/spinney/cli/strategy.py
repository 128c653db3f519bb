"""``spinney strategy``: the best stopping strategy for a majority vote."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from spinney.cli.console import (
    Debug,
    OutputAsJson,
    Quiet,
    output,
    plain_errors,
    tell_written,
)
from spinney.cli.outputs import check_outputs

if TYPE_CHECKING:
    from spinney.sequential import StoppingStrategy

# From here on solving takes long enough to show how far it has come.
MANY_VOTERS = 400
# Steps to print, and digits of the gap that make a full bar.
N_ROWS = 20
N_DIGITS = 9.0


class Objective(StrEnum):
    """What is minimised."""

    minimean = "minimean"
    minimixed = "minimixed"
    minimax = "minimax"


class Rounding(StrEnum):
    """What becomes of fractional stop probabilities."""

    randomise = "randomise"
    deterministic = "deterministic"


def strategy(
    n_voters: Annotated[int, typer.Option("--voters", "-n", help="Number of voters.")],
    max_disagreement: Annotated[
        float,
        typer.Option(
            help="Allowed probability of a decision that differs from the full vote."
        ),
    ] = 1e-3,
    objective: Annotated[
        Objective,
        typer.Option(
            help="What is minimised: minimean, minimixed or minimax.", metavar="NAME"
        ),
    ] = Objective.minimean,
    min_votes: Annotated[int, typer.Option(help="Votes that are always cast.")] = 1,
    round: Annotated[
        Rounding,
        typer.Option(
            help="randomise, which may need fewer votes, or deterministic.",
            metavar="HOW",
        ),
    ] = Rounding.randomise,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the strategy to this file, as JSON."),
    ] = None,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find when a majority vote may stop early.

    Voters vote in random order, and all splits of their votes count as equally likely.
    Prints the counts that decide after each number of votes, the expected number of
    votes, and a proven bound on the best that any strategy can do.
    """
    with plain_errors(debug, quiet):
        console = output(quiet=quiet or as_json)
        check_outputs(out)
        found = _find(
            console,
            n_voters=n_voters,
            max_disagreement=max_disagreement,
            objective=objective.value,
            min_votes=min_votes,
            round=round.value,
        )
        document = json.dumps(found.to_dict())
        if out is not None:
            from spinney.persistence.atomic_write import write_atomically

            write_atomically(str(out), [document.encode(), b"\n"])
        if as_json:
            typer.echo(document)
        _show(found, console)
        tell_written(console, out)


def _find(console: Console, **arguments: Any) -> StoppingStrategy:
    """Solve, with a bar that fills as the gap closes."""
    from spinney.sequential.optimal import find_strategy

    columns = (TextColumn("solving"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal or arguments["n_voters"] < MANY_VOTERS,
    ) as progress:
        task = progress.add_task("solving", total=N_DIGITS)

        def show(gap: float) -> None:
            digits = -math.log10(min(max(gap, 10.0**-N_DIGITS), 1.0))
            progress.update(task, completed=digits)

        return find_strategy(votes=None, on_round=show, **arguments)


def _show(found: StoppingStrategy, console: Console) -> None:
    """Print the strategy for people."""
    whose = "on average" if found.objective == "minimean" else "in the worst case"
    votes = "worst" if found.objective == "minimax" else "mean"
    console.print(
        f"Expected votes ({votes}): {found.expected_votes:.6f} of {found.n_voters}\n"
        f"No strategy that follows the majority so far needs fewer than "
        f"{found.lower_bound:.6f} (gap {found.gap:.1e})\n"
        f"Disagreement {whose}: {found.proven_disagreement:.6g}, promised at most "
        f"{found.max_disagreement:g} ({found.proof} proof)"
    )
    table = Table("votes cast")
    table.add_column("negative up to", justify="right")
    table.add_column("positive from", justify="right")
    every = max(1, math.ceil(found.n_voters / N_ROWS))
    steps = sorted({*range(0, found.n_voters + 1, every), found.n_voters})
    for step in steps:
        low, high = int(found.lower[step]), int(found.upper[step])
        table.add_row(
            str(step),
            str(low) if low >= 0 else "–",
            str(high) if high <= step else "–",
        )
    console.print(table)
    if every > 1:
        console.print(f"One step in {every} is shown; --out and --json have them all.")
    states = found.fractional
    for step, count, stop in states[:N_ROWS]:
        console.print(
            f"After {step} votes, {count} positive: stop with probability {stop:.6g}"
        )
    if len(states) > N_ROWS:
        console.print(f"... and {len(states) - N_ROWS} more states that may stop.")
