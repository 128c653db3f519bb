"""What stands around the trees of a model: frozen, searched for, behind other steps."""

from __future__ import annotations

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
        the other, too. Everything else is a model without steps.

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
            return Parted(tuple(steps), model)


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
