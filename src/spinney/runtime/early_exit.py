"""How a forest is to be asked: in which order, and when a row has heard enough."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError
from spinney.forest import Forest
from spinney.forest.links import CLOSE
from spinney.runtime import ExitRule, RowPredictor, StagedEngine
from spinney.runtime.row_kernels import BETWEEN, BY_COUNT, BY_LEAD, BY_MARGIN


class Policy:
    """An order of the trees of a forest, and a rule when to stop asking.

    Parameters
    ----------
    forest : Forest
        A classifier.
    counting : {"votes", "scores"}
        What is added up: one vote per tree, or what each tree adds to the raw score.
    order : array-like of shape (n_trees,)
        Tree indices in the order in which they are asked.
    rule : ExitRule
        When a row may leave. With two classes it sees one sum: the number of votes
        for the second class, or the score as `scoring_forest` has it; with more, one
        sum per class.

    Attributes
    ----------
    scoring : Forest
        The trees in order, with the values that are added up.
    """

    def __init__(
        self, forest: Forest, counting: str, order: ArrayLike, rule: ExitRule
    ) -> None:
        check_counting(forest, counting)
        self.forest = forest
        self.counting = counting
        self.order = check_order(order, forest.n_trees)
        self.rule = rule
        self.scoring = scoring_forest(forest, counting).take(self.order)
        check_rule(rule, counting, forest.n_trees, self.scoring.n_outputs)
        self._engine = StagedEngine(
            self.scoring, rule, positive_from(forest, counting), self._tolerance()
        )

    def with_rule(self, rule: ExitRule) -> Policy:
        """Return a policy with another rule that shares what does not depend on it.

        Parameters
        ----------
        rule : ExitRule
            When a row may leave.

        Returns
        -------
        policy : Policy
            With the same forest, order and counting.
        """
        check_rule(rule, self.counting, self.forest.n_trees, self.scoring.n_outputs)
        policy = object.__new__(Policy)
        vars(policy).update(vars(self), rule=rule, _engine=self._engine.with_rule(rule))
        return policy

    # A pickle carries the parts, and nothing compiled.
    def __getstate__(self) -> dict[str, Any]:
        parts = ("forest", "counting", "order", "rule")
        return {name: getattr(self, name) for name in parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _tolerance(self) -> float:
        """Return how close sums must be for the order of the additions to matter.

        Such rows are settled by the forest itself, in its own order and precision.
        """
        forest, scoring = self.forest, self.scoring
        if self.counting == "votes":
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

    @property
    def checks(self) -> NDArray[np.int64]:
        """Numbers of trees after which a row may leave."""
        return self.rule.checks

    def ask(
        self, X: ArrayLike, n_jobs: int | None = None
    ) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Answer rows, asking each as many trees as the rule says.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        n_jobs : int or None, default=None
            Number of threads; None means one, -1 all cores.

        Returns
        -------
        classes : ndarray of shape (n_rows,)
            Class indices. Rows that stay to the end are answered as the forest (or
            its majority vote) answers them, to the last tie.
        counts : ndarray of shape (n_rows,), dtype=int32
            Number of trees asked.
        """
        classes, counts = self._engine.ask(X, n_jobs)
        if classes.min(initial=0) < 0:
            close = np.flatnonzero(classes < 0)
            rows = self.forest.engine.rows(X)[close]
            classes[close] = self.forest.winners(self.forest.engine.raw(rows, n_jobs))
        return classes, counts

    def predictor(self) -> RowPredictor:
        """Return a thin callable that answers one row at a time, for serving.

        Returns
        -------
        predictor : callable
            Takes a one-dimensional array of numbers, float32 or the type that the
            original library compares in, and returns the label.
        """
        labels = list(self.forest.classes_)  # type: ignore[arg-type]

        def answer(row: NDArray[np.floating]) -> Any:
            return labels[int(self.ask(row.reshape(1, -1))[0][0])]

        return self._engine.predictor(labels, answer)


def _largest_values(forest: Forest) -> NDArray[np.float64]:
    """Return the largest value of each tree, without its sign."""
    return np.maximum.reduceat(
        np.abs(forest.value).max(axis=1), forest.tree_offsets[:-1]
    )


