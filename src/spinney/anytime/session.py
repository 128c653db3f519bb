"""One row on its way through a forest."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.runtime.steps.engine import StepEngine


class AnytimeSession:
    """One row that can be stepped, read and resumed at any time.

    Made by :meth:`spinney.AnytimeForestClassifier.session`. No work is lost between
    steps. ``copy.copy`` returns an independent session that continues from the same
    state.

    Parameters
    ----------
    engine : StepEngine
        The forest and its order.
    rows : ndarray of shape (1, n_features)
        The row, as the forest's engine makes it.
    """

    def __init__(self, engine: StepEngine, rows: NDArray[np.floating]) -> None:
        self._engine = engine
        self._rows = rows
        block = engine.block(rows, 0, 1)
        self._row = block.rows[0]
        self._position = np.zeros(engine.forest.n_trees, dtype=np.uint32)
        self._sums = block.sums[0]
        self._steps_done = 0

    def __copy__(self) -> AnytimeSession:
        other = AnytimeSession.__new__(AnytimeSession)
        other.__dict__.update(self.__dict__)
        other._position = self._position.copy()
        other._sums = self._sums.copy()
        return other

    # The forest and the row never change, so that a deep copy need not copy them.
    def __deepcopy__(self, memo: dict[int, Any]) -> AnytimeSession:
        return self.__copy__()

    def __repr__(self) -> str:
        return f"<AnytimeSession: {self.steps_done} of {self.n_steps} steps done>"

    @property
    def n_steps(self) -> int:
        """Number of steps to the end."""
        return self._engine.n_steps

    @property
    def steps_done(self) -> int:
        """Number of steps taken, including those skipped at a leaf."""
        return self._steps_done

    @property
    def done(self) -> bool:
        """Whether all steps are taken."""
        return self._steps_done == self.n_steps

    def step(self, k: int = 1) -> AnytimeSession:
        """Take some steps, or as many as are left.

        Parameters
        ----------
        k : int, default=1
            Number of steps, 0 or more.

        Returns
        -------
        self : AnytimeSession
            The session itself.
        """
        if isinstance(k, bool) or not isinstance(k, Integral) or int(k) < 0:
            msg = (
                f"k must be an integer, 0 or more, got {k!r}. It is the number of "
                "steps to take."
            )
            raise InvalidArgumentError(msg)
        end = min(self._steps_done + int(k), self.n_steps)
        self._engine.advance_row(
            self._row, self._steps_done, end, self._position, self._sums
        )
        self._steps_done = end
        return self

    def predict(self) -> Any:
        """Return the label predicted so far."""
        classes, sums = self._engine.forest.classes, self._engine.class_sums
        assert classes is not None
        totals = self._sums.reshape(1, -1)
        if len(sums.close_calls(totals)) and self._engine.is_row_at_leaves(
            self._row, self._position
        ):
            return classes[self._engine.forest_winners(self._rows)[0]]
        return classes[int(self._sums.argmax())]

    def predict_proba(self) -> NDArray[np.floating]:
        """Return the probability of each class so far.

        Returns
        -------
        probabilities : ndarray of shape (n_classes,)
            In the order of `classes_`.
        """
        if self.done:
            return self._engine.forest_probabilities(self._rows)[0]
        return self._engine.class_sums.probabilities(self._sums.reshape(1, -1))[0]
