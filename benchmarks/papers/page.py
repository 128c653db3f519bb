"""Pages with a part that a benchmark writes and a part that people write."""

from __future__ import annotations

from pathlib import Path

from benchmarks.compare import machine
from benchmarks.compare.table import BEGIN, END

FOLDER = Path(__file__).parent


def put_results(page: Path, text: str) -> None:
    """Put new results into a page, between the two marks that it has for them.

    Parameters
    ----------
    page : path
        A Markdown file with the marks ``<!-- results: begin -->`` and
        ``<!-- results: end -->``. What stands outside of them is kept.
    text : str
        The results.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        msg = f"{page.name} must hold the marks {BEGIN} and {END}. Put them in."
        raise ValueError(msg)
    page.write_text(f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{after}", "utf-8")


def machine_line() -> str:
    """Return processor, versions, date and load in one line."""
    facts = machine.describe()
    names = ("numpy", "numba", "scikit-learn", "spinney")
    versions = ", ".join(
        f"{name} {facts['versions'][name]}"
        for name in names
        if name in facts["versions"]
    )
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['system']}, {facts['date']}, "
        f"load average {facts['load_before']:.1f}; Python {facts['python']}; "
        f"{versions}."
    )
