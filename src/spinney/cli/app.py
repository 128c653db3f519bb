"""The command line as a whole: its subcommands and ``--version``."""

from __future__ import annotations

from typing import Annotated

import typer

from spinney._version import __version__
from spinney.cli.anytime import anytime
from spinney.cli.demo import demo
from spinney.cli.prune import prune
from spinney.cli.strategy import strategy
from spinney.cli.warm_up import warm_up

app = typer.Typer(
    help=(
        "Make trained tree ensembles cheaper to ask.\n\n"
        "Exit codes: 0 all went well, 1 a promise was not kept, 2 the command could "
        "not do its work, most often because of its input."
    ),
    epilog="Example: spinney demo",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog="Example: spinney demo --json")(demo)
app.command(epilog="Example: spinney prune model.txt rows.csv --target y --budget 12")(
    prune
)
app.command(epilog="Example: spinney anytime model.txt rows.csv --target y")(anytime)
app.command(epilog="Example: spinney strategy -n 101 --objective minimax")(strategy)
app.command("warm-up", epilog="Example: RUN spinney warm-up")(warm_up)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spinney {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and stop.",
        ),
    ] = False,
) -> None:
    """Stand before every subcommand; only ``--version`` is common to all."""
