"""What is added up with early exit: votes, or shares of the raw score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.forest import Forest
from spinney.forest.links import CLOSE


def check_voting(forest: Forest, voting: str) -> None:
    """Raise if a forest has nothing of this kind to be added up.

    Parameters
    ----------
    forest : Forest
        The forest.
    voting : {"hard", "soft"}
        Votes of the trees, or what each adds to the raw score.
    """
    if voting not in ("hard", "soft"):
        msg = f"voting must be 'hard' or 'soft', got {voting!r}."
        raise InvalidArgumentError(msg)
    if forest.classes_ is None or (voting == "hard" and not forest.votes_by_class):
        what = "has no classes" if forest.classes_ is None else "do not vote"
        msg = (
            f"The trees of {forest!r} {what}. Pass a classifier; for trees that add to "
            "a score use voting='soft'."
        )
        raise InvalidArgumentError(msg)


def decision_threshold(forest: Forest, voting: str) -> float:
    """Return the smallest sum of all trees that means the second of two classes.

    Parameters
    ----------
    forest : Forest
        A classifier.
    voting : {"hard", "soft"}
        What is added up.
    """
    if voting == "hard":
        return float(forest.n_trees // 2 + 1)
    return forest.effective_threshold if forest.n_outputs == 1 else 0.0


def scoring_forest(forest: Forest, voting: str) -> Forest:
    """Return the forest whose trees hold what is added up.

    Parameters
    ----------
    forest : Forest
        A classifier.
    voting : {"hard", "soft"}
        Hard: with two classes 1 for the second class and 0 for the first, with more
        a 1 for the class voted for. Soft: what each tree adds to the raw score;
        for two classes with a score each, half the difference of the two.

    Returns
    -------
    scoring : Forest
        With aggregation ``"sum"`` and float64 sums; one output for two classes.
    """
    check_voting(forest, voting)
    n_classes = len(forest.classes_)  # type: ignore[arg-type]
    value, output = forest.value, forest.tree_output
    base = forest.base_score
    if voting == "hard" or forest.aggregation == "vote":
        winner = value.argmax(axis=1)
        value = (winner[:, None] == np.arange(n_classes)).astype(np.float64)
        base, output = np.zeros(n_classes), None
        if n_classes <= 2:
            value, base = value[:, -1:] * (n_classes == 2), base[:1]
        if voting == "soft":
            value = value - 0.5 if n_classes == 2 else value
    else:
        per_node = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))
        if forest.aggregation == "mean":
            n_adding = forest.engine.trees_per_output.astype(np.float64)
            value = value / (
                n_adding if output is None else n_adding[output][per_node, None]
            )
            if forest.base_added == "first":
                base = base / n_adding
        if n_classes == 2 and forest.n_outputs == 2:
            if output is None:
                value = (value[:, 1:] - value[:, :1]) / 2
            else:
                value = value * (output[per_node, None] - 0.5)
                output = None
            base = (base[1:] - base[:1]) / 2
    return forest.replace(
        value=value,
        n_outputs=len(base),
        tree_output=output,
        base_score=base,
        base_added="first",
        aggregation="sum",
        sum_dtype="float64",
        link="identity",
        link_scale=1.0,
        curve=None,
        decision_threshold=0.0,
        decides_by="raw",
    )


def rounding_tolerance(forest: Forest, scoring: Forest, voting: str) -> float:
    """Return how close sums must be for the order of the additions to matter.

    Such rows are settled by the forest itself, in its own order and precision.

    Parameters
    ----------
    forest : Forest
        The forest.
    scoring : Forest
        Its trees with what is added up, see `scoring_forest`.
    voting : {"hard", "soft"}
        What is added up.
    """
    if voting == "hard":
        return 0.0  # whole numbers
    if forest.decides_by == "probability" and forest.link != "softmax":
        # Logistic curves can be equal at any distance, once they reach one.
        return np.inf
    precision = float(np.finfo(forest.sum_dtype).eps)
    reach = float(_largest_values(scoring).sum())
    reach += float(np.abs(scoring.base_score).max())
    n_added = forest.n_trees + 2
    if forest.aggregation == "sum" and forest.n_outputs == 1:
        # What the forest rounds, and what is rounded here in another order. Errors
        # of errors are smaller by the precision times the number of trees.
        ours = float(np.finfo(np.float64).eps) * n_added * reach
        rounding = 0.5 * precision * (1.0 + 4.0 * n_added * precision)
        tolerance = rounding * _sum_of_partial_sums(forest) + ours
    else:
        tolerance = 4.0 * n_added * precision * reach
    if forest.decides_by == "probability":
        tolerance = max(tolerance, CLOSE)
    return max(tolerance, float(np.finfo(np.float64).tiny))


def _largest_values(forest: Forest) -> NDArray[np.float64]:
    """Return the largest value of each tree, without its sign."""
    return np.maximum.reduceat(
        np.abs(forest.value).max(axis=1), forest.tree_offsets[:-1]
    )


def _sum_of_partial_sums(forest: Forest) -> float:
    """Return how large the sums on the way to a close call can be, all together.

    Every addition is off by at most half the precision times its outcome, and every
    value by as much as it is rounded. For a row whose sum comes out near the decision
    threshold,
    what was added before cannot be larger than what is still to come and the
    threshold itself.
    """
    largest = _largest_values(forest)
    base = float(np.abs(forest.base_score[0]))
    before = base + np.cumsum(largest)
    to_come = before[-1] - before + abs(forest.effective_threshold) + base
    return float(np.minimum(before, to_come).sum() + largest.sum() + 2.0 * base)


def tree_ranges(
    scoring: Forest,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the largest score of each tree, over all classes.

    Parameters
    ----------
    scoring : Forest
        Trees with what is added up, see `scoring_forest`.
    """
    leaves = scoring.feature < 0
    least = np.where(leaves, scoring.value.min(axis=1), np.inf)
    most = np.where(leaves, scoring.value.max(axis=1), -np.inf)
    starts = scoring.tree_offsets[:-1]
    return np.minimum.reduceat(least, starts), np.maximum.reduceat(most, starts)
