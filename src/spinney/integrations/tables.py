"""Batches of named columns, as engines pass and take them.

Spark and Ray pass rows as named columns. A model with feature names is given a data
frame; one without is given the numbers alone, in the order of the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.forest.frame_kinds import PandasFrame
from spinney.forest.rows import numbers_from_objects
from spinney.integrations import answering
from spinney.integrations.portable import PortableModel, forest_of

# Possible outputs, in the order of their columns.
OUTPUTS = ("label", "n_evaluated", "probability")
METHODS = dict(
    zip(OUTPUTS, ("predict", "predict_counted", "predict_proba"), strict=True)
)


def chosen_outputs(model: Any, outputs: Sequence[str] | None) -> tuple[str, ...]:
    """Return which columns a job adds, or raise if the model does not support one.

    Parameters
    ----------
    model : Forest or classifier
        The model to predict with.
    outputs : sequence of str or None
        Some of `OUTPUTS`; None for all that the model supports.
    """
    if outputs is None:
        return tuple(name for name in OUTPUTS if _has(model, name))
    is_one = isinstance(outputs, str) or not isinstance(outputs, Iterable)
    names: tuple[Any, ...] = (outputs,) if is_one else tuple(outputs)
    wrong = [name for name in names if name not in OUTPUTS]
    if wrong or not names or len(set(names)) < len(names):
        msg = f"outputs must be some of {', '.join(OUTPUTS)}, got {outputs!r}."
        raise InvalidArgumentError(msg)
    for name in names:
        answering.check_can(model, METHODS[name])
    return names


def check_prefix(prefix: Any) -> str:
    """Return the prefix of the names of new columns, or raise if it is no string."""
    if not isinstance(prefix, str):
        msg = f"prefix must be a string, got {prefix!r}."
        raise InvalidArgumentError(msg)
    return prefix


def _has(model: Any, output: str) -> bool:
    try:
        answering.check_can(model, METHODS[output])
    except InvalidArgumentError:
        return False
    return True


def needs_names(model: Any) -> bool:
    """Whether a model needs a data frame, not the numbers alone."""
    return (
        hasattr(model, "feature_names_in_")
        or bool(getattr(model, "has_preprocessing", False))
        or forest_of(model).categories_ is not None
    )


def rows_of_frame(model: Any, frame: Any) -> Any:
    """Return rows as a model takes them, from a data frame of pandas.

    Parameters
    ----------
    model : Forest or classifier
        The model to predict with.
    frame : data frame of pandas
        The columns of the model, in its order.
    """
    if needs_names(model):
        return frame
    rows = PandasFrame(frame).array()
    return numbers_from_objects(rows) if rows.dtype.kind == "O" else rows


def answers(
    portable: PortableModel, X: Any, outputs: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return the columns that a job adds to a partition.

    Parameters
    ----------
    portable : PortableModel
        The model to predict with.
    X : array or data frame
        Rows, as the model takes them.
    outputs : sequence of str
        Some of `OUTPUTS`.
    """
    found: dict[str, NDArray[Any]] = {}
    if "n_evaluated" in outputs:
        found["label"], found["n_evaluated"] = answering.counted(portable, X)
    elif "label" in outputs:
        found["label"] = answering.labels(portable, X)
    if "probability" in outputs:
        found["probability"] = answering.probabilities(portable, X)
    return {name: found[name] for name in outputs}


def portable_for(model: Any) -> PortableModel:
    """Return a model that is sent by content, for workers that may share no disk."""
    return PortableModel(model, with_content=True)
