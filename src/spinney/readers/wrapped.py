"""What stands around the trees of a model: frozen, searched for, behind other steps."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

# How a pipeline writes a step that does nothing.
NO_STEP = (None, "passthrough")


class Parted(NamedTuple):
    """A model taken apart: preprocessing of the rows, and the ensemble."""

    steps: tuple[Any, ...]  # each has `transform`; the first one comes first
    ensemble: Any


def parted(model: Any) -> Parted:
    """Return the steps that rows go through, and the model behind them.

    Parameters
    ----------
    model : estimator
        A `FrozenEstimator`, a `Pipeline` and a parameter search (its best estimator,
        or what it is to search with, if it has not yet) are looked through, one inside
        the other, too. So is what moves the threshold of a single model of two classes,
        which then stands around the ensemble. Everything else is a model without steps.

    Returns
    -------
    parted : Parted
        Steps that do nothing are left out.
    """
    steps: list[Any] = []
    while True:
        names = names_of_bases(type(model))  # type: ignore[arg-type]
        if "FrozenEstimator" in names:
            model = model.estimator
        elif "BaseSearchCV" in names:
            model = getattr(model, "best_estimator_", model.estimator)
        elif "Pipeline" in names and _is_model(model.steps[-1][1]):
            before = [step for _, step in model.steps[:-1]]
            if any(not _is_nothing(step) for step in before):
                steps.append(model[:-1])
            model = model.steps[-1][1]
        else:
            found = _parted_inside(model, names)
            return Parted((*steps, *found.steps), found.ensemble)


def _parted_inside(model: Any, names: frozenset[str]) -> Parted:
    """Return the steps before the one model inside another, put in front of both."""
    if "BaseThresholdClassifier" in names:
        place = "estimator_" if hasattr(model, "estimator_") else "estimator"
        steps, ensemble = parted(getattr(model, place))
    elif "CalibratedClassifierCV" in names:
        folds = getattr(model, "calibrated_classifiers_", None)
        if folds is not None and (len(folds) > 1 or len(model.classes_) != 2):
            return Parted((), model)
        place = "estimator" if folds is None else "calibrated_classifiers_"
        steps, ensemble = parted(
            model.estimator if folds is None else folds[0].estimator
        )
        if folds is not None:
            fold = copy.copy(folds[0])
            fold.estimator = ensemble
            ensemble = [fold]
    else:
        return Parted((), model)
    if not steps:
        return Parted((), model)
    around = copy.copy(model)
    setattr(around, place, ensemble)
    return Parted(steps, around)


def first_step(model: Any) -> Any:
    """Return what rows meet first: a step that does something, or the model itself."""
    steps, ensemble = parted(model)
    found = [step for part in steps for _, step in part.steps if not _is_nothing(step)]
    return found[0] if found else ensemble


def through_steps(X: Any, steps: Sequence[Any]) -> Any:
    """Return what the steps before a model make of rows."""
    for step in steps:
        X = step.transform(X)
    return X


def as_pipeline(steps: Sequence[Any]) -> Any:
    """Return the steps before a model as one transformer."""
    from sklearn.pipeline import Pipeline

    if len(steps) == 1:
        step = steps[0]
        # A file puts one around all of them.
        while isinstance(step, Pipeline) and [n for n, _ in step.steps] == ["steps"]:
            step = step.steps[0][1]
        return step
    return Pipeline([(f"part{number}", step) for number, step in enumerate(steps)])


def names_of_steps(steps: Sequence[Any]) -> list[str]:
    """Return what the steps are, by the names of their classes, for people."""
    return [
        type(step).__name__
        for pipeline in steps
        for _, step in pipeline.steps
        if not _is_nothing(step)
    ]


@lru_cache(maxsize=256)  # called before every prediction
def names_of_bases(kind: type) -> frozenset[str]:
    """Return the classes of scikit-learn that a class is, or inherits from."""
    return frozenset(
        base.__name__
        for base in kind.__mro__
        if base.__module__.partition(".")[0] == "sklearn"
    )


def _is_nothing(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step in NO_STEP)


def _is_model(last: Any) -> bool:
    return last is not None and not isinstance(last, str)
