"""The rule of Fan et al. (2002): a normal guess at the full score, bin by bin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.base.parameters import (
    check_choice,
    check_count,
    check_positive,
    check_rows,
)
from spinney.calibration.bounds import check_max_disagreement
from spinney.errors import InvalidArgumentError
from spinney.ordering import ScoreTable
from spinney.ordering.qwyc import allowed_errors
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.order_checks import check_exit_points, check_order
from spinney.runtime.score_bins import EARLY_EXITS, ScoreBins

Numbers = NDArray[np.float64]

# Without a width of its own, a bin is this share of the range of the full scores.
BIN_SHARE = 0.01
# The search for gamma ends at this relative precision.
GAMMA_PRECISION = 1e-3
# More than so many bins at one step mean a bin width that is far too small.
MAX_BINS = 2**20


def fit_fan(
    table: ScoreTable,
    order: ArrayLike,
    max_disagreement: float | None = None,
    *,
    gamma: float | None = None,
    bin_width: float | None = None,
    min_count: int = 1,
    early_exit: str = "both",
    exit_points: ArrayLike | None = None,
) -> ExitRule:
    """Fit the rule of Fan et al. to an order that is given.

    Parameters
    ----------
    table : ScoreTable
        Scores of rows to fit on, for two classes.
    order : array-like of shape (n_trees,)
        Trees in the order in which they are evaluated.
    max_disagreement : float, optional
        Share of these rows that may be decided differently from the full ensemble.
        The smallest `gamma` is searched that keeps it.
    gamma : float, optional
        How many standard deviations are sure enough, not negative, instead of
        `max_disagreement`.
    bin_width : float, optional
        Width of the score bins; by default a hundredth of the range of the full
        scores.
    min_count : int, default=1
        Bins with fewer rows than this count as unknown.
    early_exit : {"both", "negative", "positive"}, default="both"
        Which decisions may be taken early.
    exit_points : array-like of int, optional
        Numbers of trees after which rows may exit; by default after every tree.

    Returns
    -------
    rule : ExitRule
        The order and the bins.

    References
    ----------
    .. [1] W. Fan, F. Chu, H. Wang and P. S. Yu, "Pruning and dynamic scheduling of
       cost-sensitive ensembles", AAAI, 2002.
    """
    if not table.is_binary:
        msg = (
            "The rule 'fan' is for two classes. Use 'thresholds' or 'optimal', which "
            "use the lead of the best class."
        )
        raise InvalidArgumentError(msg)
    if (max_disagreement is None) == (gamma is None):
        msg = "Pass either max_disagreement or gamma, and not both."
        raise InvalidArgumentError(msg)
    if gamma is not None and not gamma >= 0.0:
        msg = (
            f"gamma must not be negative, got {gamma!r}. It is a number of standard "
            "deviations."
        )
        raise InvalidArgumentError(msg)
    sequence = check_order(order, table.n_trees)
    points = check_exit_points(exit_points, table.n_trees)
    check_choice("early_exit", early_exit, EARLY_EXITS)
    min_count = check_count("min_count", min_count, 1)
    check_rows(table.n_rows)
    full = table.full_scores()
    if not np.isfinite(full).all():
        msg = "The rule 'fan' needs finite scores: it takes means of them."
        raise InvalidArgumentError(msg)
    spread = float(full.max() - full.min())
    if bin_width is None:
        bin_width = BIN_SHARE * spread if spread > 0.0 else 1.0
    width = check_positive("bin_width", bin_width)
    first_bin = np.zeros(len(points), dtype=np.int64)
    means: list[Numbers] = []
    deviations: list[Numbers] = []
    wanted = {step: k for k, step in enumerate(points.tolist())}
    for step, partial in table.partial_scores(sequence):
        if step in wanted:
            first, mean, deviation = _bins(partial, partial - full, width, min_count)
            first_bin[wanted[step]] = first
            means.append(mean)
            deviations.append(deviation)
    sizes = [len(mean) for mean in means]
    bins = ScoreBins(
        table.beta,
        width,
        first_bin,
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64),
        np.concatenate([*means, np.empty(0)]),
        np.concatenate([*deviations, np.empty(0)]),
        0.0 if gamma is None else float(gamma),
        early_exit,
    )
    if max_disagreement is not None:
        budget = allowed_errors(check_max_disagreement(max_disagreement), table.n_rows)
        found = _smallest_gamma(bins, sequence, wanted, table, budget)
        bins = bins._replace(gamma=found)
    return ExitRule.by_bin(sequence, points, bins)


def widened_bins(rule: ExitRule, deviations: float) -> ExitRule:
    """Return a more conservative rule, with a larger gamma.

    Parameters
    ----------
    rule : ExitRule
        A rule by bins.
    deviations : float
        By how many times `gamma`, or one if that is larger, to increase it.
    """
    assert rule.bins is not None
    gamma = rule.bins.gamma + deviations * max(1.0, rule.bins.gamma)
    return replace(rule, bins=rule.bins._replace(gamma=gamma))


def _bins(
    partial: Numbers, ahead: Numbers, width: float, min_count: int
) -> tuple[int, Numbers, Numbers]:
    """Return the first bin, and mean and deviation of `ahead` in each from there on."""
    number = np.floor(partial / width)
    first = float(number.min())
    if number.max() - first >= MAX_BINS:
        msg = (
            f"bin_width={width!r} makes more than {MAX_BINS:,} bins of the partial "
            "scores. Pass a larger one."
        )
        raise InvalidArgumentError(msg)
    bins = (number - first).astype(np.int64)
    count = np.bincount(bins)
    with np.errstate(invalid="ignore"):  # an empty bin has no mean
        mean = np.bincount(bins, weights=ahead) / count
        square = np.bincount(bins, weights=(ahead - mean[bins]) ** 2) / count
    deviation = np.sqrt(square)
    few = count < min_count
    mean[few] = deviation[few] = np.nan
    return int(first), mean, deviation


def _smallest_gamma(
    bins: ScoreBins,
    order: NDArray[np.int64],
    wanted: dict[int, int],
    table: ScoreTable,
    budget: int,
) -> float:
    """Return about the smallest gamma with at most `budget` wrong decisions.

    The number of wrong decisions falls with gamma as a whole, though not at every
    single step. It is looked for from above: the gamma returned keeps the budget, and
    one a little smaller does not.
    """
    sure = np.zeros((len(wanted), table.n_rows))
    lost = np.zeros(table.n_rows, dtype=np.bool_)
    for step, partial in table.partial_scores(order):
        if step in wanted:
            found = bins.certainty(wanted[step], partial)
            lost |= np.isnan(found)
            found[lost] = 0.0  # from an unknown bin on to the end
            sure[wanted[step]] = found
    if bins.early_exit == "negative":
        np.minimum(sure, 0.0, out=sure)
    if bins.early_exit == "positive":
        np.maximum(sure, 0.0, out=sure)
    positive = table.decisions == 1
    right_side = np.where(positive, sure, -sure)

    def n_wrong(gamma: float) -> int:
        stops = np.abs(sure) > gamma
        first = stops.argmax(axis=0) if len(stops) else np.zeros(0, dtype=np.int64)
        rows = np.flatnonzero(stops.any(axis=0))
        return int(np.count_nonzero(right_side[first[rows], rows] < 0.0))

    if n_wrong(0.0) <= budget:
        return 0.0
    high = 1.0
    while n_wrong(high) > budget:
        high *= 2.0
    low = 0.0
    while high - low > GAMMA_PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if n_wrong(middle) <= budget else (middle, high)
    return high
