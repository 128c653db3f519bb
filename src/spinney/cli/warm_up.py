"""``spinney warm-up``: compile ahead of the first prediction."""

from __future__ import annotations

import json
import sys
import time

import typer
from rich.table import Table

from spinney.cli.console import Debug, OutputAsJson, Quiet, output, plain_errors


def warm_up(
    as_json: OutputAsJson = False, quiet: Quiet = False, debug: Debug = False
) -> None:
    """Compile all kernels now, so that no later call has to wait for it.

    Meant for the build of a container image: the compiled kernels are kept on disk
    and loaded by every process that runs later on the same kind of processor.
    """
    with plain_errors(debug):
        console = output(quiet=quiet or as_json)
        start = time.perf_counter()
        console.print("Compiling; on a new machine this takes a minute or two ...")
        from spinney import runtime
        from spinney.sequential.optimal import OBJECTIVES, optimal_strategy

        kernels = runtime.warm_up()
        for objective in OBJECTIVES:
            begin = time.perf_counter()
            optimal_strategy(11, 0.01, objective=objective)
            took = time.perf_counter() - begin
            kernels.append((f"strategies, {objective}", took))
        seconds = time.perf_counter() - start
        folders = _cache_folders()
        if as_json:
            document = {
                "kernels": [{"name": name, "seconds": took} for name, took in kernels],
                "seconds": seconds,
                "cache": folders,
            }
            typer.echo(json.dumps(document, indent=2))
        table = Table("kernel")
        table.add_column("seconds", justify="right")
        for name, took in kernels:
            table.add_row(name, f"{took:.2f}")
        console.print(table)
        console.print(f"{len(kernels)} kernels ready after {seconds:.1f} s.")
        for folder in folders:
            console.print(f"Kept in {folder}", soft_wrap=True)
        if not folders:
            console.print("Nothing was compiled: NUMBA_DISABLE_JIT is set.")


def _cache_folders() -> list[str]:
    """Return where Numba keeps the compiled kernels.

    Only Numba knows: it depends on NUMBA_CACHE_DIR and on whether the folder of the
    source can be written to.
    """
    from numba.core.dispatcher import Dispatcher

    return sorted(
        {
            thing.stats.cache_path
            for name, module in list(sys.modules.items())
            if name.startswith("spinney.")
            for thing in vars(module).values()
            if isinstance(thing, Dispatcher) and thing.stats.cache_path
        }
    )
