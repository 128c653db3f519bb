"""``spinney demo``: four ways to evaluate less, on small models, in a minute."""

from __future__ import annotations

import json
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from spinney.cli.console import (
    PROMISE_NOT_KEPT,
    Debug,
    OutputAsJson,
    Quiet,
    complain,
    output,
    plain_errors,
)
from spinney.cli.outputs import check_outputs
from spinney.persistence.atomic_write import write_atomically

if TYPE_CHECKING:
    from spinney.cli.demo_rooms import Shown

PAGE = Path("spinney-demo.html")
# New rows are a sample: what they show has to be less likely than this, if the bound
# holds, to be worth a complaint.
UNLIKELY = 1e-3


def demo(
    page: Annotated[Path, typer.Option(help="Where to write the HTML page.")] = PAGE,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Try spinney on small models, in about a minute.

    Trains on data that come with scikit-learn and on synthetic rows, then evaluates
    less: votes stopped early, a cascade, an anytime forest, a pruned forest. Prints how
    much was evaluated, how often predictions changed and how long it took, and writes
    an HTML page with charts. Nothing is downloaded.
    """
    with plain_errors(debug, quiet):
        import spinney

        check_outputs(page)
        console = output(quiet=quiet or as_json)
        start = time.perf_counter()
        shown = _all_shown(console)
        written = _write_page(shown, page, spinney.__version__)
        if as_json:
            typer.echo(json.dumps(_document(shown), indent=2))
        _show(shown, console)
        if written:
            console.print(f"\nDrawings: {page}", soft_wrap=True)
        else:
            console.print(
                "\nFor a page with drawings, install the extra report: "
                'python -m pip install "spinney\\[report]"'
            )
        console.print(f"All of this took {time.perf_counter() - start:.0f} s.")
        _complain_of_broken_promises(shown)


def _all_shown(console: Console) -> list[Shown]:
    """Train, evaluate and compare."""
    from spinney.cli.demo_rooms import compiled_aside, rooms
    from spinney.runtime.compile_notice import not_mentioned

    shows = rooms()
    console.print(
        "Training small models and evaluating them. On a new machine this compiles "
        "first, for half a minute; spinney warm-up does that ahead.\n"
    )
    shown = []
    with compiled_aside(), not_mentioned():
        for words, show in shows.items():
            start = time.perf_counter()
            console.print(f"{words} ...", end="")
            shown.append(show())
            console.print(f" {time.perf_counter() - start:.0f} s")
    if len(shown) < 4:
        console.print(
            'For a pruned forest, install the extra prune: "spinney\\[prune]"'
        )
    return shown


def _write_page(shown: list[Shown], page: Path, version: str) -> bool:
    """Write the page, if what it needs is installed."""
    from spinney.cli.demo_page import html_of_demo

    try:
        text = html_of_demo(shown, version)
    except ImportError:
        return False
    write_atomically(str(page), [text.encode("utf-8")])
    return True


def _document(shown: list[Shown]) -> dict[str, Any]:
    """Return what was shown as plain values."""
    return {
        one.name: {
            field.name: getattr(one, field.name)
            for field in fields(one)
            if field.name not in ("name", "report")
        }
        for one in shown
    }


def _show(shown: list[Shown], console: Console) -> None:
    """Print the result for people."""
    # Few lines, so that nothing but headings is broken in eighty columns.
    table = Table(
        title="\nOn new rows",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("")
    for heading in (
        "used per row",
        "may differ",
        "differ",
        "sklearn µs",
        "spinney µs",
        "times as fast",
    ):
        table.add_column(heading, justify="right")
    for column in table.columns:
        column.min_width = max(len(word) for word in str(column.header or "-").split())
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for one in shown:
        table.add_row(
            one.name,
            f"{one.used:.0f}/{one.in_all:.0f} {one.unit}",
            "" if one.promised is None else f"{100.0 * one.promised:.1f} %",
            f"{100.0 * one.disagreement:.2f} %",
            f"{one.scikit_learn:.1f}",
            f"{one.spinney:.2f}",
            f"{one.scikit_learn / one.spinney:,.0f}",
        )
    console.print(table)
    first = shown[0]
    n_new = sum(one.n_new for one in shown)
    console.print(
        "Differ: from the prediction of the full model, on rows that neither it nor "
        f"spinney has seen. A bound of {100.0 * (first.promised or 0):.1f} % was set "
        "with 95 % confidence; stopping after some steps and pruning promise none. "
        "Times: per row, in a batch, one thread, the fastest of three."
    )
    console.print(
        f"A single row: {first.single_spinney:.1f} µs with early exit, "
        f"{first.single_scikit_learn:,.0f} µs with scikit-learn."
    )
    n_different = sum(one.n_different for one in shown)
    console.print(
        "With all trees, spinney made the same predictions as scikit-learn for "
        f"{n_new - n_different:,} of {n_new:,} rows."
    )


def _is_broken(one: Shown) -> bool:
    """Whether new rows are evidence that the bound is broken, and no mere bad luck."""
    from scipy.stats import binom

    assert one.promised is not None
    n_disagreements = round(one.disagreement * one.n_new)
    return bool(binom.sf(n_disagreements - 1, one.n_new, one.promised) < UNLIKELY)


def _complain_of_broken_promises(shown: list[Shown]) -> None:
    """End with exit code 1 if a prediction or a share is not as it should be."""
    broken = []
    for one in shown:
        if one.n_different:
            broken.append(
                f"{one.name}: with all trees, {one.n_different:,} predictions differ "
                "from scikit-learn's. Please report this as a bug."
            )
        if one.promised is not None and _is_broken(one):
            broken.append(
                f"{one.name}: {100.0 * one.disagreement:.2f} % of the predictions "
                f"differ, but {100.0 * one.promised:.2f} % were allowed."
            )
    if broken:
        complain("\n".join(broken))
        raise typer.Exit(PROMISE_NOT_KEPT)
