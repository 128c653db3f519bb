"""What generated code is to do: one description, whatever it is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from spinney.anytime import AnytimeForestClassifier
from spinney.base.early_exit_classifier import CountingClassifier, EarlyExitClassifier
from spinney.base.estimator import EnsembleEstimator
from spinney.base.wording import percent
from spinney.calibration.limits import largest_bound
from spinney.errors import UnsupportedModelError
from spinney.export.anytime_sums import StepProgram
from spinney.forest import Forest
from spinney.forest.derived import Isolation
from spinney.pruning.feature_cost_classifier import FeatureCostClassifier
from spinney.runtime.exit_kinds import BY_BIN
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.scoring import (
    decision_threshold,
    rounding_tolerance,
    scoring_forest,
)

# More would not fit onto the stack of a small device, and no model has them.
MAX_OUTPUTS = 4096
ALL_TREES = "All trees: the predictions are those of the model."


@dataclass(frozen=True, eq=False)
class Program:
    """A forest and how to evaluate it.

    Parameters
    ----------
    forest : Forest
        The model, its trees in its own order.
    ordered : Forest
        The same trees in the order in which they are evaluated.
    position : ndarray of shape (n_trees,), dtype=int64
        Where each tree of `forest` is in `ordered`.
    rule : ExitRule or None
        When a row exits early; None if all trees are evaluated.
    scoring : Forest or None
        What a rule adds up, in the order of `ordered`.
    decision_threshold, tolerance : float
        How the sums of a rule decide in the end, and how close is left to the forest.
    steps : StepProgram or None
        For anytime classifiers.
    is_lazy : bool
        Whether features are bought.
    promise : str
        What is promised about the predictions, in a sentence.
    max_disagreement : float or None
        The bound that the classifier promises; None if it promises none.
    confidence : float or None
        The confidence of that bound; None if it holds in expectation.
    has_other_bounds : bool
        Whether it promises something about single classes, or about its accuracy.
    """

    forest: Forest
    ordered: Forest
    position: NDArray[np.int64]
    rule: ExitRule | None
    scoring: Forest | None
    decision_threshold: float
    tolerance: float
    steps: StepProgram | None
    is_lazy: bool
    promise: str
    max_disagreement: float | None
    confidence: float | None
    has_other_bounds: bool

    @property
    def is_reordered(self) -> bool:
        """Whether trees are evaluated in another order than the model's own."""
        return not np.array_equal(self.position, np.arange(len(self.position)))

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for a regressor."""
        return 0 if self.forest.classes is None else len(self.forest.classes)


def program_of(obj: Any) -> Program:
    """Return what the code for an object has to do, or say why there can be none.

    Parameters
    ----------
    obj : Forest or fitted classifier of spinney
        What is exported.

    Raises
    ------
    UnsupportedModelError
        If it is something else, wraps preprocessing, holds voters that are not trees,
        or has more outputs than the code can hold.
    """
    forest = _forest_of(obj)
    _refuse_what_has_no_code(forest)
    if max(
        forest.n_outputs, len(forest.classes) if forest.classes is not None else 0
    ) > (MAX_OUTPUTS):
        msg = (
            f"The model has {forest.n_outputs:,} outputs, and generated code supports "
            f"at most {MAX_OUTPUTS:,}, because each takes room on the stack. Export a "
            "model with fewer classes."
        )
        raise UnsupportedModelError(msg)
    rule = obj.rule_ if isinstance(obj, EarlyExitClassifier) else None
    order = obj.order_ if isinstance(obj, AnytimeForestClassifier) else None
    promise = None if rule is None else obj.promise_
    bound = getattr(obj, "max_disagreement", None)
    if rule is None or not isinstance(bound, float | int):
        bound = None
    return make_program(
        forest,
        rule,
        step_order=order,
        is_lazy=isinstance(obj, FeatureCostClassifier),
        promise=_promise(obj),
        max_disagreement=None if bound is None else float(bound),
        confidence=None if rule is None else getattr(obj, "confidence", None),
        has_other_bounds=promise is not None
        and (len(promise.by_class) > 0 or promise.accuracy is not None),
    )


def make_program(
    forest: Forest,
    rule: ExitRule | None = None,
    *,
    step_order: NDArray[np.int64] | None = None,
    is_lazy: bool = False,
    promise: str = ALL_TREES,
    max_disagreement: float | None = None,
    confidence: float | None = None,
    has_other_bounds: bool = False,
) -> Program:
    """Return what the code has to do for a forest and a rule.

    Parameters
    ----------
    forest : Forest
        The model.
    rule : ExitRule, default=None
        When a row exits early.
    step_order : ndarray of shape (n_steps,), default=None
        Tree of each step, for an anytime classifier.
    is_lazy, promise, max_disagreement, confidence, has_other_bounds
        As of `Program`.
    """
    ordered, scoring, threshold, tolerance = forest, None, 0.0, 0.0
    position = np.arange(forest.n_trees)
    if rule is not None:
        order = np.arange(forest.n_trees) if rule.at_once else rule.order
        ordered = forest.take(order)
        position = np.argsort(order)
        scoring = scoring_forest(forest, rule.voting).take(order)
        threshold = decision_threshold(forest, rule.voting)
        tolerance = rounding_tolerance(forest, scoring, rule.voting)
        leaves = rule.at_once or len(rule.exit_points) > 0
        if not leaves and (rule.kind == BY_BIN or np.isinf(tolerance)):
            # No row exits early, and the model itself decides every row.
            ordered, position, rule, scoring = forest, np.sort(position), None, None
    steps = None if step_order is None else StepProgram.of(forest, step_order)
    return Program(
        forest,
        ordered,
        position,
        rule,
        scoring,
        threshold,
        tolerance,
        steps,
        is_lazy,
        promise,
        max_disagreement,
        confidence,
        has_other_bounds,
    )


def _forest_of(obj: Any) -> Forest:
    """Return the trees of what is exported."""
    if isinstance(obj, Forest):
        return obj
    if not isinstance(obj, (EnsembleEstimator, FeatureCostClassifier)):
        msg = (
            "export takes a Forest or a fitted classifier of spinney, got "
            f"{type(obj).__module__}.{type(obj).__qualname__}. Pass "
            "spinney.read_model(model) for a trained model as it is, or "
            "spinney.accelerate(model, X) for one that exits early."
        )
        raise UnsupportedModelError(msg)
    check_is_fitted(obj)
    if getattr(obj, "has_preprocessing", False):
        msg = (
            "The model is a pipeline, and only its last step is made of trees. Give "
            f"{type(obj).__name__} the last step, fit it on rows that the steps before "
            "it have transformed, and do the same to rows on the device."
        )
        raise UnsupportedModelError(msg)
    forest = getattr(obj, "forest_", None)
    combined = getattr(obj, "combined_", None)
    if isinstance(combined, Isolation):
        forest = combined.forest  # its labels are those of the model
    if not isinstance(forest, Forest):
        msg = (
            f"This {type(obj).__name__} holds several models, or some that are not "
            "trees, and only a single ensemble of trees can be exported. Export the "
            "models inside one by one, with spinney.read_model(model), and combine "
            "their predictions on the device."
        )
        raise UnsupportedModelError(msg)
    return forest


def _refuse_what_has_no_code(forest: Forest) -> None:
    """Raise for parts of a forest that the generated code would leave out."""
    if forest.encoder is not None:
        msg = (
            f"{forest.source} looks up statistics of category values, and their tables "
            "cannot be exported.\nHint: encode the categories as numbers and train "
            "without cat_features."
        )
        raise UnsupportedModelError(msg)


def _promise(obj: Any) -> str:
    """Return what a classifier promises, in a sentence."""
    if isinstance(obj, EarlyExitClassifier):
        if obj.promise_ is None:
            share = percent(largest_bound(obj.max_disagreement))
            return (
                f"{type(obj).__name__}: fitted to {share} by a version that did not "
                "record a promise."
            )
        return f"{type(obj).__name__}: {obj.promise_}"
    if isinstance(obj, CountingClassifier):
        return ALL_TREES
    if isinstance(obj, AnytimeForestClassifier):
        return (
            "AnytimeForestClassifier: after all steps the predictions are those of the "
            "model."
        )
    return ALL_TREES
