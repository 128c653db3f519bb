"""Requested bounds: on all rows, on the rows of each class, on lost accuracy.

A rule has to pass one test for each bound, on rows that it was not fitted to. Rules are
tested from the most conservative to the most aggressive, and at the first one that
fails any test the testing ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.accuracy_loss import accuracy_test, changes_of_accuracy
from spinney.calibration.bounds import (
    check_confidence,
    check_max_accuracy_loss,
    check_max_disagreement,
    clopper_pearson_upper,
    rows_needed,
)
from spinney.calibration.promise import AccuracyBound, ClassBound, Promise
from spinney.calibration.risk_control import n_allowed, rows_to_control
from spinney.calibration.rung_tests import ExpectedShare, ProvenShare, RungTest
from spinney.errors import InvalidArgumentError

Codes = NDArray[np.intp]
Flags = NDArray[np.bool_]

# Near the decision threshold about as many rows become right as become wrong, so that
# more may change than may be lost. How many more is not known before: rules aim at it.
CHANGED_PER_LOST = 5.0

# What `max_disagreement` may be.
Bounds = float | Mapping[Any, float]


@dataclass(frozen=True, eq=False)
class Limits:
    """All bounds that are to hold on new rows, and how surely.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Class labels.
    overall : float or None
        Bound on the disagreement on all rows together.
    by_class : ndarray of shape (n_classes,) or None
        Bounds on the disagreement on the rows that the full ensemble puts into each
        class.
    accuracy_loss : float or None
        Bound on errors of early exit less errors of the full ensemble.
    confidence : float or None
        The probability with which all of them are to hold; None for on average.
    """

    classes: NDArray[Any]
    overall: float | None
    by_class: NDArray[np.float64] | None = None
    accuracy_loss: float | None = None
    confidence: float | None = None

    @property
    def level(self) -> float:
        """The disagreement that rules are to aim at; 0 if no prediction may differ.

        With bounds on classes it is that of rows drawn by `balanced`.
        """
        levels = []
        if self.overall is not None:
            levels.append(self.overall)
        if self.by_class is not None:
            if not self.by_class.all():
                return 0.0
            root = np.sqrt(self.by_class)
            levels.append(float(root.sum() / (1.0 / root).sum()))
        if self.accuracy_loss is not None:
            if self.accuracy_loss == 0.0:
                return 0.0
            levels.append(min(CHANGED_PER_LOST * self.accuracy_loss, 0.2))
        return min(levels)

    @property
    def n_to_prove(self) -> int:
        """The fewest rows of all classes together with which this can be promised."""
        bounds = (self.overall, self.accuracy_loss)
        return max(self._rows_for(bound) for bound in bounds)

    @property
    def n_to_prove_by_class(self) -> NDArray[np.int64]:
        """The fewest rows of each class with which this can be promised."""
        if self.by_class is None:
            return np.zeros(len(self.classes), dtype=np.int64)
        return np.array([self._rows_for(bound) for bound in self.by_class.tolist()])

    @property
    def only_by_class(self) -> bool:
        """Whether there are bounds on classes and no others."""
        return (
            self.by_class is not None
            and self.overall is None
            and self.accuracy_loss is None
        )

    @property
    def on_all_rows(self) -> float | None:
        """The bound on the disagreement on all rows together that follows, if any."""
        bounds = [] if self.overall is None else [self.overall]
        if self.by_class is not None:
            bounds.append(float(self.by_class.max()))
        return min(bounds) if bounds else None

    def as_parameters(self) -> dict[str, Any]:
        """Return the parameters with which a classifier aims at these bounds."""
        if self.by_class is None:
            return {"max_disagreement": self.level, "per_class": False}
        if np.ptp(self.by_class) == 0.0:
            return {"max_disagreement": float(self.by_class[0]), "per_class": True}
        bounds = zip(self.classes, self.by_class.tolist(), strict=True)
        named = {plain(label): bound for label, bound in bounds}
        return {"max_disagreement": named, "per_class": False}

    def as_stated(self) -> dict[str, Any]:
        """Return the parameters that state these bounds on the disagreement.

        They differ from what rules aim at where a bound on lost accuracy is tighter.
        """
        if self.by_class is None and self.overall is not None and self.level > 0.0:
            return {"max_disagreement": self.overall, "per_class": False}
        return self.as_parameters()

    def at(self, level: float) -> Limits:
        """Return a bound on all rows together, and no other.

        Parameters
        ----------
        level : float
            The bound.
        """
        return replace(self, overall=level, by_class=None, accuracy_loss=None)

    def _rows_for(self, bound: float | None) -> int:
        if not bound:
            return 0
        if self.confidence is None:
            return rows_to_control(bound)
        return rows_needed(bound, self.confidence)

    def are_enough(self, full: Codes) -> bool:
        """Whether rows that nothing is fitted to can establish all bounds.

        Parameters
        ----------
        full : ndarray of shape (n_rows,)
            Class indices that the full ensemble gives them.
        """
        counts = np.bincount(full, minlength=len(self.classes))
        return len(full) >= self.n_to_prove and bool(
            (counts >= self.n_to_prove_by_class).all()
        )

    def tests(self, full: Codes, true: Codes | None = None) -> list[RungTest]:
        """Return one test for each bound.

        Parameters
        ----------
        full : ndarray of shape (n_rows,)
            Class indices that the full ensemble gives rows that nothing was fitted to.
        true : ndarray of shape (n_rows,), optional
            Their true classes, needed if there is a bound on the loss of accuracy.
        """
        tests: list[RungTest] = []
        if self.overall is not None:
            tests.append(self._share_test(full, np.arange(len(full)), self.overall))
        if self.by_class is not None:
            for c, bound in enumerate(self.by_class.tolist()):
                tests.append(self._share_test(full, np.flatnonzero(full == c), bound))
        if self.accuracy_loss is not None:
            assert true is not None
            tests.append(accuracy_test(full, true, self.accuracy_loss, self.confidence))
        return tests

    def _share_test(self, full: Codes, rows: Codes, bound: float) -> RungTest:
        if self.confidence is None:
            return ExpectedShare(full, rows, bound)
        return ProvenShare(full, rows, bound, self.confidence)

    def likely_to_keep(
        self, full: Codes, answers: Codes, true: Codes | None, n_to_prove: int
    ) -> bool:
        """Whether a rule will probably pass the tests on other rows.

        Parameters
        ----------
        full, answers : ndarray of shape (n_rows,)
            Class indices of some rows, by the full ensemble and by the rule.
        true : ndarray of shape (n_rows,) or None
            Their true classes, if they are known.
        n_to_prove : int
            How many rows the tests will have.
        """
        n_rows = len(full)
        if n_rows == 0:
            return False
        differs = answers != full

        def likely(rows: Flags | slice, bound: float) -> bool:
            n_here = int(np.count_nonzero(differs[rows]))
            n_there = round(n_to_prove * len(differs[rows]) / n_rows)
            expected = -(-n_here * n_to_prove // n_rows)
            if self.confidence is None:
                return expected <= max(n_allowed(n_there, bound), 0)
            expected = min(expected, n_there)
            return clopper_pearson_upper(expected, n_there, self.confidence) <= bound

        kept = self.overall is None or likely(slice(None), self.overall)
        if kept and self.by_class is not None:
            kept = all(
                likely(full == c, bound)
                for c, bound in enumerate(self.by_class.tolist())
                if np.any(full == c)
            )
        if kept and self.accuracy_loss is not None:
            assert true is not None
            # What is to come has as many rows again, so tests on these will do.
            times = max(1, round(n_to_prove / n_rows))
            full, true, answers = (np.tile(c, times) for c in (full, true, answers))
            test = accuracy_test(full, true, self.accuracy_loss, self.confidence)
            kept = test.passes(answers)
        return kept

    def promise(
        self, full: Codes, answers: Codes, true: Codes | None = None
    ) -> Promise:
        """Return what is promised about a rule that has passed all tests.

        Parameters
        ----------
        full, answers : ndarray of shape (n_rows,)
            Class indices by the full ensemble and by the rule.
        true : ndarray of shape (n_rows,), optional
            The true classes.
        """
        differs = answers != full
        by_class: tuple[ClassBound, ...] = ()
        if self.by_class is not None:
            by_class = tuple(
                ClassBound(
                    plain(self.classes[c]),
                    limit,
                    int(np.count_nonzero(full == c)),
                    int(np.count_nonzero(differs & (full == c))),
                )
                for c, limit in enumerate(self.by_class.tolist())
            )
        accuracy = None
        if self.accuracy_loss is not None:
            assert true is not None
            n_harmed, n_helped = changes_of_accuracy(full, true, answers)
            accuracy = AccuracyBound(self.accuracy_loss, n_harmed, n_helped)
        return Promise(
            "expected" if self.confidence is None else "confidence",
            self.on_all_rows,
            self.confidence,
            len(full),
            int(np.count_nonzero(differs)),
            by_class,
            accuracy,
        )

    def balanced(
        self, index: Codes, full: Codes | None, rng: np.random.RandomState
    ) -> Codes:
        """Return rows to fit to in which all classes weigh what their bounds need.

        A rule fitted to these uses up the bounds of all classes at about the same
        time. On the rows as they are, a rare class would be lost long before.

        Parameters
        ----------
        index : ndarray of shape (n_rows,)
            Indices of rows.
        full : ndarray of shape (n_rows,) or None
            Class indices that the full ensemble gives them; not needed without bounds
            on classes.
        rng : RandomState
            Draws rows.

        Returns
        -------
        drawn : ndarray
            Indices, about twice as many, rows of rare classes several times; the same
            if there are no bounds on classes.
        """
        if self.by_class is None or not self.by_class.all() or len(index) == 0:
            return index
        assert full is not None
        present = np.unique(full)
        weight = 1.0 / np.sqrt(self.by_class[present])
        sizes = np.ceil(2 * len(index) * weight / weight.sum()).astype(int)
        drawn = []
        for c, size in zip(present.tolist(), sizes.tolist(), strict=True):
            rows = index[full == c]
            whole, rest = divmod(size, len(rows))
            some = rows[rng.permutation(len(rows))[:rest]]
            drawn.append(np.concatenate([np.repeat(rows, whole), some]))
        return np.sort(np.concatenate(drawn))


def plain(label: Any) -> Any:
    """Return a label as a Python object, not NumPy's word for it."""
    return label.item() if isinstance(label, np.generic) else label