def _sum_of_partial_sums(forest: Forest) -> float:
    """Return how large the sums on the way to a close call can be, all together.

    Every addition is off by at most half the precision times its outcome, and every
    value by as much as it is rounded. For a row whose sum comes out near the border,
    what was added before cannot be larger than what is still to come and the border
    itself.
    """
    largest = _largest_values(forest)
    base = float(np.abs(forest.base_score[0]))
    before = base + np.cumsum(largest)
    to_come = before[-1] - before + abs(forest.positive_from) + base
    return float(np.minimum(before, to_come).sum() + largest.sum() + 2.0 * base)


def check_counting(forest: Forest, counting: str) -> None:
    """Raise if a forest has nothing of this kind to be added up."""
    if counting not in ("votes", "scores"):
        msg = f"counting must be 'votes' or 'scores', got {counting!r}."
        raise InvalidArgumentError(msg)
    if forest.classes_ is None or (counting == "votes" and not forest.votes_by_class):
        what = "has no classes" if forest.classes_ is None else "do not vote"
        msg = (
            f"The trees of {forest!r} {what}. Pass a classifier; for trees that add to "
            "a score use counting='scores'."
        )
        raise InvalidArgumentError(msg)


def check_order(order: ArrayLike, n_trees: int) -> NDArray[np.int64]:
    """Return an order of trees as an array of its own, or say why it is none."""
    given = np.array(order)
    if (
        given.shape != (n_trees,)
        or given.dtype.kind not in "iu"
        or not np.array_equal(np.sort(given), np.arange(n_trees))
    ):
        msg = (
            f"An order must name each of the {n_trees} trees once, got "
            f"{reprlib.repr(order)}. Pass a permutation of range({n_trees})."
        )
        raise InvalidArgumentError(msg)
    return given.astype(np.int64)


def check_rule(rule: ExitRule, counting: str, n_trees: int, n_sums: int) -> None:
    """Raise if kernels could not follow this rule, which they do without looking."""
    checks, bounds, stops = rule.checks, rule.bounds, rule.stops
    n_checks = len(checks)
    problem = None
    if checks.ndim != 1 or (np.diff(checks, prepend=0, append=n_trees) <= 0).any():
        problem = f"checks must rise from 1 to at most {n_trees - 1}"
    elif rule.kind in (BETWEEN, BY_MARGIN):
        if bounds.shape != (2, n_checks) or np.isnan(bounds).any():
            problem = "there must be two bounds for each check, none of them NaN"
    elif rule.kind not in (BY_COUNT, BY_LEAD) or counting != "votes":
        problem = "a rule by votes needs votes to be counted"
    elif stops.ndim != 2 or len(stops) != n_checks or stops.shape[1] <= n_trees:
        problem = "there must be an entry for each check and each number of votes"
    elif rule.kind == BY_COUNT and ((stops < -1) | (stops > 1)).any():
        problem = "answers must be -1, 0 or 1"
    if problem is None and (rule.kind in (BETWEEN, BY_COUNT)) != (n_sums == 1):
        problem = f"it must be made for {n_sums} sums"
    if problem is not None:
        msg = f"This is no rule for a forest of {n_trees} trees: {problem}."
        raise InvalidArgumentError(msg)


def positive_from(forest: Forest, counting: str) -> float:
    """Return the smallest sum of all trees that means the second class.

    Parameters
    ----------
    forest : Forest
        A classifier.
    counting : {"votes", "scores"}
        What is added up.
    """
    if counting == "votes":
        return float(forest.n_trees // 2 + 1)
    return forest.positive_from if forest.n_outputs == 1 else 0.0


def scoring_forest(forest: Forest, counting: str) -> Forest:
    """Return the forest whose trees hold what is added up.

    Parameters
    ----------
    forest : Forest
        A classifier.
    counting : {"votes", "scores"}
        Votes: with two classes 1 for the second class and 0 for the first, with more
        a 1 for the class voted for. Scores: what each tree adds to the raw score;
        for two classes with a score each, half the difference of the two.

    Returns
    -------
    scoring : Forest
        With aggregation ``"sum"`` and float64 sums; one output for two classes.
    """
    n_classes = len(forest.classes_)  # type: ignore[arg-type]
    value, output = forest.value, forest.tree_output
    base = forest.base_score
    if counting == "votes" or forest.aggregation == "vote":
        winner = value.argmax(axis=1)
        value = (winner[:, None] == np.arange(n_classes)).astype(np.float64)
        base, output = np.zeros(n_classes), None
        if n_classes <= 2:
            value, base = value[:, -1:] * (n_classes == 2), base[:1]
        if counting == "scores":
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
        decision_threshold=0.0,
        decides_by="raw",
    )
