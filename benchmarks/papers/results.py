"""The papers' figures and ours side by side, in one page.

``python -m benchmarks.papers.results`` writes ``RESULTS.md``. Ours are taken from the
pages that the other benchmarks have written, so nothing is measured here; what the
papers print is in ``published.py``.
"""

from __future__ import annotations

import argparse

from benchmarks.papers import (
    anytime_rows,
    cascade_rows,
    pruning_rows,
    published,
    sequential_rows,
)
from benchmarks.papers.page import FOLDER
from benchmarks.papers.side_by_side import as_table

PAGE = FOLDER / "RESULTS.md"

OPENING = """\
# The papers' figures and ours

Row by row: what each of the four papers prints, our result, and a remark where the two
differ. `python -m benchmarks.papers.results` writes this page from the pages of the
single benchmarks, which describe how everything was measured.

- *Paper* has the numbers that are printed in its tables or its text. Where a figure
  shows a curve without numbers, it says so; no numbers were read off figures.
- *Ours* is a mean ± one standard deviation over splits, folds or seeds, where that was
  recorded.
- *Alike* means that the two means differ by at most two standard errors (of both, if
  the paper prints a spread; otherwise with ours for both), or in the last digit
  printed. Folds and splits share rows, so standard errors are underestimated, and
  differences of more than two standard errors may still be chance.
"""


def render() -> str:
    """Return the whole page."""
    parts = [OPENING]
    for title, paper, page, rows in (
        (
            "Optimal sequential testing",
            published.SEQUENTIAL,
            "sequential.md",
            sequential_rows,
        ),
        ("Quit when you can", published.CASCADE, "cascade.md", cascade_rows),
        ("Jump like a squirrel", published.ANYTIME, "anytime.md", anytime_rows),
        ("Pruning with feature costs", published.PRUNING, "pruning.md", pruning_rows),
    ):
        parts += [
            f"## {title}\n\n{paper}. How ours was measured: [{page}]({page}).\n",
            as_table(rows.all_rows(FOLDER)),
            rows.NOTES,
        ]
    return "\n".join(parts)


def main() -> None:
    """Write the page, or say whether it is up to date."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.results", description=__doc__
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if it would change"
    )
    text = render()
    if parser.parse_args().check:
        if PAGE.read_text(encoding="utf-8") != text:
            parser.exit(1, f"{PAGE.name} is out of date: run this without --check\n")
        return
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.name}: {text.count(chr(10))} lines")


if __name__ == "__main__":
    main()