def largest_bound(max_disagreement: Bounds) -> float:
    """Return the bound on all rows together that follows from bounds on classes.

    Parameters
    ----------
    max_disagreement : float or mapping
        A bound, or one for each class.
    """
    if isinstance(max_disagreement, Mapping):
        return max(map(float, max_disagreement.values()), default=0.0)
    return float(max_disagreement)


def least_bound(max_disagreement: Bounds) -> float:
    """Return the smallest of bounds.

    Parameters
    ----------
    max_disagreement : float or mapping
        A bound, or one for each class.
    """
    if isinstance(max_disagreement, Mapping):
        return min(map(float, max_disagreement.values()), default=0.0)
    return float(max_disagreement)


def check_bounds(max_disagreement: Any, per_class: Any = False) -> None:
    """Raise if bounds on the disagreement are none, whatever the classes are.

    Parameters
    ----------
    max_disagreement : float or mapping
        What was passed.
    per_class : bool, default=False
        What was passed.
    """
    if not isinstance(per_class, (bool, np.bool_)):
        msg = (
            f"per_class must be True or False, got {per_class!r}. Bounds that differ "
            "are given as max_disagreement={label: bound}."
        )
        raise InvalidArgumentError(msg)
    if not isinstance(max_disagreement, Mapping):
        check_max_disagreement(max_disagreement)
        return
    for label, bound in max_disagreement.items():
        check_max_disagreement(bound, f"max_disagreement[{label!r}]")


