"""The steps of an anytime classifier, as the code takes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.forest import Forest
from spinney.runtime.steps.sums import ClassSums, class_sums


@dataclass(frozen=True, eq=False)
class StepProgram:
    """In which tree each step goes down, and what the nodes add.

    Parameters
    ----------
    order : ndarray of shape (n_steps,), dtype=int64
        Tree of each step.
    sums : ClassSums
        What nodes add to the classes, as whole numbers.
    start : ndarray of shape (n_classes,), dtype=int64
        Sums of the initial state.
    """

    order: NDArray[np.int64]
    sums: ClassSums
    start: NDArray[np.int64]

    @classmethod
    def of(cls, forest: Forest, order: NDArray[np.int64]) -> StepProgram:
        """Return the steps of an order through a forest.

        Parameters
        ----------
        forest : Forest
            A classifier with values at its inner nodes.
        order : ndarray of shape (n_steps,), dtype=int64
            Tree of each step.
        """
        sums = class_sums(forest)
        return cls(np.asarray(order, dtype=np.int64), sums, sums.at_roots())
