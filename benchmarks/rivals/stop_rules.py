"""Published rules that stop a row early, each written from its description.

Every rule has one number that makes it bolder. For a list of such numbers a rule
returns the step at which each row stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals.partial import Partial

# Numbers to choose from, of the share of rows that is bolder than them.
N_DIALS = 200
# Trees between two looks of LightGBM, its default; windows of P2-STOP; trees before the
# first look at an average.
LIGHTGBM_FREQUENCY = 10
FIRST_LOOKS = (1, 4, 8, 16, 32)
WINDOWS = (8, 16, 32)


@dataclass(frozen=True)
class Stopped:
    """What a rule does to rows.

    Parameters
    ----------
    dial : float
        The number that makes the rule bolder or more cautious.
    step : ndarray of shape (n_rows,)
        Index of the step after which each row stops.
    """

    dial: float
    step: NDArray[np.int64]


def outcome(partial: Partial, stopped: Stopped) -> tuple[float, float]:
    """Return trees evaluated on average, and the share of rows that disagree."""
    rows = np.arange(len(stopped.step))
    labels = partial.labels
    differs = labels[rows, stopped.step] != labels[:, -1]
    return float(partial.n_trees[stopped.step].mean()), float(differs.mean())


def first_above(
    lead: NDArray[np.floating], dial: float, allowed: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the first allowed step with a lead above a number, or the last."""
    clear = (lead > dial) & allowed
    step = clear.argmax(axis=1)
    return np.where(clear.any(axis=1), step, lead.shape[1] - 1)


def dials_of(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return numbers to try, from bold to cautious, spread over what occurs."""
    return np.unique(np.quantile(values, np.linspace(0.0, 1.0, N_DIALS)))


def aggregated_margin(
    partial: Partial,
    first: int = 1,
    summed: bool = False,
    dials: NDArray[np.float64] | None = None,
) -> Iterator[Stopped]:
    """Stop when the aggregated scores of the two best classes are far enough apart.

    The rule of Daghero et al. for forests on microcontrollers (2022, 2023), with one
    threshold for all steps and a look after every tree from `first` on.

    Parameters
    ----------
    partial : Partial
        What the steps predict.
    first : int, default=1
        Steps before the first look.
    summed : bool, default=False
        Whether the scores of a forest are added up instead of averaged. The lead of a
        sum grows with the trees, so that early leads have to be clearer.
    dials : ndarray, optional
        Thresholds; by default those that suit the rows.
    """
    lead = partial.lead
    if summed:
        lead = lead * partial.n_trees
    looks = np.arange(1, lead.shape[1] + 1) >= first
    for dial in dials_of(lead) if dials is None else dials:
        yield Stopped(float(dial), first_above(lead, dial, looks))


def lightgbm_early_stop(
    partial: Partial, *, dials: NDArray[np.float64] | None = None
) -> Iterator[Stopped]:
    """Stop as LightGBM's ``pred_early_stop``: a margin, every ten rounds."""
    lead = partial.lead
    looks = np.arange(1, lead.shape[1] + 1) % LIGHTGBM_FREQUENCY == 0
    for dial in dials_of(lead) if dials is None else dials:
        yield Stopped(float(dial), first_above(lead, dial, looks))


def interquartile(
    partial: Partial, window: int, *, dials: NDArray[np.float64] | None = None
) -> Iterator[Stopped]:
    """Stop when the spread of the last increments is small beside that of the first.

    P2-STOP (2026), the variant with a rolling window and exact quantiles: the
    interquartile range of the last `window` increments of the prediction, relative to
    that of the first `window`.
    """
    increments = partial.increments
    if increments.shape[1] <= window:
        yield Stopped(0.0, np.full(len(increments), increments.shape[1] - 1))
        return
    spread = np.concatenate(
        [
            _interquartile_ranges(increments[start : start + 500], window)
            for start in range(0, len(increments), 500)
        ]
    )
    first = np.maximum(spread[:, :1], np.finfo(np.float32).tiny)
    relative = spread / first
    every = np.ones(relative.shape[1], dtype=np.bool_)
    for dial in dials_of(relative) if dials is None else dials:
        step = first_above(-relative, -dial, every)
        # A window ends at its last increment.
        yield Stopped(float(dial), step + window - 1)


def _interquartile_ranges(
    increments: NDArray[np.floating], window: int
) -> NDArray[np.floating]:
    windows = np.lib.stride_tricks.sliding_window_view(increments, window, axis=1)
    low, high = np.quantile(windows, [0.25, 0.75], axis=2)
    return high - low


def fewer_trees(
    partial: Partial, *, dials: NDArray[np.float64] | None = None
) -> Iterator[Stopped]:
    """Stop every row after the same step: what training with fewer trees gives.

    With the same seed, a model that is trained with fewer trees consists of the first
    trees of the larger one.
    """
    n_rows, n_steps = partial.lead.shape
    for step in np.arange(n_steps) if dials is None else dials:
        yield Stopped(float(step), np.full(n_rows, int(step)))