def limits_for(
    max_disagreement: Bounds | None,
    per_class: bool,
    classes: NDArray[Any],
    confidence: float | None = None,
    max_accuracy_loss: float | None = None,
) -> Limits:
    """Return the requested bounds, or raise.

    Parameters
    ----------
    max_disagreement : float, mapping or None
        A bound, or one for each class; None for none.
    per_class : bool
        Whether a single bound is meant for each class.
    classes : ndarray of shape (n_classes,)
        Class labels.
    confidence : float or None
        The probability with which the bounds are to hold; None for on average.
    max_accuracy_loss : float or None
        A bound on the loss of accuracy.
    """
    if confidence is not None:
        confidence = check_confidence(confidence)
    if max_accuracy_loss is not None:
        max_accuracy_loss = check_max_accuracy_loss(max_accuracy_loss)
    overall, by_class = None, None
    if max_disagreement is not None:
        check_bounds(max_disagreement, per_class)
    if isinstance(max_disagreement, Mapping):
        by_class = _in_order(max_disagreement, classes)
    elif max_disagreement is not None and per_class:
        by_class = np.full(len(classes), float(max_disagreement))
    elif max_disagreement is not None:
        overall = float(max_disagreement)
    return Limits(classes, overall, by_class, max_accuracy_loss, confidence)


def _in_order(
    bounds: Mapping[Any, float], classes: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the bounds of all classes, or say which are missing or unknown."""
    known = [plain(label) for label in classes]
    unknown = [label for label in bounds if plain(label) not in known]
    if unknown:
        msg = (
            f"max_disagreement has a bound for {_listed(unknown)}, which the model "
            f"does not know; its classes are {_listed(known)}."
        )
        raise InvalidArgumentError(msg)
    named = {plain(label): float(bound) for label, bound in bounds.items()}
    missing = [label for label in known if label not in named]
    if missing:
        msg = (
            f"max_disagreement has no bound for {_listed(missing)}. Pass one for each "
            "class of the model: a class without a bound could be lost."
        )
        raise InvalidArgumentError(msg)
    return np.array([named[label] for label in known], dtype=np.float64)


def _listed(labels: Sequence[Any]) -> str:
    """Return labels as a text of bounded length."""
    shown = ", ".join(repr(plain(label)) for label in labels[:8])
    return shown if len(labels) <= 8 else f"{shown}, ... ({len(labels)} in all)"
