"""What the subcommands share: where they print, their options, and plain errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from spinney.atomic_write import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OutputAsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON document.")
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print nothing but errors (and --json)."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error happened.")]

PROMISE_NOT_KEPT = 1
BAD_INPUT = 2


def output(*, quiet: bool) -> Console:
    """Return the console for people: standard output, or nowhere if `quiet`."""
    return Console(quiet=quiet, highlight=False)


@contextmanager
def progress_bar(console: Console, what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar while something goes on, and take it away afterwards.

    Yields what is to be called with the share of the work that is done.
    """
    columns = (TextColumn(what), BarColumn(), TimeElapsedColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def save_figure(ax: Axes, path: Path) -> None:
    """Write a drawing to a file, whole or not at all."""
    picture = BytesIO()
    kind = path.suffix.lstrip(".") or "svg"
    ax.get_figure(root=True).savefig(picture, format=kind)  # type: ignore[union-attr]
    write_atomically(str(path), [picture.getvalue()])


def complain(message: str) -> None:
    """Print an error message to standard error."""
    # Not markup: a message may hold brackets of its own, and none may be lost.
    console = Console(stderr=True, highlight=False)
    console.print("error:", style="bold red", end=" ")
    console.print(message, markup=False, soft_wrap=True)


@contextmanager
def plain_errors(debug: bool) -> Iterator[None]:
    """Turn an error into one message and exit code 2, unless `debug` is set."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if debug:
            raise
        complain(f"{error or type(error).__name__}")
        typer.echo("Run the command again with --debug to see where.", err=True)
        raise typer.Exit(BAD_INPUT) from error
