"""The command line as a whole: its subcommands and ``--version``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from spinney._version import __version__
from spinney.cli.accelerate import accelerate
from spinney.cli.anytime import anytime
from spinney.cli.bench import bench
from spinney.cli.demo import demo
from spinney.cli.export import export
from spinney.cli.inspect import inspect
from spinney.cli.predict import predict
from spinney.cli.prune import prune
from spinney.cli.strategy import strategy
from spinney.cli.warm_up import warm_up

app = typer.Typer(
    help=(
        "Make trained tree ensembles predict faster.\n\n"
        "Exit codes: 0 success, 1 a promise was not kept, 2 the command failed, most "
        "often because of its input, 130 it was interrupted."
    ),
    epilog="Example: spinney demo",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
    context_settings={"help_option_names": ["-h", "--help"]},
)
_EXAMPLES: dict[Callable[..., None], str] = {
    demo: "spinney demo --json",
    accelerate: "spinney accelerate model.txt rows.csv -o fast.spinney",
    predict: "spinney predict fast.spinney rows.parquet -o predictions.parquet",
    inspect: "spinney inspect fast.spinney",
    bench: "spinney bench model.txt rows.parquet --target y",
    prune: "spinney prune forest.skops rows.csv --target y --budget 12",
    anytime: "spinney anytime model.txt rows.csv --target y",
    export: "spinney export fast.spinney -o model.c",
    strategy: "spinney strategy -n 101 --objective minimax",
    warm_up: "RUN spinney warm-up --into /opt/kernels --cpu x86-64-v3",
}
for _command, _example in _EXAMPLES.items():
    app.command(_command.__name__.replace("_", "-"), epilog=f"Example: {_example}")(
        _command
    )


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
            help="Print the version and exit.",
            metavar="",
        ),
    ] = False,
) -> None:
    """Stand before every subcommand; only ``--version`` is common to all."""
