"""What the subcommands share: where they print, their options, and plain errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from spinney.errors import SpinneyError, SpinneyWarning
from spinney.persistence.atomic_write import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OutputAsJson = Annotated[
    bool,
    typer.Option("--json", help="Print the result as one JSON document.", metavar=""),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Print only warnings and errors (and --json).", metavar=""
    ),
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", metavar="")
]


def _check_jobs(n_jobs: int | None) -> int | None:
    if n_jobs == 0:
        msg = "0 threads cannot run anything. Pass 1 or more, or -1 for one per core."
        raise typer.BadParameter(msg)
    return n_jobs


Jobs = Annotated[
    int | None,
    typer.Option(
        "--n-jobs",
        help="Number of threads; -1: one per core.",
        show_default="one",
        callback=_check_jobs,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of everything that is drawn at random.")]

FIGURES = (".svg", ".png", ".pdf")

PROMISE_NOT_KEPT = 1
BAD_INPUT = 2
INTERRUPTED = 130  # as shells have it: 128, and 2 for the signal


def output(*, quiet: bool) -> Console:
    """Return the console for people: standard output, or nowhere if `quiet`."""
    return Console(quiet=quiet, highlight=False)


@contextmanager
def progress_bar(console: Console, what: str) -> Iterator[Callable[..., None]]:
    """Show a bar while something runs, and remove it afterwards.

    Yields a function to call with the share of the work that is done and, optionally,
    a few words. Warnings wait until the bar is gone: on its line they would be lost.
    """
    columns = (
        TextColumn(what),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}"),
    )
    if not console.is_terminal:  # where Rich before 14.3 prints an empty line
        with _held_back():
            yield lambda share, words="": None
        return
    with (
        _held_back(),
        Progress(*columns, console=console, transient=True) as bar,
    ):
        task = bar.add_task(what, total=1.0, words="")

        def show(share: float, words: str = "") -> None:
            bar.update(task, completed=share, words=words)

        yield show


# Warnings that wait for the end of a progress bar; None if there is no bar.
_waiting: list[str] | None = None


@contextmanager
def _held_back() -> Iterator[None]:
    """Collect warnings, and print them at the end."""
    global _waiting
    _waiting = []
    try:
        yield
    finally:
        messages, _waiting = _waiting, None
        for message in messages:
            complain(message, of="warning")


def save_figure(ax: Axes, path: Path) -> None:
    """Write a drawing to a file whose ending is in `FIGURES`, whole or not at all."""
    picture = BytesIO()
    kind = path.suffix.lstrip(".").lower()
    ax.figure.savefig(picture, format=kind)  # type: ignore[union-attr]
    write_atomically(str(path), [picture.getvalue()])


def tell_written(console: Console, *paths: Path | None) -> None:
    """Print where files were written, one line each; None is no file."""
    for path in paths:
        if path is not None:
            console.print(f"Written to {path}", soft_wrap=True, markup=False)


def complain(message: str, *, of: str = "error") -> None:
    """Print an error message (or one `of` another kind) to standard error."""
    # Not markup: a message may hold brackets of its own, and none may be lost.
    console = Console(stderr=True, highlight=False)
    style = "bold red" if of == "error" else "bold yellow"
    # A message may quote a file, and a terminal would obey what is in it.
    shown = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in message)
    text = Text.assemble((f"{of}:", style), " ", shown)
    # Whole words on the lines of a terminal; elsewhere one line, for other programs.
    console.print(text, soft_wrap=not console.is_terminal)


@contextmanager
def plain_errors(debug: bool, quiet: bool = False) -> Iterator[None]:
    """Turn an error into one message and exit code 2, unless `debug` is set.

    Warnings of spinney become messages too. Those of other libraries are meant for
    whoever calls them, not for whoever types a command, and are shown with `debug`.
    With `quiet`, slow compilation is not mentioned.
    """
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        if quiet:
            from spinney.runtime.compile_notice import not_mentioned

            stack.enter_context(not_mentioned())
        if not debug:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", SpinneyWarning)
            warnings.showwarning = _warn
        try:
            yield
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as error:
            complain("Stopped before the end.", of="interrupted")
            raise typer.Exit(INTERRUPTED) from error
        except Exception as error:
            if debug:
                raise
            complain(f"{error or type(error).__name__}")
            # Messages of our own say what to do; others may need the traceback.
            if not isinstance(error, (SpinneyError, OSError, ImportError)):
                typer.echo("Run the command again with --debug to see where.", err=True)
            raise typer.Exit(BAD_INPUT) from error


def _warn(message: Any, *_: Any, **__: Any) -> None:
    if _waiting is None:
        complain(str(message), of="warning")
    else:
        _waiting.append(str(message))
