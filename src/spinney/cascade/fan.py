"""The rule of Fan et al. (2002): a normal guess at the full score, bin by bin."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError
from spinney.ordering import ScoreTable
from spinney.ordering.checks import (
    check_choice,
    check_count,
    check_max_disagreement,
    check_order,
    check_positive,
    check_rows,
    check_steps,
)
from spinney.ordering.qwyc import EARLY_EXITS, allowed_errors

Numbers = NDArray[np.float64]

# Without a width of its own, a bin is this share of the range of the full scores.
BIN_SHARE = 0.01
# The search for gamma ends at this relative precision.
GAMMA_PRECISION = 1e-3
# More than so many bins at one step mean a bin width that is far too small.
MAX_BINS = 2**20


@dataclass(frozen=True, eq=False)
class FanPolicy:
    """An order of trees, and for every step and score bin how sure one can be.

    Let `mean` and `deviation` be those of the partial less the full score among the
    calibration rows of a bin. A row is decided as positive if its partial score is
    above ``beta + mean + gamma * deviation``, as negative if it is below ``beta + mean
    - gamma * deviation``. A row in a bin without (or with too few) calibration rows is
    asked to the end.

    Parameters
    ----------
    order : ndarray of shape (n_trees,), dtype=int64
        Trees in the order in which they are asked.
    check_steps : ndarray of shape (n_checks,), dtype=int64
        Numbers of trees after which a row may be decided.
    beta : float
        The score from which the full ensemble decides for the second class.
    bin_width : float
        A score ``g`` is in bin ``floor(g / bin_width)``.
    first_bin : ndarray of shape (n_checks,), dtype=int64
        Number of the first bin of each check.
    offsets : ndarray of shape (n_checks + 1,), dtype=int64
        Where the bins of each check begin in the next two arrays.
    mean, deviation : ndarray of shape (n_bins,)
        Of all bins of all checks; NaN where there are too few rows.
    gamma : float
        How many deviations are sure enough.
    early_exit : {"both", "negative", "positive"}
        Which decisions may be taken early.
    """

    order: NDArray[np.int64]
    check_steps: NDArray[np.int64]
    beta: float
    bin_width: float
    first_bin: NDArray[np.int64]
    offsets: NDArray[np.int64]
    mean: Numbers
    deviation: Numbers
    gamma: float
    early_exit: str

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.order)

    def widened(self, table: ScoreTable, deviations: float) -> FanPolicy:
        """Return a more cautious policy, with a larger gamma.

        Parameters
        ----------
        table : ScoreTable
            Not needed here.
        deviations : float
            By how many times `gamma`, or one if that is larger, to increase it.
        """
        return replace(self, gamma=self.gamma + deviations * max(1.0, self.gamma))

    def certainty(self, check: int, partial: Numbers) -> Numbers:
        """Return by how many deviations each row is above or below the border.

        Parameters
        ----------
        check : int
            Place in `check_steps`.
        partial : ndarray of shape (n_rows,)
            Partial scores. Rows in unknown bins come out as NaN.
        """
        start, end = self.offsets[check], self.offsets[check + 1]
        place = np.floor(partial / self.bin_width) - self.first_bin[check]
        known = (place >= 0) & (place < end - start)
        bins = start + np.where(known, place, 0).astype(np.int64)
        ahead = partial - self.beta - np.where(known, self.mean[bins], np.nan)
        # Without deviation there is certainty, except exactly on the border.
        with np.errstate(divide="ignore", invalid="ignore"):
            sure = ahead / self.deviation[bins]
        return np.where(ahead == 0.0, 0.0, sure)

    def stops(
        self, check: int, partial: Numbers
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return at a check the class, whether to stop, and whether to ask to the end.

        Parameters
        ----------
        check : int
            Place in `check_steps`.
        partial : ndarray of shape (n_rows,)
            Partial scores.
        """
        sure = self.certainty(check, partial)
        positive = sure > self.gamma if self.early_exit != "negative" else sure > np.inf
        negative = sure < -self.gamma
        if self.early_exit == "positive":
            negative = np.zeros(len(sure), dtype=np.bool_)
        return positive.astype(np.int64), positive | negative, np.isnan(sure)

    def follow(self, table: ScoreTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Decide the rows of a table as the policy says.

        Parameters
        ----------
        table : ScoreTable
            Scores of all trees for the rows; those not needed are not looked at.

        Returns
        -------
        decisions : ndarray of shape (n_rows,)
            Class indices. Rows that no check decides have the full decision.
        n_asked : ndarray of shape (n_rows,)
            Trees asked for each row.
        """
        decisions = table.decisions.copy()
        n_asked = np.full(table.n_rows, self.n_trees, dtype=np.int64)
        rows = np.arange(table.n_rows)
        partial = table.start()
        step = 0
        for check, end in enumerate(self.check_steps.tolist()):
            for tree in self.order[step:end].tolist():
                table.add_tree(tree, partial, rows)
            step = end
            says, stops, to_the_end = self.stops(check, partial)
            decisions[rows[stops]] = says[stops]
            n_asked[rows[stops]] = end
            left = ~(stops | to_the_end)
            rows, partial = rows[left], partial[left]
            if len(rows) == 0:
                break
        return decisions, n_asked


def fit_fan(
    table: ScoreTable,
    order: ArrayLike,
    max_disagreement: float | None = None,
    *,
    gamma: float | None = None,
    bin_width: float | None = None,
    min_count: int = 1,
    early_exit: str = "both",
    steps: ArrayLike | None = None,
) -> FanPolicy:
    """Fit the rule of Fan et al. to an order that is given.

    Parameters
    ----------
    table : ScoreTable
        Scores of rows to fit on, for two classes.
    order : array-like of shape (n_trees,)
        Trees in the order in which they are asked.
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
    steps : array-like of int, optional
        Numbers of trees after which rows may be decided; by default after every tree.

    Returns
    -------
    policy : FanPolicy
        The order and the bins.

    References
    ----------
    .. [1] W. Fan, F. Chu, H. Wang and P. S. Yu, "Pruning and dynamic scheduling of
       cost-sensitive ensembles", AAAI, 2002.
    """
    if not table.is_binary:
        msg = (
            "The rule 'fan' is for two classes. Use 'thresholds' or 'optimal', which "
            "look at the lead of the best class."
        )
        raise InvalidArgumentError(msg)
    if (max_disagreement is None) == (gamma is None):
        msg = "Pass either max_disagreement or gamma, and not both."
        raise InvalidArgumentError(msg)
    if gamma is not None and not gamma >= 0.0:
        msg = f"gamma must not be negative, got {gamma!r}. It counts deviations."
        raise InvalidArgumentError(msg)
    sequence = check_order(order, table.n_trees)
    checks = check_steps(steps, table.n_trees)
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
    first_bin = np.zeros(len(checks), dtype=np.int64)
    means: list[Numbers] = []
    deviations: list[Numbers] = []
    wanted = {step: check for check, step in enumerate(checks.tolist())}
    for step, partial in table.partial_scores(sequence):
        if step in wanted:
            first, mean, deviation = _bins(partial, partial - full, width, min_count)
            first_bin[wanted[step]] = first
            means.append(mean)
            deviations.append(deviation)
    sizes = [len(mean) for mean in means]
    policy = FanPolicy(
        sequence,
        checks,
        table.beta,
        width,
        first_bin,
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64),
        np.concatenate([*means, np.empty(0)]),
        np.concatenate([*deviations, np.empty(0)]),
        0.0 if gamma is None else float(gamma),
        early_exit,
    )
    if max_disagreement is None:
        return policy
    budget = allowed_errors(check_max_disagreement(max_disagreement), table.n_rows)
    return replace(policy, gamma=_smallest_gamma(policy, table, budget))


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
    place = (number - first).astype(np.int64)
    count = np.bincount(place)
    with np.errstate(invalid="ignore"):  # an empty bin has no mean
        mean = np.bincount(place, weights=ahead) / count
        square = np.bincount(place, weights=(ahead - mean[place]) ** 2) / count
    deviation = np.sqrt(square)
    few = count < min_count
    mean[few] = deviation[few] = np.nan
    return int(first), mean, deviation


def _smallest_gamma(policy: FanPolicy, table: ScoreTable, budget: int) -> float:
    """Return about the smallest gamma with at most `budget` wrong decisions.

    The number of wrong decisions falls with gamma as a whole, though not at every
    single step. It is looked for from above: the gamma returned keeps the budget, and
    one a little smaller does not.
    """
    sure = np.zeros((len(policy.check_steps), table.n_rows))
    wanted = {step: check for check, step in enumerate(policy.check_steps.tolist())}
    lost = np.zeros(table.n_rows, dtype=np.bool_)
    for step, partial in table.partial_scores(policy.order):
        if step in wanted:
            found = policy.certainty(wanted[step], partial)
            lost |= np.isnan(found)
            found[lost] = 0.0  # from an unknown bin on to the end
            sure[wanted[step]] = found
    if policy.early_exit == "negative":
        np.minimum(sure, 0.0, out=sure)
    if policy.early_exit == "positive":
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
