"""``spinney warm-up``: compile ahead of the first prediction."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from spinney.cli.console import (
    Debug,
    OutputAsJson,
    Quiet,
    output,
    plain_errors,
    progress_bar,
)
from spinney.errors import InvalidArgumentError


def warm_up(
    into: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the compiled kernels; set SPINNEY_CACHE_DIR to it later.",
            show_default="the default cache folder",
        ),
    ] = None,
    cpu: Annotated[
        str | None,
        typer.Option(
            help="Processor level to compile for, in a fleet of mixed processors: "
            "x86-64-v3, for example.",
            show_default="this processor",
        ),
    ] = None,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compile all kernels now, so that no later call has to wait.

    For building container images: the compiled kernels are kept on disk and loaded by
    every later process on the same kind of processor, even if the folder is read-only
    by then.
    """
    with plain_errors(debug, quiet):
        console = output(quiet=quiet or as_json)
        if cpu is not None:
            from spinney.runtime.processors import check_level

            check_level(cpu)
        start = time.perf_counter()
        _check_folder(into)
        console.print("Compiling; on a new machine this takes a minute or two.")
        import spinney

        with progress_bar(console, "compiling") as show:
            kernels = spinney.warm_up(into, cpu=cpu, verbose=show)
        seconds = time.perf_counter() - start
        folder = _folder_of_kernels(into)
        if as_json:
            document = {
                "kernels": [{"name": name, "seconds": took} for name, took in kernels],
                "seconds": seconds,
                "cache": [] if folder is None else [str(folder)],
            }
            typer.echo(json.dumps(document, indent=2))
        table = Table("kernel")
        table.add_column("seconds", justify="right")
        for name, took in kernels:
            table.add_row(name, f"{took:.2f}")
        console.print(table)
        console.print(f"{len(kernels)} kernels ready after {seconds:.1f} s.")
        if folder is None:
            console.print("Nothing was kept.")
            return
        console.print(f"Kept in {folder}", soft_wrap=True)
        if into is not None:
            console.print(
                f"Set SPINNEY_CACHE_DIR={into.absolute()} where they are to be used.",
                soft_wrap=True,
            )


def _check_folder(into: Path | None) -> None:
    """Raise if a folder cannot be written to, before anything is loaded."""
    from spinney.runtime.kernel_folders import can_write

    if into is not None and not can_write(into.absolute()):
        msg = (
            f"--into must be a folder that can be written to, got {str(into)!r}. "
            "Check that it is not a file, and its permissions."
        )
        raise InvalidArgumentError(msg)


def _folder_of_kernels(into: Path | None) -> Path | None:
    """Return the folder with the kernels of this version, None if they were lost."""
    from spinney.runtime.compiler import compiles
    from spinney.runtime.kernel_folders import folder_to_write, folders_to_read

    if not compiles:
        return None
    if into is not None:
        return next((into.absolute() / f.name for f in folders_to_read()), None)
    # What was only read is there, too.
    return folder_to_write() or next((f for f in folders_to_read() if f.is_dir()), None)
