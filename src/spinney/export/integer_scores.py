"""Scores of all trees as whole numbers, for those who want more than the class."""

from __future__ import annotations

import re

from spinney.export.c_text import fill
from spinney.export.exits import EarlyExit

SCORES = """
void P_scores(const $row *row, $sum *scores) {
    $sum *total = scores;
    size_t tree, at$v;
$declarations$load$start    for (tree = 0; tree < $n_trees; tree++) {
$leaf$add    }
}
"""
LAZILY = """
int P_predict_lazily(P_fetch fetch, void *context) {
    $sum total[$n_sums];
    size_t tree, at$v;
$begin$start    for (tree = 0; tree < $n_trees; tree++) {
        at = P_walk_buying(&p, tree);
$add    }
$end}
"""


class IntegerScores:
    """The functions that add up all trees in whole numbers.

    Parameters
    ----------
    early : EarlyExit
        What is added up, after its own source was made.
    row : str
        Type of the numbers of a row.
    """

    def __init__(self, early: EarlyExit, row: str) -> None:
        self.early = early
        self.row = row

    @property
    def prototypes(self) -> list[str]:
        """Declarations for the header."""
        sums = self.early.sums
        return [
            f"/* Sums of all trees: {sums.n_sums} whole numbers. */\n"
            f"void P_scores(const {self.row} *row, {sums.ctype} *scores);"
        ]

    def source(self, load: str) -> str:
        """Return the function that adds up all trees.

        Parameters
        ----------
        load : str
            Statements that make `keys` of `row`.
        """
        layout, parts = self.early.layout, self._parts()
        if not re.search(r"\bv\b", parts["start"] + parts["add"]):
            parts["v"] = ""
        return fill(
            SCORES,
            declarations=layout.declarations,
            load=load,
            leaf=layout.leaf_of("tree", own=False),
            **parts,
        )

    def lazily_source(self, begin: str) -> str:
        """Return the function that buys features.

        Parameters
        ----------
        begin : str
            Statements that begin with nothing bought.
        """
        return fill(LAZILY, begin=begin, end=self.early.end(), **self._parts())

    def _parts(self) -> dict[str, str]:
        early = self.early
        return {
            "row": self.row,
            "sum": early.sums.ctype,
            "n_sums": str(early.sums.n_sums),
            "v": ", v" if early.sums.n_sums > 1 else "",
            "start": early.start(),
            "n_trees": str(early.layout.forest.n_trees),
            "add": early.adding,
        }
