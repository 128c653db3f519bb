"""What the subcommands share: where they print, their options, and plain errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

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
