"""The narrowest leaf values that rows prove to keep the bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.bounds import clopper_pearson_upper
from spinney.calibration.risk_control import n_allowed
from spinney.export.program import Program
from spinney.export.quantisation import WIDTHS, Quantised, quantise
from spinney.export.simulation import early_answers, final_answers

# What a model that makes no promise of its own is held to.
DEFAULT_BOUND = 1e-3


@dataclass(frozen=True)
class WidthTried:
    """What leaf values of one width cost and do.

    Parameters
    ----------
    width : int
        Bits of a leaf value.
    flash_bytes : int
        Bytes of all tables.
    max_error : float
        Proven bound on how far the sum of all trees is off, in the unit of the scores.
    n_disagreements : int
        Rows that are predicted otherwise than by the model.
    n_rows : int
        Rows looked at.
    bound : float
        What the rows prove: a bound on the expected share of such rows among new ones,
        or, with a confidence, one that holds with this confidence.
    is_proven : bool
        Whether it is at most what was promised.
    mean_trees : float
        Trees evaluated for a row, on average.
    """

    width: int
    flash_bytes: int
    max_error: float
    n_disagreements: int
    n_rows: int
    bound: float
    is_proven: bool
    mean_trees: float


def narrowest(
    program: Program,
    rows: NDArray[np.floating],
    max_disagreement: float,
    confidence: float | None,
    bytes_of: Callable[[Quantised], int],
    n_jobs: int | None = None,
) -> tuple[Quantised, list[WidthTried]]:
    """Return the program with the narrowest leaf values that keep the bound.

    Widths are tried from the widest on, each on the same rows, until one fails; the one
    before it is taken. If the widest fails already, it is taken all the same, and
    nothing is proven.

    Parameters
    ----------
    program : Program
        What the code has to do.
    rows : ndarray of shape (n_rows, n_features)
        Rows, as the forest's engine makes them, that were used for nothing else.
    max_disagreement : float
        The bound.
    confidence : float or None
        Confidence with which it is to hold; None for a bound in expectation.
    bytes_of : callable
        Tells how many bytes the tables of a program take.
    n_jobs : int or None, default=None
        Number of threads for the model's own predictions.

    Returns
    -------
    chosen : Quantised
        The program in whole numbers.
    tried : list of WidthTried
        What was looked at, the last one that failed included.
    """
    forest = program.forest
    full = forest.winners(forest.engine.raw(rows, n_jobs))
    chosen: Quantised | None = None
    tried = []
    seen: Any = None
    lost = np.zeros(len(rows), dtype=np.bool_)
    for width in WIDTHS:
        candidate = quantise(program, width)
        if candidate.steps is not None:
            answers = final_answers(forest, candidate.steps, rows)
            n_trees = np.full(len(rows), forest.n_trees)
        else:
            answers, n_trees = early_answers(
                program.ordered, candidate.sums, rows, program.n_classes
            )
        n_events = int(np.count_nonzero(answers != full))
        lost |= answers != full
        if confidence is None:
            # Risk control, see `spinney.calibration.risk_control`: a row that a wider
            # candidate has lost stays lost.
            n_lost = int(np.count_nonzero(lost))
            bound = (n_lost + 1) / (len(rows) + 1)
            is_proven = n_lost <= n_allowed(len(rows), max_disagreement)
        else:
            bound = clopper_pearson_upper(n_events, len(rows), confidence)
            is_proven = bound <= max_disagreement
        tried.append(
            WidthTried(
                width,
                bytes_of(candidate),
                candidate.error,
                n_events,
                len(rows),
                bound,
                is_proven,
                float(n_trees.mean()) if len(rows) else 0.0,
            )
        )
        if is_proven or chosen is None:
            chosen = candidate
        if not is_proven:
            break
        # Votes are whole numbers at any width: nothing more to gain.
        if seen is not None and np.array_equal(seen, candidate.sums.values):
            break
        seen = candidate.sums.values
    assert chosen is not None
    return chosen, tried
