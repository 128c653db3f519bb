"""Predicted classes before and after: what a bound on all rows does to rare ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.promise import Promise
from spinney.errors import SpinneyWarning

# A class that loses more than this share of its rows is worth a warning, if that is
# also more than twice what is allowed on all rows together.
MUCH = 0.1
# Classes that a warning names.
N_NAMED = 5


@dataclass(frozen=True)
class ClassChange:
    """How often a class is predicted by the full ensemble and by early exit.

    Parameters
    ----------
    label : Any
        The class.
    n_full : int
        Rows for which the full ensemble predicts it.
    n_early : int
        Rows for which early exit does.
    n_lost : int
        Rows for which the full ensemble predicts it and early exit another class.
    """

    label: Any
    n_full: int
    n_early: int
    n_lost: int

    @property
    def vanishes(self) -> bool:
        """Whether the class is no longer predicted at all."""
        return self.n_full > 0 and self.n_early == 0

    def loses_much(self, max_disagreement: float) -> bool:
        """Whether more than a tenth of its rows are given to other classes.

        Where a bound on all rows allows that much, it must be more than twice of it.

        Parameters
        ----------
        max_disagreement : float
            The bound.
        """
        return self.n_lost > max(MUCH, 2.0 * max_disagreement) * self.n_full


def class_changes(
    classes: NDArray[Any], full: NDArray[Any], early: NDArray[Any]
) -> tuple[ClassChange, ...]:
    """Return the changes of all classes that are predicted for some rows.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        The labels.
    full, early : ndarray of shape (n_rows,)
        Labels that the full ensemble predicts, and those of early exit.
    """
    changes = []
    for label in classes:
        before, after = full == label, early == label
        change = ClassChange(
            label.item() if isinstance(label, np.generic) else label,
            int(np.count_nonzero(before)),
            int(np.count_nonzero(after)),
            int(np.count_nonzero(before & ~after)),
        )
        if change.n_full or change.n_early:
            changes.append(change)
    return tuple(changes)


def warn_of_lost_classes(
    changes: Sequence[ClassChange], promise: Promise, stacklevel: int
) -> None:
    """Warn of classes that vanish or lose much, unless they have bounds of their own.

    Parameters
    ----------
    changes : sequence of ClassChange
        What became of each class on calibration rows.
    promise : Promise
        What is promised.
    stacklevel : int
        As in `warnings.warn`, counted from the caller.
    """
    if promise.by_class:
        return
    bound = promise.max_disagreement or 0.0
    worst = [one for one in changes if one.vanishes or one.loses_much(bound)]
    if not worst:
        return
    told = [
        f"{one.label!r} is predicted {one.n_full:,} times by the full ensemble and "
        f"{one.n_early:,} times with early exit ({one.n_lost:,} lost)"
        for one in worst[:N_NAMED]
    ]
    if len(worst) > N_NAMED:
        told.append(f"{len(worst) - N_NAMED} more")
    of = f"of {bound:g} " if bound else ""
    msg = (
        f"Early exit loses many rows of rare classes, within the bound {of}on all rows "
        f"together. On the calibration rows: {'; '.join(told)}. Pass "
        "per_class=True, or max_disagreement={label: bound}, if these classes matter."
    )
    warnings.warn(msg, SpinneyWarning, stacklevel=stacklevel + 1)
