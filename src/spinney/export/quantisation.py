"""Sums as whole numbers, with a proven bound on what rounding does to them.

A value ``v`` becomes ``round(v * scale)``. After some trees the sum of the rounded
values, divided by the scale, is off by no more than the sum of the largest rounding
errors of these trees; that number is worked out from the values themselves. Where a
rule lets a row exit below or above a bound, the rounded sum has to be beyond the bound
by this much: a row exits only where the sum of the exact values would let it exit,
too. Where a rule drops classes, the errors of both sums are added to the lead: the
exact sum of a class that is dropped is behind by more than the exact lead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spinney.errors import UnsupportedModelError
from spinney.export.anytime import StepSums
from spinney.export.early_sums import EarlySums
from spinney.export.program import Program
from spinney.forest import Forest
from spinney.runtime.exit_kinds import BETWEEN, BY_BIN, BY_MARGIN, DROPPING
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.scoring import (
    decision_threshold,
    rounding_tolerance,
    scoring_forest,
)

# Widths of a leaf value, from the most conservative to the most aggressive.
WIDTHS = (32, 16, 8)
# No sum exceeds this, so that the difference of two fits into 32 bits.
MAX_SUM = 2**30 - 1


@dataclass(frozen=True, eq=False)
class Quantised:
    """A program in whole numbers.

    Parameters
    ----------
    width : int
        Bits of a leaf value.
    scale : float
        What a value is multiplied with.
    error : float
        Proven bound on how far the sum of all trees is off, in the unit of the scores.
    sums : EarlySums
        What is added up, and when rows exit.
    steps : StepSums or None
        The same for the steps of an anytime classifier.
    """

    width: int
    scale: float
    error: float
    sums: EarlySums
    steps: StepSums | None


def refuse_integer(program: Program) -> None:
    """Raise if a program cannot do with whole numbers.

    Parameters
    ----------
    program : Program
        What the code has to do.
    """
    if program.forest.classes is None:
        msg = (
            "Integer arithmetic is for classifiers: the numbers of a regressor would "
            "be rounded. Use arithmetic='exact'."
        )
        raise UnsupportedModelError(msg)
    if program.rule is not None and program.rule.kind == BY_BIN:
        msg = (
            "The rule of this classifier divides scores into bins (rule='fan'), which "
            "has no integer form. Fit a CascadeClassifier with rule='thresholds', or "
            "use arithmetic='exact'."
        )
        raise UnsupportedModelError(msg)


def quantise(program: Program, width: int) -> Quantised:
    """Return a program with leaf values of so many bits.

    Parameters
    ----------
    program : Program
        What the code has to do.
    width : int
        Bits of a leaf value.
    """
    forest = program.forest
    rule, scoring = program.rule, program.scoring
    threshold, tolerance = program.decision_threshold, program.tolerance
    if rule is None or scoring is None:
        voting = "hard" if forest.aggregation == "vote" else "soft"
        scoring = scoring_forest(forest, voting)
        order = np.arange(forest.n_trees)
        rule = ExitRule.never(order, scoring.n_outputs, voting)
        threshold = decision_threshold(forest, voting)
        tolerance = rounding_tolerance(forest, scoring, voting)
    if rule.voting == "hard":
        sums, scale, error = _counted(scoring, rule, threshold), 1.0, 0.0
    else:
        # What the sums of floats are off by themselves counts, too.
        own = tolerance if math.isfinite(tolerance) else 0.0
        strict = forest.n_outputs > 1  # equal scores are the first class
        sums, scale, error = _rounded(scoring, rule, threshold, own, strict, width)
    steps = None if program.steps is None else _steps(program, width)
    return Quantised(width, scale, error, sums, steps)


def counted_sums(program: Program) -> EarlySums:
    """Return the votes of a rule that counts them.

    Parameters
    ----------
    program : Program
        What the code has to do, with a rule by votes.
    """
    assert program.rule is not None
    assert program.scoring is not None
    return _counted(program.scoring, program.rule, program.decision_threshold)


def _counted(scoring: Forest, rule: ExitRule, threshold: float) -> EarlySums:
    """Return votes, which are whole numbers as they are."""
    bounds = np.stack([np.ceil(rule.bounds[0]), np.floor(rule.bounds[1])])
    if rule.kind == BY_MARGIN:
        bounds[0] = np.floor(rule.bounds[0])
    most = scoring.n_trees + 1
    return EarlySums(
        _sum_type(scoring.n_trees),
        scoring.value.astype(np.int64),
        None,
        np.zeros(scoring.n_outputs, dtype=np.int64),
        rule.kind,
        rule.exit_points,
        np.clip(bounds, -most, most).astype(np.int64),
        rule.table,
        None,
        int(threshold),
        0.0,
        rule.at_once,
    )


def _sum_type(largest: int) -> str:
    """Return a type for sums; nothing narrower than what processors add quickly."""
    return "int16_t" if largest < 2**14 else "int32_t"


def _scale_for(largest: float, reach: float, width: int) -> float:
    """Return the scale at which values fit their width, and sums 32 bits."""
    if largest == 0.0:
        return 1.0
    return min(((1 << (width - 1)) - 1) / largest, (MAX_SUM / 4) / max(reach, largest))


def _rounded(
    scoring: Forest,
    rule: ExitRule,
    threshold: float,
    own: float,
    strict: bool,
    width: int,
) -> tuple[EarlySums, float, float]:
    """Return scores as whole numbers, the scale, and the bound on the error."""
    starts = scoring.tree_offsets[:-1]
    is_leaf = scoring.feature < 0
    used = np.where(is_leaf[:, None], scoring.value, 0.0)
    per_tree = np.maximum.reduceat(np.abs(used).max(axis=1), starts)
    base = scoring.base_score
    reach = float(per_tree.sum() + np.abs(base).max() + abs(_finite(threshold)))
    scale = _scale_for(float(np.abs(used).max()), reach, width)
    values = np.rint(used * scale)
    # In units of the rounded sums; a little more, because this is worked out in floats.
    off = np.maximum.reduceat(np.abs(values - used * scale).max(axis=1), starts)
    adds_to = np.ones((scoring.n_trees, scoring.n_outputs), dtype=np.bool_)
    if scoring.tree_output is not None:
        adds_to = scoring.tree_output[:, None] == np.arange(scoring.n_outputs)
    error = np.cumsum(off[:, None] * adds_to, axis=0)
    error = (error + own * scale) * (1.0 + 1e-9) + 1e-6
    one = scoring.n_outputs == 1
    start = np.zeros(scoring.n_outputs) if one else np.rint(base * scale)
    if not one:
        error += np.abs(start - base * scale)
    shift = base[0] * scale if one else 0.0
    at = error[rule.exit_points - 1]  # of each sum at each exit point
    bounds = rule.bounds
    if rule.kind == BETWEEN:
        lower = np.ceil(bounds[0] * scale - shift - at[:, 0])
        upper = np.floor(bounds[1] * scale - shift + at[:, 0])
        bounds = np.stack([lower, upper])
    elif rule.kind == BY_MARGIN:
        bounds = np.stack([np.floor(bounds[0] * scale + 2.0 * at.max(axis=1))] * 2)
    elif rule.kind == DROPPING:
        of_pairs = at[:, :, None] + at[:, None, :]
        bounds = np.floor(bounds * scale + of_pairs.reshape(bounds.shape))
    final = _finite(threshold) * scale - shift
    last = math.floor(final) + 1 if strict else math.ceil(final)
    largest = int(reach * scale) + scoring.n_trees + 2
    sums = EarlySums(
        _sum_type(largest),
        values.astype(np.int64),
        scoring.tree_output,
        start.astype(np.int64),
        rule.kind,
        rule.exit_points,
        # Two sums may be twice as far apart.
        np.clip(bounds, -2 * largest, 2 * largest).astype(np.int64),
        rule.table,
        None,
        int(min(max(last, -largest), largest)),
        0.0,
        rule.at_once,
    )
    return sums, scale, float(error[-1].max()) / scale


def _finite(threshold: float) -> float:
    """Return the threshold; 0 where it is infinite, since there is only one class."""
    return threshold if math.isfinite(threshold) else 0.0


def _steps(program: Program, width: int) -> StepSums:
    """Return the steps of an anytime classifier with rounded values."""
    assert program.steps is not None
    exact = program.steps.sums
    table = np.ldexp(exact.table.astype(np.float64), -exact.shift)
    base = np.ldexp(exact.base.astype(np.float64), -exact.shift)
    offsets = program.forest.tree_offsets[:-1]
    per_tree = np.maximum.reduceat(np.abs(table).max(axis=1), offsets)
    reach = float(per_tree.sum() + np.abs(base).max())
    scale = _scale_for(float(np.abs(table).max()), reach, width)
    values = np.rint(table * scale).astype(np.int64)
    start = np.ceil(base * scale).astype(np.int64)
    if program.forest.n_outputs < len(start):
        start[0] -= 1  # a score equal to the threshold is enough
    by_class = values[offsets]
    if (exact.output >= 0).any():
        by_class = np.zeros((len(offsets), len(start)), dtype=np.int64)
        by_class[np.arange(len(offsets)), exact.output] = values[offsets, 0]
    largest = int(reach * scale) + program.forest.n_trees + 2
    return StepSums(
        program.steps.order,
        values,
        exact.output if (exact.output >= 0).any() else None,
        start + by_class.sum(axis=0),
        "int16_t" if largest < 2**14 else "int32_t",
        None,
    )
