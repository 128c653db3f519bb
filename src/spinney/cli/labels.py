"""Labels of a table: whether there are any, and whether the model knows them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.limits import plain
from spinney.cli.console import complain
from spinney.cli.models import without_label
from spinney.errors import InvalidArgumentError
from spinney.readers import read_model
from spinney.readers.wrapped import parted

# As many classes are named in a message.
MOST_NAMED = 8


def classes_of(model: Any) -> Any:
    """Return the classes of a model, however it was loaded; none for a regressor.

    Parameters
    ----------
    model : model
        The model.
    """
    classes = getattr(model, "classes_", None)
    if classes is None:
        classes = read_model(parted(model).ensemble).classes_
    return () if classes is None else classes


def one_set_of(classes: Any) -> NDArray[Any] | None:
    """Return classes if they are those of one label; None otherwise.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,), list of ndarray or None
        Classes of a model; several arrays if it predicts several labels.
    """
    return classes if isinstance(classes, np.ndarray) and classes.ndim == 1 else None


def needed_labels(labels: NDArray[Any] | None, target: str | None) -> NDArray[Any]:
    """Return the labels of all rows, or say what is missing.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,) or None
        The target column, if there is one.
    target : str or None
        Its name.
    """
    if labels is None and target is not None:
        msg = (
            f"--target {target} names no column of the table, and --max-accuracy-loss "
            "needs the column with the true labels."
        )
        raise InvalidArgumentError(msg)
    if labels is None:
        msg = (
            "--max-accuracy-loss bounds errors against the true labels: pass --target, "
            "the column with the labels."
        )
        raise InvalidArgumentError(msg)
    missing = int(np.count_nonzero(without_label(labels)))
    if missing:
        msg = (
            f"{missing:,} of {len(labels):,} rows have no label, and "
            "--max-accuracy-loss needs one for each. Drop rows without one."
        )
        raise InvalidArgumentError(msg)
    return labels


def known_labels(
    labels: NDArray[Any] | None, target: str | None
) -> NDArray[Any] | None:
    """Return labels if every row has one; warn that the report lacks errors if not.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,) or None
        The target column, if there is one.
    target : str or None
        Its name.
    """
    if labels is None:
        if target is not None:
            complain(
                f"--target {target} names no column of the table, so the report shows "
                "no error.",
                of="warning",
            )
        return None
    missing = int(np.count_nonzero(without_label(labels)))
    if missing:
        complain(
            f"{missing:,} of {len(labels):,} rows have no label, so the report shows "
            "no error.",
            of="warning",
        )
        return None
    return labels


def refuse_unknown_labels(
    labels: NDArray[Any] | None, target: str | None, model: Any
) -> None:
    """Raise if labels are none of the model's: a report would, after all the work.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,) or None
        The labels of all rows, or None if there are none.
    target : str or None
        The column they are from.
    model : model
        The model.
    """
    classes = one_set_of(classes_of(model))
    if labels is None or classes is None:
        return
    known = [plain(label) for label in classes]
    strange = [label for label in np.unique(labels).tolist() if label not in known]
    if strange:
        column = "y" if target is None else target
        msg = (
            f"Column {column!r} holds the label {strange[0]!r}, which the model does "
            f"not know; its classes are {_named(known)}. Write labels as in training."
        )
        raise InvalidArgumentError(msg)


def warn_of_unknown_labels(
    n_unknown: int, n_rows: int, classes: NDArray[Any] | None
) -> None:
    """Say that rows count as errors because the model has no such class.

    Parameters
    ----------
    n_unknown : int
        Rows with such a label.
    n_rows : int
        Rows with any label.
    classes : ndarray of shape (n_classes,) or None
        The classes of the model.
    """
    if n_unknown and classes is not None:
        complain(
            f"{n_unknown:,} of {n_rows:,} labels are none of the model's classes "
            f"({_named(classes.tolist())}), and count as errors.",
            of="warning",
        )


def _named(classes: list[Any]) -> str:
    more = "" if len(classes) <= MOST_NAMED else f", ... ({len(classes)} in all)"
    return ", ".join(map(repr, classes[:MOST_NAMED])) + more
